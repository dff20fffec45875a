//! The record of an experiment: an append-only file of events, the files of the runs it vouches for, and the folds that
//! turn events into what is known. The journal is the result; everything else in the directory can be rebuilt from it.
//!
//! Owns the directory layout, the lock, the commit protocol and recovery. Does not know how a run is made or shown.

mod directory;
mod event;
mod lock;
mod log;
mod manifest;
mod recorder;
mod state;
mod vouch;

pub use directory::{Directory, Shard};
pub use event::{Entry, Event, FORMAT, RunFinished, SearchStarted, Searched, StoredFile};
pub use lock::{Lock, holders};
pub use log::Log;
pub use manifest::Manifest;
pub use recorder::{Measured, Recorder};
pub use state::{
    Planned, RunRecord, SearchEnd, SearchRecord, ServerRecord, Session, StartRecord, State, Unfinished, load,
};
pub use vouch::inspect;
