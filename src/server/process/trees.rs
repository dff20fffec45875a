//! The mark in the environment of every process of a tree, which identifies its owner. A mark is `VSWEEP_TREE=<process>-<count>`: the
//! vsweep that owns the tree, described so precisely that no other process of this or another container is mistaken for it, and the number
//! of the tree.

use super::procfs;
use crate::files::{is_process_dead, this_process};
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the variable.
pub(super) const TREE: &str = "VSWEEP_TREE";

/// Name of a guard's process: `pkill -9 vsweep` must leave the one process alive that cleans up after the others.
pub(super) const GUARD: &str = "server-guard";

/// The vsweep that a mark names, in words.
pub(super) fn owner(mark: &str) -> Option<&str> {
    Some(mark.rsplit_once('-')?.0)
}

/// Returns true if the process belongs to a tree that will be cleaned up anyway: one of ours, or of a dead vsweep.
pub(in crate::server) fn will_end(pid: i32) -> bool {
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
        assert_eq!(mine.split('-').nth(1), Some(&*std::process::id().to_string()));
        assert!(!is_process_dead(mine));
        let (who, started) = mine.rsplit_once('-').expect("its start");
        let started: u64 = started.parse().expect("a number");
        let another = format!("{who}-{}", started + 1);
        assert!(is_process_dead(&another), "a number that was given out again");
        for text in ["", "7", "7-1", "7.1-0", "--"] {
            assert!(!is_process_dead(owner(text).unwrap_or_default()), "{text}");
        }
    }
}
