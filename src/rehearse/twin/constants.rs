//! The constants of the engine model that measured runs identify: their names, the uncertainty of their nominal values, and the servers
//! that depend on them. All are fitted as factors, on a logarithmic scale.

use crate::sim::engine::cost::{Constants, CostModel};

/// Number of constants that are fitted to runs.
pub const COUNT: usize = 9;

/// Logarithms of factors of the nominal constants.
pub type Vector = [f64; COUNT];

/// One constant.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Its name for display.
    pub name: &'static str,
    /// Its unit, as it follows the value, with a leading space.
    pub unit: &'static str,
    /// Standard deviation of its logarithm before anything was measured: a guess, from the spread of published figures around the model.
    pub prior: f64,
    /// Multiplies it by a factor.
    scale: fn(&mut Constants, f64),
    /// Returns its value in that unit, for a model with this number of layers.
    pub value: fn(&Constants, layers: f64) -> f64,
    /// Returns true for a server whose times depend on it.
    pub applies: fn(&CostModel) -> bool,
}

/// Every constant.
pub const CONSTANTS: [Constant; COUNT] = [
    Constant {
        name: "decode",
        unit: " of the bandwidth",
        prior: 0.15,
        scale: |constants, by| constants.weights *= by,
        value: |constants, _| constants.weights,
        applies: |_| true,
    },
    Constant {
        name: "attention",
        unit: " of the bandwidth",
        prior: 0.3,
        scale: |constants, by| constants.kv *= by,
        value: |constants, _| constants.kv,
        applies: |_| true,
    },
    Constant {
        name: "prefill",
        unit: " of the FLOPs",
        prior: 0.2,
        scale: |constants, by| {
            constants.matmul *= by;
            constants.matmul_8 *= by;
        },
        value: |constants, _| constants.matmul,
        applies: |_| true,
    },
    Constant {
        name: "prefill floor",
        unit: " ms",
        prior: 0.4,
        scale: |constants, by| constants.pieces_launch_s *= by,
        value: |constants, layers| 1e3 * layers * constants.pieces_launch_s,
        applies: |cost| !cost.eager,
    },
    Constant {
        name: "host",
        unit: " ms per step",
        prior: 0.5,
        scale: |constants, by| constants.step_s *= by,
        value: |constants, _| 1e3 * constants.step_s,
        applies: |_| true,
    },
    Constant {
        name: "host",
        unit: " µs per sequence",
        prior: 0.7,
        scale: |constants, by| constants.sequence_s *= by,
        value: |constants, _| 1e6 * constants.sequence_s,
        applies: |_| true,
    },
    Constant {
        name: "quantised weights",
        unit: " times as slow as their bytes say",
        prior: 0.25,
        scale: |constants, by| constants.quantised *= by,
        value: |constants, _| constants.quantised,
        applies: CostModel::is_quantised,
    },
    Constant {
        name: "eager steps",
        unit: " ms",
        prior: 0.4,
        scale: |constants, by| constants.eager_launch_s *= by,
        value: |constants, layers| 1e3 * layers * constants.eager_launch_s,
        applies: |cost| cost.eager,
    },
    Constant {
        name: "links between GPUs",
        unit: " times as slow as modelled",
        prior: 0.5,
        scale: |constants, by| constants.link *= by,
        value: |constants, _| constants.link,
        applies: |cost| cost.tensor_parallel > 1,
    },
];

/// Index of the constant of quantised weights, on which only some servers depend.
pub const QUANTISED: usize = 6;
/// Index of the constant of eager steps, on which only some servers depend.
pub const EAGER: usize = 7;
/// Index of the constant of links between GPUs, on which only some servers depend.
pub const LINK: usize = 8;

/// Returns true if a server's times depend on a constant.
pub fn applies(constant: usize, cost: &CostModel) -> bool {
    (CONSTANTS[constant].applies)(cost)
}

/// Returns the nominal constants times factors, which are given by their logarithms.
pub fn scaled(logs: &Vector) -> Constants {
    let mut constants = Constants::default();
    for (constant, log) in CONSTANTS.iter().zip(logs) {
        (constant.scale)(&mut constants, log.exp());
    }
    constants
}
