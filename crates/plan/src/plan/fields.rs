//! Reading a table key by key: unknown keys are problems with a suggestion, and the known ones come from the documented
//! type in [`super::schema`], so that reader and documentation cannot drift apart.

use super::node::{Entry, Kind, Node};
use super::problem::{Found, suggest};
use super::schema;
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A table being read.
pub struct Fields<'n> {
    /// What keys are called in messages: theirs after that of their table and a dot.
    prefix: String,
    entries: &'n [Entry],
    /// The documented keys with their schemas.
    known: Map<String, Value>,
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Opens a table whose keys are those of `T`; anything but a table is a problem.
    pub fn open<T: JsonSchema>(node: &'n Node, what: &str, found: &mut Found) -> Option<Fields<'n>> {
        let is_table = matches!(node.kind, Kind::Table(_));
        let fields = Fields::open_any::<T>(node, what, found);
        is_table.then_some(fields)
    }

    /// The same of what has defaults for all its keys: anything but a table is read as an empty one.
    pub fn open_any<T: JsonSchema>(node: &'n Node, what: &str, found: &mut Found) -> Fields<'n> {
        if !matches!(node.kind, Kind::Table(_)) {
            let message = format!("`{what}` must be a table, found {}", node.kind_name());
            found.object(node.span, message, format!("write its keys below [{what}]"));
        }
        Fields {
            prefix: format!("{what}."),
            entries: node.entries(),
            known: schema::keys_of::<T>(),
            asked: Vec::new(),
        }
    }

    /// The same table, whose keys are called by their own names alone.
    pub fn by_own_names(self) -> Fields<'n> {
        let prefix = String::new();
        Fields { prefix, ..self }
    }

    /// The entry of a known key.
    pub fn entry(&mut self, key: &'static str) -> Option<&'n Entry> {
        debug_assert!(self.known.contains_key(key), "`{key}` is not documented");
        self.asked.push(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a known key.
    pub fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The value of a known key as `read` makes it from the node and what messages call it.
    pub fn with<T>(&mut self, key: &'static str, read: impl FnOnce(&'n Node, &str) -> Option<T>) -> Option<T> {
        let node = self.get(key)?;
        read(node, &format!("{}{key}", self.prefix))
    }

    /// The bounds that the schema sets to a whole number.
    pub fn bounds(&self, key: &str) -> RangeInclusive<u32> {
        let bound = |name: &str| self.known.get(key)?.get(name)?.as_u64()?.try_into().ok();
        bound("minimum").unwrap_or(0)..=bound("maximum").unwrap_or(u32::MAX)
    }

    /// Ends the reading: reports the keys that nobody knows.
    pub fn close(self, found: &mut Found) {
        debug_assert!(
            self.known.keys().all(|known| self.asked.contains(&known.as_str())),
            "documented but not read: {:?}",
            self.known
        );
        for entry in self.rest() {
            let known = self.known.keys().map(String::as_str);
            let message = format!("unknown key `{}`", entry.key);
            found.object(entry.key_span, message, suggest(&entry.key, known));
        }
    }

    /// The entries that are not known keys: in tables that mix both, the user's own names.
    pub fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        let unknown = |entry: &&Entry| !self.known.contains_key(&entry.key);
        self.entries.iter().filter(unknown)
    }
}
