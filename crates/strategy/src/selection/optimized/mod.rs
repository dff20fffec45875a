//! The server config to start next so that the best of many is known after few starts.
//!
//! Values are logarithms of something of which more is better. A candidate's trials, those of candidates like it and the twin's
//! prediction make its estimate; the next start is the one that promises most for its cost.

mod certainty;
mod chance;
mod shape;
mod sites;
mod space;
mod spread;
mod state;
mod surface;
mod view;
mod works;

pub use space::{
    Axis, Budget, Candidate, CompiledGraphs, Ended, Estimate, Exclusion, Judged, Level, Predicted, Proposal, Reason,
    Rules, Trial, WarmStart,
};
pub use state::Optimized;

#[cfg(test)]
mod tests;
