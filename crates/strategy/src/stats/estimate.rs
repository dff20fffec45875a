//! An estimate on the logarithmic scale, its standard error, and the interval that follows.

use super::distribution::{student_quantile, student_two_sided};
use serde::{Deserialize, Serialize};

/// Chance error of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// The standard error, in units of the estimate.
    pub standard: f64,
    /// The degrees of freedom of the standard error itself.
    pub freedom: f64,
}

/// A mean of logarithms, or a difference of two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The natural logarithm of a metric, or of a ratio.
    pub log: f64,
    /// The chance error of `log`; `None` if it is unknown because there is only one value.
    pub error: Option<Error>,
}

/// An interval of logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Returns true if `log` lies in the interval, ends included.
    pub fn contains(self, log: f64) -> bool {
        self.low <= log && log <= self.high
    }

    /// Returns the ends of the interval as plain values or ratios.
    pub fn exp(self) -> (f64, f64) {
        (self.low.exp(), self.high.exp())
    }
}

impl Estimate {
    /// Returns an estimate with a standard error and its degrees of freedom.
    pub fn new(log: f64, standard: f64, freedom: f64) -> Estimate {
        let error = Some(Error { standard, freedom });
        Estimate { log, error }
    }

    /// Returns the mean of some logarithms. The error of a single logarithm is unknown.
    pub fn of_mean(values: &[f64]) -> Estimate {
        let n = values.len() as f64;
        let log = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - log).powi(2)).sum();
        match values.len() {
            0 | 1 => Estimate { log, error: None },
            _ => Estimate::new(log, (squares / (n - 1.0) / n).sqrt(), n - 1.0),
        }
    }

    /// Returns the interval that misses the truth with probability `alpha`; `None` if the error is unknown.
    pub fn interval(self, alpha: f64) -> Option<Interval> {
        let error = self.error?;
        let half = match error.standard {
            0.0 => 0.0,
            standard => standard * student_quantile(alpha, error.freedom),
        };
        Some(Interval {
            low: self.log - half,
            high: self.log + half,
        })
    }

    /// Returns the two-sided p-value of the hypothesis that the truth is `null`; `None` if the error is unknown.
    pub fn p_value(self, null: f64) -> Option<f64> {
        let error = self.error?;
        let distance = self.log - null;
        Some(match error.standard {
            0.0 if distance == 0.0 => 1.0,
            0.0 => 0.0,
            standard => student_two_sided(distance / standard, error.freedom),
        })
    }
}
