//! Reads parameters: fixed values, axes, and values that follow others.

use super::{FromNode, RangeTable, Reader, table};
use crate::commands::{ENV, is_command_or_variable};
use crate::written::{Scalar, any_of};
use crate::{Axis, Entry, Kind, Node, Problem, Side, number, spelling};
use serde_json::{Number, Value};
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

/// Reads `[serve.params]` or `[bench.params]`.
pub(crate) fn params(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<(String, Axis)>> {
    let entries = reader.table(node, what, &format!("write parameters below [{what}]"))?;
    reader.check_spellings(entries);
    reader.check_flags(entries, what.split('.').next().unwrap_or(what));
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
    /// Rejects keys that cannot name parameters, and two spellings of one flag in a table.
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

    /// Rejects commands and variables among the flags of a side of the plan. `table` is the name of that side's table.
    pub(super) fn check_flags(&mut self, entries: &[Entry], table: &str) {
        for entry in entries.iter().filter(|entry| is_command_or_variable(&entry.key)) {
            let remedy = match entry.key.strip_prefix(ENV) {
                None => format!("write it in [{table}]: command = {{ old = \"...\", new = \"...\" }}"),
                Some(name) if table == Side::Bench.table() => {
                    format!("write it in [bench]: env = {{ {name} = \"...\" }}")
                }
                Some(name) => format!("write it in [{table}]: env = {{ {name} = [...] }}"),
            };
            self.object(entry.key_span, format!("`{}` is not a flag", entry.key), remedy);
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
        // Each item is read, so that all problems are reported.
        let values: Vec<Option<Value>> = items.iter().map(value).collect();
        values.into_iter().collect()
    }

    /// Reads the value of `{ value = ... }`.
    pub(crate) fn whole_value(&mut self, node: &Node) -> Option<Value> {
        ValueTable::from_node(self, node, "value").map(|table| table.value)
    }
}

/// Returns true if the node is `{ value = ... }` and nothing else.
pub(crate) fn is_whole_value(node: &Node) -> bool {
    matches!(node.entries(), [only] if only.key == "value")
}

table! {
    /// A value that follows another parameter: `per * times`, at least `min`, at most `max`. Counts and lengths are rounded
    /// up to whole numbers.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Derived("DerivedTable", "") {
        /// Name of the parameter it follows, in the same table.
        pub per: String = key().required("this value follows no parameter", "add per = \"a parameter's name\""),
        /// Factor. Default: 1.
        pub times: f64 = by::<f64, _>(decimal).or(1.0),
        /// Lower bound of the result.
        pub min: Option<f64> = maybe::<f64, _>(decimal),
        /// Upper bound of the result.
        pub max: Option<f64> = maybe::<f64, _>(decimal),
    }
    then Derived::check
}

/// Reads a number that is not negative.
fn decimal(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    node.number().filter(|value| *value >= 0.0).or_else(|| {
        let message = format!("`{what}` must be a number, not negative");
        reader.refuse(node.span, message, "write a number such as 10 or 0.5")
    })
}

impl Derived {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        if self.min.zip(self.max).is_some_and(|(min, max)| min > max) {
            reader.object(node.span, "`min` is above `max`", "exchange them");
        }
    }

    /// Returns the value that the parameter `name` derives from the value `followed`. `None` if `followed` is not a number, or if the
    /// result is not finite.
    pub fn value(&self, name: &str, followed: &Value) -> Option<Value> {
        let value = number(followed)? * self.times;
        let value = value
            .max(self.min.unwrap_or(f64::NEG_INFINITY))
            .min(self.max.unwrap_or(f64::INFINITY));
        // Rounds to 12 digits: otherwise a rounding error could make a whole result fractional.
        let value: f64 = format!("{value:.11e}").parse().ok()?;
        let value = if is_count(name) { value.ceil() } else { value };
        match value.fract() == 0.0 && value.abs() < 9.0e15 {
            true => Some(Value::from(value as i64)),
            false => Number::from_f64(value).map(Value::Number),
        }
    }
}

/// Returns true if a parameter counts something, so that fractions make no sense.
fn is_count(name: &str) -> bool {
    let name = spelling::canonical(name);
    name.starts_with("num_") || name.contains("_num_") || name.ends_with("_len") || name == "max_concurrency"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn derived(times: f64, min: Option<f64>, max: Option<f64>) -> Derived {
        Derived {
            per: "max_concurrency".into(),
            times,
            min,
            max,
        }
    }

    #[test]
    fn a_value_follows_within_its_bounds() {
        let tenfold = derived(10.0, Some(64.0), Some(1000.0));
        let of = |value: Value| tenfold.value("num_prompts", &value);
        assert_eq!(of(json!(1)), Some(json!(64)));
        assert_eq!(of(json!(32)), Some(json!(320)));
        assert_eq!(of(json!("inf")), Some(json!(1000)));
        assert_eq!(of(json!(6.45)), Some(json!(65)));
        assert_eq!(of(json!("many")), None);
    }

    #[test]
    fn only_counts_are_rounded() {
        assert_eq!(
            derived(0.1, None, None).value("request_rate", &json!(3)),
            Some(json!(0.3))
        );
        assert_eq!(derived(0.1, None, None).value("num_prompts", &json!(3)), Some(json!(1)));
        assert_eq!(derived(1.0, None, None).value("num_prompts", &json!("inf")), None);
    }
}
