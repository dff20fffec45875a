//! The plan reference `docs/plan.md`: an example, every table with its keys, and how values are read. The tables are made from the schema,
//! so they always agree with the code.

use super::Plan;
use super::read::table::{Table, describe};
use super::written::Definitions;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::{Display, Write};

/// Heading of each table in the reference, with its name in the schema, in the order of the reference. The top level of a plan has no name.
const TABLES: [(&str, &str); 22] = [
    ("`[serve]`", "ServeTable"),
    ("`[bench]`", "BenchTable"),
    ("Top level", ""),
    ("`{ from, to, ... }`: a range as a parameter's values", "RangeTable"),
    ("`{ per, ... }`: a parameter that follows another", "DerivedTable"),
    ("`{ value }`: a list or a table as one value", "ValueTable"),
    ("`[[serve.combos]]`, `[[bench.combos]]`", "ComboTable"),
    ("`[[bench.mix]]`", "MixTable"),
    ("`[link]`", "LinkTable"),
    ("`runs = { until, ... }`: as many runs as it takes", "RunsTable"),
    ("`[exec]`", "ExecTable"),
    ("`[slurm]`", "SlurmTable"),
    ("`[sla]`", "SlaTable"),
    ("`[[sla.target]]`", "TargetTable"),
    ("`[explore]`", "ExploreTable"),
    ("`[compare]`", "CompareTable"),
    ("`[optimize]`", "OptimizeTable"),
    ("`[[assert]]`", "AssertTable"),
    ("`[report]`", "ReportTable"),
    ("`[report.pareto]`", "ParetoTable"),
    ("`[[report.plot]]`", "PlotTable"),
    ("`[on_finish]`", "OnFinishTable"),
];

/// Line of `reference.md` that the tables replace.
const TABLES_HERE: &str = "<!-- tables -->\n";

/// Returns the whole reference.
pub fn markdown() -> String {
    let schema = json_schema();
    let (before, after) = include_str!("reference.md")
        .split_once(TABLES_HERE)
        .expect("the text says where the tables are");
    let (mut tables, mut known) = (String::new(), BTreeSet::new());
    for (title, name) in TABLES {
        let definition = match name {
            "" => Some(&schema),
            name => schema.pointer(&format!("/$defs/{name}")),
        };
        let definition = definition.and_then(Value::as_object);
        let definition = definition.expect("every table is a definition of the schema");
        let _ = writeln!(tables, "## {title}");
        if !name.is_empty() {
            let _ = write!(tables, "\n{}\n", text(definition));
        }
        write_keys(definition, name.is_empty(), &mut known, &mut tables);
        tables.push('\n');
    }
    [before, &linked(&tables), after].concat()
}

/// Turns names of pages in the texts of the schema, such as `docs/search.md` or `(docs/plan.md#secrets)`, into links.
fn linked(text: &str) -> String {
    let mut parts = text.split("docs/");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(".md") {
            Some((page, rest)) => {
                let end = rest.find(')').filter(|_| rest.starts_with('#')).unwrap_or(0);
                let (anchor, rest) = rest.split_at(end);
                out.extend(["[", page, ".md](", page, ".md", anchor, ")", rest]);
            }
            None => out.extend(["docs/", part]),
        }
    }
    out
}

/// Writes a row for each key. Keys whose row was already written are only named. Keys of the top level that have a section of their own are
/// left out.
fn write_keys(definition: &Map<String, Value>, is_top: bool, known: &mut BTreeSet<String>, out: &mut String) {
    let Some(Value::Object(properties)) = definition.get("properties") else {
        return;
    };
    let required = definition.get("required").and_then(Value::as_array);
    let properties = properties.iter().filter_map(|(key, property)| {
        let property = property.as_object().cloned().unwrap_or_default();
        let must = required.is_some_and(|required| required.iter().any(|name| name == key));
        let must = if must { "required " } else { "" };
        let is_left_out = is_top && has_section(&property);
        (!is_left_out).then(|| {
            (
                key,
                format!("| `{key}`: {must}{} | {} |", type_of(&property), text(&property)),
            )
        })
    });
    write_rows("| key | meaning |", properties, known, out);
}

/// Writes a table of named rows. Rows that are in `known`, because they were already written, are only named.
pub fn write_rows<N: Display>(
    heads: &str,
    rows: impl Iterator<Item = (N, String)>,
    known: &mut BTreeSet<String>,
    out: &mut String,
) {
    let (mut head, mut repeated) = (format!("\n{heads}\n| --- | --- |\n"), Vec::new());
    for (name, row) in rows {
        if known.contains(&row) {
            repeated.push(format!("`{name}`"));
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{head}{row}");
        head.clear();
        known.insert(row);
    }
    if !repeated.is_empty() {
        let _ = write!(out, "\nAs above: {}.\n", repeated.join(", "));
    }
}

/// Returns true if the value of a key is one of [`TABLES`], or a list of such tables.
fn has_section(property: &Map<String, Value>) -> bool {
    let items = property.get("items").and_then(Value::as_object);
    let reference = items.unwrap_or(property).get("$ref").and_then(Value::as_str);
    reference.is_some_and(|name| {
        TABLES
            .iter()
            .any(|(_, table)| !table.is_empty() && name.ends_with(table))
    })
}

fn text(schema: &Map<String, Value>) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the type of a key's value in a few words.
fn type_of(schema: &Map<String, Value>) -> String {
    if let Some(Value::String(reference)) = schema.get("$ref") {
        return match reference.rsplit('/').next().unwrap_or_default() {
            "Words" => "string or list of strings".into(),
            "Commands" => "string, list of strings, or table of them".into(),
            "Param" => "value, list, range".into(),
            "RunsValue" => "whole number or table".into(),
            "SideBySide" => "`\"gpus\"` or whole number".into(),
            "Scalar" => "string, number or boolean".into(),
            table if table.ends_with("Table") => "table".into(),
            _ => "string".into(),
        };
    }
    let inner = |key: &str| schema.get(key).and_then(Value::as_object).map(type_of);
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}", plural(&inner("items").unwrap_or_default())),
        Some("object") => "table".into(),
        Some("integer") => "whole number".into(),
        Some(simple) => simple.into(),
        None => "any".into(),
    }
}

fn plural(name: &str) -> String {
    match name.split_once("list of ") {
        Some((before, rest)) => format!("{}lists of {rest}", before.replacen(" or", "s or", 1)),
        None => format!("{name}s"),
    }
}

/// Returns the JSON Schema of the plan format, made from the descriptions of tables (`read::table`) and values (`written`).
/// Editors use it to complete plans, and the plan reference is made from it.
pub fn json_schema() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), Plan::TITLE.into());
    schema.extend(describe::<Plan>(&mut definitions));
    schema.insert("$defs".into(), definitions.0.into());
    schema.into()
}

/// Returns the schema as the text of `plans/schema.json`.
pub fn json_text() -> String {
    serde_json::to_string_pretty(&json_schema()).expect("a schema is JSON") + "\n"
}
