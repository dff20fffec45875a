//! Where server groups run: which one begins next, what it has of the machine, and on what stage. Other places (several groups on
//! the GPUs of a node, a cluster) are further implementations of this one interface.

mod packed;

pub use packed::Packed;

use super::gate::Gate;
use super::live::Live;
use super::writer::SessionWriter;
use crate::error::Result;
use crate::matrix::ServerConfig;
use crate::plan::Plan;
use crate::server::cpus::Cpus;
use std::cell::RefCell;
use std::collections::BTreeMap;
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

/// What a group has of the machine for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seat {
    /// GPUs by their numbers; none where they are not shared out.
    pub gpus: Vec<u32>,
    /// CPUs; those of vsweep where they are not shared out.
    pub cpus: Option<Cpus>,
}

impl Seat {
    /// The environment by which a server keeps to its GPUs.
    pub fn env(&self) -> BTreeMap<String, String> {
        if self.gpus.is_empty() {
            return BTreeMap::new();
        }
        let numbers: Vec<String> = self.gpus.iter().map(u32::to_string).collect();
        let numbers = numbers.join(",");
        [
            ("CUDA_VISIBLE_DEVICES", numbers.as_str()),
            ("HIP_VISIBLE_DEVICES", numbers.as_str()),
            // CUDA counts the fastest first otherwise, and nvidia-smi by the bus.
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
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
