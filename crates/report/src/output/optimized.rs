//! `optimize.csv`: each server of an optimisation with its state, the reason for its start, and the figure that it has or is expected to
//! have.

use super::files::{self, cell};
use crate::compare::word;
use crate::texts::words::short_label;
use itertools::Itertools;
use std::collections::BTreeSet;
use vsweep_answer::{Answer, CandidateSummary, Estimate, OptimizationState, Reason};
use vsweep_record::evidence::OptimizationProgress;
use vsweep_record::journal::{Optimization, State};

/// The progress of the plan's optimisation, if it has one.
pub(crate) fn of<'a>(
    record: Option<&'a Optimization>,
    state: &'a State,
    requirements: &[vsweep_plan::Requirement],
) -> Option<OptimizationProgress<'a>> {
    record.map(|record| OptimizationProgress::of(record, state, requirements, &|_, _| false))
}

/// The state of an optimisation, with short names of its servers, and the number of starts that it did not choose.
pub(crate) fn found(progress: &OptimizationProgress<'_>, answer: &Answer, state: &State) -> OptimizationState {
    let mut found = progress.found(answer);
    let chosen: BTreeSet<&str> = found
        .candidates
        .iter()
        .map(|candidate| candidate.config.as_str())
        .collect();
    let servers = state.servers.iter().filter(|(id, _)| chosen.contains(&*id.0));
    let slots = servers.map(|(_, server)| server.launches.iter().map(|start| start.slot).unique().count());
    found.more_starts = slots.sum::<usize>().saturating_sub(found.starts);
    for candidate in &mut found.candidates {
        candidate.name = short_label(&candidate.name);
    }
    found
}

/// One row for each server; `None` without an optimisation.
pub(crate) fn to_csv(answer: &Answer) -> Option<Vec<u8>> {
    let found = answer.optimization.as_deref()?;
    let row = |candidate: &CandidateSummary| {
        let figure = |figure: fn(&Estimate) -> f64| cell(candidate.value.as_ref().map(figure));
        vec![
            ("server", candidate.config.clone()),
            ("name", candidate.name.clone()),
            ("state", word(candidate.state)),
            ("starts", candidate.starts.to_string()),
            ("reason", cell(candidate.reason.map(name))),
            ("value", figure(|value| value.value)),
            ("low", figure(|value| value.low)),
            ("high", figure(|value| value.high)),
            ("predicted", cell(candidate.predicted.map(|predicted| predicted.value))),
        ]
    };
    files::to_csv(&found.candidates.iter().map(row).collect_vec())
}

fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Defaults => "defaults",
        Reason::Spread => "spread",
        Reason::Promising { .. } => "promising",
        Reason::Finalist => "finalist",
    }
}
