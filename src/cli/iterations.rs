//! `vsweep iterations`: prefill or decode batches of exactly known shape, one row for each shape.

use super::flags::{FlagTable, TableFlags};
use super::machine;
use super::output::say;
use super::sweeping::{self, Ended, MeasuredServer, entries};
use crate::bench::Measurement;
use crate::bench::exact_prompts::Phase;
use crate::bench::iterations::settings::{Settings, TABLE};
use crate::bench::params::Param;
use crate::error::{Error, Exit, Result};
use crate::files::write_atomic;
use crate::plan::{BenchRunner, Params, show};
use crate::run::Interrupt;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const AFTER: &str = "--context-len, --input-len, --batch-size and --iterations take comma lists; every combination is \
measured. The server must run with VLLM_SERVER_DEV_MODE=1.";
/// Parameters that are swept, outermost first.
const SWEPT: [&str; 4] = ["context_len", "input_len", "batch_size", "iterations"];
const WIDTH: usize = 110;

/// Measure prefill or decode batches of exactly known shape on a running server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    params: TableFlags<OfIterations>,
    /// Write the rows to a JSON file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug)]
struct OfIterations;

impl FlagTable for OfIterations {
    fn params() -> impl Iterator<Item = (&'static str, &'static Param)> {
        TABLE.all()
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let shapes = shapes(&args.params.given);
    let settings = sweeping::read_each(&shapes, Settings::read)?;
    machine::runtime()?.block_on(measure_all(&args, &shapes, &settings))
}

async fn measure_all(args: &Args, shapes: &[Params], settings: &[Settings]) -> Result<Exit> {
    let mut interrupt = Interrupt::install()?;
    let first = &settings[0];
    let mut params = first.server.clone();
    if let Some(endpoint) = first.endpoints().first() {
        params.base_url = Some(endpoint.clone());
    }
    let server = sweeping::find(&params).await?;
    let mut rows: Vec<Value> = Vec::new();
    let loads = settings.iter().map(describe).zip(shapes);
    let measured = |place: usize, _: &str, measurement: &Measurement| {
        let row = row(&server, &settings[place], &measurement.result.values);
        if rows.is_empty() {
            print_head(&row);
        }
        print_row(&row);
        rows.push(row.into());
        save(args, &rows)
    };
    let ended = sweeping::measure_each(
        &server,
        &BenchRunner::Iterations,
        ("shapes", loads),
        &mut interrupt,
        measured,
    );
    let Ended::Through(last_failure) = ended.await? else {
        return Ok(Exit::Interrupted);
    };
    match (rows.len(), last_failure) {
        (0, Some(failure)) => Err(Error::Fatal(format!("no shape was measured: {failure}"))),
        (_, Some(_)) => Ok(Exit::SomeFailed),
        (_, None) => {
            say("=".repeat(WIDTH));
            Ok(Exit::Done)
        }
    }
}

/// Every combination of the lists, context outermost. What a mode does not look at is not swept.
fn shapes(params: &Params) -> Vec<Params> {
    let unused = match params.get("mode").map(show).as_deref() {
        Some("decode") => "input_len",
        _ => "iterations",
    };
    let mut shapes = vec![params.clone()];
    for name in SWEPT {
        if name == unused {
            shapes.iter_mut().for_each(|shape| drop(shape.shift_remove(name)));
            continue;
        }
        let values = entries(params, name);
        if values.is_empty() {
            continue;
        }
        let with = |shape: &Params, value: &Value| {
            let mut shape = shape.clone();
            shape.insert(name.to_owned(), value.clone());
            shape
        };
        shapes = shapes
            .iter()
            .flat_map(|shape| values.iter().map(move |value| with(shape, value)))
            .collect();
    }
    shapes
}

fn describe(settings: &Settings) -> String {
    let (mode, shape) = (settings.mode.name(), &settings.batch);
    let (context, batch) = (shape.context_len, shape.batch_size);
    match settings.mode {
        Phase::Prefill => format!(
            "{mode}, context {context}, input {}, batch {batch}",
            settings.input_len()
        ),
        Phase::Decode => format!(
            "{mode}, context {context}, batch {batch}, {} iterations",
            settings.output_len()
        ),
    }
}

/// A row of the file: the keys of `vllm bench iterations`, then ours.
fn row(server: &MeasuredServer, settings: &Settings, result: &Params) -> Map<String, Value> {
    let endpoints = settings.endpoints();
    let endpoint = match endpoints.is_empty() {
        true => server.base_url.clone(),
        false => endpoints.join(","),
    };
    let mut row = Map::new();
    let shape = [
        ("endpoint", json!(endpoint)),
        ("mode", json!(settings.mode.name())),
        ("context_len", json!(settings.batch.context_len)),
        ("input_len", json!(settings.input_len())),
        ("batch_size", json!(settings.batch.batch_size)),
        ("iteration", json!(settings.output_len())),
    ];
    row.extend(shape.map(|(key, value)| (key.to_owned(), value)));
    let theirs = [
        "total_latency_ms",
        "latency_per_iter_ms",
        "tokens_per_second",
        "prompt_tokens",
        "completion_tokens",
    ];
    for key in theirs {
        row.insert(key.to_owned(), result.get(key).cloned().unwrap_or_default());
    }
    row.extend(result.clone());
    row
}

fn print_head(row: &Map<String, Value>) {
    let known = |key: &str| {
        row.get(key)
            .filter(|value| !value.is_null())
            .map_or("?".to_owned(), show)
    };
    let number = |key: &str| row.get(key).and_then(Value::as_u64);
    let world = number("tensor_parallel")
        .zip(number("pipeline_parallel"))
        .zip(number("engines"));
    let world = world.map_or("?".to_owned(), |((tp, pp), dp)| (tp * pp * dp).to_string());
    say("=".repeat(WIDTH));
    say(format_args!(
        "DP={} TP={} PP={} World={world}",
        known("engines"),
        known("tensor_parallel"),
        known("pipeline_parallel")
    ));
    say(format_args!(
        "{:<8} {:>9} {:>7} {:>6} {:>6} {:>11} {:>12} {:>12} {:>10} {:>9} {:>10}",
        "Mode",
        "Context",
        "Input",
        "Batch",
        "Iters",
        "Total(ms)",
        "Per-Iter(ms)",
        "Tokens/s",
        "New tok/s",
        "Step(ms)",
        "Server(ms)"
    ));
    say("-".repeat(WIDTH));
}

fn print_row(row: &Map<String, Value>) {
    let text = |key: &str| row.get(key).map(show).unwrap_or_default();
    let number = |key: &str, digits: usize| match row.get(key).and_then(Value::as_f64) {
        Some(number) => format!("{number:.digits$}"),
        None => "-".to_owned(),
    };
    // What the server itself says: of the prefill, or of a step.
    let servers = match text("mode").as_str() {
        "decode" => "server_step_ms",
        _ => "server_prefill_ms",
    };
    say(format_args!(
        "{:<8} {:>9} {:>7} {:>6} {:>6} {:>11} {:>12} {:>12} {:>10} {:>9} {:>10}",
        text("mode"),
        text("context_len"),
        text("input_len"),
        text("batch_size"),
        text("iteration"),
        number("total_latency_ms", 2),
        number("latency_per_iter_ms", 3),
        number("tokens_per_second", 1),
        number("new_tokens_per_second", 1),
        number("step_ms", 3),
        number(servers, 3),
    ));
}

/// Writes what has been measured so far, whole or not at all.
fn save(args: &Args, rows: &[Value]) -> Result<()> {
    let Some(path) = &args.output else { return Ok(()) };
    let timestamp = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
    let document = json!({"results": rows, "timestamp": timestamp});
    let text = serde_json::to_string_pretty(&document).expect("JSON values can be written") + "\n";
    write_atomic(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(params: Value) -> Vec<String> {
        let shapes = shapes(params.as_object().expect("an object"));
        shapes.iter().map(crate::matrix::text).collect()
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
