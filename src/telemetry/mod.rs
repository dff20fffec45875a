//! What can be read from outside about a server and its machine: Prometheus text and GPUs. Reading only; judging what
//! it means belongs to the rooms that ask.

pub mod gpu;
pub mod prometheus;
