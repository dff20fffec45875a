//! What of this machine is shared out among servers that run side by side: GPUs and cores, and how many groups at once.

use super::seat::Seat;
use crate::matrix::ServerConfig;
use crate::plan::{Exec, Parallel, Plan};
use crate::selection::packed::{Room, choose};
use crate::server::claim::Claim;
use crate::server::cpus::{Cpus, Division, near_device};
use crate::table::count_gpus;
use crate::telemetry::gpu;
use std::rc::Rc;

/// A machine, as far as a plan shares it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// How much runs at once.
    pub room: Room,
    /// GPUs by their numbers; none if none are shared out.
    pub gpus: Vec<u32>,
    /// The cores of each GPU, or of each group without GPUs, where there are enough to share them out.
    division: Option<Division>,
    /// What vsweep itself was allowed before.
    allowed: Option<Cpus>,
}

/// How much of a machine with so many GPUs a plan uses at once; `None` if its servers run one after the other.
pub fn room(exec: &Exec, gpus: u32) -> Option<Room> {
    let gpus = if exec.gpus == Some(0) { 0 } else { gpus };
    match exec.parallel {
        Parallel::No => None,
        Parallel::Gpus => Some(Room { gpus, groups: gpus }),
        Parallel::Servers(groups) => Some(Room { gpus, groups }),
    }
}

/// How many GPUs a server takes of what is shared out.
pub fn demand(exec: &Exec, room: Room, server: &ServerConfig) -> u32 {
    match (room.gpus, exec.gpus) {
        (0, _) => 0,
        (_, Some(gpus)) => gpus,
        // A fraction of a GPU is one that nobody else gets.
        _ => count_gpus(&server.params, &server.argv).ceil() as u32,
    }
}

impl Node {
    /// Nothing of a machine is shared out: one server runs after the other.
    pub(super) const UNDIVIDED: &Node = &Node {
        room: Room { gpus: 0, groups: 1 },
        gpus: Vec::new(),
        division: None,
        allowed: None,
    };

    /// Looks at this machine; `None` if the plan's servers run one after the other.
    pub async fn of(plan: &Plan) -> Option<Node> {
        room(&plan.exec, 0)?;
        let mut gpus = gpu::numbers().await;
        let room = room(&plan.exec, gpus.len() as u32)?;
        gpus.truncate(room.gpus as usize);
        let allowed = Cpus::allowed().ok();
        let near = match gpus.is_empty() {
            true => vec![None; room.groups as usize],
            false => {
                let addresses = gpu::bus_addresses().await;
                let near = |gpu: &u32| addresses.get(gpu).and_then(|address| near_device(address));
                gpus.iter().map(near).collect()
            }
        };
        let division = allowed.as_ref().and_then(|allowed| allowed.divide(&near));
        Some(Node {
            room,
            gpus: gpus.clone(),
            division,
            allowed,
        })
    }

    /// Two sets of so many GPUs that have none in common.
    pub(super) fn sets(&self, size: usize) -> [Vec<u32>; 2] {
        let first = choose(&self.gpus, size);
        let rest: Vec<u32> = self.gpus.iter().copied().filter(|gpu| !first.contains(gpu)).collect();
        let second = choose(&rest, size);
        [first, second]
    }

    /// What a group with these GPUs, or of this set, gets beside others.
    pub(super) fn seat(&self, gpus: Vec<u32>, set: Option<usize>, claims: Vec<Claim>, under_way: &[Rc<Seat>]) -> Seat {
        let place = |gpu: &u32| self.gpus.iter().position(|own| own == gpu);
        let of_gpus = |division: &Division| {
            let shares = gpus.iter().filter_map(place).map(|place| &division.shares[place]);
            Cpus::join(shares)
        };
        let is_free = |share: &&Cpus| under_way.iter().all(|seat| seat.cpus.as_ref() != Some(share));
        let cpus = self.division.as_ref().and_then(|division| match gpus.is_empty() {
            true => match set {
                Some(set) => division.shares.get(set).cloned(),
                None => division.shares.iter().find(is_free).cloned(),
            },
            false => Some(of_gpus(division)),
        });
        Seat {
            gpus,
            alone: false,
            cpus,
            _claims: claims,
            lease: None,
        }
    }

    /// Keeps vsweep and its load generators off the cores of the servers.
    pub(super) fn withdraw(&self) {
        if let Some(division) = &self.division {
            // What the kernel refuses is not worth ending a sweep.
            let _ = division.rest.pin();
        }
    }

    /// Takes back what was left to the servers.
    pub(super) fn come_back(&self) {
        if let (Some(allowed), Some(_)) = (&self.allowed, &self.division) {
            let _ = allowed.pin();
        }
    }
}
