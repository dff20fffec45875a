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
}
