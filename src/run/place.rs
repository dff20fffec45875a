//! Where server groups run: which one begins next, what it has of the machine, and on what stage. Other places (several groups on
//! the GPUs of a node, a cluster) are further implementations of this one interface.

mod packed;

pub use packed::Packed;

use super::gate::Gate;
use super::live::Live;
use super::seat::Seat;
use super::writer::SessionWriter;
use crate::agenda::Start;
use crate::error::Result;
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use std::cell::RefCell;
use std::future::pending;

/// Where groups run.
pub trait Place {
    /// Waits until a group may begin beside those that are under way, and says which start of which server it is, and what it gets;
    /// `None` once no group is left. May be dropped and asked again at any time.
    async fn next(&self, under_way: &[Seat], writer: &SessionWriter<'_>) -> Result<Option<(Start, Seat)>>;

    /// Where a group's server is acted on.
    fn stage<'p, 'w>(
        &'p self,
        plan: &'p Plan,
        server: ServerConfig,
        seat: Seat,
        writer: &'p SessionWriter<'w>,
    ) -> Live<'p, 'w>;
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

    fn stage<'p, 'w>(
        &'p self,
        plan: &'p Plan,
        server: ServerConfig,
        seat: Seat,
        writer: &'p SessionWriter<'w>,
    ) -> Live<'p, 'w> {
        Live::new(plan, server, seat, &self.gate, writer)
    }
}
