//! Limits a directory to one vsweep at a time, or to several that share it. This only saves work: no result depends on it. The lock is the
//! operating system's, so a killed vsweep leaves none behind. On a file system without locks, nothing is limited. The content of a lock file
//! is the pid of its holder, for messages only.

use super::directory::{Directory, Shard};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{MOST_FACTS, open, open_with, read_all};

/// A held lock; released when dropped, or by the system when the process dies. A whole sweep holds `lock` exclusively. Shards share it, and
/// each also holds a lock of its own. Workers share it, too, and the lock of workers.
#[derive(Debug)]
pub struct Lock {
    _held: Vec<File>,
}

impl Lock {
    /// Takes the lock for a shard.
    ///
    /// # Errors
    ///
    /// A message with the process that holds it, if known: another vsweep on the same shard, a whole sweep, a shard of another count, or a
    /// worker.
    pub fn take(directory: &Directory, shard: Shard) -> Result<Lock> {
        let whole = directory.lock(Shard::WHOLE);
        if shard == Shard::WHOLE {
            let held = hold_alone(&whole, directory)?;
            return Ok(Lock { _held: vec![held] });
        }
        let shared = hold(&whole, File::try_lock_shared, directory)?;
        let own = hold_alone(&directory.lock(shard), directory)?;
        let is_other_count = |path: &PathBuf| !path.to_string_lossy().ends_with(&format!("-of-{}", shard.count));
        if let Some(pid) = of_shards(directory)?
            .filter(is_other_count)
            .find_map(|path| holder(&path))
        {
            return Err(taken(directory, pid));
        }
        if has_workers(directory) {
            return Err(taken(directory, None));
        }
        Ok(Lock {
            _held: vec![shared, own],
        })
    }

    /// Takes the lock together with other workers, which divide the work by leases.
    pub fn join(directory: &Directory) -> Result<Lock> {
        let shared = hold(&directory.lock(Shard::WHOLE), File::try_lock_shared, directory)?;
        let own = hold(&directory.lock_of_workers(), File::try_lock_shared, directory)?;
        // A shard takes its own lock before it looks for workers, so two that begin together do not miss each other.
        if let Some(pid) = of_shards(directory)?.find_map(|path| holder(&path)) {
            return Err(taken(directory, pid));
        }
        Ok(Lock {
            _held: vec![shared, own],
        })
    }
}

/// Number of attempts to take a lock, and the pause between two attempts. Another process may hold the lock for a moment, only to find out
/// who holds it.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Takes a lock exclusively, and writes the pid of this process to its file.
fn hold_alone(path: &Path, directory: &Directory) -> Result<File> {
    let mut file = hold(path, File::try_lock, directory)?;
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(Error::io("write", path))?;
    Ok(file)
}

fn hold(path: &Path, lock: fn(&File) -> Result<(), TryLockError>, directory: &Directory) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = open_with(path, &mut options).map_err(Error::io("open", path))?;
    for attempt in 1.. {
        match lock(&file) {
            Ok(()) => break,
            Err(TryLockError::Error(error)) if are_missing(&error) => break,
            Err(TryLockError::WouldBlock) if attempt < TRIES => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(taken(directory, holders(directory)?.first().copied())),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
        }
    }
    Ok(file)
}

/// Linux's `ENOLCK`, for which Rust has no kind: a network file system without its lock service.
const NO_LOCK_SERVICE: i32 = 37;

/// Returns true if an attempt to lock failed because the file system has no locks.
fn are_missing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.raw_os_error() == Some(NO_LOCK_SERVICE)
}

fn taken(directory: &Directory, pid: Option<u32>) -> Error {
    let folder = directory.root().display();
    Error::Fatal(match pid {
        Some(pid) => format!(
            "another vsweep (pid {pid}) is working on {folder}; wait for it, stop it, or choose another directory with -o"
        ),
        None => format!(
            "workers or shards are at work on {folder} (see `vsweep status {folder}`); wait for them, stop them, or choose another \
             directory with -o"
        ),
    })
}

/// Returns the known pids of the processes that hold a lock of a directory exclusively: a whole sweep, or shards. Workers share their lock,
/// so their pids are not returned.
pub fn holders(directory: &Directory) -> Result<Vec<u32>> {
    let held = locks(directory)?.into_iter().filter_map(|path| holder(&path));
    Ok(held.flatten().collect())
}

/// Returns the lock files of a directory, that of the whole experiment first.
fn locks(directory: &Directory) -> Result<Vec<PathBuf>> {
    let root = directory.root();
    let mut locks = Vec::new();
    for entry in fs::read_dir(root).map_err(Error::io("read", root))? {
        let entry = entry.map_err(Error::io("read", root))?;
        if entry.file_name().to_string_lossy().starts_with("lock") {
            locks.push(entry.path());
        }
    }
    locks.sort();
    Ok(locks)
}

/// Returns the lock files of shards.
fn of_shards(directory: &Directory) -> Result<impl Iterator<Item = PathBuf>> {
    let others = [directory.lock(Shard::WHOLE), directory.lock_of_workers()];
    Ok(locks(directory)?.into_iter().filter(move |path| !others.contains(path)))
}

/// Returns true if a worker is at work.
fn has_workers(directory: &Directory) -> bool {
    let path = directory.lock_of_workers();
    let Ok(file) = open_with(&path, File::options().read(true).write(true)) else {
        return false;
    };
    let is_held = |_| {
        let is_held = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if is_held {
            std::thread::sleep(PAUSE);
        }
        is_held
    };
    // Another shard may hold it for a moment, only to find out the same.
    (0..TRIES).all(is_held)
}

/// Returns the pid of the process that holds a lock exclusively, or `Some(None)` if it is unknown; `None` if no process does.
fn holder(path: &Path) -> Option<Option<u32>> {
    let file = open(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let text = String::from_utf8(read_all(&file, MOST_FACTS).ok()?);
            Some(text.ok().and_then(|text| text.trim().parse().ok()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Shard {
        text.parse().expect("a shard")
    }

    #[test]
    fn the_second_is_refused_with_the_pid_of_the_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        assert!(holders(&directory).expect("readable").is_empty());
        let first = Lock::take(&directory, Shard::WHOLE).expect("free");
        assert_eq!(holders(&directory).expect("readable"), [std::process::id()]);
        let error = Lock::take(&directory, Shard::WHOLE).expect_err("held").to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(holders(&directory).expect("readable").is_empty());
        Lock::take(&directory, Shard::WHOLE).expect("free again");
    }

    #[test]
    fn workers_and_shards_refuse_each_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let workers = [(); 2].map(|()| Lock::join(&directory).expect("free"));
        let refused = Lock::take(&directory, shard("1/2")).expect_err("held").to_string();
        assert!(refused.contains("workers or shards are at work"), "{refused}");
        drop(workers);
        let _shards = ["1/2", "2/2"].map(|text| Lock::take(&directory, shard(text)).expect("free"));
        assert!(Lock::join(&directory).is_err());
    }

    #[test]
    fn a_file_system_without_locks_is_no_failure() {
        let is_missing = |code| are_missing(&io::Error::from_raw_os_error(code));
        // ENOSYS, EOPNOTSUPP, ENOLCK; EIO.
        assert_eq!([38, 95, 37, 5].map(is_missing), [true, true, true, false]);
    }

    #[test]
    fn shards_of_one_count_share_a_directory_and_nobody_else_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = Directory::at(folder.path());
        let _first = Lock::take(&directory, shard("1/2")).expect("free");
        let _second = Lock::take(&directory, shard("2/2")).expect("free");
        for refused in ["1/2", "1/1", "3/3"] {
            assert!(Lock::take(&directory, shard(refused)).is_err(), "{refused}");
        }
        assert_eq!(holders(&directory).expect("readable").len(), 2);
    }
}
