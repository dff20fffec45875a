//! The results of a sweep: `journal` owns the events, their file and the state they fold to, `table` the runs as typed rows, `evidence`
//! what of both is judged.

pub mod evidence;
pub mod journal;
pub mod table;
