//! What can be read from outside about a server and its machine: Prometheus text, GPUs, the host; and what a series of such
//! readings amounts to. Reading only; when to read, and judging what it means, belongs to the rooms that ask.

pub mod csv;
pub mod gpu;
pub mod host;
pub mod nvml;
pub mod prometheus;
pub mod scrape;
pub mod series;
