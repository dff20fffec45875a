//! Finds and removes what a process tree leaves behind: shared memory and rendezvous files of vLLM, and servers that run elsewhere.
//!
//! A server that its command started elsewhere is ended by the plan's stop command. The command runs once the tree is gone, in the process
//! that then removes the remains: the tree's guard, the vsweep that started it, or the next vsweep.
//!
//! A file is removed only if it was not there before the launch, if the tree made it, and if no process holds it once the tree is gone. The
//! tree made a file if one of its processes held the file, or if the server's log names it. The tree's guard finds and removes such files.
//! A search costs two directory listings as long as there are no new files.
//!
//! The guard records remains at once, so that others can remove them if the guard is killed. The record is the tree's inventory,
//! `/dev/shm/vsweep-<mark>`, in the same folder as the shared memory that it names. The record and this memory belong to one machine, and
//! to one container unless containers share the folder, and both end with it. Each line is a [`Note`] in JSON. Paths that are not valid
//! UTF-8 are not recorded and so never removed.

use super::elsewhere;
use super::procfs::{self, Process, TREE, new_mark, owner};
use crate::files::{self, is_process_dead};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folder of shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Prefix of an inventory's name.
const PREFIX: &str = "vsweep-";
/// Prefix of vLLM's file for the rendezvous of its workers: `$TMPDIR/vllm_dist_<uuid>`. No process keeps it open.
const RENDEZVOUS: &str = "vllm_dist_";
/// Number of looks at a new file that no process of the tree seems to hold. After these, it is looked at only when the tree ends.
const LOOKS: u32 = 3;
/// Bytes at the beginning of the log that are searched for names of rendezvous files, which vLLM prints while it starts.
const LOG_BYTES: u64 = 4 << 20;

/// Possible remains of a tree.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Mark of the tree.
    mark: String,
    /// Files that existed before its launch.
    before: HashSet<PathBuf>,
    /// Files that it made, with their inodes.
    made: BTreeMap<PathBuf, u64>,
    /// Processes that its guard adopted, by id and start time.
    adopted: HashSet<(i32, u64)>,
    /// The command that ends what the tree started elsewhere; empty if there is none.
    stop: Vec<String>,
    /// The working folder of the stop command, because the next vsweep may run in another one; empty if it is unknown.
    stop_folder: PathBuf,
    /// New files of unknown origin, with the number of looks at each.
    unattributed: BTreeMap<PathBuf, u32>,
    /// The open inventory, if it can be written.
    inventory: Option<File>,
}

/// One line of an inventory.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Before(PathBuf),
    Made(PathBuf, u64),
    Adopted(i32, u64),
    Stop(Vec<String>),
    StopFolder(PathBuf),
}

impl Leftovers {
    /// Records the files that exist before this guard launches its tree. They are never removed.
    pub fn before_launch(stop: Vec<String>) -> Leftovers {
        let mut tree = Leftovers::begin(std::env::var(TREE).unwrap_or_else(|_| new_mark()));
        tree.note(present().into_iter().map(Note::Before));
        let folder = std::env::current_dir().ok().filter(|folder| folder.to_str().is_some());
        let folder = folder.map(Note::StopFolder);
        tree.note([Note::Stop(stop)].into_iter().chain(folder));
        tree
    }

    fn begin(mark: String) -> Leftovers {
        let mut new = OpenOptions::new();
        Leftovers {
            inventory: new
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(inventory(&mark))
                .ok(),
            mark,
            ..Leftovers::default()
        }
    }

    /// Reads the inventory of the tree with this mark, if it belongs to this user. Further notes can be added.
    pub fn of(mark: &str) -> Option<Leftovers> {
        let path = inventory(mark);
        is_ours(&path).then_some(())?;
        let text = files::read_text(&path, files::MOST_TEXT).ok()?;
        let mut tree = Leftovers {
            mark: mark.to_owned(),
            inventory: files::open_with(&path, OpenOptions::new().append(true)).ok(),
            ..Leftovers::default()
        };
        // The last line may be incomplete, if the guard was killed while it wrote.
        let notes = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        notes.for_each(|note| tree.take(note));
        Some(tree)
    }

    /// Adds notes, also to the inventory. Write errors are ignored, because the inventory is needed only if the guard is killed.
    fn note(&mut self, notes: impl IntoIterator<Item = Note>) {
        let mut text = String::new();
        for note in notes {
            text += &serde_json::to_string(&note).expect("its paths are text");
            text.push('\n');
            self.take(note);
        }
        if let Some(file) = &mut self.inventory {
            let _ = file.write_all(text.as_bytes());
        }
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Before(path) => drop(self.before.insert(path)),
            Note::Made(path, inode) => drop(self.made.insert(path, inode)),
            Note::Adopted(pid, started) => drop(self.adopted.insert((pid, started))),
            Note::Stop(argv) => self.stop = argv,
            Note::StopFolder(folder) => self.stop_folder = folder,
        }
    }

    /// Looks for files that the tree below this process made, and for processes that it adopted in addition to its leader.
    pub fn look(&mut self, leader: i32) {
        self.attribute(LOOKS);
        self.note_adopted(leader);
    }

    /// Looks for all new files, just before the tree's processes end, or after that.
    pub fn look_closely(&mut self) {
        self.attribute(u32::MAX);
    }

    /// Looks for shared memory of a tree that lost its guard, of which these processes are left.
    pub fn look_at(&mut self, left: impl IntoIterator<Item = i32>) {
        let (_, shared) = self.new_files(u32::MAX);
        self.note_made(held_by(left, &shared));
    }

    /// Records new files that the tree made, among those that were looked at fewer than `looks` times.
    fn attribute(&mut self, looks: u32) {
        let (rendezvous, shared) = self.new_files(looks);
        if !shared.is_empty() {
            let tree = procfs::descendants(std::process::id() as i32);
            self.note_made(held_by(tree.iter().map(|process| process.pid), &shared));
        }
        if !rendezvous.is_empty() {
            let log = log_text();
            let named = |path: &PathBuf| {
                path.file_name()
                    .is_some_and(|name| log.contains(&*name.to_string_lossy()))
            };
            self.note_made(rendezvous.into_iter().filter(named));
        }
    }

    /// Returns the new files of unknown origin that were looked at fewer than `looks` times, and counts this look: rendezvous files, and
    /// shared memory.
    fn new_files(&mut self, looks: u32) -> (HashSet<PathBuf>, HashSet<PathBuf>) {
        let mut sought = present();
        sought.retain(|path| !self.before.contains(path) && !self.made.contains_key(path));
        sought.retain(|path| {
            let seen = self.unattributed.entry(path.clone()).or_default();
            *seen = seen.saturating_add(1);
            *seen <= looks
        });
        sought.into_iter().partition(|path| is_rendezvous(path))
    }

    fn note_made(&mut self, made: impl IntoIterator<Item = PathBuf>) {
        let entry = |path: PathBuf| {
            let inode = fs::symlink_metadata(&path).ok()?.ino();
            Some(Note::Made(path, inode))
        };
        self.note(made.into_iter().filter_map(entry));
    }

    /// Records adopted processes. They can then be found and ended even if they changed their environment, and with it their mark.
    fn note_adopted(&mut self, leader: i32) {
        let children = procfs::children_of_this_thread().into_iter();
        let adopted = children.filter(|pid| *pid != leader).filter_map(procfs::process);
        let is_new = |process: &Process| !self.adopted.contains(&(process.pid, process.started));
        let new: Vec<Process> = adopted.filter(is_new).collect();
        let entries = new
            .into_iter()
            .map(|process| Note::Adopted(process.pid, process.started));
        self.note(entries);
    }

    /// Returns true if there is a stop command, so that a server may run elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        !self.stop.is_empty()
    }

    /// Ends processes elsewhere and removes the remains, now that the tree is gone. Returns the removed files. The inventory is removed
    /// too, unless something is still held: a killed process releases its memory last, and remains without a record would stay for ever. It
    /// also stays if a server could not be ended, so that the next vsweep tries again; its try is the last.
    pub fn remove(self, is_last_try: bool) -> Vec<String> {
        let is_ended = self.stop.is_empty() || elsewhere::end(&self.stop, &self.stop_folder);
        let is_kept = !is_ended && !is_last_try;
        let is_left = |(path, inode): (PathBuf, u64)| {
            let is_same = || fs::symlink_metadata(&path).is_ok_and(|meta| meta.ino() == inode);
            (may_be_leftover(&path) && is_ours(&path) && is_same()).then_some(path)
        };
        let mut left: HashSet<PathBuf> = self.made.into_iter().filter_map(is_left).collect();
        let mut is_held = false;
        if !left.is_empty() {
            let held = held_by(procfs::processes().iter().map(|process| process.pid), &left);
            is_held = !held.is_empty();
            left.retain(|path| !held.contains(path) && fs::remove_file(path).is_ok());
        }
        if !is_held && !is_kept {
            let _ = fs::remove_file(inventory(&self.mark));
        }
        let mut removed: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
        removed.sort();
        if !self.stop.is_empty() && is_ended {
            // The arguments may contain a secret of another plan.
            removed.push(format!("the server that its stop command ({}) ends", self.stop[0]));
        }
        removed
    }
}

/// Records the shared memory that these processes hold, before they are ended. Their vsweep and their guard are dead.
pub(in crate::server) fn note_held(left: impl Iterator<Item = i32> + Clone) {
    for mut tree in ownerless().iter().filter_map(|mark| Leftovers::of(mark)) {
        tree.look_at(left.clone());
    }
}

/// Returns true if there are remains of dead trees, so that they must be removed or awaited.
pub(in crate::server) fn are_abandoned() -> bool {
    !abandoned().is_empty()
}

/// Removes the remains of trees whose vsweep, guard and processes are all dead. Returns what was removed.
pub(in crate::server) fn remove_abandoned() -> Vec<String> {
    abandoned().into_iter().flat_map(|tree| tree.remove(true)).collect()
}

/// Returns the remains of trees whose vsweep, guard and processes are all dead.
fn abandoned() -> Vec<Leftovers> {
    let marks = ownerless();
    if marks.is_empty() {
        return Vec::new();
    }
    let all = procfs::processes();
    let environments = all.iter().map(|process| procfs::environment(process.pid, TREE));
    let living: HashSet<String> = environments.flatten().collect();
    let dead = marks
        .iter()
        .filter(|mark| !living.contains(*mark))
        .filter_map(|mark| Leftovers::of(mark))
        .filter(|tree| !tree.adopted.iter().any(|&(pid, started)| procfs::lives(pid, started)));
    dead.collect()
}

/// Processes that guards adopted, by id and start time, each with the mark of its tree.
pub(super) fn adopted() -> Vec<((i32, u64), String)> {
    let trees = marks().into_iter().filter_map(|mark| Leftovers::of(&mark));
    let of_tree = |tree: Leftovers| {
        tree.adopted
            .into_iter()
            .map(move |process| (process, tree.mark.clone()))
    };
    trees.flat_map(of_tree).collect()
}

/// The marks of this user's trees that have an inventory.
fn marks() -> Vec<String> {
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned()))
        .filter(|mark| is_ours(&inventory(mark)))
        .collect()
}

/// The marks of trees with an inventory whose vsweep is dead.
fn ownerless() -> Vec<String> {
    let mut marks = marks();
    marks.retain(|mark| owner(mark).is_some_and(is_process_dead));
    marks
}

/// Returns a watch that becomes readable when shared memory is made. So a file is noticed even if its process lives for a moment only.
pub(super) fn watch_shared_memory() -> Option<Inotify> {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    watch.add_watch(SHARED_MEMORY, AddWatchFlags::IN_CREATE).ok()?;
    Some(watch)
}

fn inventory(mark: &str) -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("{PREFIX}{mark}"))
}

/// Returns true if a path is a file of this user. Links are excluded, because they may lead anywhere.
fn is_ours(path: &Path) -> bool {
    let me = nix::unistd::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == me)
}

/// Returns this user's files of the kinds that vLLM leaves behind.
fn present() -> HashSet<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    list(Path::new(SHARED_MEMORY))
        .chain(list(&std::env::temp_dir()))
        .map(|entry| entry.path())
        .filter(|path| may_be_leftover(path) && is_ours(path))
        .collect()
}

/// Returns true if a file is of a kind that vLLM leaves behind, with a name that an inventory can hold.
fn may_be_leftover(path: &Path) -> bool {
    path.to_str().is_some() && (is_rendezvous(path) || path.parent() == Some(Path::new(SHARED_MEMORY)))
}

fn is_rendezvous(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(RENDEZVOUS))
}

fn held_by(pids: impl IntoIterator<Item = i32>, files: &HashSet<PathBuf>) -> HashSet<PathBuf> {
    let held = pids.into_iter().map(|pid| procfs::held_files(pid, files));
    held.flatten().collect()
}

/// Returns the beginning of the command's log, which is the guard's standard error.
fn log_text() -> String {
    let mut bytes = Vec::new();
    if let Ok(log) = File::open(format!("/proc/self/fd/{}", io::stderr().as_raw_fd())) {
        let _ = log.take(LOG_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_held_is_removed_later() {
        let mark = new_mark();
        let mut written = Leftovers::begin(mark.clone());
        let path = Path::new(SHARED_MEMORY).join(format!("psm_{:08x}", std::process::id()));
        let held = File::create(&path).expect("writable");
        let inode = held.metadata().expect("its inode").ino();
        written.note([Note::Made(path.clone(), inode)]);
        let remove = || Leftovers::of(&mark).map(|tree| tree.remove(true));
        assert_eq!(remove(), Some(vec![]));
        assert!(path.exists());
        drop(held);
        assert_eq!(remove(), Some(vec![path.display().to_string()]));
        assert_eq!(remove(), None);
    }

    #[test]
    fn a_foreign_inventory_is_not_awaited() {
        let mark = format!("foreign-{}", std::process::id());
        std::os::unix::fs::symlink("/dev/zero", inventory(&mark)).expect("made");
        let found = marks();
        fs::remove_file(inventory(&mark)).expect("there");
        assert!(!found.contains(&mark));
    }

    #[test]
    fn what_is_written_is_read_up_to_a_torn_line() {
        let mark = format!("test-{}", std::process::id());
        assert!(Leftovers::of(&mark).is_none());
        let mut written = Leftovers::begin(mark.clone());
        assert!(
            Leftovers::begin(mark.clone()).inventory.is_none(),
            "one tree, one inventory"
        );
        written.note([
            Note::Before("/dev/shm/a b".into()),
            Note::Made("/dev/shm/c\nd".into(), 7),
            Note::Adopted(8, 9),
            Note::Stop(vec!["docker".into(), "rm -f\n".into()]),
            Note::StopFolder("/srv".into()),
        ]);
        let mut file = written.inventory.expect("shared memory can be written");
        write!(file, r#"{{"made":["/dev/shm/to"#).expect("written");
        assert!(marks().contains(&mark));
        let read = Leftovers::of(&mark).expect("it is ours");
        fs::remove_file(inventory(&mark)).expect("there");
        assert_eq!(read.before, HashSet::from(["/dev/shm/a b".into()]));
        assert_eq!(read.made, BTreeMap::from([("/dev/shm/c\nd".into(), 7)]));
        assert_eq!(read.adopted, HashSet::from([(8, 9)]));
        assert_eq!(read.stop, ["docker", "rm -f\n"]);
        assert_eq!(read.stop_folder, Path::new("/srv"));
        assert!(!marks().contains(&mark));
    }
}
