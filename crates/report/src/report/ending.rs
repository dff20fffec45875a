//! The last lines of a run, at most about ten whatever its size: what to run, how sure that is, why, and what to doubt. The text is in
//! `ending.txt.jinja`, after the line of `counts.txt.jinja`.

use super::bound;
use super::failures::Group;
use super::inputs::Inputs;
use super::remarks::remarks;
use super::sentences::{brief, losers};
use super::starts;
use super::template::plain;
use super::words::show_number;
use minijinja::value::Serde;
use minijinja::{Value, context};
use vsweep_plan::units::show_many;

/// The lines, of the document and the answer.
pub fn render(inputs: &Inputs<'_>, document: Value, reasons: &[Group]) -> String {
    let brief = brief(&inputs.answers.document);
    let (failed, doubted): (Vec<&Group>, Vec<&Group>) = reasons.iter().partition(|group| group.validity.is_none());
    let warnings = brief.warnings.iter().map(|warning| {
        let warning = warning.trim_start_matches("Warning: ").trim_end_matches('.');
        format!("recommended server: {warning}")
    });
    let remarks = remarks(inputs.state, inputs.points).into_iter();
    let remarks = remarks.map(|remark| first_clause(&remark.text).to_owned());
    let warnings = warnings.chain(losers(&inputs.answers.document));
    let doubts = warnings.chain(doubted.into_iter().map(doubt)).chain(remarks);
    let parts = context! {
        doubts => doubts.collect::<Vec<String>>(),
        failed => failed.into_iter().map(failure).collect::<Vec<String>>(),
        gpu_hours => starts::gpu_hours(inputs.state).map(show_number),
        limit => bound::sentence(&inputs.answers.document, inputs.state, inputs.points).as_deref().map(first_clause),
        brief => Serde(brief),
        ..document
    };
    plain(
        concat!(include_str!("counts.txt.jinja"), include_str!("ending.txt.jinja")),
        parts,
    )
}

/// `5 runs suspect (generator stalled)`.
fn doubt(group: &Group) -> String {
    let runs = show_many(group.runs as u64, "run");
    format!("{runs} {} ({})", group.verb(), group.in_words())
}

/// `8 runs (GPU out of memory): lower gpu_memory_utilization`.
fn failure(group: &Group) -> String {
    let runs = show_many(group.runs as u64, "run");
    format!("{runs} ({}): {}", group.in_words(), first_clause(&group.advice))
}

/// The text before its first semicolon; the report has the rest.
fn first_clause(text: &str) -> &str {
    text.split(';').next().unwrap_or(text)
}
