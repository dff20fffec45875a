//! The model of noise of one metric: estimates and intervals of its figures, from all runs of an experiment.
//!
//! On the metric's scale, run r of start s of point p on node n has the value
//!
//! ```text
//! y = mean(p) + node(n) + start(config, s) + run(p, s, r) + sampling(p, s, r)
//! ```
//!
//! Figures hold for the node with the most runs, whose effect is 0. Means are fixed effects with a flat prior; all other terms are normal
//! with mean 0. The variance of sampling is known for each run. The standard deviations of runs, starts and nodes are unknown and shared by
//! the whole experiment. `fit` integrates over a grid of them, by their restricted likelihood (Patterson and Thompson 1971) times a weak
//! prior. Given the deviations, everything is linear and normal, and `block` solves it by elimination (Searle, Casella and McCulloch 1992,
//! chapter 7). The deviations are never replaced by estimates, so the intervals of a single run are wide enough. Only if the runs of a point
//! scatter more than these deviations explain, their variances are multiplied until they do (Birge 1932).

mod block;
mod data;
mod fit;
mod mixture;
mod nodes;
mod noise;
mod sample;
mod scale;
mod shrink;

pub use data::Observations;
pub use fit::{Components, Posterior};
pub(super) use mixture::{Component, difference, interval};
pub use noise::{Basis, Noise, NoiseEstimate};
pub(super) use sample::Draws;
pub(super) use scale::{
    LEAST_SIZE, PLAIN_RUN, PLAIN_START, in_unit, relative_to_angle, variance_of_sampling, with_zero,
};
pub(super) use shrink::shrink;
