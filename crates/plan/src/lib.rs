//! A sweep as declared: `plan` owns the plan as typed and its problems, `matrix` the plan as meant, with its servers, points
//! and command lines, `import` makes plans of the command lines of others. Beside them the words that every room shares: causes, validity, errors, identities, units, atomic files,
//! printable text, JSON of Python's, words for a shell.

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
