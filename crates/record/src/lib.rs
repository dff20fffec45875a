//! What a sweep leaves: `journal` owns the events, their file and the state they fold to, `table` the runs as typed rows.

pub mod journal;
pub mod table;
