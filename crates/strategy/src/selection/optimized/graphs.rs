//! Starts that find their graphs compiled.

use super::space::{Candidate, Trial};
use std::collections::BTreeSet;

/// The compiled graphs that servers left behind.
#[derive(Debug, Clone, Default)]
pub struct CompiledGraphs(BTreeSet<u32>);

impl CompiledGraphs {
    /// Predicted seconds until the server of a candidate is ready.
    pub fn start_s(&self, candidate: &Candidate) -> f64 {
        let warm = candidate.warm.filter(|warm| self.0.contains(&warm.graphs));
        warm.map_or(candidate.start_s, |warm| warm.start_s)
    }

    /// Notes the graphs of a candidate whose server was ready.
    pub fn note(&mut self, candidate: &Candidate, trial: &Trial) {
        if let Trial::Measured { .. } | Trial::Beaten { .. } | Trial::Unmet = trial {
            self.0.extend(candidate.warm.map(|warm| warm.graphs));
        }
    }
}
