//! An experiment as the tree of `vllm bench sweep serve`: a table of all runs, and for each combination a folder that has a file for each
//! run and one for all its runs. vLLM's own plots and [`crate::read_any`] read such a tree.

use crate::ordered::Order;
use crate::rows::{detail_of, read_content, with_combo};
use itertools::Itertools;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use vsweep_base::cause::Outcome;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{create_folder, write_atomic, write_atomic_with};
use vsweep_base::printable::{has_effect, printable, printable_json};
use vsweep_base::validity::Validity;
use vsweep_plan::import::vllm_sweep;
use vsweep_plan::{Combo, Params};
use vsweep_record::journal::{ALONE_SLOT, Directory, RunRecord, ServerRecord, State};
use vsweep_record::table::{COMBO, inert, used_gpus};

/// Most bytes in the name of a file.
const LONGEST_NAME: usize = 255;

/// Result of an export.
#[derive(Debug, Default)]
pub struct ExportSummary {
    /// Number of runs with figures.
    pub runs: usize,
    /// Number of runs that are written as failures. Each has a file with the reason.
    pub failures: usize,
    /// One line for each run file that cannot be read or is not the recorded one.
    pub damaged: Vec<String>,
}

/// Writes the results that count, in the form of a vLLM sweep's tree. Invalid runs and runs that were cut short are failures in it, so that
/// no plot shows them.
pub fn write_vllm_tree(directory: &Directory, state: &State, to: &Path) -> Result<ExportSummary> {
    let unknown = ServerRecord::default();
    let mut exported = ExportSummary::default();
    let mut records: Vec<Params> = Vec::new();
    for (folder, runs) in folders(state, side_of_load(directory, state)) {
        let folder = to.join(folder);
        create_folder(&folder)?;
        let mut measured: Vec<Value> = Vec::new();
        for (number, run) in runs.into_iter().enumerate() {
            let server = state.servers.get(&run.server).unwrap_or(&unknown);
            let content = is_usable(run).then(|| read_content(directory.root(), run));
            let content = content.and_then(|content| content.map_err(|problem| exported.damaged.push(problem)).ok());
            match content.and_then(|content| serde_json::from_slice::<Params>(&content).ok()) {
                Some(result) => {
                    let record = record(result, number, run, server);
                    write_json(&folder.join(format!("run={number}.json")), &record, 4)?;
                    let cells = record.iter().filter(|(_, value)| !value.is_array());
                    records.push(cells.map(|(name, value)| (name.clone(), value.clone())).collect());
                    measured.push(record.into());
                    exported.runs += 1;
                }
                None => {
                    let failure = failure(number, run, server);
                    write_json(&folder.join(format!("run={number}.failure.json")), &failure, 2)?;
                    exported.failures += 1;
                }
            }
        }
        if !measured.is_empty() {
            write_json(&folder.join("summary.json"), &measured, 4)?;
        }
    }
    write_atomic_with(&to.join("summary.csv"), |file| write_table(&records, file))?;
    Ok(exported)
}

fn is_usable(run: &RunRecord) -> bool {
    let is_measured = matches!(run.outcome, Outcome::Ok | Outcome::Suspect);
    is_measured && run.validity != Validity::Invalid && run.file.is_some()
}

/// Returns the word before the load in the names of vLLM's folders; the sweep of `vllm bench startup` has a word of its own.
fn side_of_load(directory: &Directory, state: &State) -> &'static str {
    let first = state.runs().find(|run| is_usable(run));
    let content = first.and_then(|run| read_content(directory.root(), run).ok());
    let figures = content.and_then(|content| serde_json::from_slice::<Params>(&content).ok());
    match figures.is_some_and(|figures| figures.contains_key("avg_cold_startup_time")) {
        true => "STARTUP-",
        false => "BENCH-",
    }
}

/// Returns the runs of each point, with the name of its folder: vLLM's name, or the ids if vLLM's name is not valid or already used.
fn folders<'s>(state: &'s State, side: &str) -> Vec<(String, Vec<&'s RunRecord>)> {
    let unknown = ServerRecord::default();
    let mut runs = state.runs().into_group_map_by(|run| &run.point);
    let mut taken = HashSet::new();
    let named = state.runs().map(|run| &run.point).unique().map(|id| {
        let mut runs = runs.remove(id).expect("a point has a run");
        // The start without neighbours enters no estimate of a point with others, as in the tables.
        if runs.iter().any(|run| run.slot != ALONE_SLOT) {
            runs.retain(|run| run.slot != ALONE_SLOT);
        }
        runs.order_by_key(|run| (run.slot, run.run, run.rank.line));
        let run = runs[0];
        let server = state.servers.get(&run.server).unwrap_or(&unknown);
        let record = |combo: Option<&str>, params: &Params| Combo {
            name: combo.map(str::to_owned),
            params: params.clone(),
        };
        let sides = [
            ("SERVE-", &record(server.combo.as_deref(), &server.params)),
            (side, &record(run.combo.as_deref(), &run.params)),
        ];
        let name = vllm_sweep::folder_of(sides, &[]);
        let is_free = taken.insert(name.clone());
        let is_a_name = !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(has_effect);
        let name = match is_a_name && is_free {
            true => name,
            false => format!("SERVE--{}-{side}-{id}", run.server.0),
        };
        (name, runs)
    });
    named.collect()
}

/// A run as vLLM's sweep stores it: the client's result, the number of the run, then what the sweep set, which replaces
/// figures of the same name.
fn record(result: Params, number: usize, run: &RunRecord, server: &ServerRecord) -> Params {
    let figures = result.into_iter().take_while(|(name, _)| name != "run_number");
    // The objects in our results are histograms, which no plot can use. vLLM's client writes no objects.
    let mut record: Params = figures.filter(|(_, value)| !value.is_object()).collect();
    if let Some(gpus) = used_gpus(&server.params, &server.argv, &server.launches) {
        record.insert("gpu_count".into(), json!(gpus));
    }
    // vLLM's own columns do not show that the server was warm.
    if let Some(seconds) = run.warmup_seconds {
        record.insert(vllm_sweep::WARMUP_SECONDS.into(), json!(seconds));
    }
    if server.is_simulated() == Some(true) {
        record.insert("simulated".into(), json!(true));
    }
    record.insert("run_number".into(), json!(number));
    for (params, combo) in [
        (&server.params, server.combo.as_deref()),
        (&*run.params, run.combo.as_deref()),
    ] {
        for (name, value) in with_combo(params, combo).iter() {
            let name = if name == COMBO { "_benchmark_name" } else { name };
            record.insert(name.into(), value.clone());
        }
    }
    record
}

fn failure(number: usize, run: &RunRecord, server: &ServerRecord) -> Params {
    let kind = match run.cause {
        Some(cause) => cause.name().to_owned(),
        None if run.validity == Validity::Invalid => "invalid".to_owned(),
        None => run.outcome.to_string(),
    };
    let doubts = run.doubts.iter().map(|doubt| doubt.detail.as_str());
    let detail = detail_of(run);
    let reasons: Vec<&str> = std::iter::once(&*detail)
        .chain(doubts)
        .filter(|text| !text.is_empty())
        .collect();
    Map::from_iter([
        ("run_number".into(), json!(number)),
        ("error_type".into(), json!(kind)),
        ("error".into(), json!(reasons.join("; "))),
        ("serve_overrides".into(), json!(server.params)),
        ("bench_overrides".into(), json!(*run.params)),
    ])
}

fn write_json(path: &Path, value: &impl Serialize, indent: usize) -> Result<()> {
    let spaces = " ".repeat(indent);
    let layout = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
    let mut text = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut text, layout);
    let written = value.serialize(&mut writer);
    written.map_err(|error| Error::Fatal(format!("cannot write {}: {error}", path.display())))?;
    let text = String::from_utf8(text).expect("JSON is text");
    write_atomic(path, printable_json(&text).as_bytes())
}

/// The table as pandas writes it, without the lists of single requests: a number before each row, empty cells for missing values, values as
/// Python prints them, and whole numbers as decimals in a column with gaps or decimals. Texts are made harmless for programs that show
/// tables, as in our own tables.
fn write_table(records: &[Params], to: &mut impl Write) -> std::io::Result<()> {
    let columns: Vec<&String> = records.iter().flat_map(Map::keys).unique().collect();
    let is_decimal = columns.iter().map(|name| {
        let values = || {
            records
                .iter()
                .map(|record| record.get(*name).filter(|value| !value.is_null()))
        };
        values().flatten().all(Value::is_number) && values().any(|value| value.is_none_or(Value::is_f64))
    });
    let is_decimal: Vec<bool> = is_decimal.collect();
    let harmless = |text: &str| inert(&printable(text)).into_owned();
    let mut csv = csv::Writer::from_writer(to);
    csv.write_field("")?;
    csv.write_record(columns.iter().map(|name| harmless(name)))?;
    for (row, record) in records.iter().enumerate() {
        csv.write_field(row.to_string())?;
        let cells = columns
            .iter()
            .zip(&is_decimal)
            .map(|(name, is_decimal)| match record.get(*name) {
                None | Some(Value::Null) => String::new(),
                Some(value) if *is_decimal && !value.is_f64() => format!("{}.0", vllm_sweep::text(value)),
                Some(value) => harmless(&vllm_sweep::text(value)),
            });
        csv.write_record(cells)?;
    }
    csv.flush()
}
