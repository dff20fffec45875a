//! The simulated server, started as a user starts it and spoken to over a socket. `server.rs` starts and always ends it;
//! `shapes.rs` compares answers with those of a real vLLM; `life.rs` is about the process: arguments, signals, faults; `accuracy.rs`
//! compares what is measured with what happened; `gpus.rs` looks at the simulated GPU memory.

mod accuracy;
mod gpus;
mod life;
pub mod server;
mod shapes;
