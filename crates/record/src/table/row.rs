//! One run as a table takes it in.

use super::Cell;
use std::sync::LazyLock;
use vsweep_plan::cause::{Cause, Outcome};
use vsweep_plan::plan::Params;
use vsweep_plan::validity::{Doubt, Validity};

/// One run, as the table takes it in.
#[derive(Debug, Clone)]
pub struct Row<'a> {
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
    pub serve: &'a Params,
    /// Every bench parameter.
    pub bench: &'a Params,
    /// Whether the figures come from the simulator, where known.
    pub simulated: Option<bool>,
    /// Number of GPUs the server used, where known.
    pub gpus: Option<f64>,
    /// The run's figures (see [`super::read_scalars`]); empty if it was not measured.
    pub metrics: &'a [(Box<str>, Cell)],
}

impl Default for Row<'_> {
    /// A valid run of which nothing else is known.
    fn default() -> Self {
        static NONE: LazyLock<Params> = LazyLock::new(Params::new);
        Row {
            point: "",
            run: 0,
            outcome: Outcome::Ok,
            validity: None,
            doubts: &[],
            cause: None,
            detail: "",
            serve: &NONE,
            bench: &NONE,
            simulated: None,
            gpus: None,
            metrics: &[],
        }
    }
}
