//! What one group has of the machine while it runs, and how its server learns of that. Who gets what is decided elsewhere.

use super::lease::Lease;
use crate::server::claim::Claim;
use crate::server::cpus::Cpus;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a group has of the machine for itself.
#[derive(Debug, Default)]
pub struct Seat {
    /// GPUs by their numbers; none where they are not shared out.
    pub gpus: Vec<u32>,
    /// Whether nothing may run beside it.
    pub alone: bool,
    /// CPUs; those of vsweep where they are not shared out.
    pub cpus: Option<Cpus>,
    /// What keeps other vsweeps off these GPUs.
    pub _claims: Vec<Claim>,
    /// What keeps other workers off the group.
    pub lease: Option<Rc<Lease>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_gpus_sees_what_vsweep_sees() {
        assert_eq!(Seat::default().env(), BTreeMap::new());
        let gpus = vec![3, 5];
        let env = Seat {
            gpus,
            ..Seat::default()
        }
        .env();
        assert_eq!(env["CUDA_VISIBLE_DEVICES"], "3,5");
        assert_eq!(env["HIP_VISIBLE_DEVICES"], "3,5");
    }
}
