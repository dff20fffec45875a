//! The last lines of a run, at most about ten whatever its size: what to run, how sure that is, why, and what to doubt. The text is in
//! `ending.txt.jinja`, between the line of `counts.txt.jinja` and those of `brief.txt.jinja`.

use super::brief;
use super::template::plain;
use crate::findings::failures::Group;
use crate::findings::remarks::remarks;
use crate::inputs::Inputs;
use minijinja::{Value, context};

/// The lines, of the document and the answer.
pub fn render(inputs: &Inputs<'_>, document: Value, reasons: &[Group]) -> String {
    let remarks = remarks(inputs.state, inputs.points);
    let brief = brief::parts(Some(&inputs.answers.document), &remarks, reasons);
    let before = concat!(include_str!("counts.txt.jinja"), include_str!("ending.txt.jinja"));
    plain(&(before.to_owned() + brief::TEMPLATE), context! { ..brief, ..document })
}
