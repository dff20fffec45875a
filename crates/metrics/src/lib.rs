//! The measurements of a run: the timeline of each request and the metrics of the whole run, each defined in one place.
//!
//! Pure data and arithmetic; clocks and sockets belong to the `load` crate.
//! `rng` owns the seeded generators of NumPy and Python.

pub mod confidence;
mod goodput;
mod histogram;
mod moments;
mod peaks;
mod quantiles;
pub mod rng;
mod run_result;
mod sample;
mod samples;
mod steady;
mod summary;

pub use goodput::Goodput;
pub use histogram::Histogram;
pub use moments::{Moments, Nanos, seconds};
pub use peaks::{busiest_second, concurrency_by_second, peak_concurrency};
pub use quantiles::{Stats, median, percentile};
pub use run_result::{COLUMNS, RunResult};
pub use sample::Sample;
pub use samples::{LoadProgress, Samples};
pub use steady::{SteadyRule, SteadyState};
pub use summary::{Metric, Summary};
