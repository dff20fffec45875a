//! Chooses the next group and its share of the machine. Each scheduler is a file of this folder that implements this one interface.

mod local;

pub use local::{LocalScheduler, StartQueue};

use super::activity_lock::ActivityLock;
use super::node::Allocation;
use super::writer::SessionWriter;
use crate::agenda::Start;
use crate::error::Result;
use crate::server::settle::ReleaseWait;
use std::rc::Rc;

/// Chooses the next group and its share of the machine.
pub trait Scheduler {
    /// Waits until a group may begin in addition to those under way. Returns its start and its resources; `None` once no group is left. May
    /// be dropped and called again at any time.
    async fn next(
        &self,
        under_way: &[Rc<Allocation>],
        writer: &SessionWriter<'_>,
    ) -> Result<Option<(Start, Allocation)>>;

    /// The wait of each server, before it starts, for ports and GPU memory of earlier ones.
    fn release_wait(&self) -> &ReleaseWait;

    /// The lock that keeps starts apart from runs.
    fn activity_lock(&self) -> &ActivityLock;
}
