//! One run as input of a table, and the facts that the table keeps besides its cells.

use super::RunFigures;
use super::marks::Mark;
use crate::journal::{Figures, Machine};
use vsweep_base::cause::{Cause, Outcome};
use vsweep_base::validity::{Doubt, Validity};
use vsweep_plan::Params;

/// One run as input of a table; by default a valid one without further facts.
#[derive(Debug, Clone, Default)]
pub struct RunRow<'a> {
    /// The point's id.
    pub point: &'a str,
    /// Repetition of the point, as numbered in the journal.
    pub run: u32,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Validity of its figures; `None` for a run without figures.
    pub validity: Option<Validity>,
    /// Doubts about it.
    pub doubts: &'a [Doubt],
    /// Cause of the failure, if it failed.
    pub cause: Option<Cause>,
    /// Observation of the cause; empty if there is none.
    pub detail: &'a str,
    /// Every server parameter.
    pub serve: Option<&'a Params>,
    /// Every bench parameter.
    pub bench: Option<&'a Params>,
    /// True if the figures come from the simulator; `None` if unknown.
    pub simulated: Option<bool>,
    /// Number of GPUs the server used, where known.
    pub gpus: Option<f64>,
    /// The run's figures; none if it was not measured.
    pub metrics: Option<&'a RunFigures>,
    /// Relative sampling errors of the figures, where the run tells.
    pub errors: Option<&'a Figures>,
    /// The planned start that it belongs to, from 0.
    pub slot: u32,
    /// The launch that it was measured on, where known.
    pub launch: Option<String>,
    /// Its place in the order of the launch's runs.
    pub order: u64,
    /// The node that it was measured on, where that is to be shown.
    pub machine: Option<Machine>,
}

/// Facts about a run that a table keeps besides its cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunFacts {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Validity of its figures.
    pub validity: Option<Validity>,
    /// Doubts about it.
    pub marks: Vec<Mark>,
    /// Relative sampling errors of its figures.
    pub errors: Figures,
    /// The planned start that it belongs to.
    pub slot: u32,
    /// The launch, numbered within the table; none where that is not known.
    pub launch: Option<u32>,
    /// Its place in the order of the launch's runs.
    pub order: u64,
}
