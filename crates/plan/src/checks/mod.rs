//! Checks of a plan that no table can make alone.

pub(super) mod cross_checks;
pub mod members;
pub(super) mod memory;
pub(super) mod param_conflicts;
