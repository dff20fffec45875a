//! Recorded inputs and outputs of the systems that users come from. vsweep gives the same outputs, or `docs/differences*.md` lists the
//! case.

mod bench;
mod cli;
mod coverage;
mod datasets;
mod pareto;
mod requests;
#[path = "../support/scripted.rs"]
mod scripted;
mod server;
mod sweep;
