//! The configs to choose from, as plain data.

use serde::{Deserialize, Serialize};

/// A setting in which candidates differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// True if its levels are numbers, near ones of which behave alike.
    pub is_ordered: bool,
}

/// The position of a candidate on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of an ordered axis, scaled so that equal distances matter alike (the logarithm of a size). The unit is free.
    Number(f64),
    /// An unordered value by its number, or the absent parameter of an ordered axis.
    Choice(u32),
}

/// A server config that may be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its level on each axis.
    pub levels: Vec<Level>,
    /// Settings that differ from the server's defaults.
    pub changes: u32,
    /// The twin's prediction.
    pub predicted: Option<Predicted>,
    /// Share of the GPU's memory that it is predicted to need; above 1 it does not fit if the prediction holds.
    pub memory: Option<f64>,
    /// Predicted seconds until the server is ready.
    pub start_s: f64,
    /// Predicted seconds of a full measurement on it.
    pub measure_s: f64,
    /// GPUs that it occupies.
    pub gpus: u32,
}

/// A value that a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Logarithm of the value; higher is better.
    pub ln_value: f64,
    /// Standard deviation of its error.
    pub sd: f64,
}
