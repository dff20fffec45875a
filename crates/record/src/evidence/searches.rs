//! The results of searches: for each config and target, the highest load that meets the target, joined over the config's starts, and the
//! posterior of the search on each start.

use super::Evidence;
use super::points::doubts_about;
use crate::journal::SearchRecord;
use crate::table::{PER_GPU, SearchResult, search_results};
use std::collections::BTreeSet;
use vsweep_answer::{Search, StartLimit};
use vsweep_strategy::search::{Criterion, Found};

/// Assumed slope `d ln(figure) / d ln(load)` at a limit that no search located.
const TYPICAL_SLOPE: f64 = 1.0;

/// Returns the result of each target for which a search found a load, or ended undecided.
pub(super) fn searches(evidence: &Evidence<'_>) -> Vec<Search> {
    let all = search_results(evidence.state);
    let found = all.iter().filter_map(|own| search(evidence, own, &all));
    found.collect()
}

fn search(evidence: &Evidence<'_>, own: &SearchResult<'_>, all: &[SearchResult<'_>]) -> Option<Search> {
    let started = &own.record().started;
    let answer = match evidence.starts {
        u32::MAX => own.answer()?.clone(),
        _ => own.planned_answer()?,
    };
    let load = answer.found.value();
    if load.is_none() && answer.found != Found::Undecided {
        return None;
    }
    let is_same_search = |other: &&SearchResult<'_>| {
        let other = &other.record().started;
        other.search == started.search
    };
    let others = all
        .iter()
        .filter(is_same_search)
        .filter(|other| other.target.name != own.target.name);
    let is_held = |other: &&SearchResult<'_>| load.is_some() && other.load() >= load;
    let of_search = evidence
        .runs
        .iter()
        .enumerate()
        .filter(|(_, run)| run.search.as_ref() == Some(&started.search) && run.slot < evidence.starts);
    let at_load = of_search.filter_map(|(row, run)| {
        let probe = run.probe().filter(|probe| Some(probe.question.value) == load)?;
        let is_cut = probe.stopped.is_some() || probe.readings.is_empty();
        Some((is_cut, probe.is_disturbed(), row))
    });
    // The figures of the first sound run; without one, those of the first that was not cut.
    let row = at_load.min().map(|(.., row)| row);
    let bounded: Vec<String> = own.target.criteria.iter().map(Criterion::figure).collect();
    let mut points = evidence.points.points.iter();
    let point = row.and_then(|row| points.find(|point| point.used.contains(&row)));
    let doubts: BTreeSet<String> = point
        .into_iter()
        .flat_map(|point| bounded.iter().flat_map(move |figure| doubts_about(point, figure)))
        .collect();
    // If a load was found on some start, starts without one do not count.
    let counts = |record: &&&SearchRecord| {
        let found = record.answer(&own.target.name).map(|answer| answer.found);
        load.is_none() || found.is_some_and(|found| found.value().is_some())
    };
    let starts = own.starts.iter().filter(|record| record.started.slot < evidence.starts);
    let starts = starts.filter(counts);
    let posteriors = starts
        .clone()
        .filter_map(|record| record.answer(&own.target.name)?.posterior.as_ref());
    let slopes: Vec<f64> = posteriors.clone().map(|posterior| posterior.slope).collect();
    let ceilings = posteriors.map(|posterior| posterior.ceiling);
    let starts = starts.filter_map(|record| located(evidence, record, &own.target.name));
    Some(Search {
        config: started.server.to_string(),
        workload: started.workload().to_owned(),
        target: own.target.name.clone(),
        bounded,
        load,
        ceiling: match answer.found {
            Found::Beyond(load) => Some(load),
            _ => ceilings.reduce(f64::max),
        },
        slope: match slopes.len() {
            0 => TYPICAL_SLOPE,
            count => slopes.iter().sum::<f64>() / count as f64,
        },
        other_targets: others.filter(is_held).count(),
        throughput_per_gpu: row.and_then(|row| evidence.points.runs.cell(PER_GPU, row).number()),
        starts: starts.collect(),
        disturbed: (answer.disturbed as u32, answer.probes as u32),
        doubts: doubts.into_iter().collect(),
        may_not_last: answer.may_not_last,
    })
}

fn located(evidence: &Evidence<'_>, record: &SearchRecord, target: &str) -> Option<StartLimit> {
    let answer = record.answer(target)?;
    let posterior = answer.posterior.as_ref().map(|posterior| posterior.quantiles.clone());
    let posterior = posterior.filter(|loads| !loads.is_empty());
    // Without quantiles of a posterior, the load itself is the only quantile.
    let quantiles = match answer.found {
        Found::Met(load) | Found::Beyond(load) => posterior.unwrap_or_else(|| vec![load]),
        // A search may end before any probe counted. Its interval is then all that is known.
        Found::Undecided => {
            let ends = (answer.low > 0.0 && answer.high.is_finite()).then(|| vec![answer.low, answer.high]);
            posterior.or(ends)?
        }
        Found::None | Found::Skipped => return None,
    };
    let machine = evidence
        .runs
        .iter()
        .find(|run| run.search.as_ref() == Some(&record.started.search) && run.slot == record.started.slot);
    let machine = machine.and_then(|run| evidence.state.measured_at(run));
    Some(StartLimit {
        start: record.started.slot.to_string(),
        node: machine.map_or_else(String::new, |machine| machine.node),
        load: answer.found.value(),
        quantiles,
    })
}
