//! The tables of a plan, one file each, with their keys, defaults and checks.

pub(super) mod bench;
pub(super) mod compare;
pub(super) mod exec;
pub(super) mod explore;
pub(super) mod link;
pub(super) mod mix;
pub(super) mod offline;
pub(super) mod on_finish;
pub(super) mod optimize;
pub(super) mod report;
pub(super) mod requirement;
pub(super) mod runs;
pub(super) mod serve;
pub(super) mod sla;
pub(super) mod slurm;
