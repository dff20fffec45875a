//! The runs as input of a table, and the facts about a run that a table keeps, such as doubts. Also the doubts about a point with several
//! runs.

use super::{RunFigures, Table};
use crate::journal::{Figures, Machine};
use std::sync::Arc;
use vsweep_base::cause::{Cause, Outcome};
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_plan::Params;
use vsweep_strategy::checks::{percentile, shortfall, values_needed};

/// The code of a doubt, and the figures that it is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub code: Code,
    /// Names of the figures; empty for all figures that the code touches.
    pub figures: Vec<Arc<str>>,
}

impl Mark {
    /// Returns a mark of all figures that a code touches.
    pub fn of(code: Code) -> Mark {
        let figures = Vec::new();
        Mark { code, figures }
    }

    /// Returns true if the mark casts doubt on a figure.
    pub fn touches(&self, figure: &str) -> bool {
        match self.figures.is_empty() {
            true => self.code.touches(figure),
            false => self.figures.iter().any(|named| **named == *figure),
        }
    }

    /// Returns this mark of a run for its point, whose runs are in these rows. A mark for too little time or too few requests is judged
    /// again by the sums over the runs; `None` if the sums suffice.
    pub fn of_point(&self, runs: &Table, rows: &[usize]) -> Option<Mark> {
        let sum = |name: &str| -> f64 { rows.iter().filter_map(|row| runs.cell(name, *row).number()).sum() };
        match self.code {
            Code::RunTooShort => {
                let slots = rows.first().and_then(|row| closed_loop_slots(runs, *row));
                shortfall(sum("duration"), Some(sum("completed")), slots)?;
            }
            Code::SampleTooSmall if !self.figures.is_empty() => {
                let completed = sum("completed");
                let lacks = |figure: &&Arc<str>| {
                    percentile(figure).is_none_or(|(percent, latency)| {
                        let count = match latency {
                            "itl" => sum("total_output_tokens") - completed,
                            _ => completed,
                        };
                        count < values_needed(percent)
                    })
                };
                let figures: Vec<Arc<str>> = self.figures.iter().filter(lacks).cloned().collect();
                let code = self.code;
                return (!figures.is_empty()).then_some(Mark { code, figures });
            }
            _ => {}
        }
        Some(self.clone())
    }
}

/// Returns the number of requests that a run keeps in flight, if it is a closed loop.
pub(super) fn closed_loop_slots(runs: &Table, row: usize) -> Option<f64> {
    let is_paced = runs.cell("request_rate", row).number().is_some_and(f64::is_finite);
    runs.cell("max_concurrency", row).number().filter(|_| !is_paced)
}

/// One run as input of a table. By default, its outcome is `Ok` and nothing else is known of it.
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
    /// Observed details, as text; may be empty.
    pub detail: &'a str,
    /// Every server parameter.
    pub serve: Option<&'a Params>,
    /// Every bench parameter.
    pub bench: Option<&'a Params>,
    /// True if the figures come from the simulator; `None` if unknown.
    pub simulated: Option<bool>,
    /// Number of GPUs that the server used, if known.
    pub gpus: Option<f64>,
    /// The run's figures; `None` if it was not measured.
    pub metrics: Option<&'a RunFigures>,
    /// Relative sampling errors of the figures, if known.
    pub errors: Option<&'a Figures>,
    /// The planned start that it belongs to, from 0.
    pub slot: u32,
    /// The launch on which it was measured, if known.
    pub launch: Option<String>,
    /// Position in the order of the launch's runs.
    pub order: u64,
    /// The node on which it was measured, if the table shows nodes.
    pub machine: Option<Machine>,
}

/// Facts about a run that a table keeps in addition to its cells.
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
    /// Number of the launch within the table; `None` if unknown.
    pub launch: Option<u32>,
    /// Position in the order of the launch's runs.
    pub order: u64,
}
