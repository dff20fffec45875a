//! Which server start comes next: two arms in pairs, an ordered axis that is bisected, or many side by side.
//!
//! Like a search, a selection is a deterministic state machine: `ask` gives the answer or the next start for it, `tell` takes what that showed, and
//! the state is a fold over what was told. Starting servers and measuring on them is done elsewhere.

pub mod apart;
mod bisected;
mod changepoint;
pub mod packed;
mod paired;
mod pairs;

pub use bisected::{Bisected, Bracket, Located};
pub use paired::{Finding, Logs, Paired, PairedEnding, PairedOutcome, Placement, Slot};
pub use pairs::Member;

use serde::{Deserialize, Serialize};

/// One of the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// What is known.
    Base,
    /// What is held against it.
    New,
}
