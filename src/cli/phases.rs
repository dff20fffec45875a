//! `vsweep phases`: prefill and decode throughput at rising concurrency, as JSON, Markdown and two pictures.

use super::flags::{FlagTable, TableFlags};
use super::machine;
use super::output::{say, tell};
use super::sweeping::{self, Ended, MeasuredServer, entries};
use crate::bench::Measurement;
use crate::bench::params::{Param, param};
use crate::bench::phases::settings::{Settings, TABLE};
use crate::error::{Error, Exit, Result};
use crate::files::{create_folder, write_atomic};
use crate::plan::{BenchRunner, Params, show};
use crate::report::phases::Phases;
use crate::report::picture;
use crate::run::Interrupt;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const LEVELS: &str = "32,64,128,256,512,1024,2048";
const RATIOS: &str = "0.25,0.5";

/// Flags of the command that are lists; the others are those of one measurement.
const LISTS: [(&str, Param); 3] = [
    list("phase", "prefill,decode", "Phases to measure: prefill, decode or both"),
    list("concurrency_levels", LEVELS, "Requests in flight at once, a comma list"),
    list(
        "ratios",
        RATIOS,
        "Prompt's shares of each sequence in decode runs, a comma list",
    ),
];

const fn list(name: &'static str, default: &'static str, help: &'static str) -> (&'static str, Param) {
    ("Window", param(name).default(default).described::<String>(help))
}

/// Measure prefill and decode throughput of a running server over a window of time
#[derive(Debug, clap::Args)]
#[command(mut_arg("concurrency_levels", |arg| arg.alias("max-concurrency")))]
#[command(mut_arg("ratios", |arg| arg.alias("ratio")))]
pub struct Args {
    #[command(flatten)]
    lists: TableFlags<Lists>,
    #[command(flatten)]
    single: TableFlags<Single>,
    /// Folder of the report
    #[arg(long, alias = "output_dir", value_name = "DIR", default_value = "bench-results")]
    output_dir: PathBuf,
}

#[derive(Debug)]
struct Lists;

impl FlagTable for Lists {
    fn params() -> impl Iterator<Item = (&'static str, &'static Param)> {
        LISTS.iter().map(|(title, param)| (*title, param))
    }
}

/// The flags of one measurement that are not lists here.
#[derive(Debug)]
struct Single;

impl FlagTable for Single {
    fn params() -> impl Iterator<Item = (&'static str, &'static Param)> {
        let swept = ["phase", "max_concurrency", "ratio"];
        TABLE.all().filter(move |(_, param)| !swept.contains(&param.name))
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let levels = levels(&args);
    let read = sweeping::read_each(&levels, Settings::read)?;
    let Some(first) = read.first() else {
        return Err(Error::Usage(
            "there is nothing to measure; give --concurrency-levels".to_owned(),
        ));
    };
    machine::runtime()?.block_on(measure_all(&args, &levels, first))
}

/// Every measurement: prefill at each level, then decode by ratio and level.
fn levels(args: &Args) -> Vec<Params> {
    let list = |name: &str, default: &str| match entries(&args.lists.given, name) {
        given if given.is_empty() => default.split(',').map(Value::from).collect(),
        given => given,
    };
    let (concurrency, ratios) = (list("concurrency_levels", LEVELS), list("ratios", RATIOS));
    let mut levels = Vec::new();
    for phase in list("phase", "prefill,decode") {
        let shares: Vec<Option<&Value>> = match phase.as_str() {
            Some("decode") => ratios.iter().map(Some).collect(),
            _ => vec![None],
        };
        for share in shares {
            for level in &concurrency {
                let mut params = args.single.given.clone();
                params.insert("phase".to_owned(), phase.clone());
                params.insert("max_concurrency".to_owned(), level.clone());
                if let Some(share) = share {
                    params.insert("ratio".to_owned(), share.clone());
                }
                levels.push(params);
            }
        }
    }
    levels
}

async fn measure_all(args: &Args, levels: &[Params], first: &Settings) -> Result<Exit> {
    let mut interrupt = Interrupt::install()?;
    let server = sweeping::find(&first.server).await?;
    let simulated = is_simulated(&server.base_url).await;
    create_folder(&args.output_dir)?;
    let mut phases = Phases::new(&server.model, simulated);
    let loads = levels.iter().map(describe).zip(levels);
    let measured = |place: usize, what: &str, measurement: &Measurement| {
        let params = &levels[place];
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
        write(args, &server, &phases).map(drop)
    };
    let ended = sweeping::measure_each(
        &server,
        &BenchRunner::Phases,
        ("levels", loads),
        &mut interrupt,
        measured,
    );
    let failure = match ended.await? {
        Ended::Through(failure) => failure,
        Ended::Interrupted => {
            if !phases.is_empty() {
                let page = write(args, &server, &phases)?;
                tell(format_args!("what was measured is in {}", page.display()));
            }
            return Ok(Exit::Interrupted);
        }
    };
    if let (true, Some(failure)) = (phases.is_empty(), &failure) {
        return Err(Error::Fatal(format!("nothing was measured: {failure}")));
    }
    draw(args, &server, &phases)?;
    say(write(args, &server, &phases)?.display());
    Ok(failure.map_or(Exit::Done, |_| Exit::SomeFailed))
}

fn describe(params: &Params) -> String {
    let ratio = params.get("ratio").map(|ratio| format!(", ratio {}", show(ratio)));
    let (phase, level) = (show(&params["phase"]), show(&params["max_concurrency"]));
    format!("{phase}{}, concurrency {level}", ratio.unwrap_or_default())
}

/// A row of the file: the keys that the public window benchmark has, then ours.
fn row(params: &Params, result: &Params) -> Map<String, Value> {
    let number = |key: &str| result.get(key).and_then(Value::as_f64);
    let (input, sequence) = (number("input_len").unwrap_or(0.0), number("seq_len").unwrap_or(1.0));
    let asked = params
        .get("ratio")
        .map(show)
        .and_then(|ratio| ratio.parse::<f64>().ok());
    let rounded = |value: f64, digits: i32| {
        let scale = 10f64.powi(digits);
        json!((value * scale).round() / scale)
    };
    let known = |key: &str| result.get(key).cloned().unwrap_or_default();
    let rate = |key: &str| number(key).map_or(Value::Null, |rate| rounded(rate, 1));
    let mut row = Map::new();
    let theirs = [
        ("ratio", rounded(asked.unwrap_or(input / sequence), 4)),
        ("concurrency", known("max_concurrency")),
        ("input_len", known("input_len")),
        ("output_len", known("output_len")),
        ("output_tokens", known("output_tokens")),
        (
            "elapsed_s",
            number("window_s").map_or(Value::Null, |seconds| rounded(seconds, 2)),
        ),
        ("output_throughput", rate("output_throughput")),
        ("total_throughput", rate("total_throughput")),
        ("requests_started", known("requests_started")),
        ("requests_completed", known("completed")),
        ("errors", known("failed")),
    ];
    row.extend(theirs.map(|(key, value)| (key.to_owned(), value)));
    for (key, value) in result {
        row.entry(key.clone()).or_insert_with(|| value.clone());
    }
    row
}

async fn is_simulated(base_url: &str) -> bool {
    let answer = crate::server::http::Http::new(base_url, None)
        .get("/version", std::time::Duration::from_secs(10))
        .await;
    answer.is_ok_and(|answer| answer.body.contains("\"simulator\""))
}

/// Writes the data and the page; returns the page's path.
fn write(args: &Args, server: &MeasuredServer, phases: &Phases) -> Result<PathBuf> {
    let stem = stem(server);
    let page = args.output_dir.join(format!("{stem}.md"));
    write_atomic(&args.output_dir.join(format!("{stem}.json")), phases.json().as_bytes())?;
    write_atomic(&page, phases.markdown().as_bytes())?;
    Ok(page)
}

fn draw(args: &Args, server: &MeasuredServer, phases: &Phases) -> Result<()> {
    for chart in phases.charts() {
        let path = args.output_dir.join(format!("{}_{}.png", stem(server), chart.name));
        let picture = picture::render(&chart, picture::Form::Png)
            .map_err(|error| Error::Fatal(format!("cannot draw {}: {error}", chart.name)))?;
        write_atomic(&path, &picture)?;
    }
    Ok(())
}

/// The start of all file names: what follows the last slash of the model's name.
fn stem(server: &MeasuredServer) -> String {
    let name = server
        .model
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    name.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_")
}
