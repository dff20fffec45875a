//! Facts about the machine, this process and the plan's repository, for the manifest and the journal. Unavailable facts are left out.

use crate::files::process_started;
use crate::journal::{GpuKind, Machine, Manifest, SessionStarted};
use crate::plan::{Plan, Target};
use crate::server::host;
use crate::server::http::is_loopback;
use crate::telemetry::gpu;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, absolute};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Time limit for git, because a repository on a slow disk must not delay a sweep.
const GIT_LIMIT: Duration = Duration::from_secs(5);

/// Variables that hold the name of the node: Slurm's, and the one that examples/kubernetes.yaml sets.
const NODE_NAMES: [&str; 2] = ["SLURMD_NODENAME", "NODE_NAME"];

/// Collects the facts. Runs git and `nvidia-smi`.
pub async fn collect(plan: &Plan) -> Manifest {
    let gpus = visible_gpus(plan).await;
    let nodes = plan.serve.protocol.members.nodes;
    let folder = plan.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    Manifest {
        vsweep: env!("VSWEEP_VERSION").into(),
        host: host(),
        os: read_first_line("/proc/version"),
        cpu: field_of("/proc/cpuinfo", "model name"),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: memory_bytes(),
        gpu_driver: gpus.first().map(|gpu| gpu.driver.clone()),
        first_gpus: (nodes > 1).then_some(gpus.len() as u32 * nodes),
        gpus: gpus.into_iter().map(|gpu| gpu.name).collect(),
        git_commit: git(folder, &["rev-parse", "HEAD"]).await,
        git_dirty: git(folder, &["status", "--porcelain", "--untracked-files=no"])
            .await
            .map(|status| !status.is_empty()),
        // The same plan may be continued from another folder.
        plan: absolute(&plan.path)
            .unwrap_or_else(|_| plan.path.clone())
            .display()
            .to_string(),
        options: plan
            .origin
            .options()
            .iter()
            .map(|word| plan.secrets.redact(word))
            .collect(),
        ..Manifest::default()
    }
}

/// Describes a session of this process precisely enough to distinguish it from all others on any machine.
pub fn session() -> SessionStarted {
    let pid = std::process::id();
    SessionStarted {
        host: host(),
        boot: read_first_line("/proc/sys/kernel/random/boot_id"),
        pid,
        started: process_started(pid).unwrap_or_default(),
        ..SessionStarted::default()
    }
}

/// Returns the GPUs that servers of a plan may use, as far as they are those of this machine.
async fn visible_gpus(plan: &Plan) -> Vec<gpu::Gpu> {
    match &plan.serve.target {
        Target::Attach(url) if !is_loopback(url) => Vec::new(),
        _ => gpu::visible(&BTreeMap::new()).await,
    }
}

/// Returns properties that distinguish this machine from others, as far as they matter for measurements on the visible GPUs.
pub async fn machine(plan: &Plan) -> Machine {
    let named = |name: &str| std::env::var(name).ok().filter(|node| !node.is_empty());
    let gpus = visible_gpus(plan).await;
    let limits = match gpus.is_empty() {
        true => BTreeMap::new(),
        false => gpu::limits().await,
    };
    let kind = |gpu: &gpu::Gpu| {
        let [sm_clock_mhz, memory_clock_mhz, power_limit_watts] = limits.get(&gpu.index).copied().unwrap_or_default();
        GpuKind {
            name: gpu.name.clone(),
            sm_clock_mhz,
            memory_clock_mhz,
            power_limit_watts,
        }
    };
    Machine {
        // A cluster's name of a node means more than the host name of a container.
        node: NODE_NAMES.into_iter().find_map(named).unwrap_or_else(host),
        cpu: field_of("/proc/cpuinfo", "model name"),
        gpus: gpus.iter().map(kind).collect(),
        gpu_driver: gpus.first().map(|gpu| gpu.driver.clone()),
    }
}

fn read_first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn field_of(path: &str, field: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == field)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn memory_bytes() -> u64 {
    let total = field_of("/proc/meminfo", "MemTotal");
    let kib = total.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

async fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("--no-optional-locks").arg("-C").arg(folder).args(args);
    let output = timeout(GIT_LIMIT, git.kill_on_drop(true).output()).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
