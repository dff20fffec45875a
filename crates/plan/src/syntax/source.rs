//! The sources of a plan: its texts with positions in them, and variables and files that it may use. One plan may have several texts: the
//! file itself, the plans that it extends and its parameter files. Each `--set` or `--budget` of the command line counts as a file of one
//! line. Variables and files are arguments, so reading a plan is a pure function.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use vsweep_base::files::read_named_text;

/// The two languages of plan files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0.
    #[default]
    Toml,
    /// Strict JSON, for files that end in `.json`.
    Json,
}

impl Format {
    /// The language of a plan's text: JSON if it begins with a brace.
    pub fn of_text(text: &str) -> Format {
        match text.trim_start().starts_with('{') {
            true => Format::Json,
            false => Format::Toml,
        }
    }

    /// The language that a file's name announces.
    pub fn of(path: &Path) -> Format {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Toml,
        }
    }
}

/// A range of bytes in one of the plan's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Index of the source.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the span of these bytes of a source.
    pub fn of(source: usize, bytes: Range<usize>) -> Span {
        let (start, end) = (bytes.start, bytes.end);
        Span { source, start, end }
    }
}

/// One text and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A path, or the option `--set` or `--budget`.
    pub name: PathBuf,
    /// The whole text.
    pub text: String,
}

/// All sources of a plan, in the order they were read.
#[derive(Debug, Clone, Default)]
pub struct Sources(pub Vec<Source>);

impl Sources {
    /// Adds a source and returns its index for spans.
    pub fn add(&mut self, name: impl Into<PathBuf>, text: impl Into<String>) -> usize {
        self.0.push(Source {
            name: name.into(),
            text: text.into(),
        });
        self.0.len() - 1
    }
}

/// Source of environment variables and files.
pub struct World<'a> {
    /// The environment variables.
    pub vars: BTreeMap<String, String>,
    /// Reads a file that the plan names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl World<'static> {
    /// This process's environment and files. Variables that are not valid UTF-8 are left out.
    pub fn real() -> World<'static> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        World {
            vars: std::env::vars_os().filter_map(text).collect(),
            read: &read_named_text,
        }
    }

    /// A world without variables and files.
    pub fn empty() -> World<'static> {
        World {
            vars: BTreeMap::new(),
            read: &|_| Err(io::ErrorKind::NotFound.into()),
        }
    }
}
