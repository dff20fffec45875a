//! The record of an experiment: append-only files of events, the files of the runs that they record, and the folds that turn events into
//! states. The journals and the run files are the result; tables and reports can be rebuilt from them.
//!
//! Owns the directory layout, the lock, the commit protocol and recovery. Does not measure or show runs.

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
    AskedMetric, ComparisonDesign, Contestant, Entrant, LoadName, LoadNames, Objective, Optimization, PlanContent,
    ProposedStart, RecordedPlan, ServerDescription,
};
pub use directory::{Directory, RunFiles, Shard};
pub use event::{
    Event, FORMAT, GroupBegun, Link, NeighbourShares, ReadPositions, RunEvidence, RunFinished, RunStarted,
    SearchStarted, SeenJournal, ServerExited, ServerReady, SessionStarted, StoredFile,
};
pub use figures::Figures;
pub use files::{BenchmarkResult, Check};
pub use follow::Follower;
pub use given_up::{GroupGivenUp, MOST_LISTED, Unlisted, Untried};
pub use line::{Entry, sealed};
pub use lock::{Lock, holders};
pub use log::{Log, now};
pub use machine::{GpuKind, Machine};
pub use manifest::Manifest;
pub use progress::{ComparisonFound, ComparisonProgress, Conclusion, NextStart};
pub use rank::{Hex64, Launch, LineId, Nonce, Rank, Sum};
pub use recorder::{Draft, Recorder, load};
pub use state::{
    ALONE_SLOT, Duplicate, DuplicateReason, FIRST_SLOT, LaunchRecord, MissingRecord, RunRecord, SearchEnd,
    SearchRecord, ServerMatch, ServerRecord, Session, State, UnlistedRuns, covered_s, number,
};
