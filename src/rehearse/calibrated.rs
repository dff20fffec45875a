//! The engine model's constants for one kind of GPU and one model, as measured runs have corrected them, and how sure they are.

use super::spread::TimeFactor;
use crate::sim::engine::constants::Constants;
use crate::sim::engine::cost::CostModel;
use crate::sim::engine::model::Model;

/// Constants for the servers of one model on one kind of GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Name of the GPU.
    pub gpu: &'static str,
    /// The model.
    pub model: Model,
    /// Its constants.
    pub constants: Constants,
    /// Uncertainty of the duration of runs.
    pub run: TimeFactor,
    /// Uncertainty of server starts.
    pub start: TimeFactor,
    /// Standard deviations of the logarithms of constants that only some servers depend on.
    pub special: Special,
}

/// Standard deviations of logarithms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Special {
    /// Of quantised weights.
    pub quantised: f64,
    /// Of launching kernels one by one.
    pub eager: f64,
    /// Of communication between GPUs.
    pub link: f64,
}

impl Calibrated {
    /// Returns true if it speaks of a server.
    pub fn is_about(&self, cost: &CostModel) -> bool {
        self.gpu == cost.gpu.name && self.model == cost.model
    }

    /// Uncertainty of the duration of runs on a server that may depend on constants which no run has shown.
    pub fn run_factor(&self, cost: &CostModel) -> TimeFactor {
        let Special { quantised, eager, link } = self.special;
        let of_it = [
            (cost.is_quantised(), quantised),
            (cost.eager, eager),
            (cost.tensor_parallel > 1, link / 2.0),
        ];
        let special = of_it.iter().filter(|(applies, _)| *applies);
        let common = special.fold(self.run.common, |sum, (_, deviation)| sum.hypot(*deviation));
        TimeFactor { common, ..self.run }
    }
}
