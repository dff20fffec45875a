//! The results of searches: for each target the load that a config holds, over its starts, with the posterior of each start's search.

use super::Evidence;
use super::metrics::FRONTIER;
use crate::journal::SearchRecord;
use crate::table::{Sought, sought};
use vsweep_answer::answer::{Located, Search};
use vsweep_strategy::search::{Answer, Found};

/// Loads that a posterior is told by.
const QUANTILES: usize = 40;

/// Every target of every search that found a load.
pub(super) fn searches(evidence: &Evidence<'_>) -> Vec<Search> {
    let all = sought(evidence.state);
    let found = all.iter().filter_map(|own| search(evidence, own, &all));
    found.collect()
}

fn search(evidence: &Evidence<'_>, own: &Sought<'_>, all: &[Sought<'_>]) -> Option<Search> {
    let started = &own.record().started;
    let answer = match evidence.starts {
        u32::MAX => own.answer()?.clone(),
        _ => own.planned_answer()?,
    };
    let load = answer.found.value()?;
    let is_beside = |other: &&Sought<'_>| {
        let other = &other.record().started;
        other.search == started.search
    };
    let others = all
        .iter()
        .filter(is_beside)
        .filter(|other| other.target.name != own.target.name);
    let is_held = |other: &&Sought<'_>| other.load().is_some_and(|held| held >= load);
    let row = evidence.runs.iter().position(|run| {
        run.search.as_ref() == Some(&started.search) && run.probe().is_some_and(|probe| probe.question.value == load)
    });
    let starts = own
        .starts
        .iter()
        .filter_map(|record| located(evidence, record, &own.target.name));
    Some(Search {
        config: started.server.0.clone(),
        workload: workload(&started.name),
        target: own.target.name.clone(),
        load,
        ceiling: matches!(answer.found, Found::Beyond(_)).then_some(load),
        slope: 1.0,
        other_targets: others.filter(is_held).count(),
        throughput_per_gpu: row.and_then(|row| evidence.points.runs.cell(FRONTIER[1], row).number()),
        starts: starts.collect(),
        disturbed: (0, answer.probes as u32),
    })
}

/// The name of a search's load; empty if there is one.
fn workload(name: &str) -> String {
    match name {
        "default" => String::new(),
        name => name.to_owned(),
    }
}

fn located(evidence: &Evidence<'_>, record: &SearchRecord, target: &str) -> Option<Located> {
    let answer = record.answer(target)?;
    let load = answer.found.value()?;
    let machine = evidence
        .runs
        .iter()
        .find(|run| run.search.as_ref() == Some(&record.started.search) && run.slot == record.started.slot);
    let machine = machine.and_then(|run| evidence.state.measured_at(run));
    Some(Located {
        start: record.started.slot.to_string(),
        node: machine.map_or_else(String::new, |machine| machine.node),
        quantiles: quantiles(answer, load),
    })
}

/// Loads at equally spaced probabilities, by the ends of the answer's interval.
fn quantiles(answer: &Answer, load: f64) -> Vec<f64> {
    let high = if answer.high.is_finite() { answer.high } else { load };
    let (low, middle, high) = (answer.low.min(load).ln(), load.ln(), high.max(load).ln());
    let at = |place: usize| {
        let part = (place as f64 + 0.5) / QUANTILES as f64;
        let log = match part < 0.5 {
            true => low + (middle - low) * part * 2.0,
            false => middle + (high - middle) * (part - 0.5) * 2.0,
        };
        log.exp()
    };
    (0..QUANTILES).map(at).collect()
}
