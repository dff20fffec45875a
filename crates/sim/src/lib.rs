//! The simulator: a server that behaves like the *process* `vllm serve`, with an engine model instead of a GPU. Its
//! numbers are simulated and never measurements; `/version` says so.
//!
//! `process` is the life of the server (`start` its beginning, `phases` how long that takes), `flags`, `config_file` and
//! `settings` are its command line, `child` its engine process, `engine` the model of what a GPU would do (pure, with
//! explicit time), `driver` runs that model in real time, `virtual_time` as fast as it can be computed, `api` is the HTTP
//! interface, `fault` lists what can be made to go wrong, `gpus` is the memory that a fake `nvidia-smi` shows, `neighbours` how
//! servers of one node slow each other down, `truth` records what really happened. The JSON that it writes is made here and
//! shared with nobody: a mistake shared with the load generator would be invisible.

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
