//! vsweep: a declarative sweep engine for LLM serving benchmarks.
//!
//! A checked-in plan declares server settings and load settings. vsweep expands them, launches each server, runs every benchmark against
//! it, and writes a directory of results. The modules below are the rooms, lowest layer first. Most of the lower rooms are in separate
//! crates, so that the compiler checks which room may use which; `tests/pure/layers.rs` checks the rest, and `ARCHITECTURE.md` has the
//! reasons.

// Layer 0: words that every room shares.
pub use vsweep_base::{
    cause, error, files, fingerprint, ids, printable, python_json, request_error, shell, spool, threads, units,
    validity,
};
pub use vsweep_metrics::rng;

// Layer 1: what is declared and what is measured, as pure data and pure functions.
pub use vsweep_answer as answer;
pub use vsweep_load::{one_of, params};
pub use vsweep_metrics as metrics;
pub use vsweep_plan as plan;
pub use vsweep_plan::{import, matrix};
pub use vsweep_strategy::{checks, search, selection, stats};

// Layer 2: what is recorded.
pub use vsweep_record::{evidence, journal, table};

// Layer 3: what comes next.
pub use vsweep_agenda as agenda;

// Layer 4: what acts on the world.
pub mod bench;
pub mod server;
pub mod telemetry;
pub use vsweep_load as load;
pub use vsweep_load::dataset;
pub use vsweep_sim as sim;

// Layer 5: what drives the actors.
pub mod rehearse;
pub mod run;

// Layer 6: presentation, and checks and submission of a plan.
pub mod cluster;
pub mod lint;
pub use vsweep_report as report;

// Layer 7: the command line.
pub mod cli;
