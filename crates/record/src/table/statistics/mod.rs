//! Statistics of points: estimates, spreads, samplings, frontiers.

pub(super) mod estimates;
pub(super) mod pareto;
pub(super) mod sampling;
pub(super) mod steadiness;
pub(super) mod tradeoff;
