//! Reads the value tree into typed values: the declaration of tables, and the types of values. Every reader reports problems and goes on,
//! so that all problems of a plan are found in one pass.

mod combos;
mod names;
mod params;
mod range;
mod scalar;
pub(super) mod table;

pub use combos::{Combo, check_names, records};
pub(super) use combos::{PARAMS_FILE, combos};
pub(super) use names::Names;
pub use params::Derived;
pub(super) use params::{Param, is_whole_value, params};
pub use range::RangeTable;
pub(super) use table::{FromNode, Table, table};

use super::secrets::Secrets;
use super::syntax::problem::Diagnostics;
use super::syntax::source::{Sources, Span, World};
use std::path::Path;

/// State of reading a plan.
pub(super) struct Reader<'a> {
    /// Source of variables and files.
    pub world: &'a World<'a>,
    /// Number of keys of tables whose value could not be read.
    pub unread: usize,
    /// Number of values in the ranges that were read so far.
    pub range_values: u128,
    /// All texts so far.
    pub sources: Sources,
    /// Problems found so far.
    pub found: Diagnostics,
    /// Secret values met so far.
    pub secrets: Secrets,
    /// Parameters of the sides that were read.
    pub names: Names,
    /// Names of required targets, each with true if every server must meet it.
    pub required: Vec<(String, bool)>,
}

impl Reader<'_> {
    /// A reader that has read nothing yet.
    pub fn new<'a>(world: &'a World<'a>) -> Reader<'a> {
        Reader {
            world,
            unread: 0,
            range_values: 0,
            sources: Sources::default(),
            found: Diagnostics::default(),
            secrets: Secrets::default(),
            names: Names::default(),
            required: Vec::new(),
        }
    }

    /// Reports a problem at one place.
    pub fn object(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.object(span, message, remedy);
    }

    /// Reports a problem at one place, and returns `None` instead of a value.
    pub fn refuse<T>(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Option<T> {
        self.found.object(span, message, remedy);
        None
    }

    /// Returns the folder at which a relative path at this place starts.
    pub fn folder_of(&self, place: Span) -> &Path {
        self.sources.0[place.source].name.parent().unwrap_or(Path::new(""))
    }

    /// Reads a file that the plan names at `named`. A file that cannot be read is reported there.
    pub fn file(&mut self, path: &Path, named: Span) -> Option<String> {
        match (self.world.read)(path) {
            Ok(text) => Some(text),
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                let remedy = "correct the path; it is relative to the file that names it";
                self.refuse(named, message, remedy)
            }
        }
    }
}

/// Returns the empty span at the start of a span, for problems about missing settings.
pub(super) fn start_of(span: Span) -> Span {
    Span {
        end: span.start,
        ..span
    }
}
