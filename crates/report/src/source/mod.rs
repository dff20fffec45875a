//! Reads runs from a directory that `vsweep run` wrote, from a result tree of `vllm bench sweep`, or from single result files. In a tree,
//! every `summary.json`, at any depth, lists the runs of one combination, or of several loads.

mod dashboard;

use crate::ordered::Order;
use crate::rows::{Runs, load};
use itertools::Itertools;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use vsweep_base::cause::Outcome;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::{MOST_RESULT, read};
use vsweep_base::python_json;
use vsweep_base::validity::{Code, Doubt, Validity, too_many_failed};
use vsweep_plan::import::vllm_sweep;
use vsweep_plan::spelling::is_degree;
use vsweep_plan::{Params, ReportOptions};
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::{COMBO, Cell, ECHOED, RunFigures, RunRow, TableBuilder, count_gpus};

/// Reads the runs of a directory: an experiment of vsweep, with the columns that its plan asks for, or a result tree of vLLM. Records of a
/// tree in which `contradiction` finds one are left out; it completes a sentence that begins with the record.
pub fn read_any(
    root: &Path,
    contradiction: &dyn Fn(&Params) -> Option<String>,
    options: impl FnOnce(&State) -> ReportOptions,
) -> Result<Runs> {
    if !root.is_dir() {
        return Err(Error::Usage(format!(
            "there is no directory {}; give one that `vsweep run` or `vllm bench sweep` wrote, or a file of results",
            root.display()
        )));
    }
    let directory = Directory::at(root);
    if directory.is_experiment() {
        let (state, mut runs, _) = load(&directory, options)?;
        runs.damaged.extend(state.damage.iter().cloned());
        runs.state = Some(state);
        return Ok(runs);
    }
    let (mut files, mut damaged, mut experiments) = (Vec::new(), Vec::new(), Vec::new());
    find_summaries(root, &mut files, &mut damaged, &mut experiments)?;
    let mut runs = read_tree(root, &files, contradiction);
    runs.damaged.splice(..0, damaged);
    if runs.table.rows() > 0 {
        return Ok(runs);
    }
    if let Some(experiment) = experiments.first() {
        return Err(Error::Usage(format!(
            "{} is not an experiment of vsweep; give one that is below it, such as {}",
            root.display(),
            experiment.display()
        )));
    }
    let why = match runs.damaged.first() {
        Some(problem) => problem.clone(),
        None => "neither a journal of vsweep nor a summary.json of vLLM is below it".into(),
    };
    let root = root.display();
    Err(Error::Usage(format!(
        "there are no results in {root}: {why}; give a directory that `vsweep run` or `vllm bench sweep` wrote"
    )))
}

/// Reads the runs in files, each given by its name and its records. A record has the keys of vLLM's benchmarks, or is a row of
/// `benchmark_results.json` of vLLM's dashboard. Equal settings are runs of one point, also in several files if these name the model.
///
/// # Errors
/// If not all records of a file are rows of the dashboard, and one of them has no figure of vLLM's benchmarks.
pub fn read_records(files: Vec<(String, Vec<Params>)>) -> std::result::Result<Runs, String> {
    let mut builder = TableBuilder::new();
    let mut points = HashMap::new();
    for (name, records) in files {
        let records = match records.iter().all(dashboard::is_row) {
            true => dashboard::read(&records),
            false => records
                .into_iter()
                .map(|record| of_client(&name, record))
                .collect::<std::result::Result<_, _>>()?,
        };
        let is_named = records.iter().all(|record| record.load.contains_key("model_id"));
        let scope = if is_named { "" } else { name.as_str() };
        push_all(records, (&name, scope), &mut points, &mut builder);
    }
    Ok(Runs::of(builder.finish(), Vec::new()))
}

/// Adds the records of a file or a folder. `points` has the id and the number of runs of each point so far, by `scope` and settings: a
/// combination that was swept several times has several folders, and all its runs belong to the point of the first one.
fn push_all(
    records: Vec<Record>,
    (name, scope): (&str, &str),
    points: &mut HashMap<String, (String, usize)>,
    builder: &mut TableBuilder,
) {
    // Runs of a combination that end by time send different numbers of prompts.
    let first = records.first().filter(|first| first.is_of_sweep);
    let prompts = first.and_then(|first| first.load.get(PROMPTS).cloned());
    for (place, record) in records.into_iter().enumerate() {
        let settings = record.point(prompts.as_ref());
        let id = match place {
            0 => name.to_owned(),
            _ => format!("{name} {settings}"),
        };
        let key = format!("{scope} {settings}");
        let (point, runs) = points.entry(key).or_insert((id, 0));
        record.push_to(builder, point, *runs);
        *runs += 1;
    }
}

fn of_client(file: &str, record: Params) -> std::result::Result<Record, String> {
    if FIGURES.iter().any(|figure| record.contains_key(*figure)) {
        return Ok(Record::of(record));
    }
    Err(format!(
        "{file} is not a result of vLLM's benchmarks or its dashboard, of guidellm or aiperf (it has {}...); run the program as \
         bench.command with [bench.result]",
        record.keys().take(5).join(", ")
    ))
}

/// Figures of which a result has at least one.
const FIGURES: [&str; 4] = [
    "request_throughput",
    "output_throughput",
    "requests_per_second",
    "avg_latency",
];

/// Finds every `summary.json` below a folder, in the order of their paths; links are not followed. `refused` gets a sentence for each that
/// is not a regular file. `experiments` gets the directories of vsweep, which are not searched.
fn find_summaries(
    folder: &Path,
    found: &mut Vec<PathBuf>,
    refused: &mut Vec<String>,
    experiments: &mut Vec<PathBuf>,
) -> Result<()> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut entries = entries.map_err(Error::io("read", folder))?;
    entries.order_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(Error::io("read", entry.path()))?;
        if kind.is_dir() && Directory::at(entry.path()).is_experiment() {
            experiments.push(entry.path());
        } else if kind.is_dir() {
            find_summaries(&entry.path(), found, refused, experiments)?;
        } else if entry.file_name() == "summary.json" {
            match kind.is_file() {
                true => found.push(entry.path()),
                false => refused.push(format!(
                    "{} is a link or another special file, and is left out; put the file itself there",
                    entry.path().display()
                )),
            }
        }
    }
    Ok(())
}

fn read_tree(root: &Path, files: &[PathBuf], contradiction: &dyn Fn(&Params) -> Option<String>) -> Runs {
    let mut builder = TableBuilder::new();
    let mut damaged = Vec::new();
    let mut points = HashMap::new();
    for file in files {
        let folder = file.parent().unwrap_or(root);
        let name = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
        let content = read(file, MOST_RESULT).map_err(|error| format!("cannot be read: {error}"));
        let records = content.and_then(|content| {
            serde_json::from_slice::<Vec<Params>>(&python_json::strict(&content))
                .map_err(|error| format!("is not a list of runs: {error}"))
        });
        match records {
            Ok(records) => {
                let mut is_sound = |(number, record): &(usize, Params)| {
                    let what = contradiction(record);
                    damaged.extend(what.iter().map(|what| {
                        let file = file.display();
                        format!("{file}: run {number} {what}; it is left out; measure it again")
                    }));
                    what.is_none()
                };
                let sound = records.into_iter().enumerate().filter(|record| is_sound(record));
                let sound: Vec<Params> = sound.map(|(_, record)| record).collect();
                let mut own: Vec<Record> = match sound.iter().all(dashboard::is_row) {
                    true => dashboard::read(&sound),
                    false => sound.into_iter().map(Record::of).collect(),
                };
                let folder = folder.file_name().unwrap_or_default().to_string_lossy();
                own.iter_mut().for_each(|record| record.name_sides(&folder));
                push_all(own, (&name, ""), &mut points, &mut builder);
            }
            Err(problem) => damaged.push(format!("{}: {problem}", file.display())),
        }
    }
    Runs::of(builder.finish(), damaged)
}

/// Names of parameters of a benchmark; one that ends with `_` begins several names. The names decide, because a tree does not say whether a
/// parameter is the server's or the benchmark's.
const OF_LOAD: &str = "\
    batch_size blazedit_ burstgpt_ chat_template_kwargs command context_len custom_ dataset_ disable_shuffle duration \
    enable_multimodal_chat endpoint endpoints extra_body frequency_penalty goodput header hf_name hf_output_len hf_split hf_subset \
    hf_text_column ignore_eos input_len logprobs lora_assignment lora_modules min_p mix multi_turn multi_turn_ no_oversample \
    no_reranker no_self_timed num_prompts num_warmups output_len per_turn_ prefix_repetition_ presence_penalty probe_request_rate \
    ramp_up_ random_ repetition_penalty request_id_prefix seed self_timed sharegpt_ skip_chat_template sonnet_ spec_bench_ \
    speed_bench_ temperature timed_trace_ top_k top_p vocab_size";

fn is_of_load(name: &str) -> bool {
    let name = name.replace('-', "_");
    let is_own = |own: &str| name == own || (own.ends_with('_') && name.starts_with(own));
    ECHOED.contains(&name.as_str()) || OF_LOAD.split(' ').any(is_own)
}

/// One run. In a `summary.json` it is an object of measurements, then `run_number`, then the parameters that the sweep set. A parameter
/// with the name of a measurement replaces it.
#[derive(Default)]
struct Record {
    figures: RunFigures,
    /// The load: settings that a result repeats, such as `max_concurrency`, and parameters that only a benchmark has.
    load: Params,
    /// The other parameters, which are taken for the server's.
    params: Params,
    /// True if it is a numbered run of a combination of a sweep that does not set the number of prompts.
    is_of_sweep: bool,
}

const PROMPTS: &str = "num_prompts";

/// The parameter that names a combination.
const COMBO_NAME: &str = "_benchmark_name";

impl Record {
    fn of(record: Params) -> Record {
        let mut own = Record::default();
        let mut is_measured = true;
        let mut figures: Vec<(String, Cell)> = Vec::new();
        for (name, value) in record {
            if name == "run_number" {
                (is_measured, own.is_of_sweep) = (false, true);
            } else if !is_measured && is_of_load(&name) {
                own.is_of_sweep &= name != PROMPTS;
                own.load.insert(name, value);
            } else if !is_measured {
                own.params.insert(name, value);
            } else if !value.is_array() && !value.is_object() {
                let cell = Cell::from_json(&value);
                match ECHOED.contains(&&*name) {
                    true => drop(own.load.insert(name, cell.to_json())),
                    false => figures.push((name, cell)),
                }
            }
        }
        own.figures = figures.into_iter().collect();
        own
    }

    /// Its settings as one line, which identifies its point. `prompts` replaces its number of prompts.
    fn point(&self, prompts: Option<&Value>) -> String {
        let mut load = self.load.clone();
        load.extend(prompts.map(|prompts| (PROMPTS.to_owned(), prompts.clone())));
        let sides = [self.gpu_params(), load];
        sides.map(|side| Value::from(side).to_string()).join(" ")
    }

    fn push_to(&self, builder: &mut TableBuilder, point: &str, number: usize) {
        let figure = |name: &str| match self.load.get(name) {
            Some(setting) => setting.as_f64(),
            None => self.figures.get(name)?.number(),
        };
        let (outcome, doubts) = match (figure("completed"), figure("failed")) {
            _ if self.figures.names().is_empty() => (Outcome::Failed, vec![]),
            (Some(0.0), _) => (Outcome::Failed, vec![]),
            (completed, Some(failed)) if failed > 0.0 => {
                let all = failed + completed.unwrap_or(0.0);
                let detail = format!("{failed} of {all} requests failed");
                match too_many_failed(failed, all) {
                    true => (Outcome::Failed, vec![]),
                    false => (Outcome::Suspect, vec![Doubt::new(Code::RequestErrors, detail)]),
                }
            }
            _ => match Doubt::of_vanished_requests(figure) {
                Some(doubt) => (Outcome::Suspect, vec![doubt]),
                None => (Outcome::Ok, vec![]),
            },
        };
        builder.push(RunRow {
            point,
            run: u32::try_from(number).unwrap_or(u32::MAX),
            outcome,
            validity: (outcome != Outcome::Failed).then(|| Validity::of(doubts.iter().map(|doubt| doubt.code))),
            doubts: &doubts,
            serve: Some(&self.params),
            bench: Some(&self.load),
            // Only `vsweep export` writes this key.
            simulated: (self.figures.get("simulated") == Some(&Cell::Bool(true))).then_some(true),
            // As in vLLM's own charts, a server is on one GPU if its record does not say more.
            gpus: count_gpus(&self.gpu_params(), &[]).or(Some(1.0)),
            metrics: Some(&self.figures),
            ..RunRow::default()
        });
    }

    /// Stores the name of each side's combination with the parameters of that side. A record holds one name, the load's if both sides have
    /// one; the name of the folder holds both.
    fn name_sides(&mut self, folder: &str) {
        let Some(name) = self.params.shift_remove(COMBO_NAME) else {
            return;
        };
        let file_name = vllm_sweep::file_name(&vllm_sweep::text(&name));
        let without_load = ["BENCH--", "STARTUP--"]
            .iter()
            .find_map(|kind| folder.strip_suffix(&format!("{kind}{file_name}")));
        let (serve, bench) = match without_load {
            Some(rest) => (
                rest.strip_prefix("SERVE--")
                    .map(|rest| rest.trim_end_matches('-').into()),
                Some(name),
            ),
            None => (Some(name), None),
        };
        // A text with `=` is not a name: it lists the parameters of a server's combination without a name.
        let serve = serve.filter(|name: &Value| bench.is_none() || !vllm_sweep::text(name).contains('='));
        for (params, name) in [(&mut self.params, serve), (&mut self.load, bench)] {
            if let Some(name) = name {
                params.shift_insert(0, COMBO.into(), name);
            }
        }
    }

    /// Parameters that decide the number of GPUs of its server. Those of the sweep override those of `--metadata`, whose values are texts.
    fn gpu_params(&self) -> Params {
        let params = self.figures.iter().filter(|(name, _)| is_degree(name));
        let mut params: Params = params.map(|(name, cell)| (name.to_string(), cell.to_json())).collect();
        params.extend(self.params.clone());
        params
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_record::table::Points;

    #[test]
    fn the_parameters_of_a_benchmark_are_the_load() {
        for (name, is_load) in [
            ("speed_bench_category", true),
            ("timed-trace-sec-multiplier", true),
            ("per_turn_input_len", true),
            ("ramp_up_strategy", true),
            ("extra_body", true),
            ("command", true),
            ("logprobs_mode", false),
            ("hf_overrides", false),
            ("max_num_seqs", false),
        ] {
            assert_eq!(is_of_load(name), is_load, "{name}");
        }
    }

    /// The points of a folder with this `summary.json`, and their runs.
    fn points_of(summary: Value) -> Vec<usize> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("summary.json"), summary.to_string()).expect("written");
        let runs = read_any(folder.path(), &|_| None, |_| ReportOptions::default()).expect("a tree");
        let points = Points::of(&runs.table).points;
        points.iter().map(|point| point.ok).collect()
    }

    #[test]
    fn each_load_of_a_list_is_a_point() {
        let run = |load: u64| json!({"output_throughput": 9.0, "max_concurrency": load});
        assert_eq!(points_of(json!([run(1), run(8), run(8)])), [1, 2]);
        let row = |load: u64| json!({"Test name": "t", "# of max concurrency.": load, "Tput (req/s)": 1.0});
        assert_eq!(points_of(json!([row(1), row(8)])), [1, 1]);
        let timed = |number: u64| json!({"output_throughput": 9.0, "num_prompts": 100 + number, "run_number": number});
        assert_eq!(points_of(json!([timed(0), timed(1)])), [2], "runs of a combination");
        let set = |prompts: u64| json!({"output_throughput": 9.0, "run_number": 0, "num_prompts": prompts});
        assert_eq!(points_of(json!([set(100), set(200)])), [1, 1], "an axis");
    }

    #[test]
    fn equal_settings_in_several_files_are_runs_of_a_point() {
        let file = |name: &str, degree: &str| {
            let result = json!({"output_throughput": 9.0, "model_id": "m", "tensor_parallel_size": degree});
            (name.to_owned(), vec![result.as_object().cloned().expect("an object")])
        };
        let runs_of = |files: Vec<(String, Vec<Params>)>| -> Vec<usize> {
            let runs = read_records(files).expect("results");
            let points = Points::of(&runs.table).points;
            points.iter().map(|point| point.ok).collect()
        };
        assert_eq!(runs_of(vec![file("a", "1"), file("b", "1"), file("c", "2")]), [2, 1]);
        let nameless = ["a", "b"].map(|name| {
            let (name, mut results) = file(name, "1");
            results[0].remove("model_id");
            (name, results)
        });
        assert_eq!(
            runs_of(nameless.to_vec()),
            [1, 1],
            "nothing says that they belong together"
        );
    }

    #[test]
    fn the_folder_names_both_sides() {
        for kind in ["BENCH", "STARTUP"] {
            let summary = r#"{"avg_latency": 1, "run_number": 0, "_benchmark_name": "q"}"#;
            let mut record = Record::of(serde_json::from_str(summary).expect("JSON"));
            record.name_sides(&format!("SERVE--tp1-{kind}--q"));
            let names = (&record.params[COMBO], &record.load[COMBO]);
            assert_eq!(names, (&json!("tp1"), &json!("q")), "{kind}");
        }
    }
}
