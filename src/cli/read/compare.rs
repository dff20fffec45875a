//! `vsweep compare`: compares new results with earlier ones, and gives a verdict with an interval for each metric.

use crate::cli::experiment::print_damage;
use crate::cli::flags::number;
use crate::cli::output::{self, finish};
use crate::cli::results;
use crate::error::{Error, Exit, Result};
use crate::files::write_atomic;
use crate::journal::Directory;
use crate::plan::{Limit, ReportOptions};
use crate::report::compare::{
    Comparison, Question, Side, Speed, to_bmf, to_dashboard, to_html, to_junit, to_markdown, to_text,
};
use crate::report::history::{self, History};
use crate::stats::{Better, Margins};
use crate::table::{Filter, Measure};
use clap::ValueEnum;
use itertools::Itertools;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Compare experiments: each metric's change, and a verdict
///
/// Server starts count, not runs. With fewer than five starts of a config, the noise between starts is assumed, and a note says so.
/// Points are matched by the settings that either side varies. Exit code 4 if a --fail-on is broken, 5 if one is undecided.
///
/// Each side is a directory that `vsweep run` or `vllm bench sweep` wrote, a folder of result files, or one file: of `vllm bench`, guidellm
/// or aiperf, or benchmark_results.json of vLLM's dashboard. A BASE alone is compared by tensor and pipeline parallel size.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The earlier results
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The later results; several are compared with BASE one by one
    #[arg(value_name = "NEW")]
    new: Vec<PathBuf>,
    /// A metric to compare, instead of the usual ones; :higher or :lower says which direction is the good one (repeatable)
    #[arg(long = "metric", value_name = "METRIC[:DIRECTION]", value_parser = measure)]
    metrics: Vec<Measure>,
    /// Changes of up to this many percent count as equal [default: this machine's noise, if other experiments next to NEW show it, else 3]
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    margin: Option<f64>,
    /// A change that must not happen at any point, such as p99_ttft_ms:+5% (repeatable; corrected for their number by Holm's method)
    #[arg(long = "fail-on", value_name = "METRIC:±N%", value_parser = Limit::parse, allow_hyphen_values = true)]
    fail_on: Vec<Limit>,
    /// Compare only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "CONDITIONS", default_value = "", hide_default_value = true)]
    only: String,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ComparisonFormat,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --format dashboard: the statistic of TTFT and TPOT [default: p99]
    #[arg(long, value_name = "STATISTIC", value_parser = ["p99", "median"])]
    latency: Option<String>,
    /// With --format dashboard: the longest TTFT that is fast enough [default: 3000]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    ttft_max_ms: Option<f64>,
    /// With --format dashboard: the longest TPOT that is fast enough [default: 100]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    tpot_max_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ComparisonFormat {
    /// For people
    Text,
    /// For a pull request's comment or a job's summary
    Markdown,
    /// One offline page with the changes and the frontiers of all sides
    Html,
    /// Everything, for programs
    Json,
    /// JUnit XML: a test case for each limit at each point
    Junit,
    /// Bencher Metric Format: the new side's values with their intervals
    Bmf,
    /// vLLM's dashboard in Markdown: figures of all sides with their ratios, and the highest load that is fast enough
    Dashboard,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let wants = "must be a number of milliseconds above 0, such as 200";
    number(text, wants, |limit| limit > 0.0 && limit.is_finite())
}

fn margin(text: &str) -> Result<f64, String> {
    let wants = "must be a percentage above 0 and up to 100, such as 3";
    let percent = text.strip_suffix('%').unwrap_or(text);
    number(percent, wants, |percent| percent > 0.0 && percent <= 100.0)
}

fn measure(text: &str) -> Result<Measure, String> {
    let measure = Measure::parse(text)?;
    if !text.contains(':') && Better::by_name(&measure.metric).is_none() {
        return Err(format!(
            "more {0} may be better or worse; write {0}:higher or {0}:lower",
            measure.metric
        ));
    }
    Ok(measure)
}

pub fn run(args: Args) -> Result<Exit> {
    let mut question = Question {
        metrics: args.metrics.clone(),
        margins: Margins {
            stated: args.margin,
            ..Margins::default()
        },
        limits: args.fail_on.clone(),
    };
    args.check()?;
    let sides = args.sides()?;
    let damaged: Vec<String> = sides.iter().flat_map(|side| side.damaged.clone()).collect();
    if args.format == ComparisonFormat::Dashboard {
        let text = to_dashboard(&sides, &args.speed()).map_err(Error::Usage)?;
        args.write(&text)?;
        return Ok(print_damage(&damaged));
    }
    let Some((base, others)) = sides.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(Error::Usage(format!(
            "{} has one tensor and pipeline parallel size, so it cannot be compared with itself; name the results to compare it with",
            args.base.display()
        )));
    };
    let mut comparisons = Vec::new();
    for (index, new) in others.iter().enumerate() {
        let root = args.new.get(index).unwrap_or(&args.base);
        question.margins.own = own_margins(new, (args.base.as_path(), root.as_path()), &question);
        comparisons.push(Comparison::of(base, new, &question).map_err(Error::Usage)?);
    }
    let text = match args.format {
        ComparisonFormat::Text => comparisons.iter().map(to_text).join("\n"),
        ComparisonFormat::Markdown => comparisons.iter().map(to_markdown).join("\n"),
        ComparisonFormat::Html => to_html(&comparisons, &sides).map_err(Error::Fatal)?,
        ComparisonFormat::Junit => to_junit(&comparisons),
        ComparisonFormat::Bmf => to_bmf(args.single(&comparisons)?),
        ComparisonFormat::Dashboard => unreachable!("it needs no comparison"),
        ComparisonFormat::Json => {
            match comparisons.as_slice() {
                [only] => serde_json::to_string_pretty(only),
                several => serde_json::to_string_pretty(several),
            }
            .expect("a comparison is JSON")
                + "\n"
        }
    };
    args.write(&text)?;
    let damage = print_damage(&damaged);
    let required = comparisons.iter().filter_map(Comparison::requirement).max();
    Ok(required.map_or(Exit::Done, output::exit_for).or(damage))
}

/// Returns the margins that follow from the machine's own noise, by metric; none if the user stated a margin. The difference between the
/// sides does not count as noise.
fn own_margins(new: &Side, (base, root): (&Path, &Path), question: &Question) -> BTreeMap<String, f64> {
    let folder_and_host = history::parent(root).zip(history::host_of(root));
    let Some((folder, host)) = folder_and_host.filter(|_| question.margins.stated.is_none()) else {
        return BTreeMap::new();
    };
    let metrics: Vec<String> = question.measures().into_iter().map(|measure| measure.metric).collect();
    let sides = [base, root].map(|side| side.canonicalize().ok());
    let is_side = |other: &Path| other.canonicalize().is_ok_and(|other| sides.contains(&Some(other)));
    History::of(&folder, &host, new.is_simulated(), &metrics, &is_side).margins(&metrics)
}

impl Args {
    /// Rejects options without an effect.
    fn check(&self) -> Result<()> {
        let is_dashboard = self.format == ComparisonFormat::Dashboard;
        let has_speed = self.latency.is_some() || self.ttft_max_ms.is_some() || self.tpot_max_ms.is_some();
        if has_speed && !is_dashboard {
            return Err(Error::Usage(
                "--latency, --ttft-max-ms and --tpot-max-ms are of --format dashboard; add it".into(),
            ));
        }
        if is_dashboard && !(self.fail_on.is_empty() && self.metrics.is_empty() && self.margin.is_none()) {
            return Err(Error::Usage(
                "--format dashboard has no verdicts and always the same metrics; leave out --fail-on, --metric and --margin, or choose \
                 another format"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Reads the results that were named. A BASE alone is split by tensor and pipeline parallel size.
    fn sides(&self) -> Result<Vec<Side>> {
        let filters = Filter::parse_list(&self.only).map_err(Error::Usage)?;
        let side = |path: &PathBuf| side(path)?.only(&filters).map_err(Error::Usage);
        if self.new.is_empty() {
            return Ok(side(&self.base)?.by_parallelism());
        }
        let all: Vec<&PathBuf> = std::iter::once(&self.base).chain(&self.new).collect();
        let canonical = |path: &&PathBuf| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some(twice) = all.iter().duplicates_by(|path| canonical(path)).next() {
            return Err(Error::Usage(format!(
                "{} is named twice, and it does not differ from itself; name two results",
                twice.display()
            )));
        }
        all.into_iter().map(side).collect()
    }

    /// Writes the comparison to the file that was named, or to standard output.
    fn write(&self, text: &str) -> Result<()> {
        match (&self.output, self.format) {
            (Some(path), _) => write_atomic(path, text.as_bytes()),
            (None, ComparisonFormat::Text) => finish(output::text().write_all(text.as_bytes())).map(drop),
            (None, _) => finish(io::stdout().lock().write_all(text.as_bytes())).map(drop),
        }
    }

    /// Returns the only comparison, for a format that has room for one.
    fn single<'c>(&self, comparisons: &'c [Comparison]) -> Result<&'c Comparison> {
        match comparisons {
            [only] => Ok(only),
            several => Err(Error::Usage(format!(
                "--format bmf holds the values of one result, not of {}; name one NEW",
                several.len()
            ))),
        }
    }

    fn speed(&self) -> Speed {
        Speed {
            statistic: self.latency.clone().unwrap_or_else(|| "p99".into()),
            ttft_ms: self.ttft_max_ms.unwrap_or(3000.0),
            tpot_ms: self.tpot_max_ms.unwrap_or(100.0),
        }
    }
}

fn side(path: &Path) -> Result<Side> {
    let directory = Directory::at(path);
    match directory.is_experiment() {
        true => Side::read(&directory),
        false => Ok(Side::of(
            path.display().to_string(),
            results::read(path, |_| ReportOptions::default())?,
        )),
    }
}
