//! That a vsweep has a server up, so that other vsweeps on the machine know whether they are alone. A lock on a file, which ends with its
//! process however that ends. Containers with a `/dev/shm` of their own do not see each other.

use super::claim::folder;
use crate::files::{is_process_dead, this_process};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::PathBuf;

const NAME: &str = ".vsweep-server-";
/// Stands in the name of a file that is not locked yet, before the process that makes it.
const NEW: &str = ".new-";

/// A server of this session is up, as long as this lives.
#[derive(Debug)]
pub struct Presence {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Presence {
    /// Lets others know of a server of a session; `None` where no file can be locked: then nobody learns of it.
    pub fn of(session: &str, server: &str) -> Option<Presence> {
        let name = format!("{session}-{server}");
        let (path, new) = (
            folder().join(format!("{NAME}{name}")),
            folder().join(format!("{NAME}{name}{NEW}{}", this_process())),
        );
        let file = File::create(&new).ok()?;
        // Under its name it is locked from the first moment, so that nobody takes it for left over.
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        match lock.ok().filter(|_| fs::rename(&new, &path).is_ok()) {
            Some(lock) => Some(Presence { path, _lock: lock }),
            None => {
                let _ = fs::remove_file(&new);
                None
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// How many servers of other sessions are up on this machine. What killed ones left is removed.
pub fn others(session: &str) -> usize {
    let files = fs::read_dir(folder()).into_iter().flatten().flatten();
    let is_held = |entry: &fs::DirEntry| {
        if let Some((_, maker)) = entry.file_name().to_string_lossy().rsplit_once(NEW) {
            if is_process_dead(maker) {
                let _ = fs::remove_file(entry.path());
            }
            return false;
        }
        let Ok(file) = File::open(entry.path()) else {
            return false;
        };
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => {
                let _ = fs::remove_file(entry.path());
                false
            }
            Err(_) => true,
        }
    };
    let is_foreign = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let session_and_server = name.to_str().and_then(|name| name.strip_prefix(NAME));
        session_and_server.is_some_and(|name| !name.starts_with(session))
    };
    files.filter(is_foreign).filter(is_held).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_other_sessions_are_known_while_they_are_up() {
        let [own, other] = ["own", "other"].map(|name| format!("{name}{}", std::process::id()));
        let mine = Presence::of(&own, "a").expect("a folder to lock files in");
        let theirs = Presence::of(&other, "a").expect("the same");
        assert!(others(&own) >= 1 && theirs.path.exists() && mine.path.exists());
        let path = theirs.path.clone();
        drop(theirs);
        assert!(!path.exists());
        // What a killed one leaves is held by nobody.
        File::create(&path).expect("ours");
        let _ = others(&own);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_killed_before_it_was_locked_is_removed() {
        let name = format!("{NAME}killed{}-a{NEW}", std::process::id());
        // The process of this id started later.
        let (machine_and_pid, _) = this_process()
            .rsplit_once('-')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("its start");
        let [dead, alive] =
            [format!("{machine_and_pid}-1"), this_process()].map(|maker| folder().join(format!("{name}{maker}")));
        for path in [&dead, &alive] {
            File::create(path).expect("ours");
        }
        let _ = others("nobody");
        assert!(!dead.exists() && alive.exists());
        fs::remove_file(alive).expect("ours");
    }
}
