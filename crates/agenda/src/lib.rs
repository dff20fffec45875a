//! The rules of a sweep: the next run on a server, and the consequences of failures. Pure data and pure functions. The code that starts
//! servers and measures asks here for the next action.

pub mod agenda;
