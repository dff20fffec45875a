//! The resources of this machine that are divided among concurrent servers: GPUs, cores, and the number of groups. Also the part of the
//! machine that one group gets, and the environment that restricts its server to that part. Other files decide which group gets what.

use super::lease::Lease;
use crate::matrix::ServerConfig;
use crate::plan::{Exec, Parallel, Plan};
use crate::selection::packed::{Capacity, choose};
use crate::server::claim::Claim;
use crate::server::cpus::{Cpus, Division, near_device};
use crate::server::settle::held_by_others;
use crate::table::count_gpus;
use crate::telemetry::gpu;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The resources of a machine that a plan divides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Resources that may be used at the same time.
    pub capacity: Capacity,
    /// Numbers of the GPUs; empty if GPUs are not divided.
    pub gpus: Vec<u32>,
    /// UUIDs of the GPUs by their numbers, as far as they are known.
    uuids: BTreeMap<u32, String>,
    /// The cores of each GPU, or of each group without GPUs, and the cores that vsweep itself was allowed before. `None` if there are too
    /// few to divide.
    division: Option<(Division, Cpus)>,
}

/// The part of the machine that a group has for itself.
#[derive(Debug, Default)]
pub struct Allocation {
    /// Numbers of its GPUs; empty if GPUs are not divided.
    pub gpus: Vec<u32>,
    /// True if nothing may run at the same time.
    pub alone: bool,
    /// Its CPUs. `None` if CPUs are not divided, so that it uses those of vsweep.
    pub cpus: Option<Cpus>,
    /// Claims that keep other vsweeps off these GPUs.
    pub _claims: Vec<Claim>,
    /// Lease that keeps other workers off the group.
    pub lease: Option<Rc<Lease>>,
}

impl Allocation {
    /// Returns the environment that restricts a server to its GPUs.
    pub fn env(&self) -> BTreeMap<String, String> {
        if self.gpus.is_empty() {
            return BTreeMap::new();
        }
        let numbers: Vec<String> = self.gpus.iter().map(u32::to_string).collect();
        let numbers = numbers.join(",");
        [
            ("CUDA_VISIBLE_DEVICES", numbers.as_str()),
            ("HIP_VISIBLE_DEVICES", numbers.as_str()),
            // By default, CUDA numbers GPUs by their speed, and nvidia-smi by their place on the bus.
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

/// Returns the resources of a machine with this number of GPUs that a plan uses at the same time; `None` if its servers run one after the
/// other.
pub fn capacity(exec: &Exec, gpus: u32) -> Option<Capacity> {
    let gpus = if exec.gpus == Some(0) { 0 } else { gpus };
    match exec.parallel {
        Parallel::No => None,
        Parallel::Gpus => Some(Capacity { gpus, groups: gpus }),
        Parallel::Servers(groups) => Some(Capacity { gpus, groups }),
    }
}

/// Returns the number of GPUs that a server takes.
pub fn demand(exec: &Exec, capacity: Capacity, server: &ServerConfig) -> u32 {
    match (capacity.gpus, exec.gpus) {
        (0, _) => 0,
        (_, Some(gpus)) => gpus,
        // A fraction of a GPU occupies a whole one, and one is assumed for a server whose GPUs are not known.
        _ => count_gpus(&server.params, &server.argv).map_or(1, |gpus| gpus.ceil() as u32),
    }
}

impl Node {
    /// An undivided machine: one server runs after the other.
    pub(super) const UNDIVIDED: &Node = &Node {
        capacity: Capacity { gpus: 0, groups: 1 },
        gpus: Vec::new(),
        uuids: BTreeMap::new(),
        division: None,
    };

    /// Returns true if its servers run one after the other.
    pub(super) fn is_undivided(&self) -> bool {
        self.capacity == Node::UNDIVIDED.capacity
    }

    /// Reads the resources of this machine; `None` if the plan's servers run one after the other.
    pub async fn of(plan: &Plan) -> Option<Node> {
        capacity(&plan.exec, 0)?;
        let mut gpus = gpu::numbers().await;
        let capacity = capacity(&plan.exec, gpus.len() as u32)?;
        gpus.truncate(capacity.gpus as usize);
        let allowed = Cpus::allowed().ok();
        let near = match gpus.is_empty() {
            true => vec![None; capacity.groups as usize],
            false => {
                let addresses = gpu::bus_addresses().await;
                let near = |gpu: &u32| addresses.get(gpu).and_then(|address| near_device(address));
                gpus.iter().map(near).collect()
            }
        };
        let division = allowed.and_then(|allowed| Some((allowed.divide(&near)?, allowed)));
        Some(Node {
            capacity,
            gpus,
            uuids: gpu::uuids().await,
            division,
        })
    }

    /// Returns two sets of `size` GPUs that have none in common, if possible of GPUs that nobody uses now.
    pub(super) async fn sets(&self, size: usize) -> [Vec<u32>; 2] {
        if size == 0 {
            return Default::default();
        }
        let held = held_by_others(&self.gpus).await;
        let is_held = |number: &u32| held.iter().any(|gpu| gpu.index == *number);
        let is_idle = |gpu: &u32| !is_held(gpu) && self.claim(&[*gpu]).is_ok();
        let idle: Vec<u32> = self.gpus.iter().copied().filter(is_idle).collect();
        let gpus = if idle.len() < 2 * size { &self.gpus } else { &idle };
        let first = choose(gpus, size);
        let rest: Vec<u32> = gpus.iter().copied().filter(|gpu| !first.contains(gpu)).collect();
        let second = choose(&rest, size);
        [first, second]
    }

    /// Returns the CPUs for a group with these GPUs. A group without GPUs gets the share with the index `set`, or else a free one. `None`
    /// if CPUs are not divided, or all shares are taken.
    pub(super) fn cpus_for(&self, gpus: &[u32], set: Option<usize>, under_way: &[Rc<Allocation>]) -> Option<Cpus> {
        let (Division { shares, .. }, _) = self.division.as_ref()?;
        let is_free = |share: &&Cpus| {
            under_way
                .iter()
                .all(|allocation| allocation.cpus.as_ref() != Some(share))
        };
        match (gpus, set) {
            ([], Some(set)) => shares.get(set).cloned(),
            ([], None) => shares.iter().find(is_free).cloned(),
            _ => {
                let index = |gpu: &u32| self.gpus.iter().position(|own| own == gpu);
                Some(Cpus::join(gpus.iter().filter_map(index).map(|index| &shares[index])))
            }
        }
    }

    /// Claims GPUs. The error is one that another vsweep has.
    pub(super) fn claim(&self, gpus: &[u32]) -> Result<Vec<Claim>, u32> {
        let claims = gpus.iter().map(|gpu| Claim::of(*gpu, &self.uuids).ok_or(*gpu));
        claims.collect()
    }

    /// Keeps vsweep and its load generators off the cores of the servers.
    pub(super) fn leave_server_cores(&self) {
        if let Some((division, _)) = &self.division {
            // A refusal by the kernel must not end a sweep.
            let _ = division.rest.pin();
        }
    }

    /// Lets vsweep use the cores of the servers again.
    pub(super) fn use_all_cores(&self) {
        if let Some((_, allowed)) = &self.division {
            let _ = allowed.pin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_gpus_sees_what_vsweep_sees() {
        assert_eq!(Allocation::default().env(), BTreeMap::new());
        let gpus = vec![3, 5];
        let env = Allocation {
            gpus,
            ..Allocation::default()
        }
        .env();
        assert_eq!(env["CUDA_VISIBLE_DEVICES"], "3,5");
        assert_eq!(env["HIP_VISIBLE_DEVICES"], "3,5");
    }
}
