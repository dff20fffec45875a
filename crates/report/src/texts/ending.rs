//! The last lines of a run, at most about ten whatever its size: what to run, how sure that is, why, and what to doubt. The text is in
//! `ending.txt.jinja`, after the line of `counts.txt.jinja`.

use super::template::plain;
use crate::findings::failures::Group;
use crate::findings::worries;
use crate::inputs::Inputs;
use crate::sentences::brief;
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
