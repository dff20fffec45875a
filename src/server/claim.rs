//! File locks by which vsweep processes on one machine see each other; the kernel releases them when a process dies. A claim reserves a GPU
//! for a group, so that no other vsweep takes the GPU before the group's server fills its memory. Claims only save work, because the memory
//! in use is checked as well. A presence shows that a server is up, so that other sessions know that they are not alone. Containers with
//! separate `/dev/shm` do not see each other.

use crate::files;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
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

/// A reservation of a GPU, which lasts until it is dropped.
#[derive(Debug)]
pub struct Claim {
    /// `None` if the file could not be locked. The reservation then has no effect.
    _lock: Option<Flock<File>>,
}

impl Claim {
    /// Reserves the GPU with this number; `None` if another vsweep has it.
    pub fn of(gpu: u32) -> Option<Claim> {
        let Ok(file) = open(gpu) else {
            return Some(Claim { _lock: None });
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => None,
            lock => Some(Claim { _lock: lock.ok() }),
        }
    }
}

/// Opens the lock file. Another user's file can be locked, but not written.
fn open(gpu: u32) -> io::Result<File> {
    let path = path(gpu);
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

fn path(gpu: u32) -> PathBuf {
    folder().join(format!(".vsweep-gpu-{gpu}"))
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
    /// Shows that a server of a session is up; `None` if no file can be locked, so that others do not notice it.
    pub fn of(session: &str, server: &str) -> Option<Presence> {
        let path = folder().join(format!("{PRESENCE_PREFIX}{session}-{server}"));
        let lock = (0..TRIES).find_map(|_| {
            let lock = Flock::lock(create(&path).ok()?, FlockArg::LockExclusiveNonblock).ok()?;
            let is_there = lock.metadata().is_ok_and(|file| file.nlink() > 0);
            is_there.then_some(lock)
        })?;
        Some(Presence { path, _lock: lock })
    }

    /// Number of servers of other sessions that are up on this machine. Removes files of killed sessions.
    pub fn of_others(session: &str) -> usize {
        Presence::count(|session_and_server| !session_and_server.starts_with(session))
    }

    /// Removes the files of killed sessions.
    pub fn forget_dead() {
        Presence::count(|_| true);
    }

    /// Counts the servers that are up, among those that `is_counted` accepts. Removes the files of accepted servers that are not up.
    fn count(is_counted: impl Fn(&str) -> bool) -> usize {
        let files = fs::read_dir(folder()).into_iter().flatten().flatten();
        let is_sought = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let session_and_server = name.to_str().and_then(|name| name.strip_prefix(PRESENCE_PREFIX));
            session_and_server.is_some_and(&is_counted)
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
        let claim = Claim::of(gpu).expect("nobody has it");
        assert!(Claim::of(gpu).is_none());
        drop(claim);
        assert!(Claim::of(gpu).is_some());
        let _ = std::fs::remove_file(path(gpu));
    }

    #[test]
    fn a_pipe_in_place_of_a_claim_keeps_nobody_waiting() {
        let gpu = 2_000_000 + std::process::id();
        nix::unistd::mkfifo(&path(gpu), nix::sys::stat::Mode::S_IRWXU).expect("made");
        let claim = Claim::of(gpu).expect("a pipe cannot be locked, so nobody is kept away");
        let _ = fs::remove_file(path(gpu));
        assert!(claim._lock.is_none());
    }

    #[test]
    fn servers_of_other_sessions_are_known_while_they_are_up() {
        let [own, other] = ["own", "other"].map(|name| format!("{name}{}", std::process::id()));
        let mine = Presence::of(&own, "a").expect("a folder to lock files in");
        let theirs = Presence::of(&other, "a").expect("the same");
        assert!(Presence::of_others(&own) >= 1 && theirs.path.exists() && mine.path.exists());
        let path = theirs.path.clone();
        drop(theirs);
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
