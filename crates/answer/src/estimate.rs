//! A figure with its interval, in the form that every document uses.

use serde::{Deserialize, Serialize};

/// A figure with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The plain estimate, from its own runs.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns a value with an interval, which is widened to hold the value; `None` if a number is not finite.
    pub(crate) fn around(value: f64, low: f64, high: f64) -> Option<Estimate> {
        let is_finite = value.is_finite() && low.is_finite() && high.is_finite();
        is_finite.then_some(Estimate {
            value,
            low: low.min(value),
            high: high.max(value),
        })
    }
}
