//! What `vllm bench sweep` does in small cases, recorded by running it: vsweep does the same, or the case is listed in
//! docs/differences.md with the reason, and then it really differs.
//!
//! Each kind of case is one function from the case's input to what vsweep makes of it.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use vsweep::cause::Outcome as Measured;
use vsweep::matrix::{self, Matrix, argv};
use vsweep::plan::{self, Format, World, spelling, vllm};
use vsweep::report::charts::grid::file_name;
use vsweep::table::{Bin, Cell, Filter, Row, Table, TableBuilder};

/// What vsweep makes of a case: a value, or a refusal.
type Outcome = Result<Value, String>;

/// The kinds of cases and what stands for them in vsweep.
fn perform(kind: &str, input: &Value) -> Option<Outcome> {
    match kind {
        "apply_to_cmd" => Some(apply_to_cmd(input)),
        "has_param" => Some(has_param(input)),
        "read_json" => Some(read_json(input)),
        "name_and_text" => Some(name_and_text(input)),
        "parse_link_vars" => Some(parse_link_vars(input)),
        "link_valid" => Some(link_valid(input)),
        "filter" => Some(filter(input)),
        "binner" => Some(binner(input)),
        "plot_fig_path" => Some(plot_fig_path(input)),
        "inf_nan_strings" => Some(inf_nan_strings(input)),
        _ => None,
    }
}

fn apply_to_cmd(input: &Value) -> Outcome {
    let base: Vec<String> = serde_json::from_value(input["cmd"].clone()).expect("words");
    let mut params = input["params"].as_object().expect("parameters").clone();
    params.remove("_benchmark_name");
    Ok(json!(argv::apply(&base, &params)))
}

fn has_param(input: &Value) -> Outcome {
    let key = input["key"].as_str().expect("a name");
    let item = input["item"].as_object().expect("parameters");
    Ok(json!(item.keys().any(|name| spelling::same(name, key))))
}

fn read_json(input: &Value) -> Outcome {
    let combos = combos_of(input)?;
    let records = combos.into_iter().map(|combo| {
        let name = combo
            .name
            .map(|name| ("_benchmark_name".to_string(), Value::from(name)));
        Value::Object(name.into_iter().chain(combo.params).collect())
    });
    Ok(records.collect())
}

fn name_and_text(input: &Value) -> Outcome {
    let combo = combos_of(&json!([input]))?.remove(0);
    let text = matrix::text(&combo.params);
    Ok(json!({"name": combo.name.unwrap_or_else(|| text.clone()), "text": text}))
}

/// The combinations that a plan gets from a parameter file.
fn combos_of(file: &Value) -> Result<Vec<plan::Combo>, String> {
    let world = World {
        vars: &Vec::new,
        env: &|_| None,
        read: &|_| Ok(file.to_string()),
    };
    let text = json!({"serve": {"command": "vllm serve m", "params_file": "params.json"}}).to_string();
    let plan = plan::parse(&text, Format::Json, Path::new("plan.json"), &[], &world);
    plan.map(|plan| plan.serve.combos)
        .map_err(|problems| problems.to_string())
}

fn parse_link_vars(input: &Value) -> Outcome {
    vllm::link_vars(input.as_str().expect("a text")).map(|pairs| json!(pairs))
}

/// One server and one load, kept if a plan of just them has a point.
fn link_valid(input: &Value) -> Outcome {
    let wrapped = |params: &Value| -> Map<String, Value> {
        let params = params.as_object().expect("parameters").iter();
        params
            .map(|(name, value)| (name.clone(), json!({ "value": value })))
            .collect()
    };
    let links = input["links"].as_array().expect("links").iter();
    let groups: Vec<Value> = links
        .map(|pair| {
            json!([
                format!("serve.{}", pair[0].as_str().expect("a name")),
                format!("bench.{}", pair[1].as_str().expect("a name"))
            ])
        })
        .collect();
    let text = json!({
        "serve": {"command": "vllm serve m", "params": wrapped(&input["serve"])},
        "bench": {"params": wrapped(&input["bench"])},
        "link": {"equal": groups},
    });
    let plan = plan::parse(
        &text.to_string(),
        Format::Json,
        Path::new("plan.json"),
        &[],
        &World::empty(),
    );
    Ok(json!(plan.is_ok_and(|plan| Matrix::expand(&plan).is_ok())))
}

/// A table with these records as runs.
fn table(records: &[Value]) -> Table {
    let mut builder = TableBuilder::new();
    for (i, record) in records.iter().enumerate() {
        builder.push(Row {
            point: "p",
            run: i as u32,
            outcome: Measured::Ok,
            validity: None,
            doubts: &[],
            cause: None,
            detail: "",
            serve: record.as_object().expect("an object"),
            bench: &Map::new(),
            simulated: None,
            gpus: None,
            metrics: &[],
        });
    }
    builder.finish()
}

fn filter(input: &Value) -> Outcome {
    let table = table(cases()["filter_rows"].as_array().expect("rows"));
    let filters = Filter::parse_list(input.as_str().expect("a text"))?;
    let mut rows: Vec<usize> = (0..table.rows()).collect();
    for filter in &filters {
        rows = filter.keep(&table, &rows)?;
    }
    let parsed = filters
        .iter()
        .map(|filter| json!({"op": filter.comparison.to_string(), "var": filter.column, "target": filter.target}));
    Ok(json!({"parsed": parsed.collect::<Value>(), "rows": {"ok": rows}}))
}

fn binner(input: &Value) -> Outcome {
    let data = input["data"].as_object().expect("columns");
    let length = data["c"].as_array().expect("values").len();
    let record = |i: usize| {
        data.iter()
            .map(|(name, values)| (name.clone(), values[i].clone()))
            .collect()
    };
    let mut table = table(&(0..length).map(record).collect::<Vec<Value>>());
    let bins = Bin::parse_list(input["spec"].as_str().expect("a text"))?;
    for bin in &bins {
        bin.apply(&mut table)?;
    }
    let parsed = bins.iter().map(|bin| json!({"var": bin.column, "bin_size": bin.size}));
    let numbers = |name: &String| {
        (0..length)
            .map(|row| table.cell(name, row).number())
            .collect::<Vec<_>>()
    };
    let values: Map<String, Value> = data.keys().map(|name| (name.clone(), json!(numbers(name)))).collect();
    Ok(json!({"parsed": parsed.collect::<Value>(), "values": {"ok": values}}))
}

fn plot_fig_path(input: &Value) -> Outcome {
    let group: Vec<(String, String)> = serde_json::from_value(input["group"].clone()).expect("pairs");
    let group: Vec<(String, Cell)> = group
        .into_iter()
        .map(|(name, value)| (name, Cell::Text(value.into())))
        .collect();
    let group = group.iter().map(|(name, cell)| (name.as_str(), cell));
    let name = file_name(input["fig_name"].as_str().expect("a name"), group);
    Ok(json!(format!("E/{name}.png")))
}

fn inf_nan_strings(input: &Value) -> Outcome {
    let record = input[0].as_object().expect("an object").iter();
    let read = record.map(|(name, value)| (name.clone(), json!(Cell::from_json(value).to_string())));
    Ok(json!([read.collect::<Map<_, _>>()]))
}

/// What vLLM made of a case, unless it failed, be it only when it used what it had read.
fn theirs(case: &Value) -> Option<&Value> {
    let made = case["expected"].get("ok")?;
    let fails = ["rows", "values"]
        .iter()
        .any(|step| made.get(step).is_some_and(|step| step.get("error").is_some()));
    (!fails).then_some(made)
}

fn cases() -> Value {
    serde_json::from_str(include_str!("../data/vectors/sweep.json")).expect("valid JSON")
}

/// The first column of the table in docs/differences.md.
fn listed_differences() -> BTreeSet<String> {
    let text = include_str!("../../docs/differences.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`'))
        .map(|(id, _)| id.to_string())
        .collect()
}

#[test]
fn every_case_is_met_or_a_listed_difference() {
    let cases = cases();
    let listed = listed_differences();
    let mut wrong = Vec::new();
    for case in cases["vectors"].as_array().expect("cases") {
        let id = case["id"].as_str().expect("an id");
        let Some(ours) = perform(case["kind"].as_str().expect("a kind"), &case["input"]) else {
            continue;
        };
        let met = match (&ours, theirs(case)) {
            (Ok(ours), Some(theirs)) => ours == theirs,
            (Err(_), None) => true,
            _ => false,
        };
        if met == listed.contains(id) {
            let how = if met {
                "is listed as different but is the same"
            } else {
                "differs and is not listed"
            };
            wrong.push(format!("{id} {how}: {ours:?} against {}", case["expected"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
