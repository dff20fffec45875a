//! Runs any program as a benchmark: passes it the address of our server and the path for its result, runs it under a guard, and reads its
//! result.
//!
//! Every program finds these values in its environment (`VSWEEP_BASE_URL`, `VSWEEP_MODEL`, `VSWEEP_RESULT`), and the placeholders
//! `{base_url}`, `{host}`, `{port}`, `{model}` and `{result}` in its command are filled in. A command like `vllm bench serve` also gets the
//! flags it needs. A program must write one JSON object to the result file and exit with 0. vLLM's benchmarks without a server (`vllm bench
//! startup`) are run in the same way, but get only the path for the result, as a flag and in the environment.

mod clients;
mod contradictions;
mod engine;
mod hits;

pub use clients::read_results;
pub use contradictions::{LoadSpec, figures_contradiction, load_contradiction, measured};
use contradictions::{self_contradiction, vanished};
pub(crate) use engine::of_engine;
pub use engine::{params_of, read_params, remedy_for_figure, warms_up};
pub use hits::judge_hits;

use crate::bench::judge::{RunFigures, doubts, on_failed_requests};
use crate::bench::native::figures::{PLAN_METRICS, PLAN_PERCENTILES};
use crate::bench::native::settings::NativeSettings;
use crate::bench::native::warmup::Amount;
use crate::bench::{Job, Measurement, broken, members};
use crate::cause::{Cause, Failure};
use crate::matrix::argv::apply;
use crate::plan::{BenchRunner, FigurePlace, Params, ServeCommand, Warmup, number_or_text, spelling};
use crate::printable::printable;
use crate::search::{Latency, SavedRequests};
use crate::server::create_log;
use crate::server::diagnose::{self, Phase};
use crate::server::process::guard::Exit;
use crate::server::process::guarded::{GuardHandle, Order};
use crate::units::show_duration;
use crate::{files, python_json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Time from TERM to KILL. It is short, because a benchmark has nothing to save.
const GRACE: Duration = Duration::from_secs(2);

/// Name of the file with the program's output, in the scratch folder of its run.
pub const LOG: &str = "bench.log";

/// Name of the file with the program's figures, in the scratch folder of its run.
pub const RESULT: &str = "result.json";

/// Performs one run with an external program, which is kept in `running` until it has ended.
pub(crate) async fn measure(job: &Job, argv: &[String], running: &mut Option<Program>) -> Result<Measurement, Failure> {
    let finished = running.insert(Program::start(job, argv, GRACE)?).finish().await;
    *running = None;
    let mut measurement = judge(finished?);
    let known = params_of(argv);
    let model = ServeCommand::of(argv).value("model");
    let models: Vec<&str> = model
        .into_iter()
        .chain([&*job.model_root, &*job.served_model])
        .collect();
    let asked = LoadSpec {
        params: known.as_ref().unwrap_or(&job.params),
        models: &models,
    };
    let typed = || ServeCommand::of(argv).value("num_prompts")?.parse().ok();
    let prompts = spelling::find(asked.params, "num_prompts").and_then(number_or_text);
    if !matches!(job.runner, BenchRunner::Offline(_)) {
        let result = &measurement.result.values;
        let doubts = [
            load_contradiction(result, asked),
            vanished(result, prompts.or_else(typed)),
        ];
        measurement.doubts.extend(doubts.into_iter().flatten());
    }
    Ok(measurement)
}

/// A running benchmark program. Dropping it ends the program, but does not wait for its end.
#[derive(Debug)]
pub(crate) struct Program {
    guarded: GuardHandle,
    log: PathBuf,
    result: PathBuf,
    timeout: Duration,
    loads_engine: bool,
    places: BTreeMap<String, FigurePlace>,
}

impl Program {
    /// Starts the program of a run.
    pub fn start(job: &Job, argv: &[String], grace: Duration) -> Result<Program, Failure> {
        let log = job.scratch.join(LOG);
        let result = job.scratch.join(RESULT);
        if result.to_str().is_none() {
            return Err(broken(format!(
                "the program cannot be given {}, which is not UTF-8; choose another directory with -o",
                result.display()
            )));
        }
        let (argv, notes) = arguments(job, &result, argv);
        let places = match speaks_vllm_bench(&argv) {
            true => BTreeMap::new(),
            false => job.places.clone(),
        };
        let output = prepare(&log, &result, &notes)
            .map_err(|error| broken(format!("cannot write to {}: {error}", job.scratch.display())))?;
        let mut env = job.env.clone();
        let loads_engine = matches!(job.runner, BenchRunner::Offline(_));
        if !loads_engine {
            env.extend([
                ("VSWEEP_BASE_URL".to_owned(), job.base_url.clone()),
                ("VSWEEP_MODEL".to_owned(), job.served_model.clone()),
            ]);
        }
        env.insert("VSWEEP_RESULT".to_owned(), result.display().to_string());
        if let Some(key) = &job.api_key {
            env.entry("OPENAI_API_KEY".to_owned()).or_insert_with(|| key.clone());
        }
        let guarded = GuardHandle::start(Order {
            argv: &argv,
            env: &env,
            without: &[],
            cpus: job.cpus.as_ref(),
            log: output,
            grace,
            stop: &[],
        })?;
        Ok(Program {
            guarded,
            log,
            result,
            timeout: job.timeout,
            loads_engine,
            places,
        })
    }

    /// Waits until the program has ended, and reads its result.
    pub async fn finish(&mut self) -> Result<Params, Failure> {
        let Ok(exit) = timeout(self.timeout, self.guarded.exited(Cause::BenchFailed)).await else {
            self.guarded.stop().await;
            let detail = format!(
                "still running after {}; {}",
                show_duration(self.timeout),
                diagnose::last_line(&self.log)
            );
            return Err(Failure::new(Cause::BenchTimeout, detail));
        };
        // Processes that the program left running are ended too, because they would disturb the next run.
        self.guarded.stop().await;
        match exit {
            Ok(Exit::Code(0)) => read(&self.result, &self.places),
            Ok(exit) => Err(self.diagnose(exit)),
            Err(lost) => Err(lost),
        }
    }

    /// Returns the cause of a failed run. If the program loads the engine itself, its log is diagnosed like that of a server that does not
    /// start.
    fn diagnose(&self, exit: Exit) -> Failure {
        let of_engine = || diagnose::diagnose(Phase::Starting, Some(exit), &diagnose::read_log(&self.log, 0));
        let known = self.loads_engine.then(of_engine);
        known
            .filter(|failure| failure.cause != Cause::CrashedStarting)
            .unwrap_or_else(|| broken(format!("{exit}; {}", diagnose::decisive(&self.log))))
    }

    /// Ends the program and all processes that it started: TERM, then KILL after the grace period.
    pub async fn stop(&mut self) {
        self.guarded.stop().await;
    }

    /// Kills the program at once.
    pub async fn kill(&mut self) {
        self.guarded.kill().await;
    }
}

/// Returns the command line that a run starts, with placeholders filled in. A command like `vllm bench serve` also gets the flags it needs.
pub fn command_line(job: &Job, result: &Path, argv: &[String]) -> Vec<String> {
    arguments(job, result, argv).0
}

/// Makes the scratch folder, without a result of an earlier try, and opens the log.
fn prepare(log: &Path, result: &Path, notes: &[String]) -> io::Result<File> {
    if let Some(folder) = log.parent() {
        // The program may write texts to the folder that other users must not read.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let removed = match result.is_dir() {
        true => fs::remove_dir_all(result),
        false => fs::remove_file(result),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::remove_file(log) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut output = create_log(log)?;
    for note in notes {
        writeln!(output, "vsweep: {note}")?;
    }
    Ok(output)
}

/// Returns the command line to run, and notes about values that were replaced in it.
fn arguments(job: &Job, result: &Path, argv: &[String]) -> (Vec<String>, Vec<String>) {
    let text = |path: &Path| path.display().to_string();
    if let BenchRunner::Offline(_) = job.runner {
        return with_flags(argv, members(json!({"output-json": text(result)})));
    }
    let url = reqwest::Url::parse(&job.base_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or("127.0.0.1");
    let port = url.as_ref().and_then(|url| url.port_or_known_default()).unwrap_or(8000);
    let is_plain = job.base_url == format!("http://{host}:{port}");
    let (host, port) = (host.trim_matches(['[', ']']), port.to_string());
    let fill_in = |word: &String| {
        word.replace("{base_url}", &job.base_url)
            .replace("{host}", host)
            .replace("{port}", &port)
            .replace("{model}", &job.served_model)
            .replace("{result}", &text(result))
    };
    let argv: Vec<String> = argv.iter().map(fill_in).collect();
    if !speaks_vllm_bench(&argv) {
        return (argv, Vec::new());
    }
    let mut flags = members(json!({
        "host": is_plain.then_some(host),
        "port": is_plain.then_some(port),
        "base-url": (!is_plain).then_some(&job.base_url),
        "result-dir": text(result.parent().unwrap_or(Path::new("."))),
        "result-filename": text(result.file_name().unwrap_or_default().as_ref()),
    }));
    let given = ServeCommand::of(&argv);
    let model = given.value("model").unwrap_or(&job.model_root);
    let warmups = warmups(job, &argv);
    // Flags that are added only if they are not given.
    for (flag, value) in [
        ("model", Some(json!(model))),
        (
            "served-model-name",
            (model != job.served_model).then(|| json!(job.served_model)),
        ),
        ("num-warmups", (warmups > 0).then(|| json!(warmups))),
        ("percentile-metrics", Some(json!(PLAN_METRICS))),
        ("metric-percentiles", Some(json!(PLAN_PERCENTILES))),
        ("save-result", Some(json!(true))),
    ] {
        let value = value.filter(|_| !given.has(&spelling::canonical(flag)));
        flags.extend(value.map(|value| (flag.to_owned(), value)));
    }
    with_flags(&argv, flags)
}

/// Returns a command line in which these flags occur only at the end, in their order, and notes about the values that they replaced.
fn with_flags(argv: &[String], flags: Params) -> (Vec<String>, Vec<String>) {
    let given = ServeCommand::of(argv);
    let notes = flags.keys().filter_map(|flag| {
        let value = given.value(&spelling::canonical(flag))?;
        Some(format!("--{flag} {value} was replaced, because vsweep sets this flag"))
    });
    let removed: Params = flags.keys().map(|flag| (flag.clone(), Value::Null)).collect();
    (apply(&apply(argv, &removed), &flags), notes.collect())
}

/// Returns the number of warm-up requests for a command like `vllm bench serve`.
fn warmups(job: &Job, argv: &[String]) -> usize {
    let settings = params_of(argv).and_then(|params| NativeSettings::read(&params).ok());
    match (job.warmup, settings) {
        (Warmup::Requests(count), _) => count as usize,
        (Warmup::Automatic, Some(settings)) => Amount::of(job.warmup, &settings, settings.requests(), &[]).count(),
        // Without valid settings, only the number of requests in flight is used.
        (Warmup::Automatic, None) => {
            let slots = ServeCommand::of(argv).value("max_concurrency");
            slots.and_then(|slots| slots.parse().ok()).unwrap_or(0)
        }
    }
}

/// Returns true if a command has the flags of `vllm bench serve`: the command itself (also below `python -m` and other launchers), and
/// compatible programs with a `bench` command.
pub fn speaks_vllm_bench(argv: &[String]) -> bool {
    let program = argv.first().map(|word| word.rsplit('/').next().unwrap_or(word));
    let is_compatible =
        matches!(program, Some("vllm-rs" | "vsweep")) && argv.get(1).is_some_and(|word| word == "bench");
    is_compatible || argv.windows(2).any(|pair| pair[0] == "bench" && pair[1] == "serve")
}

/// Name of aiperf's result in its output folder.
pub const AIPERF_RESULT: &str = "profile_export_aiperf.json";

/// Reads and checks the figures that the program wrote.
fn read(path: &Path, places: &BTreeMap<String, FigurePlace>) -> Result<Params, Failure> {
    let failed = |what: String| broken(format!("exit code 0, but {what}"));
    let path = match path.is_dir() {
        true => &path.join(AIPERF_RESULT),
        false => path,
    };
    let bytes = files::read(path, files::MOST_RESULT).map_err(|error| match error.kind() {
        files::REFUSED => failed(format!("its result {} cannot be read: {error}", path.display())),
        _ => failed(format!("it wrote no result to {}", path.display())),
    })?;
    let of_result = |what: String| failed(format!("its result {what}"));
    let result = read_result(&bytes).map_err(of_result)?;
    let mut records = clients::records(result, places).map_err(of_result)?;
    match (records.pop(), records.len()) {
        (Some(record), 0) => match self_contradiction(&record) {
            Some(contradiction) => Err(of_result(format!(
                "{contradiction}; see the output of the benchmark in {LOG}"
            ))),
            None if !record.values().any(Value::is_number) => Err(of_result(
                "holds no figure; write the keys of `vllm bench serve`".into(),
            )),
            None => Ok(record),
        },
        (_, others) => Err(of_result(format!(
            "holds {} benchmarks instead of one; give the command one load",
            others + 1
        ))),
    }
}

/// Parses the result of a program, and escapes its texts. The error completes a sentence that begins with the result.
pub fn read_result(json: &[u8]) -> Result<Params, String> {
    let json = python_json::strict(json);
    if let Some(key) = python_json::repeated_key(&json) {
        return Err(format!("has `{key}` twice"));
    }
    match serde_json::from_slice(&json) {
        Ok(Value::Object(result)) if !result.is_empty() => Ok(harmless_members(result)),
        Ok(_) => Err("is not a JSON object with figures".into()),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

/// Escapes texts and keys of other programs, so that they have no effect where they are shown.
fn harmless(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(harmless).collect()),
        Value::Object(members) => Value::Object(harmless_members(members)),
        scalar => scalar,
    }
}

fn harmless_members(members: Params) -> Params {
    let harmless = |(key, value): (String, Value)| (printable(&key).into_owned(), harmless(value));
    members.into_iter().map(harmless).collect()
}

/// Judges a result by its own figures.
pub fn judge(result: Params) -> Measurement {
    let seen = RunFigures::whole(&result);
    Measurement {
        failure: on_failed_requests(seen),
        doubts: doubts(seen),
        requests: SavedRequests::deserialize(&result)
            .ok()
            .and_then(|saved| saved.with(&[Latency::Ttft, Latency::Tpot, Latency::E2el]))
            .unwrap_or_default(),
        result: result.into(),
        ..Measurement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::Code;

    fn job(base_url: &str) -> Job {
        Job {
            scratch: "/scratch".into(),
            timeout: Duration::from_secs(60),
            ..Job::new(base_url, "tiny", "/models/tiny", Params::new())
        }
    }

    fn arguments(line: &str, base_url: &str) -> (String, Vec<String>) {
        let job = job(base_url);
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (argv, notes) = super::arguments(&job, Path::new("/scratch/result.json"), &words);
        (argv.join(" "), notes)
    }

    #[test]
    fn vllm_bench_gets_the_flags_it_needs() {
        let (line, notes) = arguments("vllm bench serve --dataset-name random", "http://127.0.0.1:8123");
        assert_eq!(
            line,
            "vllm bench serve --dataset-name random --host 127.0.0.1 --port 8123 --result-dir /scratch \
             --result-filename result.json --model /models/tiny --served-model-name tiny \
             --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --save-result"
        );
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn an_address_of_the_users_is_replaced() {
        let given = "vllm bench serve --host=h --port 1 --base_url http://x --model tiny --percentile-metrics ttft --save_result";
        let (line, notes) = arguments(given, "http://[::1]:9");
        assert_eq!(
            line,
            "vllm bench serve --model tiny --percentile-metrics ttft --save_result --host ::1 --port 9 \
             --result-dir /scratch --result-filename result.json --metric-percentiles 50,90,95,99"
        );
        assert_eq!(notes.len(), 3);
        let (line, _) = arguments("vllm-rs bench", "https://node7/v");
        assert!(line.contains("--base-url https://node7/v --result-dir"), "{line}");
    }

    #[test]
    fn other_programs_get_what_they_ask_for() {
        let (line, _) = arguments(
            "./load.sh {base_url} {host}:{port} -o {result} -m {model}",
            "http://127.0.0.1:5",
        );
        assert_eq!(
            line,
            "./load.sh http://127.0.0.1:5 127.0.0.1:5 -o /scratch/result.json -m tiny"
        );
    }

    #[test]
    fn a_result_is_judged_by_what_it_says() {
        let judge = |value: Value| judge(value.as_object().cloned().expect("an object"));
        assert!(judge(json!({"completed": 90, "failed": 10})).failure.is_some());
        let few =
            judge(json!({"completed": 40, "p99_ttft_ms": 3.0, "max_concurrency": 64, "max_concurrent_requests": 40}));
        let codes: Vec<Code> = few.doubts.iter().map(|doubt| doubt.code).collect();
        assert_eq!(codes, [Code::LoadNotReached, Code::SampleTooSmall]);
    }
}
