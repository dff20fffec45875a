//! The inventory of a tree: which files it made outside its folders and which processes its guard adopted, written down as
//! the guard learns of them. Whoever outlives the guard reads it: the vsweep that started the tree, or the next one.
//!
//! It is `/dev/shm/vsweep-<mark>`, beside the shared memory that it names: both are of one machine, and of one container
//! unless containers share it, and both end with it. It is text with one entry a line. A path that is no UTF-8 or holds a
//! line feed is in none, and so is never removed.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where shared memory has its names.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "vsweep-";

/// What is known of a tree.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Inventory {
    /// What was there before its launch.
    pub before: HashSet<PathBuf>,
    /// What it made, with the inodes.
    pub made: BTreeMap<PathBuf, u64>,
    /// Processes that its guard adopted, by id and start.
    pub adopted: HashSet<(i32, u64)>,
    /// The command that ends what the tree started elsewhere; empty if there is none.
    pub stop: Vec<String>,
}

/// One line of an inventory.
pub(super) enum Line<'a> {
    Before(&'a Path),
    Made(&'a Path, u64),
    Adopted(i32, u64),
    Stop(&'a [String]),
}

/// An inventory that is being written. What cannot be written is missed only if the guard is killed, so errors are ignored.
#[derive(Debug)]
pub(super) struct Writer(File);

impl Writer {
    /// Begins the inventory of the tree with this mark.
    pub fn begin(mark: &str) -> Option<Writer> {
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path(mark))
            .ok()?;
        writeln!(file, "in {}", pid_namespace()?).ok()?;
        Some(Writer(file))
    }

    /// Goes on with it.
    pub fn resume(mark: &str) -> Option<Writer> {
        OpenOptions::new().append(true).open(path(mark)).ok().map(Writer)
    }

    pub fn add(&mut self, lines: &[Line<'_>]) {
        let mut text = String::new();
        for line in lines {
            text += &match line {
                Line::Before(path) => format!("before {}\n", path.display()),
                Line::Made(path, inode) => format!("made {inode} {}\n", path.display()),
                Line::Adopted(pid, started) => format!("adopted {pid} {started}\n"),
                Line::Stop(argv) => format!("stop {}\n", serde_json::json!(argv)),
            };
        }
        let _ = self.0.write_all(text.as_bytes());
    }
}

impl Inventory {
    /// Reads the inventory of the tree with this mark, if it is ours and its process ids mean here what they mean there.
    pub fn read(mark: &str) -> Option<Inventory> {
        let path = path(mark);
        is_ours(&path).then_some(())?;
        let text = fs::read_to_string(path).ok()?;
        // A torn last line was being written when its guard was killed.
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        (lines.next()?.strip_prefix("in ")? == pid_namespace()?).then_some(())?;
        let mut inventory = Inventory::default();
        for line in lines {
            inventory.read_line(line);
        }
        Some(inventory)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        match line.split_once(' ')? {
            ("before", path) => drop(self.before.insert(path.into())),
            ("made", entry) => {
                let (inode, path) = entry.split_once(' ')?;
                self.made.insert(path.into(), inode.parse().ok()?);
            }
            ("adopted", entry) => {
                let (pid, started) = entry.split_once(' ')?;
                self.adopted.insert((pid.parse().ok()?, started.parse().ok()?));
            }
            ("stop", argv) => self.stop = serde_json::from_str(argv).ok()?,
            _ => {}
        }
        Some(())
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

/// Containers can share their shared memory and yet count their processes each from 1.
fn pid_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_up_to_a_torn_line() {
        let mark = format!("test-{}", std::process::id());
        assert_eq!(Inventory::read(&mark), None);
        let mut writer = Writer::begin(&mark).expect("shared memory can be written");
        assert!(Writer::begin(&mark).is_none(), "one tree, one inventory");
        writer.add(&[
            Line::Before(Path::new("/dev/shm/a b")),
            Line::Made(Path::new("/dev/shm/c d"), 7),
            Line::Adopted(8, 9),
            Line::Stop(&["docker".into(), "rm -f\n".into()]),
        ]);
        write!(writer.0, "made 9 /dev/shm/to").expect("written");
        assert!(marks().contains(&mark));
        let read = Inventory::read(&mark);
        remove(&mark);
        let expected = Inventory {
            before: HashSet::from(["/dev/shm/a b".into()]),
            made: BTreeMap::from([("/dev/shm/c d".into(), 7)]),
            adopted: HashSet::from([(8, 9)]),
            stop: vec!["docker".into(), "rm -f\n".into()],
        };
        assert_eq!(read, Some(expected));
        assert!(!marks().contains(&mark));
    }
}
