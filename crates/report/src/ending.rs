//! The last lines of a run, at most about ten whatever its size: what to run, how sure that is, why, and what to doubt. The text is in
//! `ending.txt.jinja`, after the line of `counts.txt.jinja`.

use super::failures::Group;
use super::inputs::Inputs;
use super::sentences::brief;
use super::template::plain;
use super::worries;
use minijinja::value::Serde;
use minijinja::{Value, context};

/// The lines, of the document and the answer.
pub fn render(inputs: &Inputs<'_>, document: Value, reasons: &[Group]) -> String {
    let parts = context! {
        worries => worries::parts(inputs, reasons),
        brief => Serde(brief(&inputs.answers.document)),
        ..document
    };
    plain(
        concat!(include_str!("counts.txt.jinja"), include_str!("ending.txt.jinja")),
        parts,
    )
}
