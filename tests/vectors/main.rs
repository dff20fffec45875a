//! Golden inputs and outputs of the systems users come from. Each is met, or listed in `docs/differences*.md`.

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
