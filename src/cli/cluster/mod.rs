//! Sweeps on several machines.

pub mod submit;
pub mod worker;
