//! Where server groups run: which one begins next, and what it has of the machine. Other places (several groups on
//! the GPUs of a node, workers that share a directory out) are further implementations of this one interface.

mod leased;
mod packed;

pub use leased::{COMPARISON, Leased, Share, group_name};
pub use packed::Packed;

use super::gate::Gate;
use super::seat::Seat;
use super::writer::SessionWriter;
use crate::agenda::Start;
use crate::error::Result;
use std::cell::RefCell;
use std::future::pending;

/// Where groups run.
pub trait Place {
    /// Waits until a group may begin beside those that are under way, and says which start of which server it is, and what it gets;
    /// `None` once no group is left. May be dropped and asked again at any time.
    async fn next(&self, under_way: &[Seat], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>>;

    /// What each server passes before it starts.
    fn gate(&self) -> &Gate;
}

/// This host, one group after another.
pub struct ThisHost<I> {
    gate: Gate,
    starts: RefCell<I>,
}

impl<I: Iterator<Item = Start>> ThisHost<I> {
    /// Looks at the machine before the first server. Each of `starts` is asked for when those before it are done.
    pub async fn now(starts: I) -> ThisHost<I> {
        ThisHost {
            gate: Gate::now().await,
            starts: RefCell::new(starts),
        }
    }
}

impl<I: Iterator<Item = Start>> Place for ThisHost<I> {
    async fn next(&self, under_way: &[Seat], _: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>> {
        if !under_way.is_empty() {
            return pending().await;
        }
        let next = self.starts.borrow_mut().next();
        Ok(next.map(|start| (start, Seat::default())))
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}
