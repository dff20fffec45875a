//! The `[slurm]` table: what is asked of Slurm for each server start.

use schemars::JsonSchema;
use std::time::Duration;

/// What `vsweep submit --slurm` asks of Slurm for each server start; other commands do not read it. A start asks for as many GPUs as its
/// flags say, or `exec.gpus`. Whatever else the site wants is given as `--sbatch-arg`. See docs/cluster.md.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "SlurmTable", deny_unknown_fields)]
pub struct Slurm {
    /// The partition. Default: that of the site.
    pub partition: Option<String>,
    /// The account that pays.
    pub account: Option<String>,
    /// The longest that one server start with all its runs may take, e.g. `4h`. Default: that of the partition. Some time before, no
    /// run is begun any more.
    #[schemars(with = "Option<String>")]
    pub time: Option<Duration>,
    /// What the site calls a GPU, such as `gpu:h100`. Default: `gpu`.
    pub gres: Option<String>,
    /// Memory for each GPU, such as `200G`; for the start itself where it has no GPU. On many sites one that does not say gets the
    /// memory of the whole node, and shares it with nobody.
    pub memory_per_gpu: Option<String>,
    /// Cores for each GPU; for the start itself where it has no GPU.
    #[schemars(range(min = 1, max = 1024))]
    pub cpus_per_gpu: Option<u32>,
    /// How many server starts of the same size may run at once. Default: as many as there is room for.
    #[schemars(range(min = 1, max = 100_000))]
    pub at_once: Option<u32>,
    /// Container image in which vsweep and its servers run, for the pyxis plugin: an image of a registry, or the path of a .sqsh file.
    /// vsweep must be installed in it.
    pub image: Option<String>,
    /// What the container sees beside the experiment's directory: `FROM:TO` each.
    #[schemars(with = "Option<Vec<String>>")]
    pub mounts: Vec<String>,
    /// Lines of shell before vsweep, such as `source /apps/vllm/bin/activate`. They are run on the node as they stand.
    #[schemars(with = "Option<Vec<String>>")]
    pub setup: Vec<String>,
}
