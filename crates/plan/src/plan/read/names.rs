//! Parameters by their names, as links, exclusions and conditions refer to them.

use super::Reader;
use crate::plan::condition::bound;
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::problem::suggest;
use crate::plan::source::Span;
use crate::plan::{Condition, ParamRef, Side, spelling};

/// The parameter names of both sides, to check references against.
#[derive(Debug, Default)]
pub(in crate::plan) struct Names {
    pub serve: Vec<String>,
    pub bench: Vec<String>,
    /// Names may be missing because a file with more of them could not be read.
    pub open: bool,
}

impl Names {
    /// All names as `serve.x` and `bench.y`.
    fn qualified(&self) -> Vec<String> {
        let serve = self.serve.iter().map(|name| format!("serve.{name}"));
        let bench = self.bench.iter().map(|name| format!("bench.{name}"));
        serve.chain(bench).collect()
    }

    /// The remedy for a name that does not exist.
    fn suggest(&self, name: &str) -> String {
        suggest(name, self.qualified().iter().map(String::as_str))
    }
}

impl Reader<'_> {
    /// Values of parameters, or comparisons, of the table that is called `what`.
    pub(in crate::plan) fn conditions(&mut self, node: &Node, what: &str, remedy: &str) -> Vec<Condition> {
        let Kind::Table(entries) = &node.kind else {
            let message = format!("`{what}` must be a table, found {}", node.kind_name());
            self.object(node.span, message, remedy);
            return Vec::new();
        };
        let read = |entry: &Entry| {
            let param = self.param_of(entry);
            self.condition(entry, param)
        };
        entries.iter().filter_map(read).collect()
    }

    /// The condition that an entry states on a parameter.
    pub(in crate::plan) fn condition(&mut self, entry: &Entry, param: Option<ParamRef>) -> Option<Condition> {
        let value = self.scalar(&entry.value, &entry.key)?;
        match bound(&value) {
            Ok((op, value)) => param.map(|param| Condition { param, op, value }),
            Err(why) => {
                let remedy = "write a value, or a comparison such as \">64\"";
                self.object(entry.value.span, why, remedy);
                None
            }
        }
    }

    /// The parameter of a condition; its side may be left out where only one has it.
    fn param_of(&mut self, entry: &Entry) -> Option<ParamRef> {
        let qualified = self.names.qualified();
        let is_meant = |name: &&String| Side::split(name).is_some_and(|(_, bare)| spelling::same(bare, &entry.key));
        let mut meant = qualified.iter().filter(is_meant);
        let key = match (Side::split(&entry.key), meant.next(), meant.next()) {
            (None, Some(only), None) => only,
            _ => &entry.key,
        };
        self.param_ref(key, entry.key_span)
    }

    /// A reference such as `serve.max_num_seqs` to a parameter that exists.
    pub(in crate::plan) fn param_ref(&mut self, text: &str, span: Span) -> Option<ParamRef> {
        let Some((side, name)) = Side::split(text) else {
            let message = format!("`{text}` does not say which side it is on");
            let both = [format!("serve.{text}"), format!("bench.{text}")];
            let on_side = both
                .iter()
                .filter(|name| self.names.qualified().iter().any(|known| spelling::same(known, name)));
            let remedy = match on_side.collect::<Vec<_>>().as_slice() {
                [only] => format!("write `{only}`"),
                _ => self.names.suggest(text),
            };
            self.object(span, message, remedy);
            return None;
        };
        let known = match side {
            Side::Serve => &self.names.serve,
            Side::Bench => &self.names.bench,
        };
        let name = match known.iter().find(|known| spelling::same(known, name)) {
            Some(known) => known.clone(),
            None if self.names.open => name.to_owned(),
            None => {
                let message = format!("no parameter is called `{text}`");
                self.object(span, message, self.names.suggest(text));
                return None;
            }
        };
        Some(ParamRef { side, name })
    }
}
