//! `vsweep bench phases`: measures prefill and decode throughput at rising concurrency, and writes them as JSON, Markdown and pictures.

use super::sweeping::{self, MeasuredServer, split};
use crate::bench::Measurement;
use crate::bench::params::Table;
use crate::bench::phases::{PhaseSettings, TABLE};
use crate::cli::flags::{FlagTable, TableFlags};
use crate::cli::machine;
use crate::cli::output::{print_note, say};
use crate::cli::sweep::init::last_part;
use crate::error::{Error, Exit, Result};
use crate::files::{create_folder, write_atomic};
use crate::plan::{BenchRunner, Params, show};
use crate::report::phases::Phases;
use crate::report::picture;
use crate::run::Interrupt;
use crate::server::http::Http;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Measure prefill and decode throughput over a window of time
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Phases to measure: prefill, decode or both [prefill,decode]
    #[arg(long, value_name = "TEXT", help_heading = "Window")]
    #[arg(default_value = "prefill,decode", hide_default_value = true)]
    phase: String,
    /// Requests in flight, comma-separated [32,64,128,256,512,1024,2048]
    #[arg(long, alias = "max-concurrency", value_name = "TEXT", help_heading = "Window")]
    #[arg(default_value = "32,64,128,256,512,1024,2048", hide_default_value = true)]
    concurrency_levels: String,
    /// Share of the prompt in each sequence of decode runs, comma-separated [0.25,0.5]
    #[arg(long, alias = "ratio", value_name = "TEXT", help_heading = "Window")]
    #[arg(default_value = "0.25,0.5", hide_default_value = true)]
    ratios: String,
    // The other flags are those of one measurement.
    #[command(flatten)]
    single: TableFlags<PhaseSettings>,
    /// Folder of the report
    #[arg(
        short,
        long,
        alias = "output-dir",
        value_name = "FOLDER",
        default_value = "bench-results"
    )]
    output: PathBuf,
}

impl FlagTable for PhaseSettings {
    const TABLE: &'static Table = &TABLE;
    const DECLARED_ELSEWHERE: &'static [&'static str] = &["phase", "max_concurrency", "ratio"];
}

pub fn run(args: Args) -> Result<Exit> {
    let levels = levels(&args);
    let read = sweeping::read_each(&levels, PhaseSettings::read)?;
    machine::runtime()?.block_on(measure_all(&args, &levels, &read[0]))
}

/// Returns the parameters of every measurement, by phase in the given order: prefill by level, decode by ratio and level.
fn levels(args: &Args) -> Vec<Params> {
    let of_phase = |phase: Value| {
        let mut lists = vec![("max_concurrency", split(&args.concurrency_levels))];
        if phase == "decode" {
            lists.insert(0, ("ratio", split(&args.ratios)));
        }
        lists.insert(0, ("phase", vec![phase]));
        sweeping::combinations(&args.single.given, &lists)
    };
    split(&args.phase).into_iter().flat_map(of_phase).collect()
}

async fn measure_all(args: &Args, levels: &[Params], first: &PhaseSettings) -> Result<Exit> {
    let mut interrupt = Interrupt::install()?;
    let find = async {
        let server = MeasuredServer::find(&first.server).await?;
        let simulated = is_simulated(&server.base_url).await;
        Ok::<_, Error>((server, simulated))
    };
    let Some(found) = interrupt.unless_requested(find).await else {
        return Ok(Exit::Interrupted);
    };
    let (server, simulated) = found?;
    create_folder(&args.output)?;
    // File names begin with the part after the last slash of the model's name.
    let stem = last_part(&server.model).replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    let file = |end: &str| args.output.join(format!("{stem}{end}"));
    let mut phases = Phases::new(&server.model, simulated);
    let loads = levels.iter().map(describe).zip(levels);
    let measured = |index: usize, what: &str, measurement: &Measurement| {
        let params = &levels[index];
        let row = row(params, &measurement.result.values);
        let number = |key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        say(format_args!(
            "{what}: {:.1} output tokens/s, {:.1} tokens/s in all ({:.1} s after a warm-up of {:.1} s)",
            number("output_throughput"),
            number("total_throughput"),
            number("elapsed_s"),
            number("warmup_s"),
        ));
        phases.add(&show(&params["phase"]), row);
        write(&phases, file).map(drop)
    };
    let (runner, loads) = (BenchRunner::Phases, ("levels", loads));
    let exit = sweeping::measure_each(&server, runner, loads, &mut interrupt, measured).await?;
    if exit != Exit::Interrupted {
        draw(&phases, file)?;
        say(write(&phases, file)?.display());
    } else if !phases.is_empty() {
        let page = write(&phases, file)?;
        print_note(format_args!("what was measured is in {}", page.display()));
    }
    Ok(exit)
}

fn describe(params: &Params) -> String {
    let ratio = params.get("ratio").map(|ratio| format!(", ratio {}", show(ratio)));
    let (phase, level) = (show(&params["phase"]), show(&params["max_concurrency"]));
    format!("{phase}{}, concurrency {level}", ratio.unwrap_or_default())
}

/// Returns a row of the file: the keys of the public window benchmark, then further ones.
fn row(params: &Params, result: &Params) -> Params {
    let number = |key: &str| result.get(key).and_then(Value::as_f64);
    let (input, sequence) = (number("input_len").unwrap_or(0.0), number("seq_len").unwrap_or(1.0));
    let asked = params.get("ratio").map(show);
    let asked = asked.and_then(|ratio| ratio.parse::<f64>().ok());
    let known = |key: &str| result.get(key).cloned().unwrap_or_default();
    let rounded = |value: Option<f64>, digits: i32| {
        let scale = 10f64.powi(digits);
        json!(value.map(|value| (value * scale).round() / scale))
    };
    let theirs = [
        ("ratio", rounded(asked.or(Some(input / sequence)), 4)),
        ("concurrency", known("max_concurrency")),
        ("input_len", known("input_len")),
        ("output_len", known("output_len")),
        ("output_tokens", known("output_tokens")),
        ("elapsed_s", rounded(number("window_s"), 2)),
        ("output_throughput", rounded(number("output_throughput"), 1)),
        ("total_throughput", rounded(number("total_throughput"), 1)),
        ("requests_started", known("requests_started")),
        ("requests_completed", known("completed")),
        ("errors", known("failed")),
    ];
    sweeping::row(theirs, result)
}

async fn is_simulated(base_url: &str) -> bool {
    let version = Http::new(base_url, None)
        .page("/version", Duration::from_secs(10))
        .await;
    version.is_some_and(|version| version.json()["simulator"].is_string())
}

/// Writes the data and the page; returns the page's path.
fn write(phases: &Phases, file: impl Fn(&str) -> PathBuf) -> Result<PathBuf> {
    let page = file(".md");
    write_atomic(&file(".json"), phases.json().as_bytes())?;
    write_atomic(&page, phases.markdown().as_bytes())?;
    Ok(page)
}

fn draw(phases: &Phases, file: impl Fn(&str) -> PathBuf) -> Result<()> {
    for chart in phases.charts() {
        let picture = picture::render(&chart, picture::Form::Png)
            .map_err(|error| Error::Fatal(format!("cannot draw {}: {error}", chart.name)))?;
        write_atomic(&file(&format!("_{}.png", chart.name)), &picture)?;
    }
    Ok(())
}
