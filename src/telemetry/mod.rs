//! Readings of a server and its machine from outside: Prometheus text, GPUs, the host, and summaries of a series of readings. Callers
//! decide when to read, and interpret the figures.

pub mod csv;
pub mod gpu;
pub mod host;
pub mod nvml;
pub mod prometheus;
pub mod series;
