//! The two things a plan may draw on beside its own text, environment variables and files, so that reading a plan is a pure
//! function of its arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Where environment variables and files come from.
pub struct World<'a> {
    /// The environment variables.
    pub vars: BTreeMap<String, String>,
    /// Reads a file that the plan names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl World<'static> {
    /// This process's environment and files. A variable that is no text is none to a plan.
    pub fn real() -> World<'static> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        World {
            vars: std::env::vars_os().filter_map(text).collect(),
            read: &|path| std::fs::read_to_string(path),
        }
    }

    /// No variables and no files.
    pub fn empty() -> World<'static> {
        World {
            vars: BTreeMap::new(),
            read: &|_| Err(io::ErrorKind::NotFound.into()),
        }
    }
}
