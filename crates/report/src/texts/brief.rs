//! The lines of the recommendation and of what to doubt, which end a run, a report and a status. Their text is in `brief.txt.jinja`.

use crate::findings::failures::Group;
use crate::findings::remarks::Remark;
use crate::findings::worries;
use crate::sentences::brief;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::Answer;

/// The template.
pub const TEMPLATE: &str = include_str!("brief.txt.jinja");

/// Its data, of an answer, of remarks on its figures and of runs by their reasons.
pub fn parts<'g>(answer: Option<&Answer>, remarks: &[Remark], reasons: impl IntoIterator<Item = &'g Group>) -> Value {
    context! {
        brief => answer.map(brief).map(Serde),
        worries => worries::parts(answer, remarks, reasons),
    }
}
