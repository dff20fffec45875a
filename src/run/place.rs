//! Where server groups run: which one begins next, what it has of the machine, and on what stage. Other places (several groups on
//! the GPUs of a node, a cluster) are further implementations of this one interface.

mod packed;

pub use packed::Packed;

use super::gate::Gate;
use super::live::Live;
use super::seat::Seat;
use super::writer::SessionWriter;
use crate::error::Result;
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use std::cell::RefCell;
use std::future::pending;

/// Where groups run.
pub trait Place {
    /// Waits until a group may begin beside those that are under way, and says which server's, and what it gets; `None` once no
    /// group is left. May be dropped and asked again at any time.
    async fn next(&self, under_way: &[Seat], writer: &SessionWriter<'_>) -> Result<Option<(ServerConfig, Seat)>>;

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
    servers: RefCell<I>,
}

impl<I: Iterator<Item = ServerConfig>> ThisHost<I> {
    /// Looks at the machine before the first server.
    pub async fn now(servers: I) -> ThisHost<I> {
        ThisHost {
            gate: Gate::now().await,
            servers: RefCell::new(servers),
        }
    }
}

impl<I: Iterator<Item = ServerConfig>> Place for ThisHost<I> {
    async fn next(&self, under_way: &[Seat], _: &SessionWriter<'_>) -> Result<Option<(ServerConfig, Seat)>> {
        if !under_way.is_empty() {
            return pending().await;
        }
        let next = self.servers.borrow_mut().next();
        Ok(next.map(|server| (server, Seat::default())))
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
