//! The questions of a plan: what its answer, searches, comparisons and optimisations say.

mod answers;
mod comparison;
mod explore;
mod known_noise;
mod optimize;
mod requirements;
mod sla;
mod unknown;
