//! The forms in which `vllm bench sweep` takes parameters: JSON files of combinations, and `--link-vars`.

use super::node::{Entry, Kind, Node};
use super::problem::Found;
use super::source::Span;
use super::{Combo, Params, value};

/// The key that names a combination.
const NAME: &str = "_benchmark_name";

/// The combinations of a parameter file: a list of objects, or an object of named objects. A `_benchmark_name` inside
/// an object wins over the name outside.
pub fn records(root: &Node, found: &mut Found) -> Vec<(Span, Combo)> {
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

fn record(name: Option<&str>, node: &Node, found: &mut Found) -> Option<(Span, Combo)> {
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
            true => name = Some(value::show(&json)),
            false => {
                params.insert(key.clone(), json);
            }
        }
    }
    Some((node.span, Combo { name, params }))
}

/// Reads `--link-vars`: pairs of a server and a load parameter, `max_num_seqs=max_concurrency,...`.
pub fn link_vars(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let pairs = text.split(',').map(
        |pair| match pair.split('=').map(str::trim).collect::<Vec<_>>().as_slice() {
            [serve, bench] if !serve.is_empty() && !bench.is_empty() => Ok((serve.to_string(), bench.to_string())),
            _ => Err(format!(
                "`{pair}` ties no two parameters; write serve_name=bench_name, with commas between pairs"
            )),
        },
    );
    pairs.collect()
}
