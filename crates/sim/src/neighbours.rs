//! Contention between simulated servers of one node: a server is slower while another one works or starts. Each server records its activity
//! in the node's folder (`VSWEEP_SIM_GPUS`). Servers without configured contention record nothing and read nothing.

use super::gpus::is_alive;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// Share by which a server is slower next to others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CrossTalk {
    /// While another one answers requests.
    pub busy: f64,
    /// While another one starts.
    pub starting: f64,
}

/// Current slow-down: a factor shared between the thread that polls the neighbours and those that compute.
#[derive(Debug, Clone)]
pub struct ContentionFactor(Arc<AtomicU64>);

impl Default for ContentionFactor {
    fn default() -> ContentionFactor {
        ContentionFactor(Arc::new(AtomicU64::new(1.0f64.to_bits())))
    }
}

impl ContentionFactor {
    /// The factor now.
    pub fn factor(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, factor: f64) {
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }
}

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
const BUSY: &str = "busy";
const STARTING: &str = "starting";

/// One server among those of a node.
pub struct Neighbour {
    folder: PathBuf,
    cross_talk: CrossTalk,
    /// The activity that it recorded last.
    said: Option<&'static str>,
}

impl Neighbour {
    /// A server that starts; `None` if it slows nobody down.
    pub fn starting(folder: Option<&Path>, cross_talk: CrossTalk) -> Option<Neighbour> {
        let folder = folder.filter(|_| cross_talk != CrossTalk::default())?;
        let mut neighbour = Neighbour {
            folder: folder.to_owned(),
            cross_talk,
            said: None,
        };
        neighbour.say(Some(STARTING));
        Some(neighbour)
    }

    /// Keeps up with the others, until it is dropped, as long as `is_busy` can be asked.
    pub async fn live(mut self, contention: ContentionFactor, is_busy: impl Fn() -> bool) {
        loop {
            self.say(is_busy().then_some(BUSY));
            contention.set(self.factor());
            sleep(LOOK).await;
        }
    }

    fn say(&mut self, what: Option<&'static str>) {
        if self.said == what {
            return;
        }
        // A folder that cannot be written only makes the simulation kinder.
        let _ = self.said.map(|before| fs::remove_file(self.note(before)));
        let _ = what.map(|now| fs::create_dir_all(&self.folder).and_then(|()| fs::write(self.note(now), "")));
        self.said = what;
    }

    fn note(&self, what: &str) -> PathBuf {
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
            busy |= what == Some(BUSY) && is_alive(pid);
            starting |= what == Some(STARTING) && is_alive(pid);
        }
        let share = |is: bool, share: f64| if is { 1.0 + share } else { 1.0 };
        share(busy, self.cross_talk.busy) * share(starting, self.cross_talk.starting)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.say(None);
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
        own.say(None);
        assert!(!own.note(STARTING).exists());
    }
}
