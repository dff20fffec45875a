//! The origin of a plan, by which later stages point into its text.

use crate::commands::{COMMAND, ENV};
use crate::{Node, Side, Sources, Span};
use std::sync::Arc;

/// Origin of a plan: its sources, and its tree before it is read.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The texts.
    pub sources: Arc<Sources>,
    /// The merged tree.
    pub root: Node,
}

impl Origin {
    /// The options of the command line that changed the plan, such as `--set runs=5`.
    pub fn options(&self) -> Vec<String> {
        let words = self.sources.0.iter().filter_map(|source| {
            let option = source.name.to_str()?;
            let value = match option {
                "--set" => source.text.as_str(),
                "--budget" => source.text.split_once('=')?.1,
                _ => return None,
            };
            Some([option.to_owned(), value.to_owned()])
        });
        words.flatten().collect()
    }

    /// Returns true if there is a value at a path.
    pub fn has(&self, path: &[&str]) -> bool {
        self.reach(path).1.is_some()
    }

    /// The place of the value at a path such as `["link", "equal", "0"]`; list positions are decimal numbers. If the value does not exist,
    /// the place of the innermost existing value on the path.
    pub fn value_span(&self, path: &[&str]) -> Span {
        self.reach(path).0.span
    }

    /// The place of the key at a path; for a list position, the place of the value.
    pub fn key_span(&self, path: &[&str]) -> Span {
        let (value, key) = self.reach(path);
        key.unwrap_or(value.span)
    }

    /// The innermost existing value on a path. If it is at the end of the path, the place of its key comes with it.
    fn reach(&self, path: &[&str]) -> (&Node, Option<Span>) {
        let mut value = &self.root;
        let mut key = value.span;
        for step in typed(path) {
            let Some(child) = value.child(step) else {
                return (value, None);
            };
            key = value.entry(step).map_or(child.span, |entry| entry.key_span);
            value = child;
        }
        (value, Some(key))
    }

    /// Returns the place of a combination of a side, or of one of its parameters. For a combination from a file, returns the place of the
    /// key `params_file`.
    pub fn combo_span(&self, side: Side, position: usize, param: Option<&str>) -> Span {
        let position = position.to_string();
        let combo = [side.table(), "combos", &position];
        match (self.has(&combo), param) {
            (true, Some(param)) => self.key_span(&[combo[0], combo[1], combo[2], param]),
            (true, None) => self.value_span(&combo),
            (false, _) => self.key_span(&[side.table(), "params_file"]),
        }
    }
}

/// The path as the user wrote it: command lines and environment variables are parameters internally, but not in the plan.
fn typed<'p>(path: &[&'p str]) -> Vec<&'p str> {
    match path {
        [side @ ("serve" | "bench"), "params", COMMAND, rest @ ..] => [&[*side, COMMAND], rest].concat(),
        ["serve", "params", name, rest @ ..] => match name.strip_prefix(ENV) {
            Some(variable) => [&["serve", "env", variable], rest].concat(),
            None => path.to_vec(),
        },
        _ => path.to_vec(),
    }
}
