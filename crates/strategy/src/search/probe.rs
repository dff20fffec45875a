//! The run that a search asks for ([`Question`]) and its result ([`Probe`]). A search exchanges only these with its caller, and continues
//! from the probes that a journal keeps.

use super::Vary;
use super::criterion::Criterion;
use super::reading::{Reading, RequestLatencies};
use super::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shortest time of sending, in seconds, after which a run shows what happens when a rate lasts.
pub const BRIEF_S: f64 = 3.0;
/// Share of a rate that a server answers if it keeps up. The run includes the time for the last requests, so the share is below 1.
pub const KEEPS_UP: f64 = 0.8;
/// Fewest requests that show whether the queue of a rate grows. At the rate that a server can just answer, chance alone makes the queue of
/// so many grow as [`Question::outruns`] demands in 2 % of runs if service times are as random as arrivals, and in 0.03 % if they are equal.
const ENOUGH: usize = 200;

/// One run that a search asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Name of the target that needs the run. Other targets use its result too.
    pub target: String,
    /// The load, in the unit of what the search varies.
    pub value: f64,
    /// Requests to send.
    pub requests: u64,
    /// True if the value is expected to be the answer, so that the run confirms or refutes it.
    pub confirm: bool,
    /// Number that is added to the plan's seed for the random draw of prompts and arrivals. It differs between all runs of a search,
    /// because repeating the same arrivals adds no evidence.
    pub draw: u32,
}

impl Question {
    /// Returns true if all requests are sent before a rate shows whether it lasts.
    pub(super) fn is_brief(&self, vary: Vary) -> bool {
        vary == Vary::RequestRate && (self.requests as f64) < BRIEF_S * self.value
    }

    /// Returns true if the rate outruns a server that answers `served` of the requests in a second. In a run that is too short, the time
    /// that the last requests take on an idle server lowers that figure as well. So waiting alone must have made the run so long: in a
    /// queue that grows steadily, the second half of the requests waits longer than the first, on average, by half of the time by which
    /// the run becomes longer.
    pub(super) fn outruns(&self, vary: Vary, served: Option<f64>, requests: &[RequestLatencies]) -> bool {
        let waits = requests.iter().map(|request| request.ttft_ms / 1000.0);
        let waits: Vec<f64> = waits.filter(|wait| wait.is_finite()).collect();
        let (first, second) = waits.split_at(waits.len() / 2);
        let mean = |waits: &[f64]| waits.iter().sum::<f64>() / waits.len() as f64;
        let longer_s = waits.len() as f64 / self.value * (KEEPS_UP.recip() - 1.0);
        let is_behind = vary == Vary::RequestRate && served.is_some_and(|served| served < KEEPS_UP * self.value);
        let is_long = waits.len() >= ENOUGH && !self.is_brief(vary);
        is_behind && is_long && mean(second) - mean(first) >= longer_s / 2.0
    }
}

/// Measurement of one run. Several probes may have the same load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The question it answers.
    pub question: Question,
    /// The verdict that stopped the run before its last request, if one did. If the server failed under the load, this is [`Verdict::Fail`]
    /// and there are no readings.
    pub stopped: Option<Verdict>,
    /// Readings of the criteria, by the criterion's text. A criterion that the run says nothing about is absent.
    pub readings: BTreeMap<String, Reading>,
    /// Requests answered per second; `None` if the run was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<f64>,
    /// Output tokens per second; `None` if the run was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// True if the run showed that the server does not sustain the rate, so that it is too high whatever the readings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outrun: bool,
    /// Codes of disturbances, such as `generator_stalled`. A disturbed run can show that a load meets a target. It shows that a load
    /// misses a target only if the part of the miss that the disturbance explains is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<String>,
}

impl Probe {
    /// Returns the probe of a run in which the server crashed or too many requests failed: the load is too high.
    pub fn overloaded(question: Question) -> Probe {
        Probe {
            question,
            stopped: Some(Verdict::Fail),
            ..Probe::default()
        }
    }

    /// Returns the probe of a run without usable figures. Unless disturbances are added, it says that the load was too low for the run to
    /// end in time.
    pub fn without_figures(question: Question) -> Probe {
        Probe {
            question,
            ..Probe::default()
        }
    }

    /// Marks the probe as disturbed, with the codes of the disturbances.
    pub fn disturbed_by(mut self, codes: Vec<String>) -> Probe {
        self.disturbances = codes;
        self
    }

    /// Returns true if something disturbed the run.
    pub fn is_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }

    /// Returns true if the load was too low for the run to end in time.
    pub fn is_too_slow(&self) -> bool {
        self.stopped.is_none() && self.readings.is_empty() && !self.is_disturbed()
    }

    /// Returns true if the load is too high whatever the readings: the server crashed, too many requests failed, or the rate outran it.
    pub(super) fn is_overloaded(&self) -> bool {
        self.is_outrun || (self.stopped == Some(Verdict::Fail) && self.readings.is_empty())
    }

    /// Returns true if all requests of a rate were sent at nearly the same time, and the server did not keep up. Had the rate lasted, the
    /// latencies would have been longer.
    pub(super) fn is_burst(&self, vary: Vary) -> bool {
        let outruns = |served: f64| served < KEEPS_UP * self.question.value;
        self.question.is_brief(vary) && self.served.is_some_and(outruns)
    }

    /// Returns the reading of a criterion.
    pub(super) fn reading(&self, criterion: &Criterion) -> Option<&Reading> {
        self.readings.get(&criterion.to_string())
    }
}
