//! `[[bench.mix]]`: the classes of a mixed load, which become one parameter of the load. The values of a class are checked later, with the
//! other parameters of the load.

use crate::read::is_whole_value;
use crate::{Kind, Node, Plan, Problem, Reader, nearest, suggest, table};
use itertools::Itertools;
use serde_json::{Map, Value};

/// Name of the load parameter that holds the classes.
pub const MIX: &str = "mix";

table! {
    /// A class of a mixed load (docs/datasets.md). Every other key is a parameter of its prompts, in place of that in `[bench.params]`:
    /// `dataset_name`, `dataset_path`, `input_len`, `output_len`, `disable_shuffle`, `no_oversample` or one of its dataset.
    #[derive(Debug)]
    pub struct MixClass("MixTable", "bench.mix.") {
        /// Its name: letters, digits, `_` and `-`, a letter first. Its figures are called `chat.p99_ttft_ms`.
        _name as "name": () = for_schema_only::<String>().required_elsewhere(),
        /// Its weight among all classes.
        _share as "share": () = for_schema_only::<f64>().required_elsewhere(),
        ..Value
    }
}

/// Reads the classes of a load; `None` if the load has none, or if they are rejected. `forbidden_by` is the key, `command` or `runner`, by
/// which the plan chooses another program than vsweep's own load generator; then the load cannot have classes.
pub(crate) fn mix(reader: &mut Reader<'_>, table: &Node, forbidden_by: Option<&str>) -> Option<Value> {
    let remedy = "write each class below its own [[bench.mix]]";
    if let Some(entry) = table.child("params").and_then(|params| params.entry(MIX)) {
        reader.object(entry.key_span, "the classes of a load are no parameter", remedy);
    }
    let node = table.child(MIX)?;
    if let Some(key) = forbidden_by {
        let message = "a mix is drawn by vsweep's own load generator";
        return reader.refuse(node.span, message, format!("remove `{key}`, or the mix"));
    }
    let classes = reader.list(node, "bench.mix", remedy)?;
    let read: Vec<Value> = classes.iter().filter_map(|class| reader.class(class)).collect();
    (read.len() == classes.len()).then(|| read.into())
}

impl Reader<'_> {
    fn class(&mut self, node: &Node) -> Option<Value> {
        let Kind::Table(entries) = &node.kind else {
            let message = format!("a class must be a table, found {}", node.kind_name());
            return self.refuse(node.span, message, "write it below [[bench.mix]]");
        };
        let mut class = Map::new();
        for entry in entries {
            let value = match is_whole_value(&entry.value) {
                true => self.whole_value(&entry.value)?,
                false => self.value(&entry.value),
            };
            self.secrets.note_param(&entry.key, &value);
            class.insert(entry.key.clone(), value);
        }
        Some(class.into())
    }
}

impl Plan {
    /// Rejects targets and assertions with a class that no mix has.
    pub(crate) fn check_classes(&self, reader: &mut Reader<'_>, root: &Node) {
        let mix = root.child("bench").and_then(|bench| bench.child(MIX));
        let known = mix.into_iter().flat_map(names).unique().collect_vec();
        let targets = root.child("sla").and_then(|sla| sla.child("target"));
        let tables = [targets, root.child("assert")].into_iter().flatten();
        let named = tables
            .flat_map(|tables| tables.children())
            .filter_map(|table| table.child("class"));
        let has_mixed_combos = self.bench.combos.iter().any(|combo| combo.params.contains_key(MIX));
        for class in named {
            let Kind::Text(name) = &class.kind else { continue };
            if known.contains(&name.as_str()) || has_mixed_combos {
                continue;
            }
            // The class may be the one whose name cannot be read, unless it is a misspelling of another.
            let is_like_another = !nearest(name, known.iter().copied()).is_empty();
            if mix.is_some_and(|mix| !has_names(mix)) && !is_like_another {
                continue;
            }
            let (message, remedy) = match mix {
                Some(_) => (
                    format!("no class of the mix is called `{name}`"),
                    suggest(name, known.iter().copied()),
                ),
                None => (
                    format!("`{name}` is a class, and the load has none"),
                    "add [[bench.mix]] with this name, or remove `class`".to_owned(),
                ),
            };
            reader.found.add(Problem::new(class.span, message, remedy));
        }
    }

    /// Returns the names of all classes of the plan's loads.
    pub fn classes(&self) -> Vec<String> {
        let of_params = self.bench.params.iter().filter(|(name, _)| name == MIX);
        let of_params = of_params.flat_map(|(_, axis)| axis.values());
        let of_combos = self.bench.combos.iter().filter_map(|combo| combo.params.get(MIX));
        let classes = of_params.chain(of_combos).filter_map(Value::as_array).flatten();
        classes
            .filter_map(|class| Some(class.get("name")?.as_str()?.to_owned()))
            .collect()
    }
}

/// Returns true if every class has a name that can be read.
fn has_names(mix: &Node) -> bool {
    matches!(mix.kind, Kind::List(_)) && mix.children().len() == names(mix).count()
}

/// Returns the names of the classes, as typed.
fn names(mix: &Node) -> impl Iterator<Item = &str> {
    let named = mix.children().into_iter().filter_map(|class| class.child("name"));
    named.filter_map(|name| match &name.kind {
        Kind::Text(name) => Some(name.as_str()),
        _ => None,
    })
}
