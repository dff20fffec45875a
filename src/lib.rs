//! vsweep: a declarative sweep engine for LLM serving benchmarks.
//!
//! A checked-in plan declares server settings and load settings; vsweep expands them, launches each server once,
//! drives every benchmark against it and leaves a directory of results. The modules below are the rooms of the
//! house, lowest layer first; `tests/layers.rs` enforces which may use which, and `ARCHITECTURE.md` says why.

// Layer 0: words that every room shares.
pub mod cause;
pub mod error;
pub mod files;
pub mod ids;
pub mod rng;
pub mod units;

// Layer 1: what is declared and what is measured, as pure data and pure functions.
pub mod matrix;
pub mod metrics;
pub mod plan;
pub mod search;

// Layer 2: what is recorded.
pub mod journal;
pub mod table;

// Layer 3: what acts on the world.
pub mod bench;
pub mod dataset;
pub mod load;
pub mod server;
pub mod sim;
pub mod telemetry;

// Layer 4: what drives the actors.
pub mod rehearse;
pub mod run;

// Layer 5: what is shown.
pub mod report;

// Layer 6: the command line.
pub mod cli;
