//! The measurements of a run: the timeline of each request and the metrics of the whole run, each defined in one place.
//!
//! This crate has only data and arithmetic; clocks and sockets belong to the `load` crate. `rng` has the seeded random generators of NumPy
//! and Python.

pub mod confidence;
mod histogram;
mod moments;
mod quantiles;
pub mod rng;
mod run_result;
mod sample;
mod samples;
mod steady;
mod summary;

pub use histogram::Histogram;
pub use moments::{Moments, Nanos, seconds};
pub use quantiles::{Stats, median, percentile};
pub use run_result::{COLUMNS, RunResult};
pub use sample::{Goodput, Sample};
pub use samples::{LoadProgress, Samples};
pub use steady::{SteadyRule, SteadyState};
pub use summary::{Metric, Summary, busiest_second, concurrency_by_second, peak_concurrency};
