//! Findings about an experiment that its outputs show: goals, failures, doubts, differences.

pub(super) mod answer;
pub(super) mod attainment;
pub(super) mod bound;
pub(super) mod cautions;
pub(super) mod compared;
pub mod failures;
pub mod goals;
pub(super) mod losses;
pub(super) mod nearest;
pub(super) mod nodes;
pub(super) mod ranking;
pub(super) mod remarks;
pub mod requirements;
pub(super) mod unsteady;
pub mod variation;
