//! Requests to a server outside the measured load: for its counters, its limits, its tokenizer, its profiler, and small probes of its
//! latency. `endpoint` sends them; other rooms interpret the answers.

pub(in crate::bench) mod counters;
pub(in crate::bench) mod endpoint;
pub(in crate::bench) mod limits;
pub(in crate::bench) mod probe;
pub(in crate::bench) mod tokenizer;
