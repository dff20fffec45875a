//! The `[k8s]` table of the plan format.

use schemars::JsonSchema;

/// What `vsweep submit --k8s` writes into the manifest of the Kubernetes Jobs that work on the plan; other commands do not read it. A pod
/// asks for as many GPUs as its server's flags say, or `exec.gpus`. See docs/cluster.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct K8sTable {
    /// Container image in which vsweep and its servers are installed, such as `registry.example.com/vsweep:1`.
    pub image: String,
    /// Name of the PersistentVolumeClaim that holds the results. All pods mount it at once, so it must be `ReadWriteMany`.
    pub claim: String,
    /// Where the pods, and the machine that submits, see that volume. The results directory is below it. Default: `/results`.
    pub mount: Option<String>,
    /// The namespace. Default: that of whoever applies the manifest.
    pub namespace: Option<String>,
    /// The longest that one server start with all its runs may take, e.g. `4h`. Default: no limit.
    pub time: Option<String>,
    /// What the cluster calls a GPU. Default: `nvidia.com/gpu`.
    pub gpu: Option<String>,
    /// Memory for each GPU, such as `200Gi`; for the pod itself where it has no GPU.
    pub memory_per_gpu: Option<String>,
    /// Cores for each GPU; for the pod itself where it has no GPU.
    #[schemars(range(min = 1, max = 1024))]
    pub cpus_per_gpu: Option<u32>,
    /// How many server starts of the same size may run at once. Default: all of them.
    #[schemars(range(min = 1, max = 100_000))]
    pub at_once: Option<u32>,
    /// Names of Secrets whose keys become environment variables of the pods: those that `${NAME}` in the plan refers to.
    pub secrets: Option<Vec<String>>,
}
