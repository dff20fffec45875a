//! The gate before the next server: the port free again, and GPU memory back to where it was before the first server.
//! Both take a moment after the last process of the old one is gone; a server started too early fails for the wrong
//! reason.

use super::Launch;
use super::address::Address;
use super::guarded;
use super::procfs;
use crate::cause::{Cause, Failure};
use crate::telemetry::gpu::{self, Gpu, Holder};
use crate::units::show_duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// What may differ from the level before, in MiB: contexts of other programs come and go.
const SLACK_MIB: u64 = 512;
/// Waits between two looks grow from the first to the second of these.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Waits until nothing is left of the process trees that the vsweep of this pid started, or the limit is over. After a
/// vsweep was killed, its guards still need up to the grace period.
pub async fn trees_gone(vsweep: u32, limit: Duration) -> bool {
    let start = Instant::now();
    while guarded::has_trees(vsweep) {
        if start.elapsed() >= limit {
            return false;
        }
        sleep(FIRST_WAIT).await;
    }
    true
}

/// The machine before the first server.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    used_mib: BTreeMap<String, u64>,
}

impl Baseline {
    /// Looks at the machine as it is now. Without GPUs there is nothing to wait for later.
    pub async fn now() -> Baseline {
        let used = gpu::all().await.into_iter().map(|gpu| (gpu.uuid, gpu.memory_used_mib));
        Baseline {
            used_mib: used.collect(),
        }
    }

    /// Waits until this server can be started as if it were the first, or says after `limit` what is in its way.
    pub async fn wait(&self, launch: &Launch, limit: Duration) -> Result<(), Failure> {
        let address = Address::read(&launch.argv)?;
        let start = Instant::now();
        let mut wait = FIRST_WAIT;
        while let Err(obstacle) = self.obstacle(&address, launch).await {
            if start.elapsed() >= limit {
                let detail = match limit.is_zero() {
                    true => obstacle.detail,
                    false => format!("{} after {}", obstacle.detail, show_duration(limit)),
                };
                return Err(Failure::new(obstacle.cause, detail));
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Ok(())
    }

    async fn obstacle(&self, address: &Address, launch: &Launch) -> Result<(), Failure> {
        address.check_free()?;
        if self.used_mib.is_empty() {
            return Ok(());
        }
        match self.held(&gpu::visible(&launch.env).await) {
            full if full.is_empty() => Ok(()),
            full => Err(describe(&full, &gpu::holders().await)),
        }
    }

    /// The GPUs that hold more than they did before.
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
        .map(|gpu| format!("GPU {} holds {} MiB", gpu.index, gpu.memory_used_mib))
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
    Failure::new(Cause::GpuMemoryHeld, format!("{}, held by {by}", levels.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn memory_above_the_level_before_is_held() {
        let before = Baseline {
            used_mib: BTreeMap::from([("a".into(), 500), ("bb".into(), 70_000)]),
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
            format!("GPU 1 holds 30500 MiB, held by {} (VLLM::EngineCore)", i32::MAX)
        );
    }
}
