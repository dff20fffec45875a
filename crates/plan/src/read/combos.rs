//! Combinations of parameters: those that a plan lists, and those of a file in the form of `vllm bench sweep`.

use super::params::is_whole_value;
use super::{FromNode, Reader, Table, table};
use crate::commands::{COMMAND, ENV};
use crate::syntax::json_text;
use crate::{Diagnostics, Entry, Kind, Node, Params, Problem, Side, Span, show};
use serde_json::Value;

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

/// Key of the path of a file of combinations.
pub(crate) const PARAMS_FILE: &str = "params_file";

/// Reads the combinations of `[[serve.combos]]` or `[[bench.combos]]`, then those of the parameter file.
pub(crate) fn combos(reader: &mut Reader<'_>, table: &Node, side: Side) -> Vec<Combo> {
    let mut combos: Vec<(Span, Combo)> = Vec::new();
    let what = format!("{}.combos", side.table());
    let remedy = format!("write each combination below its own [[{what}]]");
    let listed = table.child("combos").and_then(|node| reader.list(node, &what, &remedy));
    for item in listed.unwrap_or_default() {
        combos.extend(reader.combo(item, side).map(|combo| (item.span, combo)));
    }
    if let Some(node) = table.child(PARAMS_FILE) {
        let of_file = reader.params_file(node, side);
        reader.names.may_lack_some |= of_file.is_empty();
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
        if side == Side::Bench {
            self.check_flags(&entries, side.table());
        }
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

    /// Reads a parameter file, which has the form of `vllm bench sweep`. Its values are taken as they are: they define no axes, and
    /// references in them are not expanded.
    fn params_file(&mut self, node: &Node, side: Side) -> Vec<(Span, Combo)> {
        let Some(path) = self.text(node, &format!("{}.params_file", side.table())) else {
            return Vec::new();
        };
        let path = self.folder_of(node.span).join(path);
        let Some(text) = self.file(&path, node.span) else {
            return Vec::new();
        };
        let source = self.sources.add(&path, text.as_str());
        let root = json_text::parse(&text, source, &mut self.found);
        let problems = self.found.count();
        for record in root.children() {
            self.check_spellings(record.entries());
            // A combination of server settings may set `command` and `env.NAME`, which are not flags.
            match side {
                Side::Serve => self.check_commands(record.entries()),
                Side::Bench => self.check_flags(record.entries(), side.table()),
            }
        }
        let combos = records(&root, &mut self.found);
        // What is wrong in a file is said once, and not again about the servers that it would make.
        if self.found.count() > problems {
            Vec::new()
        } else {
            combos
        }
    }

    /// Rejects command lines and variables that a combination in a parameter file cannot have.
    fn check_commands(&mut self, entries: &[Entry]) {
        for Entry { key, key_span, value } in entries {
            match (key.as_str(), &value.kind) {
                (COMMAND, _) => {
                    self.words(&without_references(value), COMMAND);
                }
                ("env", Kind::Table(_)) => {
                    let remedy = "write each variable as a key: \"env.NAME\": \"value\"";
                    self.object(*key_span, "`env` is a table in a parameter file", remedy);
                }
                _ => {}
            }
        }
    }
}

/// Returns a command line in which each `${` is escaped, so that it is read as it is.
fn without_references(node: &Node) -> Node {
    let kind = match &node.kind {
        Kind::Text(text) => Kind::Text(text.replace("${", "$${")),
        Kind::List(items) => Kind::List(items.iter().map(without_references).collect()),
        kind => kind.clone(),
    };
    Node { kind, ..*node }
}

/// Rejects combinations with equal names.
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

/// Key for the name of a combination in a parameter file.
const NAME: &str = "_benchmark_name";

/// Reads the combinations of a parameter file: a list of objects, or an object of named objects. A `_benchmark_name` inside an object takes
/// precedence over the key of the object.
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
        match (key.as_str(), value) {
            (NAME, value) => name = Some(show(&value)),
            (COMMAND, Value::Array(words)) => {
                params.insert(key.clone(), shell_words::join(words.iter().map(show)).into());
            }
            (_, value) => drop(params.insert(key.clone(), value)),
        }
    }
    Some((node.span, Combo { name, params }))
}
