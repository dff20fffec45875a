//! Doubts as tables keep them: about a run, and about a point by its runs together.

use super::Table;
use std::sync::Arc;
use vsweep_base::validity::Code;
use vsweep_strategy::checks::{needed, percentile, short};

/// A code, and the figures that it is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub code: Code,
    /// By name; all that the code touches if there are none.
    pub figures: Vec<Arc<str>>,
}

impl Mark {
    /// About all figures that a code touches.
    pub fn of(code: Code) -> Mark {
        let figures = Vec::new();
        Mark { code, figures }
    }

    /// Returns true if it casts doubt on a figure.
    pub fn touches(&self, figure: &str) -> bool {
        match self.figures.is_empty() {
            true => self.code.touches(figure),
            false => self.figures.iter().any(|named| **named == *figure),
        }
    }

    /// Returns the mark for a point with several runs. Marks for too little time or too few requests are judged again by the runs' sums.
    pub fn of_point(&self, runs: &Table, rows: &[usize]) -> Option<Mark> {
        let sum = |name: &str| -> f64 { rows.iter().filter_map(|row| runs.cell(name, *row).number()).sum() };
        match self.code {
            Code::RunTooShort => {
                let slots = rows.first().and_then(|row| slots(runs, *row));
                short(sum("duration"), Some(sum("completed")), slots)?;
            }
            Code::SampleTooSmall if !self.figures.is_empty() => {
                let completed = sum("completed");
                let lacks = |figure: &&Arc<str>| {
                    percentile(figure).is_none_or(|(percent, latency)| {
                        let count = match latency {
                            "itl" => sum("total_output_tokens") - completed,
                            _ => completed,
                        };
                        count < needed(percent)
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

/// Requests that a run keeps in flight, if it is a closed loop.
pub(super) fn slots(runs: &Table, row: usize) -> Option<f64> {
    let is_paced = runs.cell("request_rate", row).number().is_some_and(f64::is_finite);
    runs.cell("max_concurrency", row).number().filter(|_| !is_paced)
}
