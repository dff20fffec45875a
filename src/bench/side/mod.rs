//! What is asked of a server beside the measured requests: its counters, its limits, its tokenizer, its profiler, and small
//! probes of its latency. How they are asked is the work of `endpoint`; what the answers mean for a result is not done here.

pub(in crate::bench) mod counters;
pub(in crate::bench) mod endpoint;
pub(in crate::bench) mod limits;
pub(in crate::bench) mod probe;
pub(in crate::bench) mod tokenizer;
