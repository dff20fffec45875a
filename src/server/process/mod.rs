//! The processes of a server or a program: a guard owns each tree, and what a killed vsweep left is found and ended.

pub mod errand;
pub mod guard;
pub mod guarded;
pub(super) mod leftovers;
pub mod orphans;
pub(super) mod procfs;
pub(super) mod stop_command;
