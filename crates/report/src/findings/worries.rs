//! Reasons for care with an answer, in a few words each: doubts about its figures, and what failed.

use super::failures::Group;
use super::remarks::remarks;
use crate::inputs::Inputs;
use crate::sentences::{brief, losers};
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_base::units::show_many;

/// The doubts and the failures of the runs of some reasons, as templates take them.
pub fn parts(inputs: &Inputs<'_>, reasons: &[Group]) -> Value {
    let answer = &inputs.answers.document;
    let brief = brief(answer);
    let unit = brief.unit.map(|unit| lower_first(unit.trim_end_matches('.')));
    let warnings = brief.warnings.into_iter().map(|warning| {
        let warning = warning.trim_start_matches("Warning: ").trim_end_matches('.');
        format!("recommended server: {}", lower_first(warning))
    });
    let (failed, doubted): (Vec<&Group>, Vec<&Group>) = reasons.iter().partition(|group| group.validity.is_none());
    let remarks = remarks(inputs.state, inputs.points).into_iter();
    let remarks = remarks.map(|remark| first_clause(&remark.text).to_owned());
    let doubts = doubted.into_iter().map(doubt).chain(remarks);
    context! {
        warnings => warnings.collect_vec(),
        doubts => unit.into_iter().chain(losers(answer)).chain(doubts).collect_vec(),
        lost => failed.iter().map(|group| lost(group)).collect_vec(),
        failed => failed.into_iter().map(failure).collect_vec(),
    }
}

/// `5 runs suspect (generator stalled)`.
fn doubt(group: &Group) -> String {
    let runs = show_many(group.runs as u64, "run");
    format!("{runs} {} ({})", group.verb(), group.in_words())
}

/// `8 runs (out of memory at load)`.
fn lost(group: &Group) -> String {
    format!("{} ({})", show_many(group.runs as u64, "run"), group.in_words())
}

/// `8 runs (out of memory at load): lower gpu_memory_utilization`.
fn failure(group: &Group) -> String {
    format!("{}: {}", lost(group), first_clause(&group.advice))
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first.map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// The text before its first semicolon; the report has the rest.
pub fn first_clause(text: &str) -> &str {
    text.split(';').next().unwrap_or(text)
}
