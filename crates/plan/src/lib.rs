//! The declaration of a sweep. `plan` owns the plan as typed and its problems; `matrix` the plan as meant, with its servers, points and
//! command lines; `import` makes plans from vLLM's command lines. The crate also has the types that every room shares: causes, validity,
//! errors, ids, units, atomic files, printable text, Python's JSON and shell quoting.

#[macro_use]
mod closed_list;

pub mod cause;
pub mod error;
pub mod files;
pub mod fingerprint;
pub mod ids;
pub mod import;
pub mod matrix;
pub mod plan;
pub mod printable;
pub mod python_json;
pub mod request_error;
pub mod shell;
pub mod units;
pub mod validity;
