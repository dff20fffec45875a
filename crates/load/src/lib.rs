//! A load generator for LLM servers. `dataset` draws the prompts, `load` sends them when they are due and times every token, and `params`
//! declares the parameters of both.
//!
//! The `metrics` room computes figures from the timings. No code is shared with the simulated server, because a shared mistake would be
//! invisible.

pub mod dataset;
pub mod load;
pub mod params;
