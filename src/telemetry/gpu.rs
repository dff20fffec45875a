//! Lists GPUs, and the processes that hold their memory, by `nvidia-smi`. Without that program, or if it fails, the lists are empty.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Time limit of one query. The driver can take seconds if it must be loaded first.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Unique id, `GPU-…`, which never changes.
    pub uuid: String,
    /// Number of the GPU, in the order of `nvidia-smi`.
    pub index: u32,
    /// Name of the model, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Driver version.
    pub driver: String,
    /// Memory in MiB.
    pub memory_total_mib: u64,
    /// Memory in use in MiB.
    pub memory_used_mib: u64,
}

/// A process that holds GPU memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Unique id of the GPU.
    pub uuid: String,
    /// Its process id. Inside a container, it may be the id of a process that is not visible there.
    pub pid: i32,
    /// Its program.
    pub program: String,
}

/// Returns the GPUs that are visible to a program with the environment `env`: those that `CUDA_VISIBLE_DEVICES` names by number or UUID, or
/// all without that variable. vsweep's own environment applies if `env` does not set it.
pub async fn visible(env: &BTreeMap<String, String>) -> Vec<Gpu> {
    let mut gpus = all().await;
    let all: Vec<(u32, &str)> = gpus.iter().map(|gpu| (gpu.index, &*gpu.uuid)).collect();
    let wanted = choose(&all, visible_devices(env).as_deref());
    gpus.retain(|gpu| wanted.contains(&gpu.index));
    gpus
}

/// Returns the numbers of the GPUs that a sweep may give to its servers. If `nvidia-smi` shows no GPU at all, they are the numbers in
/// `CUDA_VISIBLE_DEVICES` or, if that is not set, in `HIP_VISIBLE_DEVICES`.
pub async fn numbers() -> Vec<u32> {
    let nothing = BTreeMap::new();
    let visible = visible(&nothing).await;
    if !visible.is_empty() || !all().await.is_empty() {
        return visible.iter().map(|gpu| gpu.index).collect();
    }
    let hip = || std::env::var("HIP_VISIBLE_DEVICES").ok();
    let named = visible_devices(&nothing).or_else(hip).unwrap_or_default();
    let mut numbers: Vec<u32> = named.split(',').map_while(|name| name.trim().parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the addresses of GPUs on the PCI bus, by their numbers.
pub async fn bus_addresses() -> BTreeMap<u32, String> {
    let address = |[index, address]: [&str; 2]| Some((index.parse().ok()?, address.to_owned()));
    query("--query-gpu=index,pci.bus_id", address)
        .await
        .into_iter()
        .collect()
}

/// Returns three limits of each GPU, by its number: the highest clocks of its multiprocessors and of its memory, in MHz, and its power
/// limit, in watts. `None` for a limit that a GPU does not report.
pub async fn limits() -> BTreeMap<u32, [Option<u32>; 3]> {
    let whole = |text: &str| Some(text.parse::<f64>().ok()?.round() as u32);
    let limits = |[index, limits @ ..]: [&str; 4]| Some((index.parse().ok()?, limits.map(whole)));
    let fields = "--query-gpu=index,clocks.max.sm,clocks.max.memory,power.limit";
    query(fields, limits).await.into_iter().collect()
}

/// Returns `CUDA_VISIBLE_DEVICES` of `env`, else of vsweep's own environment.
pub(super) fn visible_devices(env: &BTreeMap<String, String>) -> Option<String> {
    env.get("CUDA_VISIBLE_DEVICES")
        .cloned()
        .or_else(|| std::env::var("CUDA_VISIBLE_DEVICES").ok())
}

/// Returns every GPU of the machine.
pub async fn all() -> Vec<Gpu> {
    let fields = "--query-gpu=uuid,index,driver_version,memory.total,memory.used,name";
    query(fields, gpu).await
}

/// Returns the UUIDs of GPUs, by their numbers.
pub async fn uuids() -> BTreeMap<u32, String> {
    let gpus = all().await.into_iter();
    gpus.map(|gpu| (gpu.index, gpu.uuid)).collect()
}

/// Returns every process that computes on a GPU.
pub async fn holders() -> Vec<Holder> {
    query("--query-compute-apps=gpu_uuid,pid,process_name", holder).await
}

/// Queries fields, and parses each line of the answer by `read`. Lines without N fields are skipped.
async fn query<const N: usize, T>(fields: &str, read: impl Fn([&str; N]) -> Option<T>) -> Vec<T> {
    let mut command = Command::new("nvidia-smi");
    command
        .args([fields, "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let text = match timeout(QUERY_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => String::new(),
    };
    text.lines().filter_map(|line| read(split(line)?)).collect()
}

/// Splits a line into its fields. The last one may hold commas.
fn split<const N: usize>(line: &str) -> Option<[&str; N]> {
    let fields: Vec<&str> = line.splitn(N, ',').map(str::trim).collect();
    fields.try_into().ok()
}

fn gpu([uuid, index, driver, total, used, name]: [&str; 6]) -> Option<Gpu> {
    (!uuid.is_empty()).then_some(Gpu {
        uuid: uuid.to_owned(),
        index: index.parse().ok()?,
        driver: driver.to_owned(),
        // `nvidia-smi` prints `[N/A]` if a GPU shares the host's memory.
        memory_total_mib: total.parse().unwrap_or(0),
        memory_used_mib: used.parse().unwrap_or(0),
        name: name.to_owned(),
    })
}

fn holder([uuid, pid, program]: [&str; 3]) -> Option<Holder> {
    Some(Holder {
        uuid: uuid.to_owned(),
        pid: pid.parse().ok()?,
        program: program.to_owned(),
    })
}

/// Returns the numbers of the devices that `CUDA_VISIBLE_DEVICES` (`wanted`) names, in its order; of all devices without that variable.
/// `all` has the number and the UUID of each device. As in CUDA, the first name that matches no device ends the list.
pub(super) fn choose<S: AsRef<str>>(all: &[(u32, S)], wanted: Option<&str>) -> Vec<u32> {
    let Some(wanted) = wanted else {
        return all.iter().map(|(index, _)| *index).collect();
    };
    let find = |name: &str| {
        let mut fitting = all.iter().filter(|(index, uuid)| is_named(name, *index, uuid.as_ref()));
        fitting.next().map(|(index, _)| *index)
    };
    wanted.split(',').map(str::trim).map_while(find).collect()
}

/// Returns true if a name in `CUDA_VISIBLE_DEVICES`, a number or the start of a UUID, matches a GPU.
fn is_named(name: &str, index: u32, uuid: &str) -> bool {
    match name.parse::<u32>() {
        Ok(number) => number == index,
        Err(_) => !name.is_empty() && uuid.starts_with(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "GPU-5a1b, 3, 550.54.15, 81559, 520, NVIDIA H100 80GB HBM3";

    #[test]
    fn a_line_is_a_gpu() {
        let expected = Gpu {
            uuid: "GPU-5a1b".into(),
            index: 3,
            name: "NVIDIA H100 80GB HBM3".into(),
            driver: "550.54.15".into(),
            memory_total_mib: 81559,
            memory_used_mib: 520,
        };
        assert_eq!(split(LINE).and_then(gpu), Some(expected));
        for nonsense in ["", ",", "No devices were found", "a,b,c,d,e,f"] {
            assert_eq!(split(nonsense).and_then(gpu), None, "{nonsense}");
        }
    }

    #[test]
    fn a_holder_is_read() {
        let expected = Holder {
            uuid: "GPU-5a1b".into(),
            pid: 4711,
            program: "VLLM::EngineCore".into(),
        };
        let read = |line| split(line).and_then(holder);
        assert_eq!(read("GPU-5a1b, 4711, VLLM::EngineCore"), Some(expected));
        assert_eq!(read("GPU-5a1b, [N/A], x"), None);
    }

    #[test]
    fn visible_devices_keep_the_order_of_the_variable() {
        let all: Vec<(u32, String)> = (0..4).map(|index| (index, format!("GPU-{index}f"))).collect();
        assert_eq!(choose(&all, None), [0, 1, 2, 3]);
        assert_eq!(choose(&all, Some("3, 1")), [3, 1]);
        assert_eq!(choose(&all, Some("GPU-2,0")), [2, 0]);
        assert_eq!(choose(&all, Some("1,9,0")), [1]);
        for nothing in ["", "30", "GPU-6"] {
            assert_eq!(choose(&all, Some(nothing)), [0; 0], "{nothing}");
        }
    }
}
