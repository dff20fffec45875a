//! Reading what sweeps left behind.

pub mod charts;
pub mod compare;
pub mod live;
pub mod pareto;
pub mod plot;
pub mod report;
pub mod status;
pub mod verify;
