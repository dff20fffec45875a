//! What a run of a serving benchmark is measured in: `metrics` owns samples, their order statistics and a run's result,
//! `rng` the seeded generators of NumPy and Python, `spool` bytes that are too many for memory,
//! `threads` work that is too much for one thread.
//!
//! Nothing here acts on the world, but that a spool's overflow goes to a nameless temporary file.

pub mod metrics;
pub mod rng;
pub mod spool;
pub mod threads;
