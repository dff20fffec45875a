//! Contention between simulated servers of one node: a server is slower while another one works or starts. Each server records its activity
//! in the node's folder (`VSWEEP_SIM_GPUS`). Servers without configured contention record nothing and read nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use vsweep_base::files::process_started;

/// Shares by which other servers of the node slow down a server: 0.05 is 5 %.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CrossTalk {
    /// Share while another server answers requests.
    pub busy: f64,
    /// Share while another server starts.
    pub starting: f64,
}

/// Current factor of a server's step times, shared between the thread that polls the neighbours and those that compute.
#[derive(Debug, Clone)]
pub struct ContentionFactor(Arc<AtomicU64>);

impl Default for ContentionFactor {
    fn default() -> ContentionFactor {
        ContentionFactor(Arc::new(AtomicU64::new(1.0f64.to_bits())))
    }
}

impl ContentionFactor {
    /// Returns the current factor.
    pub fn factor(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, factor: f64) {
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }
}

/// Time between two updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(10);
const BUSY: &str = "busy";
const STARTING: &str = "starting";

/// This server as one of the servers of a node.
pub struct Neighbour {
    folder: PathBuf,
    cross_talk: CrossTalk,
    /// The activity that it recorded last.
    recorded: Option<&'static str>,
}

impl Neighbour {
    /// Records that this server starts. `None` without a folder or configured contention.
    pub fn starting(folder: Option<&Path>, cross_talk: CrossTalk) -> Option<Neighbour> {
        let folder = folder.filter(|_| cross_talk != CrossTalk::default())?;
        let mut neighbour = Neighbour {
            folder: folder.to_owned(),
            cross_talk,
            recorded: None,
        };
        neighbour.record(Some(STARTING));
        Some(neighbour)
    }

    /// Records this server's activity, and updates the factor by the activity of the others. Never ends by itself.
    pub async fn live(mut self, contention: ContentionFactor, is_busy: impl Fn() -> bool) {
        loop {
            self.record(is_busy().then_some(BUSY));
            contention.set(self.factor());
            sleep(UPDATE_INTERVAL).await;
        }
    }

    fn record(&mut self, what: Option<&'static str>) {
        if self.recorded == what {
            return;
        }
        // If the folder cannot be written, the other servers are not slowed down.
        let _ = self.recorded.map(|before| fs::remove_file(self.record_path(before)));
        let _ = what.map(|now| fs::create_dir_all(&self.folder).and_then(|()| fs::write(self.record_path(now), "")));
        self.recorded = what;
    }

    fn record_path(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", std::process::id()))
    }

    fn factor(&self) -> f64 {
        let (mut busy, mut starting) = (false, false);
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else {
                continue;
            };
            let what = path.extension().and_then(|extension| extension.to_str());
            let lives = || process_started(pid).is_some();
            busy |= what == Some(BUSY) && lives();
            starting |= what == Some(STARTING) && lives();
        }
        let factor = |is_slowed: bool, share: f64| if is_slowed { 1.0 + share } else { 1.0 };
        factor(busy, self.cross_talk.busy) * factor(starting, self.cross_talk.starting)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.record(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_slower_while_a_living_one_works_or_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let cross_talk = CrossTalk {
            busy: 0.05,
            starting: 0.2,
        };
        assert!(Neighbour::starting(Some(folder.path()), CrossTalk::default()).is_none());
        let mut own = Neighbour::starting(Some(folder.path()), cross_talk).expect("it has neighbours");
        assert_eq!(own.factor(), 1.0, "its own start does not count");
        let parent = std::os::unix::process::parent_id();
        fs::write(folder.path().join(format!("{parent}.{BUSY}")), "").expect("written");
        assert_eq!(own.factor(), 1.05);
        fs::write(folder.path().join(format!("{parent}.{STARTING}")), "").expect("written");
        assert_eq!(own.factor(), 1.05 * 1.2);
        fs::remove_file(folder.path().join(format!("{parent}.{STARTING}"))).expect("there");
        fs::rename(
            folder.path().join(format!("{parent}.{BUSY}")),
            folder.path().join(format!("{}.{BUSY}", u32::MAX - 1)),
        )
        .expect("there");
        assert_eq!(own.factor(), 1.0, "a dead one slows nobody down");
        own.record(None);
        assert!(!own.record_path(STARTING).exists());
    }
}
