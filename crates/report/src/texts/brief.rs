//! The lines of the recommendation and of the doubts, which end a run, a report and a status. Their text is in `brief.txt.jinja`.

use crate::findings::cautions;
use crate::findings::failures::Group;
use crate::sentences::brief;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_answer::{Answer, VERSION};
use vsweep_base::files::{MOST_RESULT, read_text};
use vsweep_record::journal::Directory;

/// The template.
pub const TEMPLATE: &str = include_str!("brief.txt.jinja");

/// Data for the template: an answer, the failed and doubtful runs by their reasons, and the text about those that were too short.
pub fn parts<'g>(
    answer: Option<&Answer>,
    reasons: impl IntoIterator<Item = &'g Group>,
    short: Option<String>,
) -> Value {
    context! {
        brief => answer.map(brief).map(Serde),
        cautions => cautions::parts(answer, reasons, short),
    }
}

/// The answer of `answer.json`; `None` if there is none that this version can read.
pub(super) fn read_answer(directory: &Directory) -> Option<Answer> {
    let text = read_text(&directory.answer_json(), MOST_RESULT).ok()?;
    let answer: Option<Answer> = serde_json::from_str(&text).ok();
    answer.filter(|answer| answer.version == VERSION)
}
