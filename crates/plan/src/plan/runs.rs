//! How often a point is measured on one start of its server.

use std::fmt;
use vsweep_strategy::stats::Repeats;

/// Repetitions of every point on one start.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// So many.
    Exactly(u32),
    /// Until the interval of a metric is narrow enough.
    Until {
        /// Its name in the result.
        metric: String,
        /// When it is, and how many runs there may be.
        rule: Repeats,
    },
}

impl Runs {
    /// At least so many.
    pub fn least(&self) -> u32 {
        match self {
            Runs::Exactly(runs) => *runs,
            Runs::Until { rule, .. } => rule.min as u32,
        }
    }

    /// At most so many.
    pub fn most(&self) -> u32 {
        match self {
            Runs::Exactly(runs) => *runs,
            Runs::Until { rule, .. } => rule.max as u32,
        }
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runs::Exactly(runs) => write!(f, "{runs}"),
            Runs::Until { metric, rule } => {
                let percent = rule.until * 100.0;
                write!(
                    f,
                    "{} to {}, until {metric} is known to {percent} %",
                    rule.min, rule.max
                )
            }
        }
    }
}
