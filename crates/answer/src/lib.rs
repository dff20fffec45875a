//! Decides which servers are best at what, and how sure that is: pure data and pure functions, no clock and no files.

pub mod answer;
