//! The simulated server, started as a user starts it, and asked over a socket. `server.rs` starts and always ends it; `shapes.rs` compares
//! answers with those of a real vLLM; `life.rs` tests the process: arguments, signals and faults; `accuracy.rs` compares measured times
//! with true ones; `gpus.rs` tests the simulated GPU memory.

mod accuracy;
mod gpus;
mod life;
pub mod server;
mod shapes;
