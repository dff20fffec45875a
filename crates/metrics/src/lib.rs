//! The measurements of a serving benchmark's run. `metrics` owns samples, their order statistics and a run's result; `rng` the seeded
//! generators of NumPy and Python; `spool` data too large for memory; `threads` work for several threads.
//!
//! The crate has no effect on the world, except that a spool's overflow goes to a nameless temporary file.

pub mod metrics;
pub mod rng;
pub mod spool;
pub mod threads;
