//! Making, checking and running plans.

pub mod check;
pub mod init;
pub mod plan;
pub mod rehearse;
pub mod run;
