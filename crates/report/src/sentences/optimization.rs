//! An optimisation in sentences: how many servers were started and why it ended, how sure the best is among all servers of the plan, what
//! was not started and why, and what more time would bring.

use super::parts::{DEFAULT_SETTINGS, defaults, margin, percent};
use crate::texts::changes::change;
use itertools::Itertools;
use std::time::Duration;
use vsweep_answer::{Answer, CandidateState, Ended, OptimizationFound};
use vsweep_base::units::{show_duration, show_many};

/// Gains below this part are none worth a sentence.
const LEAST_GAIN: f64 = 0.0005;

/// The sentences, each without its full stop; none without an optimisation.
pub fn optimization(answer: &Answer) -> Vec<String> {
    let Some(found) = answer.optimization.as_deref() else {
        return Vec::new();
    };
    [Some(started(found)), sure(answer, found), left_out(found), cost(found)]
        .into_iter()
        .flatten()
        .collect()
}

/// `Started 17 of 200 servers, in 23 starts and 1 h 36 min of servers; ended because the best is known`.
fn started(found: &OptimizationFound) -> String {
    let ended = match found.ended {
        None => "not ended yet".to_owned(),
        Some(Ended::Certain) => "ended because the best is known".to_owned(),
        Some(Ended::Budget) => "ended because the budget is spent".to_owned(),
        Some(Ended::Exhausted) if found.best.is_none() => "ended because no server is left that may work".to_owned(),
        Some(Ended::Exhausted) if found.probability >= found.certainty => {
            "ended because no other server may win".to_owned()
        }
        Some(Ended::Exhausted) if found.starts >= found.candidates.len() => {
            "ended after as many starts as there are servers".to_owned()
        }
        Some(Ended::Exhausted) => {
            let certainty = percent(found.certainty);
            format!("ended because more starts were not expected to make it {certainty} sure")
        }
    };
    format!(
        "Started {} of {}, in {} and {} of servers; {ended}",
        found.started(),
        show_many(found.candidates.len() as u64, "server"),
        show_many(found.starts as u64, "start"),
        seconds(found.seconds)
    )
}

/// `97 % sure that TP 2 is within 1 % of the best of all 200; its figure is +31.0 % against the default settings`.
fn sure(answer: &Answer, found: &OptimizationFound) -> Option<String> {
    let best = found.best.as_ref()?;
    let is_joint = answer.together.iter().any(|own| own.question == found.question);
    let mut text = format!(
        "{} sure that {} is within {} of the best of all {}{}",
        percent(found.probability),
        answer.name_of(best),
        margin(answer.margin),
        found.candidates.len(),
        if is_joint { " for all workloads together" } else { "" }
    );
    let is_default = found.defaults.as_ref() == Some(best);
    match found.over_defaults {
        _ if is_default => text += "; it has the settings nearest to the defaults",
        Some(ratio) => {
            let name = found.defaults.as_ref().map(|config| answer.name_of(config));
            let defaults = name.map_or_else(|| defaults(DEFAULT_SETTINGS), defaults);
            let figure = if is_joint {
                "its smallest share of a workload's best"
            } else {
                "its figure"
            };
            text += &format!("; {figure} is {} against {defaults}", change(ratio));
        }
        None => {}
    }
    Some(text)
}

/// `Not started: 160 cannot win; 11 are not ruled out; optimize.csv lists them`.
fn left_out(found: &OptimizationFound) -> Option<String> {
    let open = match found.ended {
        Some(Ended::Certain | Ended::Exhausted) => "are unlikely to win",
        Some(Ended::Budget) | None => "are not ruled out",
    };
    let states = [
        (CandidateState::CannotWin, "cannot win"),
        (
            CandidateState::Memory,
            "would not fit, as others that need less memory did not",
        ),
        (CandidateState::Open, open),
    ];
    let counted = states.map(|(state, why)| (found.count(state), why));
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let text = counted.map(|(count, why)| format!("{count} {why}")).join("; ");
    (!text.is_empty()).then(|| format!("Not started: {text}; optimize.csv lists them"))
}

/// `All servers would take about 31 h; another hour would bring +0.3 %`.
fn cost(found: &OptimizationFound) -> Option<String> {
    let grid = found
        .grid_seconds
        .map(|grid| format!("a start of every server would take about {}", seconds(grid)));
    let is_open = found.ended != Some(Ended::Exhausted) && found.hour_gain > LEAST_GAIN;
    let hour = is_open.then(|| {
        format!(
            "another hour of servers is expected to bring {}",
            change(1.0 + found.hour_gain)
        )
    });
    let error = found
        .prediction_error
        .map(|error| format!("predicted figures were {:.1} % off in median", error * 100.0));
    let text = [grid, hour, error].into_iter().flatten().join("; ");
    (!text.is_empty()).then(|| super::capital(&text))
}

fn seconds(seconds: f64) -> String {
    show_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
