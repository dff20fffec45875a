//! The types that most crates share: causes, doubts, errors, ids, units, atomic files, printable text, Python's JSON, shell quoting, data
//! too large for memory, and work for several threads.

#[macro_use]
pub mod closed_list;

pub mod cause;
pub mod error;
pub mod files;
pub mod fingerprint;
pub mod ids;
pub mod printable;
pub mod python_json;
pub mod request_error;
pub mod shell;
pub mod spool;
pub mod threads;
pub mod units;
pub mod validity;
