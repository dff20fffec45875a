//! Properties that distinguish the machine of a session: its name, its GPUs and their driver. The `run` room reads them, and `report` draws
//! conclusions for comparisons.

use itertools::Itertools;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The properties of a node that affect measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the node in its cluster, or else the machine's own name.
    pub node: String,
    /// Model name of the processor; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// Its kinds of GPUs; empty if it has none, or if they are unknown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gpus: BTreeSet<GpuKind>,
    /// Version of the GPU driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_driver: Option<String>,
}

/// A kind of GPU with its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuKind {
    /// Model name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Highest clock of its multiprocessors that is allowed, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Highest clock of its memory that is allowed, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// Power limit, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit_watts: Option<u32>,
}

impl GpuKind {
    /// Returns a text such as `NVIDIA H100 80GB HBM3 (1980 MHz, 700 W)`.
    pub fn describe(&self) -> String {
        let facts = [
            self.sm_clock_mhz.map(|clock| format!("{clock} MHz")),
            self.memory_clock_mhz.map(|clock| format!("memory {clock} MHz")),
            self.power_limit_watts.map(|watts| format!("{watts} W")),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        match facts.is_empty() {
            true => self.name.clone(),
            false => format!("{} ({})", self.name, facts.join(", ")),
        }
    }
}

impl Machine {
    /// Returns its GPUs in words; empty without any.
    pub fn describe_gpus(&self) -> String {
        self.gpus.iter().map(GpuKind::describe).join(" and ")
    }

    /// Returns true if all these are one node, without known differences.
    pub fn are_one_node(machines: &BTreeSet<Machine>) -> bool {
        let is_one = |pair: [&Machine; 2]| pair[0].node == pair[1].node && pair[0].differences(pair[1]).is_empty();
        machines.iter().array_combinations().all(is_one)
    }

    /// Returns the known differences between two nodes, such as `GPU driver 550.54 and 570.12`.
    pub fn differences(&self, other: &Machine) -> Vec<String> {
        let driver = |machine: &Machine| machine.gpu_driver.clone().unwrap_or_default();
        let facts = [
            ("GPU", self.describe_gpus(), other.describe_gpus()),
            ("GPU driver", driver(self), driver(other)),
            ("processor", self.cpu.clone(), other.cpu.clone()),
        ];
        let differing = facts
            .into_iter()
            .filter(|(_, one, other)| !one.is_empty() && !other.is_empty() && one != other);
        differing
            .map(|(name, one, other)| format!("{name} {one} and {other}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_differ_in_what_is_known_of_both() {
        let machine = |name: &str, clock, driver: Option<&str>| Machine {
            node: "n".into(),
            gpus: [GpuKind {
                name: name.into(),
                sm_clock_mhz: clock,
                ..GpuKind::default()
            }]
            .into(),
            gpu_driver: driver.map(str::to_owned),
            ..Machine::default()
        };
        let one = machine("H100", Some(1980), Some("550"));
        assert_eq!(one.differences(&machine("H100", Some(1980), None)), [""; 0]);
        let other = machine("H100", Some(1755), Some("570"));
        let expected = ["GPU H100 (1980 MHz) and H100 (1755 MHz)", "GPU driver 550 and 570"];
        assert_eq!(one.differences(&other), expected);
    }
}
