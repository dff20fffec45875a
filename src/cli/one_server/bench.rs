//! `vsweep bench`: runs one native benchmark. Its flags are those of `vllm bench serve`, made from the native benchmark's table of
//! parameters.

use super::sweeping::{MeasuredServer, warnings_of};
use super::{iterations, phases};
use crate::bench::native::settings::{NativeSettings, Output, TABLE};
use crate::bench::params::Table;
use crate::bench::result::{self, console};
use crate::bench::{Counters, native};
use crate::cli::flags::{FlagTable, TableFlags};
use crate::cli::machine;
use crate::cli::output::{self, OutputFormat, inform, print_note};
use crate::cli::sweep::run::counter;
use crate::error::{Error, Exit, Result};
use crate::files::write_named;
use crate::metrics::RunResult;
use crate::plan::Params;
use crate::python_json;
use crate::report::progress::so_far;
use crate::run::Interrupt;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Default metrics and percentiles of `vllm bench serve`.
const DEFAULTS: [(&str, &str); 2] = [("percentile_metrics", "ttft,tpot,itl"), ("metric_percentiles", "99")];

/// Run one benchmark, with the flags of vllm bench serve
// If a flag is given twice, the last one counts, as in Python's argparse.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    special: Option<SpecialBenchmark>,
    #[command(flatten)]
    params: TableFlags<NativeSettings>,
    /// Standard output: the block of vllm bench serve, or the result file's JSON
    #[arg(long, value_enum, default_value = "text", help_heading = "Result")]
    format: OutputFormat,
}

/// Benchmarks with flags of their own.
#[derive(Debug, Subcommand)]
enum SpecialBenchmark {
    Iterations(iterations::Args),
    Phases(phases::Args),
}

impl FlagTable for NativeSettings {
    const TABLE: &'static Table = &TABLE;
}

fn as_typed(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

pub fn run(args: Args) -> Result<Exit> {
    match args.special {
        Some(SpecialBenchmark::Iterations(args)) => return iterations::run(args),
        Some(SpecialBenchmark::Phases(args)) => return phases::run(args),
        None => {}
    }
    let mut params = args.params.given;
    for (name, values) in args.params.refused {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        match native::reason_to_ignore(name, &values) {
            Some(reason) => print_note(format_args!("{} is ignored: {reason}", as_typed(name))),
            None => drop(params.insert(name.to_owned(), Value::Bool(true))),
        }
    }
    for (name, value) in DEFAULTS {
        params.entry(name).or_insert_with(|| json!(value));
    }
    let as_json = args.format == OutputFormat::Json;
    let settings = NativeSettings::read(&params).map_err(|problems| Error::Usage(problems.join("\nvsweep: ")))?;
    let place = settings
        .output
        .is_wanted()
        .then(|| ResultPlace::prepare(&settings.output))
        .transpose()?;
    if place.is_none() {
        let unused = ["save_detailed", "result_filename", "result_dir"];
        for name in unused.into_iter().filter(|name| params.contains_key(*name)) {
            print_note(format_args!(
                "{} has no effect without --save-result: no file will be written",
                as_typed(name)
            ));
        }
    }
    machine::runtime()?.block_on(perform(params, &settings, place, as_json))
}

async fn perform(params: Params, settings: &NativeSettings, place: Option<ResultPlace>, as_json: bool) -> Result<Exit> {
    let mut interrupt = Interrupt::install()?;
    let found = interrupt.unless_requested(MeasuredServer::find(&settings.server));
    let Some(server) = found.await else {
        return Ok(Exit::Interrupted);
    };
    let job = server?.job(params);
    let progress = tokio::spawn(progress(job.counters.clone(), settings.output.is_quiet, as_json));
    let measured = interrupt.unless_requested(native::measure(&job, None)).await;
    progress.abort();
    // The task removes its progress bar before anything else is shown.
    let _ = progress.await;
    notes(&job.counters, as_json);
    let ended = match measured {
        Some(Ok(measurement)) => finish(settings, place, &measurement.result, as_json),
        Some(Err(failure)) => Err(Error::Fatal(failure.to_string())),
        None => {
            let ended = job.counters.in_words();
            print_note(format_args!(
                "interrupted after {ended}; nothing was saved: run the same command again"
            ));
            Ok(Exit::Interrupted)
        }
    };
    if job.counters.is_profiling.load(Relaxed) {
        print_note("waiting for the profiler to write its traces; Ctrl-C stops waiting");
    }
    tokio::select! {
        () = native::stop_profiler(&job) => {}
        () = interrupt.pressed_again() => print_note("the profiler was not awaited; it may still run"),
    }
    notes(&job.counters, as_json);
    ended
}

/// Saves the result, and then shows it. It is also shown if it cannot be saved.
fn finish(settings: &NativeSettings, place: Option<ResultPlace>, result: &RunResult, as_json: bool) -> Result<Exit> {
    let save = |place: ResultPlace| place.save(&result::file_name(settings, &result.values), result);
    let saved = place.map(save).transpose();
    let shown = match as_json {
        true => {
            let mut out = output::json();
            python_json::write(result, &mut out).and_then(|()| writeln!(out))
        }
        false => block(&result.values),
    };
    // The warnings include the failure and the doubts, so these are not printed separately.
    warnings_of(result).for_each(print_note);
    if let Some(path) = saved? {
        print_note(format_args!("the result is in {}", path.display()));
    }
    output::finish(shown)?;
    Ok(if result.get("failed").is_some_and(|failed| *failed != json!(0)) {
        Exit::SomeFailed
    } else {
        Exit::Done
    })
}

/// Time between two updates of the progress bar.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
/// Width of the bar in columns, including the blank before the message.
const BAR: usize = 17;

/// Shows new notes, and a progress bar of the requests. Does not end by itself.
pub async fn progress(counters: Arc<Counters>, quiet: bool, as_json: bool) {
    let began = Instant::now();
    let bar = match quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(0).with_finish(ProgressFinish::AndClear),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:16.cyan} {msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    let read = counter(&counters);
    loop {
        bar.suspend(|| notes(&counters, as_json));
        let requests = read();
        bar.set_length(requests.planned.max(1));
        bar.set_message(so_far(&requests, began.elapsed(), BAR));
        bar.set_position(requests.finished);
        tokio::time::sleep(BETWEEN_DRAWINGS).await;
    }
}

/// Prints new notes on standard output, unless standard output is for JSON, and new cautions on standard error.
pub fn notes(counters: &Counters, as_json: bool) {
    for note in counters.take_notes().into_iter().filter(|_| !as_json) {
        let _ = writeln!(output::text(), "{note}");
    }
    counters.take_cautions().iter().for_each(inform);
}

/// Prints the block of `vllm bench serve`, after up to ten kinds of errors.
pub fn block(result: &Params) -> io::Result<()> {
    let mut out = output::text();
    let reasons = result.get("failure_reasons").and_then(Value::as_object);
    if let Some(reasons) = reasons {
        writeln!(out, "Failed requests during benchmark run detected (capping to 10):")?;
        for (i, (reason, count)) in reasons.iter().take(10).enumerate() {
            let times = if *count == 1 { "time" } else { "times" };
            writeln!(out, "Error {i}: {reason} ({count} {times})")?;
        }
    }
    write!(out, "{}", console::console(result))?;
    out.flush()
}

// The place for the result of `vsweep bench`. The place is checked before any request is sent. If a result still cannot be written, other
// folders are tried.

/// The place of a result file.
#[derive(Debug)]
pub struct ResultPlace {
    folder: PathBuf,
    /// The file, if the user chose its name.
    chosen: Option<PathBuf>,
    append: bool,
}

impl ResultPlace {
    /// Creates the folders, and checks that files can be written there.
    pub fn prepare(output: &Output) -> Result<ResultPlace> {
        let folder = output.result_dir.clone().unwrap_or_default();
        let chosen = output.result_filename.as_ref().map(|name| folder.join(name));
        let folder = match &chosen {
            Some(path) => path.parent().unwrap_or(Path::new("")).to_path_buf(),
            None => folder,
        };
        fs::create_dir_all(&folder).map_err(|error| refused("create", &folder, &error))?;
        if let Some(path) = &chosen {
            try_file(path).map_err(|error| refused("write", path, &error))?;
        }
        if !chosen.as_deref().is_some_and(is_device) {
            try_folder(&folder).map_err(|error| refused("write files in", &folder, &error))?;
        }
        Ok(ResultPlace {
            folder,
            chosen,
            append: output.append_result,
        })
    }

    /// Writes the result under the name that the user chose, or else under `name`, and returns its path. If that fails, writes it into the
    /// current folder or the one of temporary files, and returns an error with that path.
    pub fn save(&self, name: &str, result: &impl Serialize) -> Result<PathBuf> {
        let path = self.chosen.clone().unwrap_or_else(|| self.folder.join(name));
        let written = match (&self.chosen, self.append) {
            (_, true) => append(&path, result).map(|()| path.clone()),
            (Some(_), false) => replace(&path, result).map(|()| path.clone()),
            (None, false) => write_new(&self.folder, name, result),
        };
        written.map_err(|error| {
            let elsewhere = [PathBuf::new(), std::env::temp_dir()];
            let saved = elsewhere.iter().find_map(|folder| write_new(folder, name, result).ok());
            let outcome = match saved {
                Some(saved) => format!("the result is in {} instead", saved.display()),
                None => "nor anywhere else: only the figures on standard output are left".to_owned(),
            };
            Error::Fatal(format!("cannot write {}: {error}; {outcome}", path.display()))
        })
    }
}

fn refused(action: &str, path: &Path, error: &io::Error) -> Error {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    Error::Usage(format!(
        "cannot {action} {}: {error}; choose another place with --result-dir or --result-filename; nothing was sent",
        path.display()
    ))
}

/// Returns true for a path that is neither a file nor a folder, such as `/dev/stdout`.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Checks that an existing file may be written.
fn try_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // Opening a pipe would wait for its reader.
        Ok(_) if is_device(path) => Ok(()),
        Ok(_) => File::options().append(true).open(path).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that new files may be written into a folder.
fn try_folder(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".vsweep-{}.tmp", std::process::id()));
    File::create(&path)?;
    match fs::remove_file(path) {
        // A process with the same id in another container may have checked the same folder, and removed the file.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Replaces a file as a whole, or writes to a device.
fn replace(path: &Path, content: &impl Serialize) -> io::Result<()> {
    write_named(path, |to| python_json::write(content, to)).map_err(|error| match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other.to_string()),
    })
}

/// Appends a line to a file, whole or not at all. A lock makes other vsweep processes wait meanwhile.
fn append(path: &Path, result: &impl Serialize) -> io::Result<()> {
    let file = File::options().append(true).create(true).open(path)?;
    match file.lock() {
        // Some network file systems have no locks. The line is then appended without one.
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    let before = file.metadata()?.len();
    let mut to = BufWriter::new(&file);
    let begun = if before > 0 { to.write_all(b"\n") } else { Ok(()) };
    let written = begun
        .and_then(|()| python_json::write(result, &mut to))
        .and_then(|()| to.flush());
    if written.is_err() {
        // Dropping the writer would write the rest of its buffer.
        let _ = to.into_parts();
        let _ = file.set_len(before);
    }
    written
}

/// Writes a new file with this name, or with a number after the name if that file exists. Returns its path.
fn write_new(folder: &Path, name: &str, result: &impl Serialize) -> io::Result<PathBuf> {
    let stem = name.strip_suffix(".json").unwrap_or(name);
    for count in 1u32.. {
        let path = match count {
            1 => folder.join(format!("{stem}.json")),
            _ => folder.join(format!("{stem}-{count}.json")),
        };
        match File::create_new(&path) {
            Ok(_) => {
                let written = replace(&path, result);
                if written.is_err() {
                    // An empty file would look like a result.
                    let _ = fs::remove_file(&path);
                }
                return written.map(|()| path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn output(folder: &Path, name: Option<&str>, append: bool) -> Output {
        Output {
            save_result: true,
            append_result: append,
            result_dir: Some(folder.to_path_buf()),
            result_filename: name.map(str::to_owned),
            is_quiet: true,
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_before_anything_is_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("written");
        let places = [
            output(&file, None, false),
            output(Path::new("/proc"), Some("x.json"), false),
            output(folder.path(), Some("."), false),
        ];
        for place in places {
            let error = ResultPlace::prepare(&place).expect_err("it cannot be written");
            let words = error.to_string();
            assert!(
                words.starts_with("cannot ") && words.ends_with("nothing was sent"),
                "{words}"
            );
        }
        ResultPlace::prepare(&output(folder.path(), Some("a/b/c.json"), false)).expect("its folders are made");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).expect("a folder").count(), 0);
    }

    #[test]
    fn results_of_the_same_name_lie_beside_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = ResultPlace::prepare(&output(folder.path(), None, false)).expect("writable");
        let saved = [1, 2].map(|i| place.save("r.json", &json!(i)).expect("written"));
        assert_eq!(saved, ["r.json", "r-2.json"].map(|name| folder.path().join(name)));
        assert_eq!(saved.map(|path| fs::read_to_string(path).expect("text")), ["1", "2"]);
    }

    #[test]
    fn lines_of_many_writers_stay_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = "x".repeat(100_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let place = ResultPlace::prepare(&output(folder.path(), Some("all.json"), true)).expect("writable");
                    for _ in 0..5 {
                        place.save("unused", &json!({"a": long})).expect("written");
                    }
                });
            }
        });
        let text = fs::read_to_string(folder.path().join("all.json")).expect("text");
        let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value["a"] == *long);
        assert_eq!(text.lines().filter(|line| whole(line)).count(), 20);
        assert_eq!(text.lines().count(), 20);
    }

    #[test]
    fn a_result_that_cannot_be_written_goes_elsewhere() {
        let name = format!("vsweep-test-{}.json", std::process::id());
        let place = ResultPlace::prepare(&output(Path::new("/dev"), Some("full"), false)).expect("a device");
        let words = place.save(&name, &json!([1])).expect_err("it is full").to_string();
        let saved = words
            .split("the result is in ")
            .nth(1)
            .expect("a place")
            .trim_end_matches(" instead");
        assert_eq!(fs::read_to_string(saved).expect("text"), "[1]");
        fs::remove_file(saved).expect("removed");
    }
}
