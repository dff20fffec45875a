//! An optimisation in sentences: how many servers were started and why it ended, how sure the best is among all servers of the plan, what
//! was not started and why, and what more time would bring.

use super::parts::{margin, percent};
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
        Some(Ended::Exhausted) if found.probability < found.certainty => {
            "ended because more starts would hardly tell the best apart".to_owned()
        }
        Some(Ended::Exhausted) => "ended because no other server may win".to_owned(),
    };
    format!(
        "Started {} of {}, in {} and {} of servers; {ended}",
        found.started(),
        show_many(found.candidates.len() as u64, "server"),
        show_many(found.starts as u64, "start"),
        seconds(found.seconds)
    )
}

/// `It is 97 % sure that TP 2 is within 1 % of the best of all 200; it has 1.31 times the figure of the default settings`.
fn sure(answer: &Answer, found: &OptimizationFound) -> Option<String> {
    let best = found.best.as_ref()?;
    let candidates = &found.candidates;
    let named = candidates.iter().find(|own| own.config == *best)?;
    let mut text = format!(
        "{} sure that {} is within {} of the best of all {}",
        percent(found.probability),
        named.name,
        margin(answer.margin),
        candidates.len()
    );
    let is_default = found.defaults.as_ref() == Some(best);
    match found.over_defaults {
        _ if is_default => text += "; it has the settings nearest to the defaults",
        Some(ratio) => {
            let defaults = candidates
                .iter()
                .find(|own| Some(&own.config) == found.defaults.as_ref());
            let name = defaults
                .map(|own| own.name.as_str())
                .filter(|name| !["", "default"].contains(name));
            let name = name.map_or("the default settings".to_owned(), |name| {
                format!("the defaults ({name})")
            });
            text += &format!("; its figure is {:+.1} % against {name}", (ratio - 1.0) * 100.0);
        }
        None => {}
    }
    Some(text)
}

/// `Not started: 160 cannot win, 12 lack memory, 11 may still win; see optimize.csv`.
fn left_out(found: &OptimizationFound) -> Option<String> {
    let open = match found.ended {
        Some(Ended::Certain | Ended::Exhausted) => "are unlikely to win",
        Some(Ended::Budget) | None => "may still win",
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
            "another hour of servers is expected to bring {:+.1} %",
            found.hour_gain * 100.0
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
