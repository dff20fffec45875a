//! The two things a plan may draw on beside its own text, environment variables and files, as functions, so that
//! reading a plan is a pure function of its arguments.

use std::io;
use std::path::Path;

/// Where environment variables and files come from.
pub struct World<'a> {
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file that the plan names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl World<'static> {
    /// This process's environment and files.
    pub fn real() -> World<'static> {
        World {
            env: &|name| std::env::var(name).ok(),
            read: &|path| std::fs::read_to_string(path),
        }
    }

    /// No variables and no files.
    pub fn empty() -> World<'static> {
        World {
            env: &|_| None,
            read: &|_| Err(io::ErrorKind::NotFound.into()),
        }
    }
}
