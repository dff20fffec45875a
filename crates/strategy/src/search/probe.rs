//! A question to the live server and what it answered: the two things a search exchanges with whoever runs it, and all
//! that a journal must keep of a search.

use super::criterion::Criterion;
use super::reading::Reading;
use super::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run that a search asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Name of the target that needs it; its probe answers every other target it can as well.
    pub target: String,
    /// The load, in the unit of what the search varies.
    pub value: f64,
    /// Requests to send.
    pub requests: u64,
    /// Whether the value was chosen because it is expected to be the answer: the run confirms or refutes it.
    pub confirm: bool,
    /// Which of the search's random draws of prompts and arrivals the run has: every run another one, also at a new load, because
    /// the same arrivals once more are no further evidence. It is added to the plan's seed.
    pub draw: u32,
}

/// What one run measured. Several probes may have one value: repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The question it answers.
    pub question: Question,
    /// The verdict that stopped the run before its last request, if one did. A run that failed altogether, because
    /// the server fell under the load, is a probe stopped by [`Verdict::Fail`] without readings.
    pub stopped: Option<Verdict>,
    /// What it says about each criterion, by the criterion's text; a criterion it says nothing about is absent.
    pub readings: BTreeMap<String, Reading>,
    /// Requests answered a second; None of a run that was not measured whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<f64>,
    /// The codes of what disturbed the run, such as `generator_stalled`; empty if nothing did. A disturbed run shows that a load is held,
    /// never that it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<String>,
}

impl Probe {
    /// What a run says in which the server fell, or too many requests failed: that the load is too high.
    pub fn fallen(question: Question) -> Probe {
        Probe {
            question,
            stopped: Some(Verdict::Fail),
            readings: BTreeMap::new(),
            served: None,
            disturbances: Vec::new(),
        }
    }

    /// A run whose figures mean nothing.
    pub fn unread(question: Question) -> Probe {
        Probe {
            stopped: None,
            ..Probe::fallen(question)
        }
    }

    /// The same probe, disturbed by what these codes name.
    pub fn disturbed_by(mut self, codes: Vec<String>) -> Probe {
        self.disturbances = codes;
        self
    }

    /// True if something disturbed the run.
    pub fn is_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }

    /// Whether it is such a run.
    pub(super) fn has_fallen(&self) -> bool {
        self.stopped == Some(Verdict::Fail) && self.readings.is_empty()
    }

    /// What it says about a criterion.
    pub(super) fn reading(&self, criterion: &Criterion) -> Option<&Reading> {
        self.readings.get(&criterion.to_string())
    }
}
