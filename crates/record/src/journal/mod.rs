//! The record of an experiment: an append-only file of events, the files of the runs it vouches for, and the folds that
//! turn events into what is known. The journal is the result; everything else in the directory can be rebuilt from it.
//!
//! Owns the directory layout, the lock, the commit protocol and recovery. Does not know how a run is made or shown.

mod declared;
mod directory;
mod event;
mod figures;
mod files;
mod follow;
mod given_up;
#[cfg(test)]
mod laws;
mod line;
mod lock;
mod log;
mod machine;
mod manifest;
mod progress;
mod rank;
mod reader;
mod recorder;
mod state;

pub use declared::{
    AskedMetric, Compared, Contestant, Entrant, Objective, Optimization, PlanContent, ProposedStart, RecordedPlan,
    ServerDeclared,
};
pub use directory::{Directory, RunFiles, Shard};
pub use event::{
    Event, FORMAT, GroupBegun, Learned, Link, NeighbourShares, RunFinished, RunStarted, SearchStarted, Seen,
    SeenJournal, ServerExited, ServerReady, SessionStarted, StoredFile,
};
pub use figures::Figures;
pub use files::{Check, Measured};
pub use follow::Follower;
pub use given_up::{GroupGivenUp, MOST_LISTED, Unlisted, Untried};
pub use line::{Entry, sealed};
pub use lock::{Lock, holders};
pub use log::Log;
pub use machine::{GpuKind, Machine};
pub use manifest::Manifest;
pub use progress::{ComparisonFound, ComparisonProgress, Conclusion, NextStart};
pub use rank::{Hex64, Launch, LineId, Nonce, Rank, Sum};
pub use recorder::{Draft, Recorder, load};
pub use state::{
    ALONE_SLOT, Duplicate, FIRST_SLOT, MissingRecord, RunRecord, SearchEnd, SearchRecord, ServerMatch, ServerRecord,
    Session, StartRecord, State, UnlistedRuns, covered_s, number,
};
