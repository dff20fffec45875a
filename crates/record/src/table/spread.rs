//! The figures of a point over its runs.

/// One figure of a point over the runs it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Middle value; the mean of the middle two for an even number of runs.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
    /// Its 95 % interval over the starts of the server; none with one start, or where starts are not known.
    pub interval: Option<(f64, f64)>,
    /// Number of starts, where that is known.
    pub starts: Option<usize>,
}

impl Spread {
    /// How far to either side the figure may lie: its interval over starts, else from the lowest to the highest run.
    pub fn reach(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.min, self.max))
    }
}
