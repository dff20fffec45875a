//! The figures of a point over its runs.

/// One figure of a point over the runs it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The answer's estimate; of a figure that no answer judges the middle value, or the mean of the middle two.
    pub value: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
    /// Its 95 % interval, where an answer judges it.
    pub interval: Option<(f64, f64)>,
}

impl Spread {
    /// The farthest that the figure may lie to either side: its interval, else from the lowest to the highest run.
    pub fn reach(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.min, self.max))
    }
}
