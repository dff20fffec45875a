//! An optimisation in sentences: how many servers were started and why it ended, how sure the best is among all servers of the plan, what
//! was not started and why, and what more time would bring.

use super::parts::{self, DEFAULT_SETTINGS, defaults, margin, percent};
use super::sure::near;
use crate::texts::changes::change;
use itertools::Itertools;
use vsweep_answer::{Answer, CandidateState, EndReason, Entrant, OptimizationState};
use vsweep_base::units::{duration_of, show_duration, show_many};

/// Least relative gain that is worth a sentence.
const LEAST_GAIN: f64 = 0.0005;
const HOUR_S: f64 = 3600.0;

/// The sentences, each without its full stop; empty without an optimisation.
pub fn optimization(answer: &Answer) -> Vec<String> {
    let Some(found) = answer.optimization.as_deref() else {
        return Vec::new();
    };
    [Some(started(found)), sure(answer, found), left_out(found), cost(found)]
        .into_iter()
        .flatten()
        .collect()
}

/// The amount of work, and the reason for the end: `Started 17 of 200 servers, in 23 starts and 1h 36m of server time; ended because the
/// best is known`.
fn started(found: &OptimizationState) -> String {
    let ended = match found.ended {
        None => "not ended yet".to_owned(),
        Some(EndReason::Certain) => "ended because the best is known".to_owned(),
        Some(EndReason::Budget) => "ended because the budget is spent".to_owned(),
        Some(EndReason::Starts) => "ended at the limit of starts that holds without a budget".to_owned(),
        Some(EndReason::Undecidable) => {
            let certainty = percent(found.certainty);
            format!("ended because more starts were not expected to make it {certainty} sure")
        }
        Some(EndReason::Exhausted) if found.best.is_none() => {
            "ended because no server is left that may work".to_owned()
        }
        Some(EndReason::Exhausted) => "ended because no other start was expected to help".to_owned(),
    };
    let more = match found.more_starts {
        0 => String::new(),
        more => format!("; {}", show_many(more as u64, "other start")),
    };
    format!(
        "Started {} of {}, in {} and {} of server time; {ended}{more}",
        found.started(),
        show_many(found.candidates.len() as u64, "server"),
        show_many(found.starts as u64, "start"),
        seconds(found.seconds)
    )
}

/// The certainty of the best server: `97 % sure that TP 2 is within 1 % of the best of all 200; its figure is +31.0 % (+27.5 to +34.6 %)
/// compared with the default settings`.
fn sure(answer: &Answer, found: &OptimizationState) -> Option<String> {
    let best = found.best.as_ref()?;
    let is_joint = answer.together.iter().any(|own| own.question == found.question);
    let first = answer.questions.first().filter(|_| !is_joint);
    let winner = first.and_then(|first| first.winner.as_ref());
    let won = first.zip(winner.filter(|winner| winner.config == *best));
    let name = answer.name_of(best);
    let is_named_default = name == DEFAULT_SETTINGS;
    let mut text = format!(
        "{} sure that {} within {} of the best of all {}{}",
        percent(found.probability),
        match is_named_default {
            true => format!("the {name} are"),
            false => format!("{name} is"),
        },
        won.map_or_else(|| margin(answer.margin), |(first, winner)| near(answer, first, winner)),
        found.candidates.len(),
        if is_joint { " for all workloads together" } else { "" }
    );
    let is_default = found.defaults.as_ref() == Some(best);
    match found.over_defaults {
        _ if is_named_default => {}
        _ if is_default => text += "; it has the settings nearest to the defaults",
        Some(ratio) => {
            let name = found.defaults.as_ref().map(|config| answer.name_of(config));
            let defaults = name.map_or_else(|| defaults(DEFAULT_SETTINGS), defaults);
            let is_default = |own: &&Entrant| Some(&own.config) == found.defaults.as_ref();
            let entrant = won.and_then(|(first, _)| first.entrants.iter().find(is_default));
            text += &match entrant.and_then(|entrant| entrant.winner_over) {
                _ if is_joint => {
                    let change = change(ratio);
                    format!("; its smallest share of a workload's best is {change} compared with {defaults}")
                }
                Some(over) if over.low > 1.0 || over.high < 1.0 => {
                    format!("; its figure is {} compared with {defaults}", parts::change(over))
                }
                _ => format!("; it is not known to be better than {defaults}"),
            };
        }
        None if found.defaults.is_none() => text += "; no server of the plan has the default settings",
        None => {}
    }
    Some(text)
}

/// The servers that were not started, by reason: `Not started: 160 cannot win; 11 are not ruled out; optimize.csv lists them`.
fn left_out(found: &OptimizationState) -> Option<String> {
    let open = match found.ended {
        Some(EndReason::Certain | EndReason::Undecidable | EndReason::Exhausted) => "are unlikely to win",
        Some(EndReason::Budget | EndReason::Starts) | None => "are not ruled out",
    };
    let states = [
        (CandidateState::CannotWin, "cannot win"),
        (
            CandidateState::RuledOutByMemory,
            "would not fit, as predicted or because servers that need less memory did not",
        ),
        (CandidateState::Beaten, "cannot hold more than the best"),
        (CandidateState::Open, open),
    ];
    let unstarted = |state| {
        found
            .candidates
            .iter()
            .filter(move |own| own.state == state && own.starts == 0)
    };
    let counted = states.map(|(state, why)| (unstarted(state).count(), why));
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let text = counted.map(|(count, why)| format!("{count} {why}")).join("; ");
    (!text.is_empty()).then(|| format!("Not started: {text}; optimize.csv lists them"))
}

/// The cost of going on: `Starting every server would take about 31h 00m of server time; another hour of server time is expected to change
/// the best figure by +0.3 %`.
fn cost(found: &OptimizationState) -> Option<String> {
    let grid = found.grid_seconds.map(|grid| {
        format!(
            "starting every server would take about {} of server time",
            seconds(grid)
        )
    });
    let is_over = matches!(found.ended, Some(EndReason::Undecidable | EndReason::Exhausted));
    let is_open = !is_over && found.hour_gain.abs() > LEAST_GAIN;
    let open = found.count(CandidateState::Open);
    let rest = found
        .grid_seconds
        .map(|grid| grid * open as f64 / found.candidates.len() as f64);
    // If all servers left take less than an hour, they are named instead of the hour.
    let more = match (rest.filter(|rest| *rest < HOUR_S), open) {
        (None, _) | (_, 0) => "another hour of server time is".to_owned(),
        (Some(rest), 1) => format!("the server left, about {} of server time, is", seconds(rest)),
        (Some(rest), open) => format!("the {open} servers left, about {} of server time, are", seconds(rest)),
    };
    let hour = is_open.then(|| {
        format!(
            "{more} expected to change the best figure by {}",
            change(1.0 + found.hour_gain)
        )
    });
    let error = found
        .prediction_error
        .map(|error| format!("predictions were off by {:.1} % (median)", error * 100.0));
    let text = [grid, hour, error].into_iter().flatten().join("; ");
    (!text.is_empty()).then(|| super::capital(&text))
}

fn seconds(seconds: f64) -> String {
    show_duration(duration_of(seconds))
}

#[cfg(test)]
mod tests {
    use super::super::untried::tests::answer;
    use super::*;
    use serde_json::json;
    use vsweep_answer::{Estimate, Goal};

    #[test]
    fn an_optimisation_ended_by_its_budget_says_what_is_left() {
        let candidate = |state: &str| {
            let starts = usize::from(state == "measured");
            json!({"config": "a", "name": "", "state": state, "starts": starts, "reason": null, "value": null})
        };
        let candidates = ["measured", "open", "open", "beaten"].map(candidate);
        let found = json!({
            "question": "Highest throughput", "ended": "budget", "certainty": 0.95, "best": "a", "probability": 0.41, "starts": 1,
            "more_starts": 2, "seconds": 17.0, "grid_seconds": 40.0, "hour_gain": 0.038, "defaults": "a", "over_defaults": 1.0,
            "candidates": candidates,
        });
        let mut answer = answer(&[(64, 1500.0, 120.0)], (8, 64), 0);
        answer.optimization = Some(Box::new(serde_json::from_value(found).expect("an optimisation")));
        let config = json!({
            "id": "a", "name": DEFAULT_SETTINGS, "settings": {}, "changes": 0, "gpus": 1, "seconds_per_start": null,
            "facts": {"launches": 3, "deaths": 0, "retries": 0, "requests": 1, "failed_requests": 0, "simulated": true},
        });
        answer.configs = vec![serde_json::from_value(config).expect("a config")];
        assert_eq!(
            optimization(&answer),
            [
                "Started 1 of 4 servers, in 1 start and 17.0 s of server time; ended because the budget is spent; 2 other starts",
                "41 % sure that the default settings are within 1 % of the best of all 4",
                "Not started: 1 cannot hold more than the best; 2 are not ruled out; optimize.csv lists them",
                "Starting every server would take about 40.0 s of server time; the 2 servers left, about 20.0 s of server time, are \
                 expected to change the best figure by +3.8 %",
            ]
        );
        // A latency is expected to become lower.
        answer.optimization.as_mut().expect("an optimisation").hour_gain = -0.05;
        assert!(optimization(&answer)[3].ends_with("are expected to change the best figure by -5.0 %"));
        // As many starts as servers, and less certainty than wanted: each reason is still its own.
        for (ended, expected) in [
            ("certain", "because the best is known"),
            ("starts", "at the limit of starts that holds without a budget"),
            (
                "undecidable",
                "because more starts were not expected to make it 95 % sure",
            ),
            ("exhausted", "because no other start was expected to help"),
        ] {
            let found = answer.optimization.as_mut().expect("an optimisation");
            (found.starts, found.more_starts) = (3, 0);
            found.ended = Some(serde_json::from_value(json!(ended)).expect("a reason"));
            assert!(
                optimization(&answer)[0].ends_with(&format!("; ended {expected}")),
                "{ended}"
            );
        }
        if let (Some(found), Some(config)) = (&mut answer.optimization, answer.configs.first_mut()) {
            (found.defaults, found.over_defaults) = (None, None);
            config.name = "TP 2".to_owned();
        }
        assert_eq!(
            optimization(&answer)[1],
            "41 % sure that TP 2 is within 1 % of the best of all 4; no server of the plan has the default settings"
        );
        // One user of each server is more than the margin, and the figure of the defaults is as uncertain as in the answer.
        let asked = &mut answer.questions[0];
        asked.goal = Goal::Load {
            target: "chat".to_owned(),
            parameter: "max_concurrency".to_owned(),
            unit: 1.0,
        };
        asked.winner.as_mut().expect("a winner").value.value = 31.0;
        if let Some(found) = &mut answer.optimization {
            (found.defaults, found.over_defaults) = (Some("b".to_owned()), Some(1.55));
        }
        for (low, expected) in [
            (
                1.2,
                "its figure is +55.0 % (+20.0 to +55.0 %) compared with the default settings (b)",
            ),
            (0.97, "it is not known to be better than the default settings (b)"),
        ] {
            let over = Estimate {
                value: 1.55,
                low,
                high: 1.55,
            };
            answer.questions[0].entrants = vec![Entrant {
                config: "b".to_owned(),
                point: None,
                load: "20".to_owned(),
                replicas: 1,
                meets: true,
                at_ceiling: false,
                value: over,
                probability: 0.1,
                as_good: 0.1,
                winner_over: Some(over),
                is_default: true,
                is_disturbed: false,
            }];
            let text = format!("41 % sure that TP 2 is within one user of the best of all 4; {expected}");
            assert_eq!(optimization(&answer)[1], text);
        }
    }
}
