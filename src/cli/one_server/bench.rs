//! `vsweep bench`: one native benchmark. Its flags are those of `vllm bench serve`, made from the native benchmark's
//! table of parameters.

mod place;

use super::sweeping::{MeasuredServer, warnings_of};
use crate::bench::native::settings::{NativeSettings, TABLE};
use crate::bench::params::Table;
use crate::bench::result::{console, json_file};
use crate::bench::{Counters, native};
use crate::cli::flags::{FlagTable, TableFlags};
use crate::cli::machine;
use crate::cli::output::{self, OutputFormat, inform, print_note};
use crate::cli::sweep::run::counter;
use crate::error::{Error, Exit, Result};
use crate::metrics::RunResult;
use crate::plan::Params;
use crate::python_json;
use crate::report::progress::so_far;
use crate::run::Interrupt;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use place::ResultPlace;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Default metrics of `vllm bench serve`.
const DEFAULTS: [(&str, &str); 2] = [("percentile_metrics", "ttft,tpot,itl"), ("metric_percentiles", "99")];

/// Run one benchmark, with the flags of vllm bench serve
// If a flag is given twice, the last one counts, as in Python's argparse.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Args {
    #[command(flatten)]
    params: TableFlags<OfServe>,
    /// Standard output: the block of vllm bench serve, or the result file's JSON
    #[arg(long, value_enum, default_value = "text", help_heading = "Result")]
    format: OutputFormat,
}

#[derive(Debug)]
struct OfServe;

impl FlagTable for OfServe {
    const TABLE: &'static Table = &TABLE;
}

fn as_typed(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

pub fn run(args: Args) -> Result<Exit> {
    let mut params = args.params.given;
    for (name, values) in args.params.refused {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        match native::harmless(name, &values) {
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
        let idle = ["save_detailed", "result_filename", "result_dir"];
        for name in idle.into_iter().filter(|name| params.contains_key(*name)) {
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
    let job = tokio::select! {
        server = MeasuredServer::find(&settings.server) => server?.job(params),
        () = interrupt.requested() => return Ok(Exit::Interrupted),
    };
    let progress = tokio::spawn(progress(job.counters.clone(), settings.output.is_quiet, as_json));
    let measured = tokio::select! {
        measured = native::measure(&job, None) => Some(measured),
        () = interrupt.requested() => None,
    };
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
                "interrupted after {ended}; nothing is saved: give the same command again"
            ));
            Ok(Exit::Interrupted)
        }
    };
    if job.counters.is_profiling.load(Relaxed) {
        print_note("waiting for the profiler to write its traces; Ctrl-C leaves it alone");
    }
    tokio::select! {
        () = native::stop_profiler(&job) => {}
        () = interrupt.pressed_again() => print_note("the profiler was not awaited; it may still run"),
    }
    notes(&job.counters, as_json);
    ended
}

/// Saves and shows what was measured, in this order: nothing that is shown is lost.
fn finish(settings: &NativeSettings, place: Option<ResultPlace>, result: &RunResult, as_json: bool) -> Result<Exit> {
    let save = |place: ResultPlace| place.save(&json_file::name(settings, &result.values), result);
    let saved = place.map(save).transpose();
    let shown = match as_json {
        true => {
            let mut out = output::json();
            python_json::write(result, &mut out).and_then(|()| writeln!(out))
        }
        false => block(&result.values),
    };
    // They include the reasons for reading it with care.
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

const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
/// Columns of the bar, before what is said.
const BAR: usize = 17;

/// Shows notes as they come, and how the requests fare.
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

/// Prints the new sentences. With JSON on standard output, only those for standard error.
pub fn notes(counters: &Counters, as_json: bool) {
    for note in counters.take_notes().into_iter().filter(|_| !as_json) {
        let _ = writeln!(output::text(), "{note}");
    }
    counters.take_cautions().iter().for_each(inform);
}

/// The block of `vllm bench serve`, after the commonest errors.
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
