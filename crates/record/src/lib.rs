//! The results of a sweep: `journal` has the events, their files and the state folded from them, `table` the runs as typed rows, and
//! `evidence` the input of an answer, made from both.

pub mod evidence;
pub mod journal;
pub mod table;
