//! Named combinations of parameters: those that a plan lists, and those of a file in the form of `vllm bench sweep`.

use super::params::is_whole_value;
use super::{FromNode, Reader, Table, table};
use crate::commands::{COMMAND, ENV};
use crate::syntax::json_text;
use crate::{Diagnostics, Entry, Kind, Node, Params, Problem, Side, Span, number, show, spelling};
use serde_json::{Number, Value};
use std::path::Path;

table! {
    /// A named combination of parameters: every key but `name` is a parameter, and every value is taken as it is. In
    /// `[[serve.combos]]`, `command` is a whole command line and `env` a table of variables, so a combination can be a server of
    /// another kind.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Combo("ComboTable", "") {
        /// Name shown in tables.
        pub name: Option<String>,
        ..Value
    }
    internal {
        /// Its parameters, which win over the table's fixed values.
        pub params: Params,
    }
}

/// The combinations of `[[serve.combos]]` or `[[bench.combos]]`, then those of the parameter file.
pub(crate) fn combos(reader: &mut Reader<'_>, table: &Node, side: Side) -> Vec<Combo> {
    let mut combos: Vec<(Span, Combo)> = Vec::new();
    let what = format!("{}.combos", side.table());
    let remedy = format!("write each combination below its own [[{what}]]");
    let listed = table.child("combos").and_then(|node| reader.list(node, &what, &remedy));
    for item in listed.unwrap_or_default() {
        combos.extend(reader.combo(item, side).map(|combo| (item.span, combo)));
    }
    if let Some(node) = table.child("params_file") {
        let of_file = reader.params_file(node, side);
        reader.names.open |= of_file.is_empty();
        combos.extend(of_file);
    }
    check_names(&combos, &mut reader.found);
    let combos: Vec<Combo> = combos.into_iter().map(|(_, combo)| combo).collect();
    for (name, value) in combos.iter().flat_map(|combo| &combo.params) {
        reader.secrets.note_param(name, value);
    }
    combos
}

impl Reader<'_> {
    fn combo(&mut self, node: &Node, side: Side) -> Option<Combo> {
        let mut combo = Combo::from_node(self, node, "combos")?;
        let entries: Vec<Entry> = Combo::others(node).into_iter().cloned().collect();
        self.check_spellings(&entries);
        for Entry { key, value, .. } in &entries {
            let value = match (side, key.as_str()) {
                (Side::Serve, COMMAND) => {
                    let words = self.words(value, "command").unwrap_or_default();
                    shell_words::join(words).into()
                }
                (Side::Serve, "env") => {
                    let env = self.env(value, "env").unwrap_or_default().into_iter();
                    let env = env.map(|(name, value)| (format!("{ENV}{name}"), value.into()));
                    combo.params.extend(env);
                    continue;
                }
                _ if is_whole_value(value) => self.whole_value(value)?,
                _ => self.value(value),
            };
            combo.params.insert(key.clone(), value);
        }
        Some(combo)
    }

    /// Reads a file in vLLM's form. Its values are taken as they are: no axes, no references.
    fn params_file(&mut self, node: &Node, side: Side) -> Vec<(Span, Combo)> {
        let Some(path) = self.text(node, &format!("{}.params_file", side.table())) else {
            return Vec::new();
        };
        let named_in = self.sources.0[node.span.source].name.parent();
        let path = named_in.unwrap_or(Path::new("")).join(path);
        let Some(text) = self.file(&path, node.span) else {
            return Vec::new();
        };
        let source = self.sources.add(&path, text.as_str());
        let root = json_text::parse(&text, source, &mut self.found);
        for record in root.children() {
            self.check_spellings(record.entries());
        }
        records(&root, &mut self.found)
    }
}

/// Objects to combinations that are called alike.
pub fn check_names(combos: &[(Span, Combo)], found: &mut Diagnostics) {
    for (position, (span, Combo { name, .. })) in combos.iter().enumerate() {
        let mut earlier = combos[..position].iter();
        if let Some(called) = name
            && let Some((first, _)) = earlier.find(|(_, other)| other.name == *name)
        {
            let problem = Problem::new(*span, format!("two combinations are called `{called}`"), "rename one");
            found.add(problem.and(*first, "first here"));
        }
    }
}

/// The key that names a combination.
const NAME: &str = "_benchmark_name";

/// The combinations of a parameter file: a list of objects, or an object of named objects. A `_benchmark_name` inside
/// an object wins over the name outside.
pub fn records(root: &Node, found: &mut Diagnostics) -> Vec<(Span, Combo)> {
    let records = root.children();
    if !matches!(root.kind, Kind::List(_) | Kind::Table(_)) {
        if found.is_empty() {
            let remedy = "write a list of objects, or an object of named objects";
            let message = format!("a parameter file holds combinations, found {}", root.kind_name());
            found.object(root.span, message, remedy);
        }
    } else if records.is_empty() {
        let remedy = "add one, or remove params_file";
        found.object(root.span, "this parameter file holds no combination", remedy);
    }
    let names = root.entries().iter().map(|entry| Some(entry.key.clone()));
    let records = names.chain(std::iter::repeat(None)).zip(records);
    records.filter_map(|(name, node)| record(name, node, found)).collect()
}

fn record(mut name: Option<String>, node: &Node, found: &mut Diagnostics) -> Option<(Span, Combo)> {
    let Kind::Table(entries) = &node.kind else {
        let message = format!(
            "a combination must be an object of parameters, found {}",
            node.kind_name()
        );
        found.object(node.span, message, "write {\"parameter\": value, ...}");
        return None;
    };
    let mut params = Params::new();
    for Entry { key, value, .. } in entries {
        let value = value.to_json(&mut |text, _| text.to_string());
        match key == NAME {
            true => name = Some(show(&value)),
            false => drop(params.insert(key.clone(), value)),
        }
    }
    Some((node.span, Combo { name, params }))
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

/// A number that is not negative.
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

    /// Returns the value that the parameter `name` derives from another's value. `None` if that is not a number or the result is not
    /// finite.
    pub fn value(&self, name: &str, followed: &Value) -> Option<Value> {
        let value = number(followed)? * self.times;
        let value = value
            .max(self.min.unwrap_or(f64::NEG_INFINITY))
            .min(self.max.unwrap_or(f64::INFINITY));
        // Noise of the multiplication beyond 12 digits would make a whole result fractional.
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
