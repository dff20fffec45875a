//! The simulator: a server that behaves like the *process* `vllm serve`, with an engine model instead of a GPU. Its numbers are simulated,
//! never measured; `/version` says so.
//!
//! - `process` runs the server; `start` simulates its start, with the durations from `phases`; `child` is its engine process.
//! - `flags`, `config_file` and `settings` interpret its command line.
//! - `engine` models what a GPU would do (pure, with explicit time). `driver` runs that model in real time and records the true times of
//!   tokens; `virtual_time` runs it as fast as it can be computed.
//! - `api` is the HTTP interface, `tokenizer` converts its texts, and `log` writes lines like vLLM's.
//! - `fault` lists the faults that can be simulated. `gpus` has the memory that a fake `nvidia-smi` shows. `neighbours` slows down servers
//!   of one node.
//!
//! The simulator shares no JSON structures with the load generator, because a shared mistake would be invisible.

mod api;
pub mod child;
mod config_file;
mod driver;
pub mod engine;
pub mod fault;
pub mod flags;
pub mod gpus;
mod log;
mod neighbours;
pub mod phases;
pub mod process;
pub mod settings;
mod start;
mod tokenizer;
pub mod virtual_time;
