//! The wait before the next server: until the remains of dead trees are gone, the port is free, and no more GPU memory is in use than
//! before the first server. Memory is released some time after the last process of the previous server has ended. A server that is started
//! earlier fails for the wrong reason.

use super::address::Address;
use super::claim::{Claim, Presence};
use super::process::leftovers;
use super::process::orphans::Remains;
use super::process::procfs;
use crate::cause::{Cause, Failure};
use crate::telemetry::gpu::{self, Gpu, Holder};
use crate::units::show_duration;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Tolerated increase of the memory in use, in MiB, because contexts of other programs come and go.
const SLACK_MIB: u64 = 512;
/// Time between the first two checks. It doubles with each further check.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest time between two checks.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Time limit for the port and the GPU memory of an earlier server to become free.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// Time for which a killed process may still hold its memory.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// Share of a GPU's memory above which it counts as in use by others. By default, vLLM leaves about as much to others.
const OTHERS_SHARE: f64 = 0.1;

/// Returns the GPUs with these numbers whose memory others use.
pub async fn held_by_others(numbers: &[u32]) -> Vec<Gpu> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut gpus = gpu::all().await;
    // A GPU that shares the host's memory has no known total, so it never counts as in use.
    gpus.retain(|gpu| {
        let share = gpu.memory_used_mib as f64 / gpu.memory_total_mib as f64;
        numbers.contains(&gpu.index) && gpu.memory_total_mib > 0 && share > OTHERS_SHARE
    });
    gpus
}

/// Describes the processes that use or reserve these GPUs, as a sentence; empty if there are none.
pub async fn holders_of(numbers: &[u32]) -> String {
    let gpus = held_by_others(numbers).await;
    let held: Vec<&Gpu> = gpus.iter().collect();
    let holds = (!held.is_empty()).then_some(describe(&held, &gpu::holders().await).detail);
    let uuids = gpu::uuids().await;
    let is_claimed = |gpu: &&u32| Claim::of(**gpu, &uuids).is_none();
    let claimed: Vec<String> = numbers.iter().filter(is_claimed).map(u32::to_string).collect();
    let claims = (!claimed.is_empty()).then(|| format!("another vsweep has GPU {}", claimed.join(", ")));
    let all: Vec<String> = holds.into_iter().chain(claims).collect();
    all.join("; ")
}

/// Waits until nothing is left of the process trees that vsweep processes with these ids and start times started, or until the limit has
/// passed. After a vsweep was killed, its guards still need up to the grace period; processes without a guard are killed at once. Then
/// removes the shared memory of every dead tree on the machine, and ends servers elsewhere. Returns a sentence about what was removed;
/// `None` if there was nothing.
pub async fn clear_away(vsweeps: &[(u32, u64)], limit: Duration) -> Option<String> {
    let start = Instant::now();
    let mut cleared: Vec<String> = Vec::new();
    loop {
        let remains = Remains::of(vsweeps);
        if !remains.orphans.is_empty() {
            leftovers::note_held(remains.orphans.iter().map(|orphan| orphan.pid));
        }
        for orphan in &remains.orphans {
            orphan.end();
            let ended = orphan.to_string();
            if !cleared.contains(&ended) {
                cleared.push(ended);
            }
        }
        // Processes that were just killed end soon.
        let limit = if remains.orphans.is_empty() {
            limit
        } else {
            limit.max(RELEASE_LIMIT)
        };
        if remains.is_empty() || start.elapsed() >= limit {
            break;
        }
        sleep(FIRST_WAIT).await;
    }
    // Killed processes may hold memory a moment longer. If they hold it even longer, the next start tries again.
    let last = Instant::now() + RELEASE_LIMIT;
    loop {
        cleared.extend(leftovers::remove_abandoned());
        if !leftovers::are_abandoned() || Instant::now() >= last {
            break;
        }
        sleep(FIRST_WAIT).await;
    }
    Presence::forget_dead();
    let all = cleared.join(", ");
    (!all.is_empty()).then(|| format!("cleared away what a killed vsweep had left: {all}"))
}

/// The wait before a server starts, until the machine is as it was before the sweep's first one.
#[derive(Debug, Default)]
pub struct ReleaseWait {
    /// Memory in use before the first server, in MiB, by the GPU's UUID. Without GPUs, it is empty, and only the port is awaited.
    used_mib: BTreeMap<String, u64>,
    /// Time limits for the first server, and for each of the others. Ports are awaited for at least [`SETTLE_LIMIT`].
    limits: [Duration; 2],
    /// True once the first server has waited.
    is_passed: Cell<bool>,
}

impl ReleaseWait {
    /// Reads the memory in use before the first server, which then waits for no memory, because no earlier server is in its way. If Slurm
    /// assigned GPUs to this job, the first server waits until they are empty, because an earlier task may not have released them yet.
    pub async fn now() -> ReleaseWait {
        let is_assigned = ["SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"]
            .iter()
            .all(|name| std::env::var_os(name).is_some());
        let limits = [if is_assigned { SETTLE_LIMIT } else { Duration::ZERO }, SETTLE_LIMIT];
        let mut release_wait = ReleaseWait::waiting(limits).await;
        if is_assigned {
            release_wait.used_mib.values_mut().for_each(|used| *used = 0);
        }
        release_wait
    }

    /// Returns a wait for sweeps in which others may take a GPU. The time limit of each server is at least `limit`.
    pub async fn patient(limit: Duration) -> ReleaseWait {
        ReleaseWait::waiting([limit, limit.max(SETTLE_LIMIT)]).await
    }

    async fn waiting(limits: [Duration; 2]) -> ReleaseWait {
        let used = gpu::all().await.into_iter().map(|gpu| (gpu.uuid, gpu.memory_used_mib));
        ReleaseWait {
            used_mib: used.collect(),
            limits,
            is_passed: Cell::new(false),
        }
    }

    /// Waits until this server can be started as if it were the first. The error names the obstacle that is left after the limit, or one
    /// for which waiting would not help.
    pub async fn wait(&self, argv: &[String], env: &BTreeMap<String, String>) -> Result<(), Failure> {
        let limit = self.limits[usize::from(self.is_passed.replace(true))];
        let address = Address::read(argv)?;
        let start = Instant::now();
        let mut wait = FIRST_WAIT;
        while let Some((failure, stays)) = self.obstacle(&address, env).await {
            // A port may be held by a tree that an earlier vsweep left, so even the first server waits for it.
            let limit = match failure.cause {
                Cause::PortTaken => limit.max(SETTLE_LIMIT),
                _ => limit,
            };
            if stays || limit.is_zero() {
                return Err(failure);
            }
            if start.elapsed() >= limit {
                let detail = format!("{} after {}", failure.detail, show_duration(limit));
                return Err(Failure::new(failure.cause, detail));
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Ok(())
    }

    /// Returns the obstacle to a server's start, and true if waiting would not help.
    async fn obstacle(&self, address: &Address, env: &BTreeMap<String, String>) -> Option<(Failure, bool)> {
        if let Some(taken) = address.taken() {
            return Some(taken);
        }
        if self.used_mib.is_empty() {
            return None;
        }
        let gpus = gpu::visible(env).await;
        let full = self.held(&gpus);
        match full.is_empty() {
            true => None,
            false => Some((describe(&full, &gpu::holders().await), false)),
        }
    }

    /// Returns the GPUs of which more memory is in use than before the first server.
    fn held<'a>(&self, gpus: &'a [Gpu]) -> Vec<&'a Gpu> {
        let above = |gpu: &&Gpu| {
            self.used_mib
                .get(&gpu.uuid)
                .is_some_and(|before| gpu.memory_used_mib > before + SLACK_MIB)
        };
        gpus.iter().filter(above).collect()
    }
}

fn describe(full: &[&Gpu], holders: &[Holder]) -> Failure {
    let levels: Vec<String> = full
        .iter()
        .map(|gpu| format!("GPU {} has {} MiB in use", gpu.index, gpu.memory_used_mib))
        .collect();
    let by: BTreeSet<String> = holders
        .iter()
        .filter(|holder| full.iter().any(|gpu| gpu.uuid == holder.uuid))
        .map(|holder| match procfs::program_name(holder.pid) {
            command if command.is_empty() => format!("{} ({})", holder.pid, holder.program),
            command => format!("{} ({command})", holder.pid),
        })
        .collect();
    let by = match by.is_empty() {
        true => "no process that can be seen".to_owned(),
        false => by.into_iter().collect::<Vec<_>>().join(", "),
    };
    Failure::new(Cause::GpuMemoryHeld, format!("{}, by {by}", levels.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn gpu(uuid: &str, memory_used_mib: u64) -> Gpu {
        let index = uuid.len() as u32;
        Gpu {
            uuid: uuid.into(),
            index,
            name: "G".into(),
            driver: "1".into(),
            memory_total_mib: 80_000,
            memory_used_mib,
        }
    }

    #[tokio::test]
    async fn even_the_first_server_waits_for_a_port_that_becomes_free() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (accepted, port) = (
            listener.accept().expect("there").0,
            client.local_addr().expect("bound").port(),
        );
        let argv = ["vllm", "serve", "m", "--host", "127.0.0.1", "--port", &port.to_string()].map(str::to_owned);
        let (first, none) = (ReleaseWait::default(), BTreeMap::new());
        let release = async {
            assert!(
                Address::read(&argv)
                    .expect("readable")
                    .taken()
                    .is_some_and(|(_, stays)| !stays)
            );
            // The side that closes first keeps the port a while, so the client closes once it has seen the other's end.
            drop(accepted);
            assert_eq!((&client).read(&mut [0]).expect("an end"), 0);
            drop(client);
        };
        assert_eq!(
            futures_util::future::join(first.wait(&argv, &none), release).await.0,
            Ok(())
        );
    }

    #[test]
    fn memory_above_the_level_before_is_held() {
        let before = ReleaseWait {
            used_mib: BTreeMap::from([("a".into(), 500), ("bb".into(), 70_000)]),
            ..ReleaseWait::default()
        };
        assert!(
            before
                .held(&[gpu("a", 900), gpu("bb", 70_000), gpu("new", 80_000)])
                .is_empty()
        );
        let now = [gpu("a", 30_500), gpu("bb", 1_000)];
        let held = before.held(&now);
        assert_eq!(held, [&now[0]]);

        let holder = |uuid: &str, pid| Holder {
            uuid: uuid.into(),
            pid,
            program: "VLLM::EngineCore".into(),
        };
        let failure = describe(&held, &[holder("a", i32::MAX), holder("bb", 1)]);
        assert_eq!(failure.cause, Cause::GpuMemoryHeld);
        assert_eq!(
            failure.detail,
            format!("GPU 1 has 30500 MiB in use, by {} (VLLM::EngineCore)", i32::MAX)
        );
    }
}
