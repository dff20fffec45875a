//! Single runs: kinds of benchmarks, loads, failures, doubts and telemetry.

mod clients;
mod iterations;
mod mix;
mod offline;
mod phases;
mod starts;
mod telemetry;
mod validity;
