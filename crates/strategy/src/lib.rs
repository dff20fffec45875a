//! Decides which load and which server start to measure next, and compares measurements with each other. It consists of pure data and pure
//! functions, and uses neither clock nor files.

pub mod checks;
pub mod search;
pub mod selection;
pub mod stats;
