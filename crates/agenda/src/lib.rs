//! The rules of a sweep: which run comes next on a server, and what follows when something fails. Pure data and pure
//! functions; whoever starts servers and measures asks here what to do.

pub mod agenda;
