//! The server config to start next so that the best of many is known after few starts.
//!
//! Values are logarithms of something of which more is better. A candidate's trials, those of candidates like it and the twin's
//! prediction make its estimate; the next start is the one that promises most for its cost.

mod ask;
mod certainty;
mod chance;
mod estimate;
mod graphs;
mod rules;
mod shape;
mod sites;
mod space;
mod spending;
mod spread;
mod state;
mod surface;
mod trial;
mod view;
mod works;
mod worth;

pub use ask::{Ask, Ended, Proposal, Reason};
pub use estimate::{Estimate, Exclusion, Judged};
pub use graphs::CompiledGraphs;
pub use rules::{Budget, Rules};
pub use space::{Axis, Candidate, Level, Predicted, WarmStart};
pub use state::Optimized;
pub use trial::Trial;

#[cfg(test)]
mod tests;
