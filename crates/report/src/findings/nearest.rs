//! The server that comes nearest to a target, if no server meets the target at any load. The probes at the lowest loads decide.

use crate::texts::words::short_setting_of;
use itertools::Itertools;
use vsweep_answer::{Answer, Estimate, Goal, Nearest, Target, TargetChance, replicas_on};
use vsweep_record::journal::State;
use vsweep_record::table::{SearchResult, search_results};
use vsweep_strategy::search::{Criterion, Found, Quantity, Reading};

/// Names the nearest server in each question about a load, if no load of any server that fits the GPUs met the target.
pub fn name(answer: &mut Answer, state: &State) {
    let all = search_results(state);
    let fits = |result: &&SearchResult<'_>| {
        let server = result.record().started.server.to_string();
        let config = answer.configs.iter().find(|config| config.id == server);
        config.is_none_or(|config| replicas_on(answer.gpus, config.gpus) > 0)
    };
    for answered in answer.questions.iter_mut().filter(|answered| answered.winner.is_none()) {
        let Goal::Load { target, .. } = &answered.goal else {
            continue;
        };
        let results = all.iter().filter(|result| result.target.name == *target);
        let results = results.filter(|result| result.record().started.workload() == answered.workload);
        let results = results.filter(fits).collect_vec();
        let has_none = |result: &&SearchResult<'_>| result.answer().is_some_and(|answer| answer.found == Found::None);
        if results.iter().all(has_none) {
            let lowest: Option<Vec<(f64, Nearest)>> = results.iter().map(|result| lowest(result, state)).collect();
            let nearest = lowest
                .into_iter()
                .flatten()
                .min_by(|one, other| one.0.total_cmp(&other.0));
            answered.nearest = nearest.map(|(_, nearest)| nearest);
        }
    }
}

/// The best probe at the lowest load of a search, and its distance to the target: the greatest ratio by which a figure misses its limit.
/// `None` if the load was too low to meet a criterion, or if the probe meets them all.
fn lowest(result: &SearchResult<'_>, state: &State) -> Option<(f64, Nearest)> {
    let started = &result.record().started;
    let runs = state.runs().filter(|run| run.search.as_ref() == Some(&started.search));
    let probes = runs.filter_map(|run| Some((run, run.probe()?)));
    let lowest = probes.min_set_by(|one, other| one.1.question.value.total_cmp(&other.1.question.value));
    let readings = |probe: &vsweep_strategy::search::Probe| {
        let criteria = result.target.criteria.iter();
        let read =
            criteria.filter_map(|criterion| Some((criterion.clone(), *probe.readings.get(&criterion.to_string())?)));
        read.collect_vec()
    };
    let candidates = lowest.into_iter().map(|(run, probe)| {
        let readings = readings(probe);
        let ratios = readings.iter().map(|(_, reading)| reading.ratio);
        (ratios.reduce(f64::max).unwrap_or(f64::INFINITY), run, probe, readings)
    });
    let (distance, run, probe, readings) = candidates.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let is_starved = readings.iter().any(|(_, reading)| reading.starved && !reading.met);
    let is_met = readings.len() == result.target.criteria.len() && readings.iter().all(|(_, reading)| reading.met);
    (!is_starved && !is_met).then(|| {
        let nearest = Nearest {
            config: started.server.to_string(),
            point: run.point.to_string(),
            load: short_setting_of(started.vary.name(), &probe.question.value.to_string()),
            meets: readings.iter().filter_map(meeting).collect(),
            probability: 0.0,
        };
        (distance, nearest)
    })
}

/// A criterion with its figure, if it is about a metric and the figure is positive.
fn meeting((criterion, reading): &(Criterion, Reading)) -> Option<TargetChance> {
    let is_metric =
        matches!(criterion.quantity, Quantity::Metric(_)) && reading.ratio.is_finite() && reading.ratio > 0.0;
    let value = match criterion.operator.is_upper_bound() {
        true => criterion.limit * reading.ratio,
        false => criterion.limit / reading.ratio,
    };
    is_metric.then(|| TargetChance {
        target: Target {
            metric: criterion.figure(),
            bound: criterion.operator,
            limit: criterion.limit,
            conditions: String::new(),
            about: Vec::new(),
        },
        // The run may have been cut short, so its interval is not known.
        value: Estimate {
            value,
            low: value,
            high: value,
        },
        is_met: reading.met,
        probability: f64::from(u8::from(reading.met)),
    })
}
