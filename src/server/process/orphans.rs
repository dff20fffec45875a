//! Finds and ends the remains of process trees whose owners have died. A tree belongs to its guard and its vsweep while one of them lives.
//! If both are dead, its processes are found by their mark, reported and ended.

use super::leftovers;
use super::procfs::{self, GUARD, Process, TREE, owner, process_of};
use crate::files::is_process_dead;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashSet;
use std::fmt;

/// A process of a tree without an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Orphan {
    /// Its process id.
    pub pid: i32,
    /// The name of its program.
    pub program: String,
    started: u64,
}

/// Remains of the trees of dead vsweep processes.
#[derive(Debug, Default)]
pub struct Remains {
    /// True if a guard is still at work. It ends its tree by itself.
    pub is_guarded: bool,
    /// Processes without a guard.
    pub orphans: Vec<Orphan>,
}

impl Remains {
    /// Finds remains of the trees that vsweep processes with these ids and start times started. Trees of a living vsweep are left out.
    pub fn of(vsweeps: &[(u32, u64)]) -> Remains {
        if vsweeps.is_empty() {
            return Remains::default();
        }
        let is_of_dead = |mark: &str| {
            let owner = owner(mark).filter(|owner| is_process_dead(owner));
            let process = owner.and_then(process_of);
            process.is_some_and(|process| vsweeps.contains(&process))
        };
        let all = procfs::processes();
        let marked: Vec<(Process, String)> = all
            .iter()
            .filter_map(|process| Some((*process, procfs::environment(process.pid, TREE)?)))
            .chain(adopted(&all))
            .filter(|(_, mark)| is_of_dead(mark))
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
        // Descendants are included, because a process may have changed its environment.
        let mut lost = procfs::family(&all, &roots);
        lost.retain(|process| !process.zombie);
        // Processes with a mark come first in messages.
        lost.sort_by_key(|process| procfs::environment(process.pid, TREE).is_none());
        Remains {
            is_guarded: !guarded.is_empty(),
            orphans: lost.into_iter().map(Orphan::of).collect(),
        }
    }

    /// Returns true if nothing is left.
    pub fn is_empty(&self) -> bool {
        !self.is_guarded && self.orphans.is_empty()
    }
}

/// Processes of `all` that guards adopted, with the marks of their trees. Their environments may have changed.
fn adopted(all: &[Process]) -> impl Iterator<Item = (Process, String)> {
    leftovers::adopted().into_iter().filter_map(|(known, mark)| {
        let process = all.iter().find(|process| (process.pid, process.started) == known)?;
        Some((*process, mark))
    })
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

    /// Kills the process. A later process with the same id is left alone.
    pub fn end(&self) {
        if procfs::lives(self.pid, self.started) {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}
