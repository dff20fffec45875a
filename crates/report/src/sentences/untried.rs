//! Loads and settings around the recommended ones, in words: a lower load that gives as much, and values at the end of those tested.

use super::parts::estimate;
use crate::texts::words::{say, say_setting, short_name};
use itertools::Itertools;
use vsweep_answer::{Answer, Answered, Better, Effect, Estimate, Goal, PointEstimates, Verdict, Winner};

/// A lower load at which the recommended server has as much, within the margin, at less latency: `concurrency 64, p99 E2EL 120 ms`.
/// Of several the one with the least.
pub fn lower_load(answer: &Answer, answered: &Answered, winner: &Winner) -> Option<String> {
    let (metric, latency) = (highest(answered)?, latency(answer, answered)?);
    let figures = |own: &PointEstimates| Some((figure(answer, own, metric)?.value, figure(answer, own, latency)?));
    let all = points(answer, answered, winner);
    let all = all.filter_map(|own| Some((own, figures(own)?))).collect_vec();
    let (_, (most, slowest)) = all.iter().find(|(own, _)| Some(&own.point) == winner.point.as_ref())?;
    let is_enough = |(_, (value, time)): &&(_, (f64, Estimate))| {
        *value >= most * (1.0 - answer.margin) && time.value < slowest.value * (1.0 - answer.margin)
    };
    let enough = all.iter().filter(is_enough);
    let (own, (_, time)) = enough.min_by(|(_, (_, a)), (_, (_, b))| a.value.total_cmp(&b.value))?;
    let (value, range) = estimate(time);
    Some(format!("{}, {}{range}", own.load, say(latency, &value)))
}

/// The load and the settings of a recommended server that are the largest tested, though larger was better: `concurrency 64, seqs 256`.
/// More of these may be better still. Nothing is said of an unfinished sweep.
pub fn largest(answer: &Answer, answered: &Answered, winner: &Winner) -> Option<String> {
    let metric = highest(answered).filter(|_| answer.open == 0)?;
    let number = |load: &str| load.rsplit_once(' ')?.1.replace(',', "").parse::<f64>().ok();
    let loads = points(answer, answered, winner);
    let loads = loads.filter_map(|own| Some((number(&own.load)?, figure(answer, own, metric)?.value)));
    let loads = loads.sorted_by(|a, b| b.0.total_cmp(&a.0)).collect_vec();
    let load = match loads.as_slice() {
        [last, before, ..] if Some(last.0) == number(&winner.load) && last.1 > before.1 * (1.0 + answer.margin) => {
            Some(winner.load.clone())
        }
        _ => None,
    };
    let of_metric = answered.effects.iter().filter(|effect| effect.metric == metric);
    // Machines limit the number of GPUs.
    let of_metric = of_metric.filter(|effect| !effect.setting.ends_with("parallel_size"));
    let settings = of_metric
        .into_group_map_by(|effect| &effect.setting)
        .into_iter()
        .sorted_by_key(|(name, _)| *name);
    let settings = settings.filter_map(|(name, effects)| {
        let own = effects.first()?.own.as_deref()?;
        is_last(&effects).then(|| say_setting(&short_name(name), own))
    });
    let all = load.into_iter().chain(settings).join(", ");
    (!all.is_empty()).then_some(all)
}

/// True if the winner's value of a setting is larger than all others, and better than each.
fn is_last(effects: &[&Effect]) -> bool {
    let number = |value: &Option<String>| value.as_ref()?.parse::<f64>().ok();
    effects
        .iter()
        .all(|effect| match (number(&effect.own), number(&effect.other)) {
            (Some(own), Some(other)) => own > other && effect.verdict == Verdict::Improved,
            _ => false,
        })
}

/// The metric of a question for the highest figure, whatever the load.
fn highest(answered: &Answered) -> Option<&str> {
    match &answered.goal {
        Goal::Metric { name, .. } if answered.better == Better::Higher && answered.load.is_none() => Some(name),
        _ => None,
    }
}

/// The metric of the question for the lowest latency of the same workload.
fn latency<'a>(answer: &'a Answer, answered: &Answered) -> Option<&'a str> {
    let mut others = answer.questions.iter().filter(|own| own.workload == answered.workload);
    others.find_map(|other| match &other.goal {
        Goal::Metric { name, .. } if other.better == Better::Lower && name.ends_with("_ms") => Some(name.as_str()),
        _ => None,
    })
}

/// The measured points of the winner's server under the same workload.
fn points<'a>(
    answer: &'a Answer,
    answered: &'a Answered,
    winner: &'a Winner,
) -> impl Iterator<Item = &'a PointEstimates> {
    let all = answer.estimates.iter();
    all.filter(move |own| own.config == winner.config && own.workload == answered.workload)
}

/// A figure of a point.
pub fn figure(answer: &Answer, own: &PointEstimates, metric: &str) -> Option<Estimate> {
    let column = answer.noise.iter().position(|noise| noise.metric == metric)?;
    own.figures.get(column).copied().flatten()
}
