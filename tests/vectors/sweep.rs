//! Small cases of `vllm bench sweep`, recorded by running it. vsweep gives the same result, or docs/differences.md lists the case with the
//! reason, and then it really differs.
//!
//! For each kind of case there is a function from the case's input to vsweep's result.

use crate::scripted::job;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use vsweep::bench::command_line;
use vsweep::cause::Outcome as Measured;
use vsweep::import::{self, Loads, Sweep, vllm_sweep};
use vsweep::lint::flags;
use vsweep::matrix::{self, Matrix, argv};
use vsweep::plan::{self, BenchRunner, Format, Offline, World, spelling};
use vsweep::report::charts::grid::file_name;
use vsweep::table::{Bin, Cell, Filter, RunRow, Table, TableBuilder};

/// vsweep's result for a case: a value, or an error.
type Outcome = Result<Value, String>;

/// Calls vsweep's function for a kind of case. `None` for the kinds that other tests compare.
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
        "comb_dir" => Some(comb_dir(input)),
        "sanitize_filename" => Some(Ok(json!(vllm_sweep::file_name(input.as_str().expect("a text"))))),
        "pareto_fig_path" => Some(pareto_fig_path(input)),
        "startup_key_supported" => Some(Ok(json!(is_option_of_startup(input.as_str().expect("a name"))))),
        "startup_output_json" => Some(Ok(json!(startup_command(input)))),
        "startup_dir" => Some(Ok(json!(format!("R/{}", startup_folder(input))))),
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
    let text = matrix::settings_text(&combo.params);
    Ok(json!({"name": combo.name.unwrap_or_else(|| text.clone()), "text": text}))
}

/// The combinations that a plan gets from a parameter file.
fn combos_of(file: &Value) -> Result<Vec<plan::Combo>, String> {
    let world = World {
        read: &|_| Ok(file.to_string()),
        ..World::empty()
    };
    let text = json!({"serve": {"command": "vllm serve m", "params_file": "params.json"}}).to_string();
    let plan = plan::parse(&text, Format::Json, Path::new("plan.json"), &world);
    plan.map(|plan| plan.serve.combos)
        .map_err(|problems| problems.to_string())
}

fn parse_link_vars(input: &Value) -> Outcome {
    vllm_sweep::link_vars(input.as_str().expect("a text")).map(|pairs| json!(pairs))
}

/// True if a plan with only this server and this load has a point.
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
    let plan = plan::parse(&text.to_string(), Format::Json, Path::new("plan.json"), &World::empty());
    Ok(json!(plan.is_ok_and(|plan| Matrix::expand(&plan).is_ok())))
}

/// A table with these records as its runs.
fn table(records: &[Value]) -> Table {
    let mut builder = TableBuilder::new();
    for (i, record) in records.iter().enumerate() {
        builder.push(RunRow {
            point: "p",
            run: i as u32,
            outcome: Measured::Ok,
            serve: record.as_object(),
            ..RunRow::default()
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
        .map(|filter| json!({"op": filter.sign(), "var": filter.column, "target": filter.target}));
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
    let group = group.iter().map(|(name, cell)| (name.as_str(), cell.clone()));
    let name = file_name(input["fig_name"].as_str().expect("a name"), group);
    Ok(json!(format!("E/{name}.png")))
}

/// Folder of a combination in an exported tree.
fn comb_dir(input: &Value) -> Outcome {
    let further: Vec<String> = serde_json::from_value(input["extra"].clone()).expect("texts");
    let further: Vec<&str> = further.iter().map(String::as_str).collect();
    let (serve, bench) = (record(&input["serve"]), record(&input["bench"]));
    let folder = vllm_sweep::folder_of([("SERVE-", &serve), ("BENCH-", &bench)], &further);
    Ok(json!(format!("R/E/{folder}").trim_end_matches('/')))
}

/// Returns true if a parameter of this name reaches `vllm bench startup`, or is `_benchmark_name`, which names the combination.
fn is_option_of_startup(name: &str) -> bool {
    name == "_benchmark_name" || flags::has(Offline::Startup, name)
}

/// The command line of a run whose result goes to `R/run=0.json`.
fn startup_command(input: &Value) -> Vec<String> {
    let argv: Vec<String> = serde_json::from_value(input.clone()).expect("words");
    let mut job = job("http://unused", json!({}));
    job.runner = BenchRunner::Offline(Offline::Startup);
    command_line(&job, Path::new("R/run=0.json"), &argv)
}

fn startup_folder(input: &Value) -> String {
    let (serve, startup) = (record(&input["serve"]), record(&input["startup"]));
    vllm_sweep::folder_of([("SERVE-", &serve), ("STARTUP-", &startup)], &[])
}

fn pareto_fig_path(input: &Value) -> Outcome {
    assert_eq!(input["group"], json!([]));
    Ok(json!(format!(
        "E/pareto/{}.png",
        file_name("PARETO", std::iter::empty())
    )))
}

/// Reads a record of a parameter file.
fn record(value: &Value) -> plan::Combo {
    let mut params = value.as_object().expect("parameters").clone();
    let name = params
        .shift_remove("_benchmark_name")
        .map(|name| vllm_sweep::text(&name));
    plan::Combo { name, params }
}

fn inf_nan_strings(input: &Value) -> Outcome {
    let record = input[0].as_object().expect("an object").iter();
    let read = record.map(|(name, value)| (name.clone(), json!(Cell::from_json(value).to_string())));
    Ok(json!([read.collect::<Map<_, _>>()]))
}

/// vLLM's result for a case. `None` if any step failed.
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

/// Ids in the first column of the table in docs/differences.md.
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

/// vsweep's model of vLLM's command lines, links and names, with which an import compares a plan, is correct.
#[test]
fn their_own_command_lines_links_and_names_are_known() {
    let all = cases();
    let of = |kind: &str| -> Vec<Value> {
        let cases = all["vectors"].as_array().expect("cases").iter();
        cases.filter(|case| case["kind"] == kind).cloned().collect()
    };
    for case in of("apply_to_cmd") {
        let base: Vec<String> = serde_json::from_value(case["input"]["cmd"].clone()).expect("words");
        let mut params = case["input"]["params"].as_object().expect("parameters").clone();
        params.remove("_benchmark_name");
        // vsweep refuses whole numbers beyond 64 bits where it reads files.
        if case["id"] != "apply_to_cmd-22" {
            let theirs = vllm_sweep::apply(&base, &params);
            assert_eq!(json!(theirs), case["expected"]["ok"], "{}", case["id"]);
        }
    }
    for case in of("link_valid") {
        let links: Vec<(String, String)> = serde_json::from_value(case["input"]["links"].clone()).expect("pairs");
        let side = |name: &str| case["input"][name].as_object().expect("parameters").clone();
        let kept = vllm_sweep::links_keep(&links, &side("serve"), &side("bench"));
        assert_eq!(json!(kept), case["expected"]["ok"], "{}", case["id"]);
    }
    for case in of("name_and_text") {
        let name = vllm_sweep::name(&record(&case["input"]));
        assert_eq!(
            name,
            case["expected"]["ok"]["name"].as_str().expect("a text"),
            "{}",
            case["id"]
        );
    }
}

/// Imports a recorded sweep, given as its files and links.
fn imported(input: &Value) -> Result<import::PlanImport, String> {
    let file = |name: &str| input.get(name).map(|_| name.into());
    let sweep = Sweep {
        loads: Loads::Listed,
        serve_cmd: "vllm serve m".into(),
        bench_cmd: "vllm bench serve".into(),
        after_bench_cmd: None,
        ready_timeout_s: 300,
        serve_params: file("serve_params"),
        bench_params: file("bench_params"),
        link_vars: input["link_vars"].as_str().unwrap_or_default().into(),
        experiment_name: None,
        num_runs: 1,
        warmup_num_prompts: 0,
        remarks: vec![],
    };
    let read = |path: &Path| Ok(input[path.to_str().expect("a name")].to_string());
    import::import(&sweep, &read).map_err(|problems| problems.to_string())
}

/// Folders that vLLM would give to the points of an imported plan.
fn folders(imported: &import::PlanImport) -> Vec<String> {
    let plan = plan::parse(&imported.text, Format::Toml, Path::new("plan.toml"), &World::empty());
    let matrix = Matrix::expand(&plan.expect("valid")).expect("valid");
    let record = |name: &Option<String>, params: &plan::Params| plan::Combo {
        name: name.clone(),
        params: params.clone(),
    };
    let servers = matrix.servers().flat_map(|server| {
        let serve = record(&server.combo, &server.params);
        let points = matrix.points_of(&server);
        let folders = points.map(|point| {
            let bench = record(&point.combo, &point.params);
            vllm_sweep::folder_of([("SERVE-", &serve), ("BENCH-", &bench)], &[])
        });
        folders.collect::<Vec<_>>()
    });
    servers.collect()
}

#[test]
fn whole_sweeps_are_imported() {
    let all = cases();
    let case = |id: &str| {
        let mut cases = all["vectors"].as_array().expect("cases").iter();
        cases.find(|case| case["id"] == id).expect("a case").clone()
    };
    let linked = case("e2e-01");
    let ours = imported(&linked["input"]).expect("a plan");
    let files: Vec<String> = folders(&ours)
        .iter()
        .map(|folder| format!("{folder}/run=0.json"))
        .collect();
    assert_eq!(json!(files), linked["expected"]["printed_commands"]);
    assert_eq!(ours.notes, [""; 0]);

    let mut nothing = linked["input"].clone();
    nothing["link_vars"] = case("e2e-12")["input"]["link_vars"].clone();
    let refusal = imported(&nothing).expect_err("nothing is left");
    assert!(refusal.contains("--link-vars foo=bar keeps no pair"), "{refusal}");

    let twice = imported(&case("e2e-16")["input"]).expect("a plan");
    assert_eq!(folders(&twice), ["BENCH--x=1", "BENCH--m=a_b", "BENCH--m=a_b"]);
    assert!(twice.notes[0].contains("load `x=1` repeats `x=1`"), "{:?}", twice.notes);

    assert_eq!(case("e2e-17")["input"]["bench_params"], "25 keys");
    let many: Map<String, Value> = (0..25).map(|i| (format!("a_parameter_{i}"), json!(i))).collect();
    let long = imported(&json!({"bench_params": [many]})).expect("a plan");
    assert!(folders(&long)[0].len() > 255);
}
