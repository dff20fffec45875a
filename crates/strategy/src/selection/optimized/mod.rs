//! Chooses the server config to start next, so that the best of many is known after few starts.
//!
//! Values are logarithms, and higher ones are better. The estimate of a candidate comes from its own trials, from those of similar
//! candidates and from the twin's prediction. The next start is the one with the largest expected gain for its cost.

mod certainty;
mod chance;
mod feasibility;
mod gains;
mod shape;
mod sites;
mod space;
mod spread;
mod state;
mod surface;
mod view;

pub use space::{
    Axis, Budget, Candidate, CompiledGraphs, EndReason, Estimate, Exclusion, Incumbent, Level, Predicted, Proposal,
    Reason, Rules, Trial, WarmStart,
};
pub use state::Optimized;

#[cfg(test)]
mod tests;
