//! Which load and which server start to measure next, and what measurements say when each is compared with another: pure data
//! and pure functions, no clock and no files.

pub mod checks;
pub mod search;
pub mod selection;
pub mod stats;
