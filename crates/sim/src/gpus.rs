//! The memory of simulated GPUs, for supervisors that read GPU memory. With `VSWEEP_SIM_GPUS=FOLDER`, every server records in the folder
//! the memory that its engine holds. `vsweep sim nvidia-smi` answers the queries of `nvidia-smi` from these records. The memory is free
//! once the process has ended, or a configured time later. The node has eight GPUs of one kind: that of the recorded GPU with the most
//! memory.

use super::engine::gpu::{GPUS, Gpu};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use vsweep_base::files::process_started;

/// Number of GPUs of the simulated node.
const GPUS_IN_NODE: usize = 8;
const MIB: f64 = 1024.0 * 1024.0;
/// Memory in use on an idle GPU, in MiB.
const IDLE_MIB: u64 = 4;

/// Memory that one engine process holds on some GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// Id of the engine process.
    pub pid: u32,
    /// Start time of the process in clock ticks since the boot, which distinguishes it from a later process with the same pid.
    pub started: Option<u64>,
    /// The kind of GPU, by its name for `--sim-gpu`.
    pub gpu: String,
    /// Indexes of the GPUs.
    pub devices: Vec<usize>,
    /// Memory held on each of these GPUs, in MiB.
    pub mib: u64,
    /// Time for which the memory stays in use after the process has ended, in milliseconds.
    pub late_ms: u64,
}

/// Returns the devices of a server that needs `count` of them: the first ones in `visible` (`CUDA_VISIBLE_DEVICES`), or of the node if that
/// is unset.
pub fn devices(visible: Option<&str>, count: usize) -> Vec<usize> {
    let listed = visible.map(|text| text.split(',').filter_map(|name| name.trim().parse().ok()).collect());
    let all: Vec<usize> = listed.unwrap_or_else(|| (0..GPUS_IN_NODE).collect());
    all.into_iter().take(count).collect()
}

impl Holding {
    /// Writes the record into the folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.json", self.pid));
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_string(self)?)?;
        fs::rename(new, path)
    }
}

/// Returns every holding whose memory is still in use. Records whose memory is free are removed.
pub fn holdings(folder: &Path) -> Vec<Holding> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().filter_map(|path| still_held(path)).collect()
}

fn still_held(path: &Path) -> Option<Holding> {
    let holding: Holding = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let started = process_started(holding.pid);
    let lives = started.is_some() && started == holding.started;
    (lives || !forget_if_free(path, holding.late_ms)).then_some(holding)
}

/// Returns true if the memory of an ended process is free, and then removes its record. The delay begins when the end is first noticed,
/// because a killed process cannot record it.
fn forget_if_free(path: &Path, late_ms: u64) -> bool {
    let gone = path.with_extension("gone");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64;
    let since = fs::read_to_string(&gone).ok().and_then(|text| text.parse::<u64>().ok());
    let since = since.unwrap_or_else(|| {
        // Best effort: if writing fails, the next call starts the delay again.
        let _ = fs::write(&gone, now.to_string());
        now
    });
    let free = now >= since + late_ms;
    if free {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(gone);
    }
    free
}

/// Returns the bytes that processes other than `pid` hold on the fullest of these devices.
pub fn taken(folder: &Path, devices: &[usize], pid: u32) -> f64 {
    let mut others = holdings(folder);
    others.retain(|holding| holding.pid != pid);
    let fullest = devices.iter().map(|device| held(&others, *device)).max();
    fullest.unwrap_or(0) as f64 * MIB
}

/// Returns the memory of these holdings on one device, in MiB.
fn held(holdings: &[Holding], device: usize) -> u64 {
    let here = holdings.iter().filter(|holding| holding.devices.contains(&device));
    here.map(|holding| holding.mib).sum()
}

/// Returns the output of `nvidia-smi` for these arguments; `None` for an unsupported query.
pub fn smi(folder: &Path, args: &[String]) -> Option<String> {
    let query = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    let holdings = holdings(folder);
    let kinds = holdings.iter().filter_map(|holding| Gpu::named(&holding.gpu));
    let kind = kinds.max_by(|a, b| a.memory.total_cmp(&b.memory)).unwrap_or(GPUS[0]);
    let total = (kind.memory / MIB) as u64;
    let of_gpu = |device: usize, field: &str| match field {
        "uuid" => uuid(device),
        "index" => device.to_string(),
        "name" => kind.device.to_string(),
        "driver_version" => "simulated".into(),
        "memory.total" => total.to_string(),
        "memory.used" => (held(&holdings, device) + IDLE_MIB).min(total).to_string(),
        "memory.free" => total.saturating_sub(held(&holdings, device) + IDLE_MIB).to_string(),
        _ => "[N/A]".into(),
    };
    let of_app = |holding: &Holding, device: usize, field: &str| match field {
        "gpu_uuid" => uuid(device),
        "pid" => holding.pid.to_string(),
        "process_name" | "name" => "VLLM::EngineCore".into(),
        "used_memory" | "used_gpu_memory" => holding.mib.to_string(),
        _ => "[N/A]".into(),
    };
    if let Some(fields) = query("--query-gpu") {
        return Some(
            (0..GPUS_IN_NODE)
                .map(|device| row(fields, |field| of_gpu(device, field)))
                .collect(),
        );
    }
    let fields = query("--query-compute-apps")?;
    let apps = holdings
        .iter()
        .flat_map(|holding| holding.devices.iter().map(move |device| (holding, *device)));
    Some(
        apps.map(|(holding, device)| row(fields, |field| of_app(holding, device, field)))
            .collect(),
    )
}

/// Returns one line of an answer: the requested fields, in their order.
fn row(fields: &str, value: impl Fn(&str) -> String) -> String {
    let values: Vec<String> = fields.split(',').map(|field| value(field.trim())).collect();
    values.join(", ") + "\n"
}

fn uuid(device: usize) -> String {
    format!("GPU-51a00000-0000-0000-0000-{device:012}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(pid: u32, late_ms: u64) -> Holding {
        Holding {
            pid,
            started: process_started(pid),
            gpu: "h100".into(),
            devices: vec![0, 1],
            mib: 70_000,
            late_ms,
        }
    }

    fn used(folder: &Path) -> Vec<String> {
        let args = [
            "--query-gpu=memory.used".to_string(),
            "--format=csv,noheader,nounits".into(),
        ];
        let text = smi(folder, &args).expect("a known query");
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn a_living_process_holds_its_memory_and_a_dead_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let me = std::process::id();
        holding(me, 0).write(folder.path()).expect("written");
        assert_eq!(used(folder.path())[..3], ["70004", "70004", "4"]);
        assert_eq!(taken(folder.path(), &[1, 2], 0), 70_000.0 * MIB);
        assert_eq!(taken(folder.path(), &[1, 2], me), 0.0, "its own is not in its way");
        let apps = smi(
            folder.path(),
            &["--query-compute-apps=gpu_uuid,pid,process_name".into()],
        )
        .expect("known");
        assert!(apps.starts_with(&format!(
            "GPU-51a00000-0000-0000-0000-000000000000, {me}, VLLM::EngineCore\n"
        )));

        fs::remove_dir_all(folder.path()).expect("ours");
        holding(u32::MAX - 1, 0).write(folder.path()).expect("written");
        assert_eq!(used(folder.path())[0], "4");
    }

    #[test]
    fn memory_may_be_released_late() {
        let folder = tempfile::tempdir().expect("a folder");
        holding(u32::MAX - 1, 3_600_000).write(folder.path()).expect("written");
        assert_eq!(used(folder.path())[0], "70004");
        let gone = folder.path().join(format!("{}.gone", u32::MAX - 1));
        assert!(gone.exists());
        fs::write(&gone, "0").expect("an hour ago and more");
        assert_eq!(used(folder.path())[0], "4");
        assert!(!gone.exists());
    }

    #[test]
    fn devices_are_the_visible_ones() {
        assert_eq!(devices(Some("3, 5,7"), 2), [3, 5]);
        assert_eq!(devices(None, 3), [0, 1, 2]);
    }
}
