//! Parameters: fixed values, axes, and values that follow others.

use super::{Derived, FromNode, RangeTable, Reader, table};
use crate::forms::Scalar;
use crate::written::any_of;
use crate::{Axis, Entry, Kind, Node, Problem, spelling};
use serde_json::Value;
use std::collections::HashMap;

table! {
    /// Passes a list or a table as one value. On the command line a list of plain values becomes several words after one
    /// flag, everything else becomes JSON.
    #[derive(Debug)]
    pub struct ValueTable("ValueTable", "") {
        /// The value.
        value: Value = by::<Value, _>(|reader, node, _| Some(reader.value(node))).required_elsewhere(),
    }
}

any_of! {
    /// The value or values of a parameter.
    pub(crate) Param {
        /// One value for all points. `true` becomes `--name`, `false` becomes `--no-name`.
        Scalar,
        /// In JSON, `null` removes the flag from the command.
        (),
        /// An axis: the values in order.
        Vec<AxisItem>,
        /// An axis: a range.
        RangeTable,
        /// Computed from another parameter of the same table.
        Derived,
        /// One value that is itself a list or a table.
        ValueTable,
    }
}

any_of! {
    /// One value of an axis.
    AxisItem {
        /// A plain value.
        Scalar,
        /// In JSON, `null` removes the flag from the command.
        (),
        /// A value that is itself a list or a table.
        ValueTable,
    }
}

/// `[serve.params]` and `[bench.params]`.
pub(crate) fn params(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<(String, Axis)>> {
    let entries = reader.table(node, what, &format!("write parameters below [{what}]"))?;
    reader.check_spellings(entries);
    let mut params = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some(axis) = reader.axis(entry) {
            let values = axis.values().iter();
            values.for_each(|value| reader.secrets.note_param(&entry.key, value));
            params.push((entry.key.clone(), axis));
        }
    }
    Some(params)
}

impl Reader<'_> {
    /// Rejects two spellings of one flag in a table.
    pub(super) fn check_spellings(&mut self, entries: &[Entry]) {
        let mut firsts: HashMap<String, &Entry> = HashMap::new();
        for entry in entries {
            if entry.key.trim_matches(['-', '_']).is_empty() || entry.key.contains(['=', '\0', ' ']) {
                let message = format!("`{}` cannot name a parameter", entry.key);
                self.object(entry.key_span, message, "write the flag's name, without `--`");
            } else if entry.key.starts_with('-') {
                let message = format!("`{}` is a flag, not a parameter's name", entry.key);
                let bare = spelling::canonical(entry.key.trim_start_matches('-'));
                let is_short = !entry.key.starts_with("--");
                let long = spelling::long_name(&entry.key).filter(|_| is_short);
                let remedy = format!("write `{}`", long.unwrap_or(&bare));
                self.object(entry.key_span, message, remedy);
            }
            let first = *firsts.entry(spelling::canonical(&entry.key)).or_insert(entry);
            if first.key != entry.key {
                let message = format!("`{}` and `{}` are one flag", first.key, entry.key);
                let problem = Problem::new(entry.key_span, message, "remove one");
                self.found.add(problem.and(first.key_span, "first here"));
            }
        }
    }

    fn axis(&mut self, entry: &Entry) -> Option<Axis> {
        let node = &entry.value;
        match &node.kind {
            Kind::List(items) => self.values(&entry.key, node, items).map(Axis::Values),
            Kind::Table(entries) => {
                let has = |key: &str| entries.iter().any(|entry| entry.key == key);
                if has("value") {
                    self.whole_value(node).map(Axis::Fixed)
                } else if has("per") {
                    Derived::from_node(self, node, "per").map(Axis::Derived)
                } else if has("from") || has("to") {
                    self.range(node).map(Axis::Values)
                } else {
                    let message = format!("`{}` has a table for a value", entry.key);
                    let remedy = "write { value = { ... } } to pass it as one value, { from, to, times } for a range, \
                                  or put a name with dots in quotes";
                    self.refuse(node.span, message, remedy)
                }
            }
            _ => Some(Axis::Fixed(self.value(node))),
        }
    }

    fn values(&mut self, name: &str, node: &Node, items: &[Node]) -> Option<Vec<Value>> {
        if items.is_empty() {
            let message = format!("`{name}` has no values");
            return self.refuse(node.span, message, "give one at least, or remove it");
        }
        let value = |item: &Node| match &item.kind {
            Kind::Table(_) if is_whole_value(item) => self.whole_value(item),
            Kind::Table(_) | Kind::List(_) => {
                let message = format!("a value of the axis `{name}` is {}", item.kind_name());
                self.refuse(item.span, message, "write { value = ... } to pass it as one value")
            }
            _ => Some(self.value(item)),
        };
        items.iter().map(value).collect()
    }

    /// The value of `{ value = ... }`.
    pub(crate) fn whole_value(&mut self, node: &Node) -> Option<Value> {
        ValueTable::from_node(self, node, "value").map(|table| table.value)
    }
}

/// Returns true if the node is `{ value = ... }` and nothing else.
pub(crate) fn is_whole_value(node: &Node) -> bool {
    matches!(node.entries(), [only] if only.key == "value")
}
