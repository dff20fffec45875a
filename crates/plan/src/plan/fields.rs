//! Reading a table key by key: unknown keys are problems with a suggestion, and the known ones come from the documented
//! type in [`super::schema`], so that reader and documentation cannot drift apart.

use super::node::{Entry, Kind, Node};
use super::problem::{Found, suggest};
use super::schema;
use schemars::JsonSchema;

/// A table being read.
pub struct Fields<'n> {
    entries: &'n [Entry],
    known: Vec<String>,
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Opens a table whose keys are those of `T`; anything but a table is a problem.
    pub fn open<T: JsonSchema>(node: &'n Node, what: &str, found: &mut Found) -> Option<Fields<'n>> {
        let Kind::Table(entries) = &node.kind else {
            let message = format!("`{what}` must be a table, found {}", node.kind_name());
            found.object(node.span, message, format!("write its keys below [{what}]"));
            return None;
        };
        Some(Fields {
            entries,
            known: schema::keys_of::<T>(),
            asked: Vec::new(),
        })
    }

    /// The entry of a known key.
    pub fn entry(&mut self, key: &'static str) -> Option<&'n Entry> {
        debug_assert!(self.known.iter().any(|known| known == key), "`{key}` is not documented");
        self.asked.push(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a known key.
    pub fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Ends the reading: reports the keys that nobody knows.
    pub fn close(self, found: &mut Found) {
        debug_assert!(
            self.known.iter().all(|known| self.asked.contains(&known.as_str())),
            "documented but not read: {:?}",
            self.known
        );
        for entry in self.rest() {
            let known = self.known.iter().map(String::as_str);
            let message = format!("unknown key `{}`", entry.key);
            found.object(entry.key_span, message, suggest(&entry.key, known));
        }
    }

    /// The entries that are not known keys: in tables that mix both, the user's own names.
    pub fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        let unknown = |entry: &&Entry| !self.known.contains(&entry.key);
        self.entries.iter().filter(unknown)
    }
}
