//! File locks by which vsweep processes on one machine see each other; the kernel releases them when a process dies. A claim reserves a GPU
//! for a group, so that no other vsweep takes the GPU before the group's server fills its memory. Claims only save work, because the memory
//! in use is checked as well. A presence lock shows other sessions that a server is up. Containers with separate `/dev/shm` do not see each
//! other.

use crate::files;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folder that all users of a machine share, and that is empty after a boot.
const FOLDER: &str = "/dev/shm";
/// Prefix of the file of a presence.
const PRESENCE_PREFIX: &str = ".vsweep-server-";
/// Number of tries to create and lock a file. Another process may remove it as a leftover before it is locked.
const TRIES: u32 = 3;

/// A reservation, mostly of a GPU, which lasts until it is dropped.
#[derive(Debug)]
pub struct Claim {
    /// `None` if the file could not be locked. The reservation then has no effect.
    _lock: Option<Flock<File>>,
}

impl Claim {
    /// Reserves the GPU with this number; `None` if another vsweep has it. Containers and Slurm jobs may number GPUs differently, so the
    /// number decides only if the GPU has no UUID.
    pub fn of(gpu: u32, uuids: &BTreeMap<u32, String>) -> Option<Claim> {
        match uuids.get(&gpu) {
            Some(uuid) => Claim::named(uuid),
            None => Claim::named(&gpu.to_string()),
        }
    }

    /// Reserves a name; `None` if another vsweep has it.
    pub fn named(name: &str) -> Option<Claim> {
        let Ok(file) = open(name) else {
            return Some(Claim { _lock: None });
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => None,
            lock => Some(Claim { _lock: lock.ok() }),
        }
    }
}

/// Opens the lock file. Another user's file can be locked, but not written.
fn open(name: &str) -> io::Result<File> {
    let path = path(name);
    files::open(&path).or_else(|_| {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        create(&path)
    })
}

fn create(path: &Path) -> io::Result<File> {
    let mut new = OpenOptions::new();
    new.read(true).write(true).create(true).truncate(false).mode(0o644);
    files::open_with(path, &mut new)
}

fn path(name: &str) -> PathBuf {
    folder().join(format!(".vsweep-claim-{name}"))
}

/// Folder of the lock files. With simulated GPUs, it is their folder.
fn folder() -> PathBuf {
    std::env::var_os("VSWEEP_SIM_GPUS")
        .unwrap_or_else(|| FOLDER.into())
        .into()
}

/// Shows other sessions that a server of this session is up, until this value is dropped.
#[derive(Debug)]
pub struct Presence {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Presence {
    /// Shows that a launch of a session is up; `None` if no file can be locked, so that others do not notice it.
    pub fn of(session: &str, launch: u32) -> Option<Presence> {
        let path = folder().join(format!("{PRESENCE_PREFIX}{session}-{launch}"));
        let lock = (0..TRIES).find_map(|_| {
            let lock = Flock::lock(create(&path).ok()?, FlockArg::LockExclusiveNonblock).ok()?;
            let is_there = lock.metadata().is_ok_and(|file| file.nlink() > 0);
            is_there.then_some(lock)
        })?;
        Some(Presence { path, _lock: lock })
    }

    /// Number of servers of other sessions that are up on this machine. Removes files of killed sessions.
    pub fn of_others(session: &str) -> usize {
        Presence::count_and_clean(|session_and_launch| !session_and_launch.starts_with(session))
    }

    /// Removes the files of killed sessions.
    pub fn forget_dead() {
        Presence::count_and_clean(|_| true);
    }

    /// Counts the servers that are up, among those that `is_counted` accepts. Removes the files of accepted servers that are not up.
    fn count_and_clean(is_counted: impl Fn(&str) -> bool) -> usize {
        let files = fs::read_dir(folder()).into_iter().flatten().flatten();
        let is_sought = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let session_and_launch = name.to_str().and_then(|name| name.strip_prefix(PRESENCE_PREFIX));
            session_and_launch.is_some_and(&is_counted)
        };
        let is_held = |entry: &fs::DirEntry| {
            let Ok(file) = files::open(&entry.path()) else {
                return false;
            };
            let lock = Flock::lock(file, FlockArg::LockSharedNonblock);
            if lock.is_ok() {
                let _ = fs::remove_file(entry.path());
            }
            lock.is_err()
        };
        files.filter(is_sought).filter(is_held).count()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_claimed_once_at_a_time() {
        // A number that no machine has.
        let gpu = 1_000_000 + std::process::id();
        let none = BTreeMap::new();
        let claim = Claim::of(gpu, &none).expect("nobody has it");
        assert!(Claim::of(gpu, &none).is_none());
        drop(claim);
        assert!(Claim::of(gpu, &none).is_some());
        let _ = fs::remove_file(path(&gpu.to_string()));
    }

    #[test]
    fn a_gpu_is_known_by_its_uuid_whatever_its_number_is() {
        let [one, other] = ["GPU-1a", "GPU-2b"].map(|uuid| format!("{uuid}{}", std::process::id()));
        let here = BTreeMap::from([(0, one.clone())]);
        let there = BTreeMap::from([(0, other.clone()), (1, one.clone())]);
        let claim = Claim::of(0, &here).expect("nobody has it");
        assert!(Claim::of(1, &there).is_none() && Claim::of(0, &there).is_some());
        drop(claim);
        for uuid in [one, other] {
            let _ = fs::remove_file(path(&uuid));
        }
    }

    #[test]
    fn a_pipe_in_place_of_a_claim_keeps_nobody_waiting() {
        let name = format!("pipe-{}", std::process::id());
        nix::unistd::mkfifo(&path(&name), nix::sys::stat::Mode::S_IRWXU).expect("made");
        let claim = Claim::named(&name).expect("a pipe cannot be locked, so nobody is kept away");
        let _ = fs::remove_file(path(&name));
        assert!(claim._lock.is_none());
    }

    #[test]
    fn servers_of_other_sessions_are_known_while_they_are_up() {
        let [own, other] = ["own", "other"].map(|name| format!("{name}{}", std::process::id()));
        let mine = Presence::of(&own, 1).expect("a folder to lock files in");
        let [theirs, second] = [1, 2].map(|launch| Presence::of(&other, launch).expect("the same"));
        assert!(Presence::of_others(&own) >= 2 && theirs.path.exists() && mine.path.exists());
        let path = theirs.path.clone();
        drop((theirs, second));
        assert!(!path.exists());
        // The leftover file of a killed process has no lock.
        File::create(&path).expect("ours");
        let _ = Presence::of_others(&own);
        assert!(!path.exists());
        File::create(&path).expect("ours");
        Presence::forget_dead();
        assert!(!path.exists() && mine.path.exists());
    }
}
