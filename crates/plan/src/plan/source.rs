//! The files a plan is made of, and places in them. One plan may draw on several: the file itself, those it extends,
//! its parameter files, and each `--set` of the command line counts as a file of one line.

use super::node::Node;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The two languages of plan files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0.
    Toml,
    /// Strict JSON, for files that end in `.json`.
    Json,
}

impl Format {
    /// The language that a file's name announces.
    pub fn of(path: &Path) -> Format {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Toml,
        }
    }
}

/// A range of bytes in one of the plan's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// Index of the source.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// One text and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A path, or `--set` for an override.
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

/// Where a plan came from: its sources and its tree as typed, so that later stages can point at what they object to.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The texts.
    pub sources: Arc<Sources>,
    /// The merged tree.
    pub root: Node,
}

impl Origin {
    /// Whether there is a value at a path.
    pub fn has(&self, path: &[&str]) -> bool {
        path.iter()
            .try_fold(&self.root, |node, step| node.child(step))
            .is_some()
    }

    /// The place of the value at a path such as `["link", "equal", "0"]`; list positions are decimal numbers. Falls
    /// back to the innermost value on the way that exists.
    pub fn value_span(&self, path: &[&str]) -> Span {
        let mut node = &self.root;
        for step in path {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.span
    }

    /// The place of the key at a path; for a list position, that of the value.
    pub fn key_span(&self, path: &[&str]) -> Span {
        let Some((last, parents)) = path.split_last() else {
            return self.root.span;
        };
        let parent = parents.iter().try_fold(&self.root, |node, step| node.child(step));
        parent
            .and_then(|parent| parent.entry(last))
            .map_or_else(|| self.value_span(path), |entry| entry.key_span)
    }
}
