//! The two things a plan may draw on beside its own text, environment variables and files, as functions, so that
//! reading a plan is a pure function of its arguments.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Where environment variables and files come from.
pub struct World<'a> {
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// All environment variables, for those that hold secrets.
    pub vars: &'a dyn Fn() -> Vec<(String, String)>,
    /// Reads a file that the plan names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl World<'static> {
    /// This process's environment and files.
    pub fn real() -> World<'static> {
        World {
            env: &|name| std::env::var(name).ok(),
            vars: &|| {
                let text =
                    |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
                std::env::vars_os().filter_map(text).collect()
            },
            read: &|path| std::fs::read_to_string(path),
        }
    }

    /// No variables and no files.
    pub fn empty() -> World<'static> {
        World {
            env: &|_| None,
            vars: &Vec::new,
            read: &|_| Err(io::ErrorKind::NotFound.into()),
        }
    }
}
