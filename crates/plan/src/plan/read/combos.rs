//! Named combinations of parameters: those that a plan lists, and those of a file in the form of `vllm bench sweep`.

use super::{FromNode, Reader, Table, table};
use crate::plan::commands::{COMMAND, ENV};
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::problem::{Diagnostics, Problem};
use crate::plan::source::Span;
use crate::plan::{Params, Side, json_text, show};
use serde_json::Value;
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
    beside {
        /// Its parameters, which win over the table's fixed values.
        pub params: Params,
    }
}

/// The combinations of `[[serve.combos]]` or `[[bench.combos]]`, then those of the parameter file.
pub(in crate::plan) fn combos(reader: &mut Reader<'_>, table: &Node, side: Side) -> Vec<Combo> {
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
    for (position, (span, combo)) in combos.iter().enumerate() {
        let same = |(_, first): &&(Span, Combo)| first.name.is_some() && first.name == combo.name;
        if let (Some(name), Some((first, _))) = (&combo.name, combos[..position].iter().find(same)) {
            let problem = Problem::new(*span, format!("two combinations are called `{name}`"), "rename one");
            reader.found.add(problem.and(*first, "first here"));
        }
    }
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
            if side == Side::Serve && key == COMMAND {
                let words = self.words(value, "command").unwrap_or_default();
                combo.params.insert(key.clone(), shell_words::join(words).into());
                continue;
            }
            if side == Side::Serve && key == "env" {
                let env = self.env(value, "env").into_iter();
                combo
                    .params
                    .extend(env.map(|(name, value)| (format!("{ENV}{name}"), value.into())));
                continue;
            }
            let value = match super::params::is_whole_value(value) {
                true => self.whole_value(value)?,
                false => self.value(value),
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

/// The key that names a combination.
const NAME: &str = "_benchmark_name";

/// The combinations of a parameter file: a list of objects, or an object of named objects. A `_benchmark_name` inside
/// an object wins over the name outside.
pub fn records(root: &Node, found: &mut Diagnostics) -> Vec<(Span, Combo)> {
    let records: Vec<(Option<&str>, &Node)> = match &root.kind {
        Kind::List(items) => items.iter().map(|item| (None, item)).collect(),
        Kind::Table(entries) => entries
            .iter()
            .map(|entry| (Some(entry.key.as_str()), &entry.value))
            .collect(),
        _ => {
            if found.is_empty() {
                let remedy = "write a list of objects, or an object of named objects";
                let message = format!("a parameter file holds combinations, found {}", root.kind_name());
                found.object(root.span, message, remedy);
            }
            return Vec::new();
        }
    };
    if records.is_empty() {
        let remedy = "add one, or remove params_file";
        found.object(root.span, "this parameter file holds no combination", remedy);
    }
    records
        .into_iter()
        .filter_map(|(name, node)| record(name, node, found))
        .collect()
}

fn record(name: Option<&str>, node: &Node, found: &mut Diagnostics) -> Option<(Span, Combo)> {
    let Kind::Table(entries) = &node.kind else {
        let message = format!(
            "a combination must be an object of parameters, found {}",
            node.kind_name()
        );
        found.object(node.span, message, "write {\"parameter\": value, ...}");
        return None;
    };
    let mut name = name.map(String::from);
    let mut params = Params::new();
    for Entry { key, value: node, .. } in entries {
        let json = node.to_json(&mut |text, _| text.to_string());
        match key == NAME {
            true => name = Some(show(&json)),
            false => {
                params.insert(key.clone(), json);
            }
        }
    }
    Some((node.span, Combo { name, params }))
}
