//! The plan reference `docs/plan.md`: an introduction, then every table with its keys, made from the schema so that it
//! cannot lie.

use super::schema::json_schema;
use serde_json::{Map, Value};
use std::fmt::Write;

/// The tables in the order of a plan, with what they are called there.
const TABLES: [(&str, &str); 18] = [
    ("`runs = { until, ... }`: as many runs as it takes", "RunsTable"),
    ("`[serve]`", "ServeTable"),
    ("`[bench]`", "BenchTable"),
    ("`{ from, to, ... }`: a range as a parameter's values", "RangeTable"),
    ("`{ per, ... }`: a parameter that follows another", "DerivedTable"),
    ("`{ value }`: a list or a table as one value", "ValueTable"),
    ("`[[serve.combos]]`, `[[bench.combos]]`", "ComboTable"),
    ("`[exec]`", "ExecTable"),
    ("`[slurm]`", "SlurmTable"),
    ("`[link]`", "LinkTable"),
    ("`[sla]`", "SlaTable"),
    ("`[[sla.target]]`", "TargetTable"),
    ("`[explore]`", "ExploreTable"),
    ("`[compare]`", "CompareTable"),
    ("`[[assert]]`", "AssertTable"),
    ("`[report]`", "ReportTable"),
    ("`[report.pareto]`", "ParetoTable"),
    ("`[[report.plot]]`", "PlotTable"),
];

/// The whole text.
pub fn markdown() -> String {
    let schema = json_schema();
    let mut out = String::from(include_str!("reference.md"));
    out.push_str("\n## Top level\n");
    write_keys(schema.as_object().unwrap_or(&Map::new()), &mut out);
    for (title, name) in TABLES {
        let definition = schema.pointer(&format!("/$defs/{name}")).and_then(Value::as_object);
        let definition = definition.expect("every table is a definition of the schema");
        let _ = write!(out, "\n## {title}\n\n{}\n", text(definition));
        write_keys(definition, &mut out);
    }
    out
}

fn write_keys(definition: &Map<String, Value>, out: &mut String) {
    let Some(Value::Object(properties)) = definition.get("properties") else {
        return;
    };
    out.push_str("\n| key | value | meaning |\n| --- | --- | --- |\n");
    let required = definition.get("required").and_then(Value::as_array);
    for (key, property) in properties {
        let must = required.is_some_and(|required| required.iter().any(|name| name == key));
        let shown = if must {
            format!("`{key}` (required)")
        } else {
            format!("`{key}`")
        };
        let property = property.as_object().cloned().unwrap_or_default();
        let _ = writeln!(out, "| {shown} | {} | {} |", type_of(&property), text(&property));
    }
}

fn text(schema: &Map<String, Value>) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// A word or two on what a key takes.
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
