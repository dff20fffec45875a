//! The mark that every process of a tree carries in its environment, and what it tells when those who owned the tree are
//! gone. As long as a tree's guard or its vsweep lives, the tree is theirs; what is left when both are dead is found by
//! its mark, named, and ended.
//!
//! A mark is `VSWEEP_TREE=<process>-<count>`: the vsweep that owns the tree, told so exactly that no other process of this or another
//! container is taken for it, and the number of the tree.

use super::inventory::{self, Inventory};
use super::procfs::{self, Process};
use crate::files::{is_process_dead, this_process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the variable.
pub(super) const TREE: &str = "VSWEEP_TREE";

/// What a guard calls itself: `pkill -9 vsweep` must leave the one process alive that cleans up after the others.
pub(super) const GUARD: &str = "server-guard";

/// A process of a tree that nobody owns any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Orphan {
    /// Its process id.
    pub pid: i32,
    /// The name of its program.
    pub program: String,
    started: u64,
}

/// What is left of the trees of some vsweeps that are dead.
#[derive(Debug, Default)]
pub struct Remains {
    /// Whether a guard is still at work: it ends its tree by itself.
    pub is_guarded: bool,
    /// Processes without a guard.
    pub orphans: Vec<Orphan>,
}

impl Remains {
    /// Looks for what is left of the trees that the vsweeps of these process ids started. One that lives owns its trees, and
    /// they are not told of.
    pub fn of(vsweeps: &[u32]) -> Remains {
        if vsweeps.is_empty() {
            return Remains::default();
        }
        let all = procfs::processes();
        let marked: Vec<(Process, String)> = all
            .iter()
            .filter_map(|process| Some((*process, procfs::environment(process.pid, TREE)?)))
            .chain(adopted(&all))
            .filter(|(_, mark)| owner(mark).is_some_and(|owner| is_one_of(owner, vsweeps) && is_process_dead(owner)))
            .collect();
        let is_guard = |process: &Process| procfs::program_name(process.pid) == GUARD;
        let guarded: HashSet<&String> = marked
            .iter()
            .filter(|(p, _)| is_guard(p))
            .map(|(_, mark)| mark)
            .collect();
        let is_unguarded = |(_, mark): &&(Process, String)| !guarded.contains(mark);
        let roots: HashSet<i32> = marked
            .iter()
            .filter(is_unguarded)
            .map(|(process, _)| process.pid)
            .collect();
        // A process that changed its environment may hide below one that did not.
        let mut lost = procfs::family(&all, &roots);
        lost.retain(|process| !process.zombie);
        Remains {
            is_guarded: !guarded.is_empty(),
            orphans: lost.into_iter().map(Orphan::of).collect(),
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        !self.is_guarded && self.orphans.is_empty()
    }
}

/// Those of `all` that guards adopted, whatever has become of their environment, with the marks of their trees.
fn adopted(all: &[Process]) -> Vec<(Process, String)> {
    let of_tree = |mark: String| {
        let known = Inventory::read(&mark).unwrap_or_default();
        let is_known = move |process: &&Process| known.adopted.contains(&(process.pid, process.started));
        all.iter().filter(is_known).map(move |process| (*process, mark.clone()))
    };
    inventory::marks().into_iter().flat_map(of_tree).collect()
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.program)
    }
}

impl Orphan {
    fn of(process: Process) -> Orphan {
        Orphan {
            pid: process.pid,
            program: procfs::program_name(process.pid),
            started: process.started,
        }
    }

    /// Kills it. Another process that got its number meanwhile is left alone.
    pub fn end(&self) {
        if procfs::lives(self.pid, self.started) {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}

/// The vsweep that a mark names, in words.
pub(super) fn owner(mark: &str) -> Option<&str> {
    Some(mark.rsplit_once('-')?.0)
}

fn is_one_of(owner: &str, vsweeps: &[u32]) -> bool {
    let pid = owner.split('-').nth(1).and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid| vsweeps.contains(&pid))
}

/// Whether the process belongs to a tree that will be cleaned up anyway: one of ours, or of a vsweep that is dead.
pub(super) fn will_end(pid: i32) -> bool {
    let mark = procfs::environment(pid, TREE);
    let owner = mark.as_deref().and_then(owner);
    owner.is_some_and(|owner| owner == this_process() || is_process_dead(owner))
}

/// The mark of a new tree of ours.
pub(super) fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", this_process(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_vsweep_for_certain() {
        let mark = new_mark();
        let mine = owner(&mark).expect("a mark");
        assert!(is_one_of(mine, &[std::process::id()]) && !is_one_of(mine, &[std::process::id() + 1]));
        assert!(!is_process_dead(mine));
        let (who, started) = mine.rsplit_once('-').expect("its start");
        let started: u64 = started.parse().expect("a number");
        assert!(
            is_process_dead(&format!("{who}-{}", started + 1)),
            "a number that was given out again"
        );
        for text in ["", "7", "7-1", "7-x-1", "--"] {
            let owner = owner(text).unwrap_or_default();
            assert!(!is_one_of(owner, &[7]) && !is_process_dead(owner), "{text}");
        }
    }
}
