//! One run as a table takes it in, and what the table keeps of it beside its cells.

use super::Cell;
use super::marks::Mark;
use crate::journal::{Figures, Machine};
use std::sync::Arc;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::plan::Params;
use vsweep_plan::validity::{Doubt, Validity};

/// One run, as the table takes it in; by default a valid one of which nothing else is known.
#[derive(Debug, Clone, Default)]
pub struct RunRow<'a> {
    /// The point's id.
    pub point: &'a str,
    /// Repetition of the point, as numbered in the journal.
    pub run: u32,
    /// How the run ended.
    pub outcome: Outcome,
    /// Whether its figures may be believed; nothing to say of a run without any.
    pub validity: Option<Validity>,
    /// Why not.
    pub doubts: &'a [Doubt],
    /// Why it failed.
    pub cause: Option<Cause>,
    /// What was seen of the cause; empty if there is none.
    pub detail: &'a str,
    /// Every server parameter.
    pub serve: Option<&'a Params>,
    /// Every bench parameter.
    pub bench: Option<&'a Params>,
    /// Whether the figures come from the simulator, where known.
    pub simulated: Option<bool>,
    /// Number of GPUs the server used, where known.
    pub gpus: Option<f64>,
    /// The run's figures (see [`super::read_scalars`]); empty if it was not measured.
    pub metrics: &'a [(Box<str>, Cell)],
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

/// What a table keeps of a run beside its cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunFacts {
    /// How the run ended.
    pub outcome: Outcome,
    /// Whether its figures may be believed.
    pub validity: Option<Validity>,
    /// Why not.
    pub marks: Vec<Mark>,
    /// Relative sampling errors of its figures, by name.
    pub errors: Vec<(Arc<str>, f64)>,
    /// The planned start that it belongs to.
    pub slot: u32,
    /// The launch, numbered within the table; none where that is not known.
    pub launch: Option<u32>,
    /// Its place in the order of the launch's runs.
    pub order: u64,
}
