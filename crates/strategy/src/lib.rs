//! Which load to measure next on one server, given what was measured: pure data and pure functions, no clock and no files.

pub mod search;
