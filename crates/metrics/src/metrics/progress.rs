//! What can be seen of a load while it is under way, measured or simulated.

use super::moments::Nanos;
use super::sample::Sample;

/// What a load tells while it is under way.
#[derive(Debug)]
pub enum LoadProgress<'a> {
    /// A request ended; so many are still in flight.
    Ended(&'a Sample, usize),
    /// Ten times a second: every request in flight, in no order.
    Underway(&'a [Underway]),
}

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Time since it was sent.
    pub age: Nanos,
    /// Time to its first token, if that came.
    pub ttft: Option<Nanos>,
}
