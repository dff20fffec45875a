//! Measuring one server, and being one.

pub mod bench;
pub mod guard;
pub mod iterations;
pub mod phases;
pub mod sim;
pub mod sweeping;
