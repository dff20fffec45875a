//! Shared memory and rendezvous files that a killed vLLM leaves behind.
//!
//! A file is removed only if it was not there before the launch, was made by the tree (one of its processes held it,
//! or the server's log names it), and nobody holds it once the tree is gone. Looking is cheap as long as nothing new
//! appears: two directory listings.

use crate::server::procfs;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SHARED_MEMORY: &str = "/dev/shm";
/// vLLM's file for the rendezvous of its workers: `$TMPDIR/vllm_dist_<uuid>`; nobody keeps it open.
const RENDEZVOUS: &str = "vllm_dist_";
/// Looks at a new file that no process of the tree seems to hold, before waiting for the end to look again.
const LOOKS: u32 = 3;
/// How much of the log is searched for names of rendezvous files, which vLLM prints while it starts.
const LOG_BYTES: u64 = 4 << 20;

/// What the tree may leave behind.
pub struct Leftovers {
    before: HashSet<PathBuf>,
    held: BTreeSet<PathBuf>,
    strange: BTreeMap<PathBuf, u32>,
}

impl Leftovers {
    /// Remembers what is there before the launch: none of it is ever touched.
    pub fn before_launch() -> Leftovers {
        Leftovers {
            before: present(),
            held: BTreeSet::new(),
            strange: BTreeMap::new(),
        }
    }

    /// Looks for files that appeared and are held by the tree.
    pub fn look(&mut self) {
        self.attribute(LOOKS);
    }

    /// The same, for a last time before the tree's processes go.
    pub fn look_closely(&mut self) {
        self.attribute(u32::MAX);
    }

    fn attribute(&mut self, looks: u32) {
        let mut sought = HashSet::new();
        for path in present() {
            if !self.before.contains(&path) && !self.held.contains(&path) {
                let seen = self.strange.entry(path.clone()).or_default();
                if *seen < looks {
                    *seen = seen.saturating_add(1);
                    sought.insert(path);
                }
            }
        }
        if !sought.is_empty() {
            self.held
                .extend(held_by(procfs::descendants(std::process::id() as i32), &sought));
        }
    }

    /// Removes what the tree left, now that it is gone; returns what was removed.
    pub fn remove(&mut self) -> Vec<PathBuf> {
        let there = present();
        let mut ours: HashSet<PathBuf> = self.held.iter().filter(|path| there.contains(*path)).cloned().collect();
        let unclaimed: Vec<&PathBuf> = there.iter().filter(|path| !self.before.contains(*path)).collect();
        if unclaimed.iter().any(|path| is_rendezvous(path)) {
            let log = log_text();
            let named = |path: &Path| {
                path.file_name()
                    .is_some_and(|name| log.contains(&*name.to_string_lossy()))
            };
            ours.extend(
                unclaimed
                    .into_iter()
                    .filter(|path| is_rendezvous(path) && named(path))
                    .cloned(),
            );
        }
        if ours.is_empty() {
            return Vec::new();
        }
        let elsewhere = held_by(procfs::processes(), &ours);
        ours.retain(|path| !elsewhere.contains(path) && fs::remove_file(path).is_ok());
        let mut removed: Vec<PathBuf> = ours.into_iter().collect();
        removed.sort();
        removed
    }
}

/// Wakes who polls it when shared memory is made, so that even a process that lives for a moment is seen to hold it.
pub fn births() -> Option<Inotify> {
    let births = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    births.add_watch(SHARED_MEMORY, AddWatchFlags::IN_CREATE).ok()?;
    Some(births)
}

/// Our own files of the kinds that vLLM leaves behind.
fn present() -> HashSet<PathBuf> {
    let me = nix::unistd::geteuid().as_raw();
    let list = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    };
    let shared: Vec<PathBuf> = list(Path::new(SHARED_MEMORY));
    let temporary: Vec<PathBuf> = list(&std::env::temp_dir());
    shared
        .into_iter()
        .chain(temporary.into_iter().filter(|path| is_rendezvous(path)))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == me))
        .collect()
}

fn is_rendezvous(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(RENDEZVOUS))
}

fn held_by(processes: Vec<procfs::Process>, files: &HashSet<PathBuf>) -> HashSet<PathBuf> {
    processes
        .into_iter()
        .flat_map(|process| procfs::held_files(process.pid, files))
        .collect()
}

/// The start of the command's log, which is the guard's standard error.
fn log_text() -> String {
    let mut bytes = Vec::new();
    if let Ok(log) = File::open(format!("/proc/self/fd/{}", io::stderr().as_raw_fd())) {
        let _ = log.take(LOG_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
