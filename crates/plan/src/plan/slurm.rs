//! The `[slurm]` table: what is asked of Slurm for each server start.

use std::time::Duration;

/// The `[slurm]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slurm {
    /// The partition; the site's own choice without one.
    pub partition: Option<String>,
    /// Who pays.
    pub account: Option<String>,
    /// The longest that one server start may take; the partition's default without one.
    pub time: Option<Duration>,
    /// What a GPU is called, such as `gpu:h100`; `gpu` without one.
    pub gres: Option<String>,
    /// Memory for each GPU as Slurm writes it, such as `200G`.
    pub memory_per_gpu: Option<String>,
    /// Cores for each GPU.
    pub cpus_per_gpu: Option<u32>,
    /// How many server starts may run at once.
    pub at_once: Option<u32>,
    /// Container image, for the pyxis plugin.
    pub image: Option<String>,
    /// What the container sees, `FROM:TO` each, beside the experiment.
    pub mounts: Vec<String>,
    /// Lines of shell before vsweep.
    pub setup: Vec<String>,
}
