//! Loads and settings around the recommended ones, in words: a lower load that gives as much, and best values that are the largest tested.

use super::parts::estimate;
use crate::texts::words::{say, say_setting, short_name};
use itertools::Itertools;
use vsweep_answer::{Answer, Better, Effect, Estimate, Goal, PointEstimates, QuestionAnswer, Verdict, Winner};

/// A lower load at which the recommended server's figure is as high within the margin, and its latency lower: `concurrency 64, p99 E2EL 120
/// ms`. Of several such loads, the one with the lowest latency.
pub fn lower_load(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    let (metric, latency) = (highest(answered)?, latency(answer, answered)?);
    let figures =
        |point: &PointEstimates| Some((figure(answer, point, metric)?.value, figure(answer, point, latency)?));
    let all = points(answer, answered, winner);
    let all = all.filter_map(|point| Some((point, figures(point)?))).collect_vec();
    let (_, (most, slowest)) = all
        .iter()
        .find(|(point, _)| Some(&point.point) == winner.point.as_ref())?;
    let is_enough = |(point, (value, time)): &&(&PointEstimates, (f64, Estimate))| {
        let is_lower = number(&point.load)
            .zip(number(&winner.load))
            .is_some_and(|(load, best)| load < best);
        is_lower && *value >= most * (1.0 - answer.margin) && time.value < slowest.value * (1.0 - answer.margin)
    };
    let enough = all.iter().filter(is_enough);
    let (point, (_, time)) = enough.min_by(|(_, (_, a)), (_, (_, b))| a.value.total_cmp(&b.value))?;
    let (value, range) = estimate(time);
    Some(format!("{}, {}{range}", point.load, say(latency, &value)))
}

/// The load and the settings of a recommended server that are the largest tested, where each was better than the smaller ones: `concurrency
/// 64, seqs 256`. More of these may be better still. `None` for an unfinished sweep.
pub fn largest(answer: &Answer, answered: &QuestionAnswer, winner: &Winner) -> Option<String> {
    let metric = highest(answered).filter(|_| answer.open == 0)?;
    let loads = points(answer, answered, winner);
    let loads = loads.filter_map(|point| Some((number(&point.load)?, figure(answer, point, metric)?.value)));
    let loads = loads.sorted_by(|a, b| b.0.total_cmp(&a.0)).collect_vec();
    let load = match loads.as_slice() {
        [last, before, ..]
            if last.0.is_finite()
                && Some(last.0) == number(&winner.load)
                && last.1 > before.1 * (1.0 + answer.margin) =>
        {
            Some(winner.load.clone())
        }
        _ => None,
    };
    let of_metric = answered.effects.iter().filter(|effect| effect.metric == metric);
    // Degrees of parallelism are left out, because the machine limits the number of GPUs, and places for more requests than are in flight.
    let in_flight = number(&winner.load).filter(|_| winner.load.starts_with("concurrency "));
    let is_idle = |effect: &Effect| {
        let places = effect.own.as_ref().and_then(|own| own.parse::<f64>().ok());
        let has_enough = in_flight
            .zip(places)
            .is_some_and(|(in_flight, places)| places >= in_flight);
        short_name(&effect.setting).ends_with("seqs") && has_enough
    };
    let of_metric = of_metric.filter(|effect| !effect.setting.ends_with("parallel_size") && !is_idle(effect));
    let settings = of_metric
        .into_group_map_by(|effect| &effect.setting)
        .into_iter()
        .sorted_by_key(|(name, _)| *name);
    let settings = settings.filter_map(|(name, effects)| {
        let own = effects.first()?.own.as_deref()?;
        let said = say_setting(&short_name(name), own);
        (is_last(&effects) && !has_larger(answer, &said, own)).then_some(said)
    });
    let all = load.into_iter().chain(settings).join(", ");
    (!all.is_empty()).then_some(all)
}

/// The number of a load such as `concurrency 1,024` or `rate inf`; `None` if it has several, because such loads cannot be ordered.
fn number(load: &str) -> Option<f64> {
    let single = Some(load).filter(|load| !load.contains(", "))?;
    single.rsplit_once(' ')?.1.replace(',', "").parse().ok()
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

/// True if an optimisation may start a server with a larger value of a setting, or left it out as unlikely to win.
fn has_larger(answer: &Answer, said: &str, own: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let (Some(found), Some(own), Some(name)) = (&answer.optimization, number(own), said.strip_suffix(own)) else {
        return false;
    };
    let value = |part: &str| number(part.strip_prefix(name)?);
    let is_larger = |part: &str| value(part).is_some_and(|value| value > own);
    let mut names = found.candidates.iter().map(|candidate| &candidate.name);
    names.any(|name| name.split(", ").any(is_larger))
}

/// The metric of a question for the highest figure at any load; `None` for another question.
fn highest(answered: &QuestionAnswer) -> Option<&str> {
    match &answered.goal {
        Goal::Metric { name, .. } if answered.better == Better::Higher && answered.load.is_none() => Some(name),
        _ => None,
    }
}

/// The metric of the question for the lowest latency of the same workload.
fn latency<'a>(answer: &'a Answer, answered: &QuestionAnswer) -> Option<&'a str> {
    let mut others = answer
        .questions
        .iter()
        .filter(|question| question.workload == answered.workload);
    others.find_map(|other| match &other.goal {
        Goal::Metric { name, .. } if other.better == Better::Lower && name.ends_with("_ms") => Some(name.as_str()),
        _ => None,
    })
}

/// The measured points of the winner's server under the same workload.
fn points<'a>(
    answer: &'a Answer,
    answered: &'a QuestionAnswer,
    winner: &'a Winner,
) -> impl Iterator<Item = &'a PointEstimates> {
    let all = answer.estimates.iter();
    all.filter(move |point| point.config == winner.config && point.workload == answered.workload)
}

/// The estimate of a metric at a point.
pub fn figure(answer: &Answer, point: &PointEstimates, metric: &str) -> Option<Estimate> {
    let column = answer.noise.iter().position(|noise| noise.metric == metric)?;
    point.figures.get(column).copied().flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn estimate(value: f64) -> Value {
        json!({"value": value, "low": value * 0.99, "high": value * 1.01})
    }

    /// An answer about a server whose loads have these figures of throughput and latency, and with one other value of a setting.
    pub fn answer(points: &[(u32, f64, f64)], seqs: (u32, u32), open: u64) -> Answer {
        let best = points.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("a point");
        let noise = |metric: &str| {
            let known = json!({"deviation": 0.01, "basis": "assumed", "repeats": 0});
            json!({"metric": metric, "run": known, "start": known, "node": null})
        };
        let asked = |question: &str, metric: &str, better: &str, load: Option<String>| {
            json!({
                "question": question, "workload": "", "load": load, "goal": {"metric": {"name": metric, "adds_up": true}},
                "better": better, "targets": [], "nearest": null, "ties": [], "as_good": [], "ruled_out": [], "entrants": [],
                "too_large": [], "warnings": [], "advice": null,
                "winner": {
                    "config": "a", "point": format!("p{}", best.0), "load": format!("concurrency {}", best.0), "replicas": 1,
                    "value": estimate(best.1), "probability": 1.0, "chosen": "best", "meets": [], "at_ceiling": false,
                },
                "effects": [{
                    "metric": metric, "better": better, "setting": "max_num_seqs", "own": seqs.0.to_string(),
                    "other": seqs.1.to_string(), "config": "b", "ratio": estimate(1.3), "verdict": "improved",
                }],
            })
        };
        let estimates = points.iter().map(|(load, throughput, latency)| {
            json!({
                "point": format!("p{load}"), "config": "a", "workload": "", "load": format!("concurrency {load}"), "runs": 1,
                "disturbed": 0, "starts": 1, "figures": [estimate(*throughput), estimate(*latency)],
            })
        });
        let document = json!({
            "version": 1, "margin": 0.01, "gpus": null, "open": open, "configs": [], "together": [], "frontiers": [],
            "questions": [
                asked("Highest throughput", "output_throughput", "higher", None),
                asked("Lowest latency", "p99_e2el_ms", "lower", Some(format!("concurrency {}", best.0))),
            ],
            "noise": [noise("output_throughput"), noise("p99_e2el_ms")],
            "estimates": estimates.collect::<Vec<Value>>(),
        });
        serde_json::from_value(document).expect("an answer")
    }

    fn said(of: fn(&Answer, &QuestionAnswer, &Winner) -> Option<String>, answer: &Answer) -> Option<String> {
        let asked = &answer.questions[0];
        of(answer, asked, asked.winner.as_ref().expect("a winner"))
    }

    #[test]
    fn a_lower_load_with_as_much_is_named() {
        let flat = [
            (16, 900.0, 90.0),
            (64, 1996.0, 120.0),
            (128, 1998.0, 240.0),
            (256, 2000.0, 480.0),
        ];
        let text = said(lower_load, &answer(&flat, (64, 8), 0)).expect("a load");
        assert_eq!(text, "concurrency 64, p99 E2EL 120 ms (119 to 121)");
        let rising = [(64, 1500.0, 120.0), (256, 2000.0, 480.0)];
        assert_eq!(said(lower_load, &answer(&rising, (64, 8), 0)), None);
        let as_slow = [(64, 1996.0, 479.0), (256, 2000.0, 480.0)];
        assert_eq!(said(lower_load, &answer(&as_slow, (64, 8), 0)), None);
        let higher = [(64, 2000.0, 480.0), (256, 1996.0, 120.0)];
        assert_eq!(said(lower_load, &answer(&higher, (64, 8), 0)), None);
        let mut of_two = answer(&flat, (64, 8), 0);
        for point in &mut of_two.estimates {
            point.load += ", rate 8";
        }
        let winner = of_two.questions[0].winner.as_mut().expect("a winner");
        winner.load += ", rate 16";
        assert_eq!(said(lower_load, &of_two), None, "such loads cannot be ordered");
    }

    #[test]
    fn values_at_the_end_of_those_tested_are_named() {
        let rising = [(64, 1500.0, 120.0), (256, 2000.0, 480.0)];
        let all = said(largest, &answer(&rising, (64, 8), 0));
        assert_eq!(all.as_deref(), Some("concurrency 256, seqs 64"));
        let enough = said(largest, &answer(&rising, (256, 8), 0));
        assert_eq!(enough.as_deref(), Some("concurrency 256"), "no more are in flight");
        let candidates = ["TP 1, seqs 64", "TP 1, seqs 128"].map(
            |name| json!({"config": "b", "name": name, "state": "open", "starts": 0, "reason": null, "value": null}),
        );
        let mut optimized = answer(&rising, (64, 8), 0);
        optimized.optimization = serde_json::from_value(json!({
            "question": "Highest throughput", "ended": "certain", "certainty": 0.95, "best": "a", "probability": 0.97, "starts": 1,
            "seconds": 17.0, "grid_seconds": null, "hour_gain": 0.0, "defaults": null, "over_defaults": null, "candidates": candidates,
        }))
        .expect("an optimisation");
        let left_out = said(largest, &optimized);
        assert_eq!(left_out.as_deref(), Some("concurrency 256"), "the plan has seqs 128");
        let middle = said(largest, &answer(&rising, (64, 128), 0));
        assert_eq!(middle.as_deref(), Some("concurrency 256"));
        let falling = [(64, 1500.0, 120.0), (128, 2000.0, 480.0), (256, 1900.0, 960.0)];
        assert_eq!(said(largest, &answer(&falling, (8, 64), 0)), None);
        assert_eq!(said(largest, &answer(&rising, (64, 8), 3)), None, "more may come");
        let mut unlimited = answer(&rising, (8, 64), 0);
        let last = unlimited.estimates.last_mut().expect("a point");
        last.load = "rate inf".to_owned();
        let winner = unlimited.questions[0].winner.as_mut().expect("a winner");
        winner.load = "rate inf".to_owned();
        assert_eq!(said(largest, &unlimited), None, "nothing is more than inf");
    }
}
