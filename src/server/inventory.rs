//! The inventory of a tree: which files it made outside its folders and which processes its guard adopted, written down as
//! the guard learns of them. Whoever outlives the guard reads it: the vsweep that started the tree, or the next one.
//!
//! It is `/dev/shm/vsweep-<mark>`, beside the shared memory that it names: both are of one machine, and of one container
//! unless containers share it, and both end with it. Each line is an [`Entry`] in JSON. A path that is no UTF-8 is in none, and so is
//! never removed.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where shared memory has its names.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "vsweep-";

/// What is known of a tree.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// What was there before its launch.
    pub before: HashSet<PathBuf>,
    /// What it made, with the inodes.
    pub made: BTreeMap<PathBuf, u64>,
    /// Processes that its guard adopted, by id and start.
    pub adopted: HashSet<(i32, u64)>,
    /// The command that ends what the tree started elsewhere; empty if there is none.
    pub stop: Vec<String>,
    /// Where it is written down, if it can be.
    file: Option<File>,
}

/// One line of an inventory.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InventoryEntry {
    Before(PathBuf),
    Made(PathBuf, u64),
    Adopted(i32, u64),
    Stop(Vec<String>),
}

impl Inventory {
    /// Begins that of the tree with this mark.
    pub fn begin(mark: &str) -> Inventory {
        let mut new = OpenOptions::new();
        Inventory {
            file: new.append(true).create_new(true).mode(0o600).open(path(mark)).ok(),
            ..Inventory::default()
        }
    }

    /// Adds to it. What cannot be written is missed only if the guard is killed, so errors are ignored.
    pub fn note(&mut self, entries: impl IntoIterator<Item = InventoryEntry>) {
        let mut text = String::new();
        for entry in entries {
            text += &serde_json::to_string(&entry).expect("its paths are text");
            text.push('\n');
            self.take(entry);
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(text.as_bytes());
        }
    }

    /// Reads that of the tree with this mark, if it is ours. More can be added.
    pub fn read(mark: &str) -> Option<Inventory> {
        let path = path(mark);
        is_ours(&path).then_some(())?;
        let text = fs::read_to_string(&path).ok()?;
        // A torn last line was being written when its guard was killed.
        let entries = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut inventory = Inventory {
            file: OpenOptions::new().append(true).open(path).ok(),
            ..Inventory::default()
        };
        entries.for_each(|entry| inventory.take(entry));
        Some(inventory)
    }

    fn take(&mut self, entry: InventoryEntry) {
        match entry {
            InventoryEntry::Before(path) => drop(self.before.insert(path)),
            InventoryEntry::Made(path, inode) => drop(self.made.insert(path, inode)),
            InventoryEntry::Adopted(pid, started) => drop(self.adopted.insert((pid, started))),
            InventoryEntry::Stop(argv) => self.stop = argv,
        }
    }
}

/// The marks of all trees that have an inventory.
pub(super) fn marks() -> Vec<String> {
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned()))
        .collect()
}

/// Forgets a tree of which nothing is left.
pub(super) fn remove(mark: &str) {
    let _ = fs::remove_file(path(mark));
}

/// Whether a path is a file of this user; a link may lead anywhere.
pub(super) fn is_ours(path: &Path) -> bool {
    let me = nix::unistd::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == me)
}

fn path(mark: &str) -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("{PREFIX}{mark}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_up_to_a_torn_line() {
        let mark = format!("test-{}", std::process::id());
        assert!(Inventory::read(&mark).is_none());
        let mut written = Inventory::begin(&mark);
        assert!(Inventory::begin(&mark).file.is_none(), "one tree, one inventory");
        written.note([
            InventoryEntry::Before("/dev/shm/a b".into()),
            InventoryEntry::Made("/dev/shm/c\nd".into(), 7),
            InventoryEntry::Adopted(8, 9),
            InventoryEntry::Stop(vec!["docker".into(), "rm -f\n".into()]),
        ]);
        let mut file = written.file.expect("shared memory can be written");
        write!(file, r#"{{"made":["/dev/shm/to"#).expect("written");
        assert!(marks().contains(&mark));
        let read = Inventory::read(&mark).expect("it is ours");
        remove(&mark);
        assert_eq!(read.before, HashSet::from(["/dev/shm/a b".into()]));
        assert_eq!(read.made, BTreeMap::from([("/dev/shm/c\nd".into(), 7)]));
        assert_eq!(read.adopted, HashSet::from([(8, 9)]));
        assert_eq!(read.stop, ["docker", "rm -f\n"]);
        assert!(!marks().contains(&mark));
    }
}
