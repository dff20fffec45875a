//! Reasons for care with an answer, in a few words each: doubts about its figures, and what failed.

use super::failures::Group;
use super::remarks::Remark;
use crate::sentences::{brief, losers};
use crate::texts::words::lower_first;
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_answer::Answer;

/// The doubts and the failures of an answer, of remarks on its figures and of runs by their reasons, as templates take them.
pub fn parts<'g>(answer: Option<&Answer>, remarks: &[Remark], reasons: impl IntoIterator<Item = &'g Group>) -> Value {
    let brief = answer.map(brief).unwrap_or_default();
    let unit = brief.unit.map(|unit| lower_first(unit.trim_end_matches('.')));
    let warnings = brief.warnings.into_iter().map(|warning| {
        let warning = warning.trim_start_matches("Warning: ").trim_end_matches('.');
        format!("recommended server: {}", lower_first(warning))
    });
    let (failed, doubted): (Vec<&Group>, Vec<&Group>) = reasons.into_iter().partition(|group| group.validity.is_none());
    let remarks = remarks.iter().chunk_by(|remark| remark.about);
    let remarks = remarks.into_iter().filter_map(|(_, mut alike)| {
        let first = first_clause(&alike.next()?.text).to_owned();
        Some(match alike.count() {
            0 => first,
            more => format!("{first} (and {more} more such)"),
        })
    });
    let doubts = doubted.into_iter().map(doubt).chain(remarks).collect_vec();
    context! {
        warnings => warnings.collect_vec(),
        doubts => unit.into_iter().chain(answer.and_then(losers)).chain(doubts).collect_vec(),
        lost => failed.iter().map(|group| lost(group)).collect_vec(),
        failed => failed.into_iter().map(failure).collect_vec(),
    }
}

/// `5 runs with TP 8 suspect (generator stalled)`.
fn doubt(group: &Group) -> String {
    format!("{} {} ({})", group.runs_in_words(), group.verb(), group.in_words())
}

/// `8 runs with TP 1 (out of memory at load)`.
fn lost(group: &Group) -> String {
    format!("{} ({})", group.runs_in_words(), group.in_words())
}

/// `8 runs with TP 1 (out of memory at load): lower gpu_memory_utilization`.
fn failure(group: &Group) -> String {
    format!("{}: {}", lost(group), first_clause(&group.advice))
}

/// The text before its first semicolon; the report has the rest.
pub fn first_clause(text: &str) -> &str {
    text.split(';').next().unwrap_or(text)
}
