//! A load generator for LLM servers: `dataset` draws what to ask, `load` sends it when it is due and times every token, and
//! `params` is how both are told what to do.
//!
//! What the timings amount to is the `metrics` room's work. Nothing of the simulated server is shared with it: a shared
//! mistake would be invisible.

pub mod dataset;
pub mod load;
pub mod params;
