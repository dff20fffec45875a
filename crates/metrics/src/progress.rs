//! Progress of a load under way, measured or simulated.

use super::moments::Nanos;
use super::sample::Sample;

/// A progress report of a load under way.
#[derive(Debug)]
pub enum LoadProgress<'a> {
    /// A request ended; so many are still in flight.
    Ended(&'a Sample, usize),
    /// Ten times a second: now, and every request in flight as far as it has come, in no order.
    Underway(Nanos, &'a [&'a Sample]),
    /// The generator did not look at the network for longer than it should; all such times so far together.
    Away(Nanos),
}
