//! The files of an experiment: tables, pages, configuration files and charts, written and verified.

pub(super) mod basis;
pub(super) mod configs;
pub(super) mod duplicates;
pub(super) mod files;
pub(super) mod optimized;
pub(super) mod pages;
pub(super) mod sla;
pub(super) mod starts;
pub mod verify;
pub(super) mod vllm_tree;
pub(super) mod write;
pub(super) mod yaml;
