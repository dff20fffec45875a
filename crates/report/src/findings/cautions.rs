//! Reasons for care with an answer, in a few words each: doubts about its figures, and what failed.

use super::failures::Group;
use super::remarks::{DRIFTING, UNSTEADY};
use crate::sentences::{brief, losers};
use crate::texts::words::lower_first;
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_answer::Answer;
use vsweep_base::cause::Outcome;
use vsweep_base::units::{show_count, show_many};
use vsweep_base::validity::{Code, Doubt};
use vsweep_record::journal::{RunRecord, State};

/// Data for templates: the doubts about an answer and about its runs, and the failures by reason. `short` is the text of [`short_runs`].
pub fn parts<'g>(
    answer: Option<&Answer>,
    reasons: impl IntoIterator<Item = &'g Group>,
    short: Option<String>,
) -> Value {
    let brief = answer.map(brief).unwrap_or_default();
    let unit = brief.unit.map(|unit| lower_first(unit.trim_end_matches('.')));
    let (failed, doubted): (Vec<&Group>, Vec<&Group>) = reasons.into_iter().partition(|group| group.validity.is_none());
    let remarks = answer.into_iter().flat_map(|answer| &answer.remarks);
    let remarks = remarks.chunk_by(|remark| remark.about.as_str());
    let remarks = remarks.into_iter().filter_map(|(_, mut alike)| {
        let remark = alike.next()?;
        let first = first_clause(&remark.text).to_owned();
        // Lists of unsteady figures end with a line for all further ones, so the number of lines is not that of the figures.
        Some(match (alike.count(), remark.about.as_str()) {
            (0, _) => first,
            (_, UNSTEADY) => "runs of the same point disagree".to_owned(),
            (_, DRIFTING) => "a server changed while it was measured".to_owned(),
            (more, _) => format!("{first} (and {more} more such)"),
        })
    });
    let doubted = doubted.into_iter().map(describe_doubted);
    // Failed runs are listed by their reasons.
    let losers = answer.filter(|_| failed.is_empty()).and_then(losers);
    // Those that are neither reasons nor remarks, for a text that has both in full.
    let further = unit.iter().chain(&losers).chain(&short).cloned().collect_vec();
    context! {
        warned => brief.warned,
        further => further,
        doubts => unit.iter().chain(&losers).cloned().chain(doubted).chain(short).chain(remarks).collect_vec(),
        // There is room for the advice of a single reason only.
        advice => match failed.as_slice() {
            [only] => Some(first_clause(&only.advice)),
            _ => None,
        },
        lost => failed.into_iter().map(describe_failed).collect_vec(),
    }
}

/// The measured runs that were too short for some of their figures: `228 of 241 runs are too short: raise num_prompts`. These codes leave a
/// run valid, so it is in no group.
pub fn short_runs(state: &State) -> Option<String> {
    let is_measured = |run: &&RunRecord| matches!(run.outcome, Outcome::Ok | Outcome::Suspect);
    let measured = state.measured().filter(is_measured).collect_vec();
    let is_short = |doubt: &Doubt| matches!(doubt.code, Code::RunTooShort | Code::SampleTooSmall);
    let short = measured.iter().filter(|run| run.doubts.iter().any(is_short)).count();
    (short > 0).then(|| {
        format!(
            "{} of {} {} too short: raise num_prompts",
            show_count(short as u64),
            show_many(measured.len() as u64, "run"),
            if short == 1 { "is" } else { "are" }
        )
    })
}

/// Describes a group of doubtful runs: `5 runs with TP 8 are suspect (generator stalled)`.
fn describe_doubted(group: &Group) -> String {
    format!("{} {} ({})", group.runs_in_words(), group.verb(), group.in_words())
}

/// Describes a group of failed runs: `8 runs with TP 1 (out of memory while loading)`.
fn describe_failed(group: &Group) -> String {
    format!("{} ({})", group.runs_in_words(), group.in_words())
}

/// The text before its first semicolon; the report has the rest.
pub fn first_clause(text: &str) -> &str {
    text.split(';').next().unwrap_or(text)
}
