//! Leases record which worker has which group, so that several workers on one directory do not repeat work. A lease is an exclusively
//! created file that its owner rewrites regularly. A lease expires if its file does not change for long, or if its owner is known to be
//! dead. Another worker then takes the group over with a file of the next number, which only one worker can create. Files are never removed
//! or written by two processes, and no clock of another machine is read. Leases only save work: records of two workers on one group are
//! never mixed.

use crate::error::{Error, Result};
use crate::files::{self, is_process_dead, this_process};
use crate::journal::Directory;
use serde::{Deserialize, Serialize};
use std::cell::{LazyCell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// Time between two renewals of a lease.
pub const BEAT: Duration = Duration::from_secs(5);
/// Time after which a lease expires if its reader saw no change: six renewals, because a shared disk may be slow.
const EXPIRY: Duration = Duration::from_secs(30);
/// Greatest number of a lease. No group changes hands so often, so files with a greater one are no leases.
const MOST_NUMBER: u64 = 1 << 32;

/// Content of a lease file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseContent {
    /// Name of the machine, for people.
    pub host: String,
    /// Identifies the process among all others.
    pub owner: String,
    /// Number of renewals.
    pub beat: u64,
    /// True if the owner is done with the group, or has given it back.
    pub is_over: bool,
}

/// The lease of a group. As long as this value lives, a thread renews the lease, so that no other worker takes the group.
#[derive(Debug)]
pub struct Lease {
    lost: watch::Receiver<bool>,
    /// Ends the thread that renews the lease. The thread then gives the lease back.
    beats: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Lease {
    /// Returns true if another worker has taken the group over, because this one stopped renewing the lease.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Resolves once another worker has taken the group over.
    pub async fn lost(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            // The watcher is gone.
            pending::<()>().await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((end, thread)) = self.beats.take() else { return };
        drop(end);
        // The thread writes that the group is free, which should be visible before this process ends.
        let _ = thread.join();
    }
}

/// A lease of this session while it is held, and a channel that turns true once the lease is lost.
type OwnLease = (Weak<Lease>, watch::Receiver<bool>);

/// The leases of a directory, as one session sees them.
#[derive(Debug)]
pub struct Leases {
    directory: Directory,
    host: String,
    /// Last content of each lease of another worker, and the time at which this content was first read.
    seen: RefCell<BTreeMap<PathBuf, (Vec<u8>, Instant)>>,
    /// A note about the last lease that was found unreadable, until the note is taken.
    pub(super) unreadable: RefCell<Option<String>>,
    taken: RefCell<BTreeMap<String, OwnLease>>,
}

impl Leases {
    /// Returns the leases of a directory. Takes none yet.
    pub fn of(directory: &Directory, host: String) -> Leases {
        Leases {
            directory: directory.clone(),
            host,
            seen: RefCell::default(),
            unreadable: RefCell::default(),
            taken: RefCell::default(),
        }
    }

    /// Returns true if this session has or had a group, and did not lose it.
    pub fn had(&self, group: &str) -> bool {
        let taken = self.taken.borrow();
        taken.get(group).is_some_and(|(_, lost)| !*lost.borrow())
    }

    /// Returns the lease of a group: one that this session holds, or a new one; `None` if another worker has it.
    pub fn take(&self, group: &str) -> Result<Option<Rc<Lease>>> {
        let held = self.taken.borrow().get(group).and_then(|(lease, _)| lease.upgrade());
        if let Some(lease) = held.filter(|lease| !lease.is_lost()) {
            return Ok(Some(lease));
        }
        let folder = self.directory.leases().join(group);
        self.directory.create_folder(&folder)?;
        let last = last_number(&folder)?;
        if last > 0 && !self.is_free(&folder.join(last.to_string())) {
            return Ok(None);
        }
        let Some(lease) = self.begin(&folder, last + 1)? else {
            return Ok(None);
        };
        let lease = Rc::new(lease);
        let taken = (Rc::downgrade(&lease), lease.lost.clone());
        self.taken.borrow_mut().insert(group.to_owned(), taken);
        Ok(Some(lease))
    }

    /// Returns true if another worker has a group.
    pub(super) fn is_held(&self, group: &str) -> bool {
        let folder = self.directory.leases().join(group);
        // A group without a folder was never taken.
        let last = last_number(&folder).unwrap_or(0);
        last > 0 && !self.is_free(&folder.join(last.to_string()))
    }

    /// Returns true if another worker's lease has ended or expired.
    fn is_free(&self, path: &Path) -> bool {
        let read = files::read(path, files::MOST_FACTS);
        if let Some(error) = read.as_ref().err().filter(|_| !self.seen.borrow().contains_key(path)) {
            self.unreadable.replace(Some(format!(
                "cannot read the lease {}: {error}; its work is taken over after {} s, so end a worker that still renews it",
                path.display(),
                EXPIRY.as_secs()
            )));
        }
        // A lease that cannot be read expires like one that stands still.
        let content = read.unwrap_or_default();
        let lease: Option<LeaseContent> = serde_json::from_slice(&content).ok();
        if lease.is_some_and(|lease| lease.is_over || is_process_dead(&lease.owner)) {
            return true;
        }
        let now = Instant::now();
        let mut seen = self.seen.borrow_mut();
        let (before, since) = seen.entry(path.to_owned()).or_insert_with(|| (content.clone(), now));
        if *before != content {
            (*before, *since) = (content, now);
        }
        now - *since >= EXPIRY
    }

    /// Creates the lease of this number; `None` if another worker was faster.
    fn begin(&self, folder: &Path, number: u64) -> Result<Option<Lease>> {
        let path = folder.join(number.to_string());
        let mut content = LeaseContent {
            host: self.host.clone(),
            owner: this_process(),
            beat: 0,
            is_over: false,
        };
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            opened => opened.map_err(Error::io("create", &path))?,
        };
        file.write_all(&text(&content)).map_err(Error::io("write", &path))?;
        let (sender, lost) = watch::channel(false);
        let (end, ended) = mpsc::channel::<()>();
        let next = folder.join((number + 1).to_string());
        let beat = move || {
            loop {
                let is_over = ended.recv_timeout(BEAT) != Err(RecvTimeoutError::Timeout);
                if next.exists() {
                    sender.send_replace(true);
                    return;
                }
                (content.beat, content.is_over) = (content.beat + 1, is_over);
                // A worker that cannot write risks losing the lease, and nothing else.
                let _ = rewrite(&mut file, &text(&content));
                if is_over {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("vsweep-lease".into()).spawn(beat);
        // Without a thread other workers may take the group after a while and measure it twice.
        let beats = thread.ok().map(|thread| (end, thread));
        Ok(Some(Lease { lost, beats }))
    }
}

fn rewrite(file: &mut File, text: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)
}

/// Returns the time by the clock of a folder's file system, which may be another machine's; by this machine's clock, if the folder cannot be
/// written.
fn time_of_disk(folder: &Path) -> SystemTime {
    let path = files::temporary_name(&folder.join("time"));
    let made = File::create_new(&path).and_then(|file| file.metadata()?.modified());
    let _ = fs::remove_file(&path);
    made.unwrap_or_else(|_| SystemTime::now())
}

/// Returns the leases that are in use, by group. For people only, because it relies on the times of files.
pub fn leases_in_use(directory: &Directory) -> BTreeMap<String, LeaseContent> {
    let folders = fs::read_dir(directory.leases()).into_iter().flatten().flatten();
    let now = LazyCell::new(|| time_of_disk(&directory.leases()));
    let content = |folder: fs::DirEntry| {
        let last = last_number(&folder.path()).ok().filter(|last| *last > 0)?;
        let path = folder.path().join(last.to_string());
        let content: LeaseContent = serde_json::from_slice(&files::read(&path, files::MOST_FACTS).ok()?).ok()?;
        let changed = fs::metadata(&path).ok()?.modified().ok()?;
        let is_recent = || changed.elapsed().is_ok_and(|age| age < EXPIRY);
        // If it seems old or from the future, the clocks may differ.
        let is_fresh = || is_recent() || now.duration_since(changed).unwrap_or_default() < EXPIRY;
        let is_alive = !content.is_over && !is_process_dead(&content.owner) && is_fresh();
        let group = folder.file_name().to_string_lossy().into_owned();
        is_alive.then_some((group, content))
    };
    folders.filter_map(content).collect()
}

fn last_number(folder: &Path) -> Result<u64> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number <= MOST_NUMBER);
    Ok(numbers.max().unwrap_or(0))
}

fn text(content: &LeaseContent) -> Vec<u8> {
    serde_json::to_vec(content).expect("plain data always serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(folder: &Path) -> Leases {
        Leases::of(&Directory::at(folder), "here".into())
    }

    /// Writes a lease of a process on another machine.
    fn strange(folder: &Path, beat: u64) {
        fs::create_dir_all(folder.join("leases/a")).expect("created");
        let content = LeaseContent {
            host: "there".into(),
            owner: "1-2-3".into(),
            beat,
            is_over: false,
        };
        fs::write(folder.join("leases/a/1"), text(&content)).expect("written");
    }

    #[test]
    fn one_at_a_time_has_a_group_until_it_gives_it_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (leases(folder.path()), leases(folder.path()));
        let lease = one.take("a").expect("readable").expect("free");
        assert!(two.take("a").expect("readable").is_none());
        let again = one.take("a").expect("readable");
        assert!(again.is_some_and(|again| Rc::ptr_eq(&again, &lease)) && one.had("a"));
        drop(lease);
        assert!(two.take("a").expect("readable").is_some(), "it was given back");
        assert!(one.had("a") && two.take("b").expect("readable").is_some());
    }

    #[test]
    fn a_lease_that_stands_still_is_followed_by_the_next_and_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        strange(folder.path(), 1);
        let leases = leases(folder.path());
        let path = folder.path().join("leases/a/1");
        assert!(!leases.is_free(&path), "it was not seen to stand still");
        let long_ago = |leases: &Leases| {
            let mut seen = leases.seen.borrow_mut();
            let (_, since) = seen.get_mut(&path).expect("seen");
            *since = since.checked_sub(EXPIRY).expect("the machine is up for long");
        };
        long_ago(&leases);
        strange(folder.path(), 2);
        assert!(leases.take("a").expect("readable").is_none(), "it lives");
        long_ago(&leases);
        let lease = leases.take("a").expect("readable").expect("it stands still");
        assert!(!lease.is_lost());
        fs::write(folder.path().join("leases/a/3"), b"").expect("written");
        drop(lease);
        assert!(!leases.had("a"), "another worker has it");
        assert_eq!(
            leases_in_use(&Directory::at(folder.path())).len(),
            0,
            "an empty content says nothing"
        );
    }

    #[test]
    fn a_lease_is_in_use_as_long_as_its_file_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        strange(folder.path(), 1);
        let directory = Directory::at(folder.path());
        let in_use = || leases_in_use(&directory).into_keys().collect::<Vec<_>>();
        assert_eq!(in_use(), ["a"]);
        let left = fs::read_dir(folder.path().join("leases")).expect("readable");
        assert_eq!(left.count(), 1, "the file that shows the time is gone");
        let file = File::options().write(true).open(folder.path().join("leases/a/1"));
        let long_ago = SystemTime::now() - 2 * EXPIRY;
        file.and_then(|file| file.set_modified(long_ago)).expect("ours");
        assert!(in_use().is_empty());
    }

    #[test]
    fn a_lease_that_cannot_be_read_is_named_once_and_expires() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("leases/a/1");
        fs::create_dir_all(folder.path().join("leases/a")).expect("created");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("linked");
        let leases = leases(folder.path());
        assert!(leases.take("a").expect("readable").is_none());
        let note = leases.unreadable.take().expect("a note");
        assert!(note.contains("leases/a/1: it is a link"), "{note}");
        assert!(leases.take("a").expect("readable").is_none() && leases.unreadable.take().is_none());
        let mut seen = leases.seen.borrow_mut();
        let (_, since) = seen.get_mut(&path).expect("seen");
        *since = since.checked_sub(EXPIRY).expect("the machine is up for long");
        drop(seen);
        assert!(leases.take("a").expect("readable").is_some());
    }

    #[test]
    fn a_number_that_no_lease_reaches_is_no_lease() {
        let folder = tempfile::tempdir().expect("a folder");
        strange(folder.path(), 1);
        for number in [u64::MAX, u64::MAX - 1] {
            fs::copy(
                folder.path().join("leases/a/1"),
                folder.path().join(format!("leases/a/{number}")),
            )
            .expect("copied");
        }
        assert_eq!(last_number(&folder.path().join("leases/a")).expect("readable"), 1);
    }

    #[test]
    fn what_a_dead_process_had_is_free_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("leases/a")).expect("created");
        let own = this_process();
        let (before, started) = own.rsplit_once('-').expect("three parts");
        let started: u64 = started.parse().expect("a number");
        let content = LeaseContent {
            host: "here".into(),
            owner: format!("{before}-{}", started - 1),
            beat: 1,
            is_over: false,
        };
        fs::write(folder.path().join("leases/a/1"), text(&content)).expect("written");
        assert!(leases(folder.path()).take("a").expect("readable").is_some());
    }
}
