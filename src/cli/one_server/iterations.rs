//! `vsweep bench iterations`: measures prefill or decode batches of exactly known shape, and prints one row for each shape.

use super::sweeping::{self, MeasuredServer, split};
use crate::bench::Measurement;
use crate::bench::exact_prompts::ServingPhase;
use crate::bench::iterations::{IterationSettings, TABLE};
use crate::bench::params::Table;
use crate::cli::flags::{FlagTable, TableFlags};
use crate::cli::machine;
use crate::cli::output::say;
use crate::error::{Exit, Result};
use crate::files::write_named;
use crate::plan::{BenchRunner, Params, show};
use crate::run::Interrupt;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

const AFTER: &str = "--context-len, --input-len, --batch-size and --iterations take comma lists; every combination is \
measured. The server must run with VLLM_SERVER_DEV_MODE=1.";
/// Parameters that are swept, outermost first.
const SWEPT: [&str; 4] = ["context_len", "input_len", "batch_size", "iterations"];
/// Width of the printed table, in characters.
const WIDTH: usize = 110;

/// Measure prefill or decode batches of exactly known shape
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    params: TableFlags<IterationSettings>,
    /// JSON file for the rows
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl FlagTable for IterationSettings {
    const TABLE: &'static Table = &TABLE;
}

pub fn run(args: Args) -> Result<Exit> {
    let shapes = shapes(&args.params.given);
    let settings = sweeping::read_each(&shapes, IterationSettings::read)?;
    machine::runtime()?.block_on(measure_all(&args, &shapes, &settings))
}

async fn measure_all(args: &Args, shapes: &[Params], settings: &[IterationSettings]) -> Result<Exit> {
    let mut interrupt = Interrupt::install()?;
    let first = &settings[0];
    let mut params = first.server.clone();
    if let Some(endpoint) = first.endpoints().first() {
        params.base_url = Some(endpoint.clone());
    }
    let Some(server) = interrupt.unless_requested(MeasuredServer::find(&params)).await else {
        return Ok(Exit::Interrupted);
    };
    let server = server?;
    let mut rows: Vec<Params> = Vec::new();
    let loads = settings.iter().map(describe).zip(shapes);
    let measured = |index: usize, _: &str, measurement: &Measurement| {
        let row = row(&server, &settings[index], &measurement.result.values);
        if rows.is_empty() {
            print_head(&row);
        }
        print_row(&row);
        rows.push(row);
        save(args, &rows)
    };
    let (runner, loads) = (BenchRunner::Iterations, ("shapes", loads));
    let exit = sweeping::measure_each(&server, runner, loads, &mut interrupt, measured).await?;
    if exit == Exit::Done {
        say("=".repeat(WIDTH));
    }
    Ok(exit)
}

/// Returns every combination of the lists, context outermost. The list that the mode ignores is left out.
fn shapes(params: &Params) -> Vec<Params> {
    let mut params = params.clone();
    params.shift_remove(match params.get("mode").map(show).as_deref() {
        Some("decode") => "input_len",
        _ => "iterations",
    });
    let given = SWEPT
        .into_iter()
        .filter_map(|name| Some((name, params.get(name)?.as_str()?)));
    let lists: Vec<_> = given.map(|(name, list)| (name, split(list))).collect();
    sweeping::combinations(&params, &lists)
}

fn describe(settings: &IterationSettings) -> String {
    let (mode, shape) = (settings.batch.mode.name(), &settings.batch);
    let (context, batch) = (shape.context_len, shape.batch_size);
    match settings.batch.mode {
        ServingPhase::Prefill => format!(
            "{mode}, context {context}, input {}, batch {batch}",
            settings.input_len()
        ),
        ServingPhase::Decode => format!(
            "{mode}, context {context}, batch {batch}, {} iterations",
            settings.output_len()
        ),
    }
}

/// Returns a row of the file: the keys of `vllm bench iterations`, then further ones.
fn row(server: &MeasuredServer, settings: &IterationSettings, result: &Params) -> Params {
    let endpoints = settings.endpoints();
    let endpoint = match endpoints.is_empty() {
        true => server.base_url.clone(),
        false => endpoints.join(","),
    };
    let measured = |key: &'static str| (key, result.get(key).cloned().unwrap_or_default());
    let theirs = [
        ("endpoint", json!(endpoint)),
        ("mode", json!(settings.batch.mode.name())),
        ("context_len", json!(settings.batch.context_len)),
        ("input_len", json!(settings.input_len())),
        ("batch_size", json!(settings.batch.batch_size)),
        ("iteration", json!(settings.output_len())),
        measured("total_latency_ms"),
        measured("latency_per_iter_ms"),
        measured("tokens_per_second"),
        measured("prompt_tokens"),
        measured("completion_tokens"),
    ];
    sweeping::row(theirs, result)
}

/// The columns after the mode: title, width, key in a row, and for a measured figure the digits after the point.
const COLUMNS: [(&str, usize, &str, Option<usize>); 10] = [
    ("Context", 9, "context_len", None),
    ("Input", 7, "input_len", None),
    ("Batch", 6, "batch_size", None),
    ("Iters", 6, "iteration", None),
    ("Total(ms)", 11, "total_latency_ms", Some(2)),
    ("Per-Iter(ms)", 12, "latency_per_iter_ms", Some(3)),
    ("Tokens/s", 12, "tokens_per_second", Some(1)),
    ("New tok/s", 10, "new_tokens_per_second", Some(1)),
    ("Step(ms)", 9, "step_ms", Some(3)),
    ("Server(ms)", 10, SERVER, Some(3)),
];
/// Placeholder for the key of the server's own measurement, which is of a step in the mode `decode` and of the prefill otherwise.
const SERVER: &str = "server";

fn print_head(row: &Params) {
    let sizes = ["engines", "tensor_parallel", "pipeline_parallel"].map(|key| row.get(key).and_then(Value::as_u64));
    let world = sizes.into_iter().product();
    let [dp, tp, pp] = sizes;
    let [dp, tp, pp, world] = [dp, tp, pp, world].map(|size| size.map_or("?".to_owned(), |size| size.to_string()));
    say("=".repeat(WIDTH));
    say(format_args!("DP={dp} TP={tp} PP={pp} World={world}"));
    let titles = COLUMNS.map(|(title, width, ..)| format!(" {title:>width$}"));
    say(format_args!("{:<8}{}", "Mode", titles.concat()));
    say("-".repeat(WIDTH));
}

fn print_row(row: &Params) {
    let text = |key: &str| row.get(key).map(show).unwrap_or_default();
    let mode = text("mode");
    let cells = COLUMNS.map(|(_, width, key, digits)| {
        let key = match (key, mode.as_str()) {
            (SERVER, "decode") => "server_step_ms",
            (SERVER, _) => "server_prefill_ms",
            (key, _) => key,
        };
        let cell = match (digits, row.get(key).and_then(Value::as_f64)) {
            (None, _) => text(key),
            (Some(digits), Some(figure)) => format!("{figure:.digits$}"),
            (Some(_), None) => "-".to_owned(),
        };
        format!(" {cell:>width$}")
    });
    say(format_args!("{mode:<8}{}", cells.concat()));
}

/// Writes the rows so far to the file, whole or not at all.
fn save(args: &Args, rows: &[Params]) -> Result<()> {
    let Some(path) = &args.output else { return Ok(()) };
    let timestamp = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
    let document = json!({"results": rows, "timestamp": timestamp});
    let text = serde_json::to_string_pretty(&document).expect("JSON values can be written") + "\n";
    write_named(path, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(params: Value) -> Vec<String> {
        let shapes = shapes(params.as_object().expect("an object"));
        shapes.iter().map(crate::matrix::settings_text).collect()
    }

    #[test]
    fn lists_multiply_with_the_context_outermost() {
        let prefill = json!({"mode": "prefill", "context_len": "0, 8", "batch_size": "1,2", "iterations": "3"});
        assert_eq!(
            names(prefill),
            [
                "mode=prefill, context_len=0, batch_size=1",
                "mode=prefill, context_len=0, batch_size=2",
                "mode=prefill, context_len=8, batch_size=1",
                "mode=prefill, context_len=8, batch_size=2",
            ]
        );
        let decode = json!({"mode": "decode", "context_len": "8", "input_len": "1,2", "iterations": "3,4"});
        assert_eq!(
            names(decode),
            [
                "mode=decode, context_len=8, iterations=3",
                "mode=decode, context_len=8, iterations=4"
            ]
        );
    }
}
