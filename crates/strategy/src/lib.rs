//! Decides which load and which server start to measure next, and compares measurements with each other. Pure data and pure functions; no
//! clock and no files.

pub mod checks;
pub mod search;
pub mod selection;
pub mod stats;
