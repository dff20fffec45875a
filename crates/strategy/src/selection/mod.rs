//! Chooses the next server start: to compare two arms in pairs, to bisect an ordered axis, to run many groups at the same time, or to find
//! the best of many configs.
//!
//! Except for `packed`, which keeps no state, a selection is a deterministic state machine, like a search: `ask` returns the next start, or
//! the answer once it is known; `add` takes a result; and the state is a fold over the results. Nothing here starts or measures a server.

mod bisected;
pub mod optimized;
pub mod packed;
mod paired;

pub use bisected::{Bisection, BisectionResult, Bracket};
pub use paired::{Finding, Logs, Member, PairStart, PairedComparison, PairedEnding, PairedOutcome, Placement};

use serde::{Deserialize, Serialize};

/// One of the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The known side.
    Base,
    /// The side that is compared with it.
    New,
}
