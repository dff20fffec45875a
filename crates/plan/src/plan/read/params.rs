//! Parameters: fixed values, axes, derived values, named combinations, and references to parameters by name.

use super::{Reader, split_side, suggest_param};
use crate::plan::commands::{COMMAND, ENV, is_no_flag};
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::problem::Problem;
use crate::plan::source::Span;
use crate::plan::{Axis, Combo, Derived, ParamRef, Params, Side, json_text, schema, spelling, vllm};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;

/// The parameter names of both sides, to check references against.
#[derive(Debug, Default)]
pub(in crate::plan) struct Names {
    pub serve: Vec<String>,
    pub bench: Vec<String>,
    /// Names may be missing because a file with more of them could not be read.
    pub open: bool,
}

impl Names {
    /// Adds the names that combinations bring.
    pub fn with_combos(mut self, serve: &[Combo], bench: &[Combo]) -> Names {
        for (names, combos) in [(&mut self.serve, serve), (&mut self.bench, bench)] {
            names.extend(combos.iter().flat_map(|combo| combo.params.keys().cloned()));
            names.sort();
            names.dedup();
        }
        self.open = self.open && serve.is_empty() && bench.is_empty();
        self
    }

    /// All names as `serve.x` and `bench.y`.
    pub fn qualified(&self) -> Vec<String> {
        let serve = self.serve.iter().map(|name| format!("serve.{name}"));
        serve
            .chain(self.bench.iter().map(|name| format!("bench.{name}")))
            .collect()
    }
}

/// The names that a `[serve]` or `[bench]` table gives to parameters, whatever their values.
pub(super) fn names(table: Option<&Node>) -> Vec<String> {
    let params = table.and_then(|table| table.child("params"));
    match params.map(|params| &params.kind) {
        Some(Kind::Table(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The names of what varies on the server side beside its flags.
pub(super) fn names_beside_flags(serve: &[(String, Axis)]) -> impl Iterator<Item = String> {
    let names = serve.iter().map(|(name, _)| name).filter(|name| is_no_flag(name));
    names.cloned()
}

impl Reader<'_> {
    pub(super) fn params(&mut self, node: &Node, what: &str) -> Vec<(String, Axis)> {
        let Kind::Table(entries) = &node.kind else {
            let message = format!("`{what}` must be a table, found {}", node.kind_name());
            self.object(node.span, message, format!("write parameters below [{what}]"));
            return Vec::new();
        };
        self.check_spellings(entries);
        let mut params = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(axis) = self.axis(entry) {
                match &axis {
                    Axis::Fixed(value) => self.secrets.note_param(&entry.key, value),
                    Axis::Values(values) => values
                        .iter()
                        .for_each(|value| self.secrets.note_param(&entry.key, value)),
                    Axis::Derived(_) => {}
                }
                params.push((entry.key.clone(), axis));
            }
        }
        params
    }

    /// One flag has one place in a table, however it is spelled.
    fn check_spellings(&mut self, entries: &[Entry]) {
        let mut firsts: HashMap<String, &Entry> = HashMap::new();
        for entry in entries {
            if entry.key.trim_matches(['-', '_']).is_empty()
                || entry.key.contains(['=', '\0'])
                || entry.key.contains(' ')
            {
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
                    self.derived(node).map(Axis::Derived)
                } else if has("from") || has("to") {
                    self.range(node).map(Axis::Values)
                } else {
                    let message = format!("`{}` has a table for a value", entry.key);
                    let remedy = "write { value = { ... } } to pass it as one value, { from, to, times } for a range, \
                                  or put a name with dots in quotes";
                    self.object(node.span, message, remedy);
                    None
                }
            }
            _ => Some(Axis::Fixed(self.value(node))),
        }
    }

    fn values(&mut self, name: &str, node: &Node, items: &[Node]) -> Option<Vec<Value>> {
        if items.is_empty() {
            let problem = Problem::new(
                node.span,
                format!("`{name}` has no values"),
                "give one at least, or remove it",
            );
            self.found.add(problem);
            return None;
        }
        let mut values: Vec<Value> = Vec::with_capacity(items.len());
        for item in items {
            let value = match &item.kind {
                Kind::Table(entries) if matches!(entries.as_slice(), [entry] if entry.key == "value") => {
                    self.whole_value(item)?
                }
                Kind::Table(_) | Kind::List(_) => {
                    let message = format!("a value of the axis `{name}` is {}", item.kind_name());
                    self.object(item.span, message, "write { value = ... } to pass it as one value");
                    return None;
                }
                _ => self.value(item),
            };
            values.push(value);
        }
        Some(values)
    }

    fn whole_value(&mut self, node: &Node) -> Option<Value> {
        let mut fields = self.open::<schema::ValueTable>(node, "value")?;
        let value = fields.get("value").map(|node| self.value(node));
        fields.close(&mut self.found);
        value
    }

    fn derived(&mut self, node: &Node) -> Option<Derived> {
        let mut fields = self.open::<Derived>(node, "per")?.by_own_names();
        let per = fields.text(self, "per");
        let mut number = |key| fields.get(key).map(|node| self.decimal(node, key));
        let (times, min, max) = (number("times"), number("min"), number("max"));
        fields.close(&mut self.found);
        let (min, max) = (min.flatten(), max.flatten());
        if let (Some(low), Some(high)) = (min, max)
            && low > high
        {
            self.object(node.span, "`min` is above `max`", "exchange them");
        }
        Some(Derived {
            per: per?,
            times: times.map_or(Some(1.0), |times| times)?,
            min,
            max,
        })
    }

    /// A number that is not negative.
    pub(super) fn decimal(&mut self, node: &Node, what: &str) -> Option<f64> {
        match &node.kind {
            Kind::Number(number) if number.as_f64().is_some_and(|value| value >= 0.0) => number.as_f64(),
            _ => {
                let message = format!("`{what}` must be a number, not negative");
                self.object(node.span, message, "write a number such as 10 or 0.5");
                None
            }
        }
    }

    /// The combinations written in the plan, then those of the parameter file.
    pub(super) fn combos(&mut self, list: Option<&Node>, file: Option<&Node>, side: &str) -> Vec<Combo> {
        let mut combos: Vec<(Span, Combo)> = Vec::new();
        if let Some(node) = list {
            let what = format!("{side}.combos");
            let remedy = format!("write each combination below its own [[{what}]]");
            for item in self.list(node, &what, &remedy).unwrap_or_default() {
                combos.extend(self.combo(item, side == "serve").map(|combo| (item.span, combo)));
            }
        }
        if let Some(node) = file {
            combos.extend(self.params_file(node, side));
        }
        for (position, (span, combo)) in combos.iter().enumerate() {
            let same = |(_, first): &&(Span, Combo)| first.name.is_some() && first.name == combo.name;
            if let (Some(name), Some((first, _))) = (&combo.name, combos[..position].iter().find(same)) {
                let problem = Problem::new(*span, format!("two combinations are called `{name}`"), "rename one");
                self.found.add(problem.and(*first, "first here"));
            }
        }
        let combos: Vec<Combo> = combos.into_iter().map(|(_, combo)| combo).collect();
        for (name, value) in combos.iter().flat_map(|combo| &combo.params) {
            self.secrets.note_param(name, value);
        }
        combos
    }

    fn combo(&mut self, node: &Node, is_server: bool) -> Option<Combo> {
        let mut fields = self.open::<schema::ComboTable>(node, "combos")?.by_own_names();
        let name = fields.text(self, "name");
        let entries: Vec<Entry> = fields.rest().cloned().collect();
        self.check_spellings(&entries);
        let mut params = Params::new();
        for Entry { key, value, .. } in &entries {
            if is_server && key == COMMAND {
                let words = self.words(value, "command").unwrap_or_default();
                params.insert(key.clone(), shell_words::join(words).into());
                continue;
            }
            if is_server && key == "env" {
                let env = self.env(value, "env").into_iter();
                params.extend(env.map(|(name, value)| (format!("{ENV}{name}"), value.into())));
                continue;
            }
            let wrapped = matches!(&value.kind, Kind::Table(inner) if inner.len() == 1 && inner[0].key == "value");
            let value = if wrapped {
                self.whole_value(value)?
            } else {
                self.value(value)
            };
            params.insert(key.clone(), value);
        }
        Some(Combo { name, params })
    }

    /// Reads a file in vLLM's form. Its values are taken as they are: no axes, no references.
    fn params_file(&mut self, node: &Node, side: &str) -> Vec<(Span, Combo)> {
        let Some(path) = self.text(node, &format!("{side}.params_file")) else {
            return Vec::new();
        };
        let named_in = self
            .sources
            .0
            .get(node.span.source)
            .and_then(|source| source.name.parent());
        let path = named_in.map_or_else(|| PathBuf::from(&path), |folder| folder.join(&path));
        match (self.world.read)(&path) {
            Ok(text) => {
                let source = self.sources.add(&path, text.clone());
                let root = json_text::parse(&text, source, &mut self.found);
                let records = match &root.kind {
                    Kind::List(items) => items.iter().collect(),
                    Kind::Table(entries) => entries.iter().map(|entry| &entry.value).collect(),
                    _ => Vec::new(),
                };
                for record in records {
                    if let Kind::Table(entries) = &record.kind {
                        self.check_spellings(entries);
                    }
                }
                vllm::records(&root, &mut self.found)
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                self.object(
                    node.span,
                    message,
                    "correct the path; it is relative to the file that names it",
                );
                Vec::new()
            }
        }
    }

    /// A reference such as `serve.max_num_seqs` to a parameter that exists.
    pub(super) fn param_ref(&mut self, text: &str, span: Span, names: &Names) -> Option<ParamRef> {
        let Some((side, name)) = split_side(text) else {
            let message = format!("`{text}` does not say which side it is on");
            let both = [format!("serve.{text}"), format!("bench.{text}")];
            let on_side = both
                .iter()
                .filter(|name| names.qualified().iter().any(|known| spelling::same(known, name)));
            let remedy = match on_side.collect::<Vec<_>>().as_slice() {
                [only] => format!("write `{only}`"),
                _ => suggest_param(text, names),
            };
            self.object(span, message, remedy);
            return None;
        };
        let known = match side {
            Side::Serve => &names.serve,
            Side::Bench => &names.bench,
        };
        match known.iter().find(|known| spelling::same(known, name)) {
            Some(known) => Some(ParamRef {
                side,
                name: known.clone(),
            }),
            None if names.open => None,
            None => {
                let message = format!("no parameter is called `{text}`");
                self.object(span, message, suggest_param(text, names));
                None
            }
        }
    }
}
