//! `vsweep compare`: whether new results are better, worse or the same, with the error of the answer.

use super::experiment::tell_problems;
use super::output::finish;
use crate::error::{Error, Exit, Result};
use crate::plan::Limit;
use crate::report::compare::{Comparison, Question, Side, to_bmf, to_html, to_junit, to_markdown, to_text};
use crate::report::history::{self, History};
use crate::stats::{Margins, Requirement};
use crate::table::Measure;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Compare two sets of results: each metric's ratio with its 95 % interval, and a verdict
///
/// The start of a server is the unit: with one start a side nothing is decided, because noise between starts is unknown.
/// Points are matched by the settings that either side varies. Exit code 4 if a --fail-on is broken, 5 if one is undecided.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The earlier results: a directory that `vsweep run` or `vllm bench sweep` wrote
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The later results
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// A metric to compare, instead of the usual ones; :higher or :lower says which direction is the good one
    #[arg(long = "metric", value_name = "METRIC[:DIRECTION]")]
    metrics: Vec<String>,
    /// The change in percent that does not matter [default: what the machine's own noise makes, if the other experiments in the folder of NEW
    /// show it, else 3]
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    margin: Option<f64>,
    /// A change that must not happen at any point, such as p99_ttft_ms:+5%; all of them are judged together, by Holm's
    /// correction
    #[arg(long = "fail-on", value_name = "METRIC:±N%", value_parser = Limit::parse, allow_hyphen_values = true)]
    fail_on: Vec<Limit>,
    /// The form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For a pull request's comment or a job's summary
    Markdown,
    /// One offline page with both frontiers
    Html,
    /// Everything, for programs
    Json,
    /// JUnit XML: a test case for each limit at each point
    Junit,
    /// Bencher Metric Format: the new side's values with their intervals
    Bmf,
}

fn margin(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("must be a percentage above 0 and up to 100, such as 3".into()),
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let metrics: Result<Vec<Measure>, String> = args.metrics.iter().map(|text| Measure::parse(text)).collect();
    let mut question = Question {
        metrics: metrics.map_err(Error::Usage)?,
        margins: Margins {
            stated: args.margin,
            ..Margins::default()
        },
        limits: args.fail_on,
    };
    let (base, new) = (Side::read(&args.base)?, Side::read(&args.new)?);
    question.margins.own = own_margins(&new, &args.new, &question);
    let comparison = Comparison::of(&base, &new, &question).map_err(Error::Usage)?;
    let text = match args.format {
        Format::Text => to_text(&comparison),
        Format::Markdown => to_markdown(&comparison),
        Format::Html => to_html(&comparison, &base, &new).map_err(Error::Fatal)?,
        Format::Junit => to_junit(&comparison),
        Format::Bmf => to_bmf(&comparison),
        Format::Json => serde_json::to_string_pretty(&comparison).expect("a comparison is JSON") + "\n",
    };
    finish(io::stdout().lock().write_all(text.as_bytes()))?;
    let damaged: Vec<String> = base.damaged.iter().chain(&new.damaged).cloned().collect();
    let damage = tell_problems(&damaged);
    let required = match comparison.requirement() {
        Some(Requirement::Broken) => Exit::Unmet,
        Some(Requirement::Undecided) => Exit::Undecided,
        _ => Exit::Done,
    };
    Ok(required.or(damage))
}

/// What the machine's own noise says of the metrics, if no margin is stated.
fn own_margins(new: &Side, root: &Path, question: &Question) -> BTreeMap<String, f64> {
    let place = history::parent(root).zip(history::host_of(root));
    let Some((folder, host)) = place.filter(|_| question.margins.stated.is_none()) else {
        return BTreeMap::new();
    };
    let simulated = new.table.column("simulated");
    let is_simulated = simulated.is_some_and(|column| column.cells.iter().any(|cell| cell.to_string() == "true"));
    let metrics: Vec<String> = question.measures().into_iter().map(|measure| measure.metric).collect();
    History::of(&folder, &host, is_simulated, &metrics).margins(&metrics)
}
