//! `vsweep plot pareto`: shows the trade-off between two metrics, with the points that no other point beats in both.

use super::charts::{Directories, choose, list};
use crate::cli::output::{self, finish, is_quiet, print_json, say};
use crate::error::{Error, Exit, Result};
use crate::report::chart::Chart;
use crate::report::charts::grid::file_name;
use crate::report::charts::{ChartContext, pareto};
use crate::report::findings::variation::{settings, varying};
use crate::report::picture::{Form, Size};
use crate::report::texts::align::align;
use crate::report::texts::words::{axis_title, show_number};
use crate::table::{Filter, Measure, PlacedPoint, Points, Table, Tradeoff, list_placed, write_csv};
use clap::ValueEnum;
use itertools::Itertools;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Find the points that no other beats
///
/// Reads directories of vsweep and result trees of vLLM.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    directories: Directories,
    /// The figure along the x axis; :higher or :lower says which direction is the good one
    #[arg(long, value_name = "METRIC[:DIRECTION]", value_parser = Measure::parse, default_value = "tokens_per_user")]
    x: Measure,
    /// The figure along the y axis [default: tokens_per_gpu, or output_throughput where GPUs are not known]
    #[arg(long, value_name = "METRIC[:DIRECTION]", value_parser = Measure::parse)]
    y: Option<Measure>,
    /// Column with the number of users; where it is empty, the mean number of requests in flight
    #[arg(long, value_name = "COLUMN", default_value = "max_concurrency")]
    user_count_var: String,
    /// Column with the number of GPUs [default: num_gpus, else the product of the parallel sizes]
    #[arg(long, value_name = "COLUMN")]
    gpu_count_var: Option<String>,
    /// Columns written next to each point of the frontier (a,b,...) [default: the parameters that vary]
    #[arg(long, value_name = "COLUMNS", default_value = "", hide_default_value = true)]
    label_by: String,
    /// Weigh only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "CONDITIONS", default_value = "", hide_default_value = true)]
    only: String,
    /// Folder of the charts, within DIR unless absolute [default: pareto]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Format of the output: a chart, or text on standard output
    #[arg(long, value_name = "FORMAT", default_value = "png")]
    format: FrontierFormat,
    /// Show what would be drawn, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FrontierFormat {
    /// A picture
    Png,
    /// A picture that is sharp at any size
    Svg,
    /// A table
    Csv,
    /// The points with their parameters
    Json,
}

pub fn run(mut args: Args) -> Result<Exit> {
    args.directories = args.directories.settle()?;
    let is_picture = matches!(args.format, FrontierFormat::Png | FrontierFormat::Svg);
    if args.output.is_some() && !is_picture {
        return Err(Error::Usage(
            "--output is the folder of pictures; leave it out with csv and json, which go to standard output".into(),
        ));
    }
    let filters = Filter::parse_list(&args.only).map_err(Error::Usage)?;
    // Tables count users by the default column anyway. It is not passed on, because a column that is passed on must exist, and a sweep
    // without limits may lack this one.
    let users = Some(args.user_count_var.as_str()).filter(|name| *name != "max_concurrency");
    let recount = |table: &mut Table| {
        table
            .recount(users, args.gpu_count_var.as_deref())
            .map_err(Error::Usage)
    };
    // The points of several directories compete with each other, so the questions of a single plan do not matter.
    let usual = ["tokens_per_user", "tokens_per_gpu", "output_throughput"];
    let asked = [Some(&args.x), args.y.as_ref()].into_iter().flatten();
    let about: Vec<&str> = asked.map(|asked| asked.metric.as_str()).chain(usual).unique().collect();
    let about = args.directories.only().is_none().then_some(&about[..]);
    let experiments = args.directories.read(about, recount)?;
    let table = &experiments.table;
    let [_, throughput] = Measure::of_frontier(table);
    let (x, y) = (&args.x, args.y.as_ref().unwrap_or(&throughput));
    if x.metric == y.metric {
        return Err(Error::Usage(format!(
            "--x and --y are both {}; a frontier weighs two figures: choose another one",
            x.metric
        )));
    }
    let metrics = [x.metric.as_str(), y.metric.as_str()];
    for name in metrics {
        table.numeric_column(name).map_err(Error::Usage)?;
    }
    let labels: Vec<String> = list(&args.label_by).map(String::from).collect();
    for name in &labels {
        table.known_column(name).map_err(Error::Usage)?;
    }
    let mut points = Points::of(table);
    if !filters.is_empty() {
        points.keep(&choose(table, &filters)?);
    }
    experiments.estimate(&mut points);
    let mut tradeoffs = Tradeoff::of_each(&points, x, y);
    tradeoffs.retain(|tradeoff| !tradeoff.placed.is_empty());
    if tradeoffs.is_empty() {
        return Err(Error::Usage(format!(
            "no point has both {} and {}; see summary.csv, or choose others with --x and --y",
            x.metric, y.metric
        )));
    }
    match args.format {
        FrontierFormat::Json => print_json(&to_json(&points, &tradeoffs, (x, y))).map(drop),
        FrontierFormat::Csv => finish(write_csv(&list_placed(&tradeoffs, table), output::file())).map(drop),
        FrontierFormat::Png => draw(&args, &points, &tradeoffs, &labels, Form::Png),
        FrontierFormat::Svg => draw(&args, &points, &tradeoffs, &labels, Form::Svg),
    }?;
    Ok(experiments.damage)
}

fn draw(args: &Args, points: &Points<'_>, tradeoffs: &[Tradeoff<'_>], labels: &[String], form: Form) -> Result<()> {
    let context = ChartContext {
        experiment: &args.directories.name(),
        points,
    };
    let picture = |tradeoff: &Tradeoff<'_>| {
        let mut chart = pareto::draw(&context, tradeoff, labels, &[]);
        let row = tradeoff.placed[0].point.row;
        let shared = tradeoff.workload.settings.iter();
        chart.name = file_name(
            "PARETO",
            shared.map(|column| (column.name.as_str(), column.cells.at(row))),
        );
        (format!("{} on the frontier", tradeoff.frontier.len()), chart)
    };
    let pictures: Vec<(String, Chart)> = tradeoffs.iter().map(picture).collect();
    args.directories.deliver(
        &args
            .directories
            .folder()
            .join(args.output.as_deref().unwrap_or(Path::new("pareto"))),
        pictures.iter().map(|(group, chart)| (group.as_str(), chart)),
        (&Size::default(), form),
        args.dry_run,
    )?;
    if !args.dry_run && !is_quiet() {
        tradeoffs
            .iter()
            .for_each(|tradeoff| say(frontier_table(points, tradeoff).trim_end()));
    }
    Ok(())
}

/// The points on a frontier as text, in descending order of the figure along the y axis.
fn frontier_table(points: &Points<'_>, tradeoff: &Tradeoff<'_>) -> String {
    let varied = varying(points);
    let row = |placed: &PlacedPoint<'_>| {
        let figures = [placed.y.value, placed.x.value].map(show_number);
        figures
            .into_iter()
            .chain([settings(&varied, placed.point.row)])
            .collect()
    };
    let placed = tradeoff.frontier.iter().map(|at| &tradeoff.placed[*at]);
    let placed = placed.sorted_by(|a, b| b.y.value.total_cmp(&a.y.value));
    let heads = [
        axis_title(&tradeoff.y.metric),
        axis_title(&tradeoff.x.metric),
        "settings".to_owned(),
    ];
    align(&[heads.to_vec()].into_iter().chain(placed.map(row)).collect_vec())
}

fn to_json(points: &Points<'_>, tradeoffs: &[Tradeoff<'_>], (x, y): (&Measure, &Measure)) -> Value {
    let measure = |measure: &Measure| json!({"metric": measure.metric, "better": measure.better.to_string()});
    let params = |row: usize| -> Map<String, Value> {
        let columns = points.runs.columns().iter();
        let params = columns.filter(|column| column.section.is_parameter() && !column.cells.at(row).is_missing());
        params
            .map(|column| (column.name.clone(), column.cells.at(row).to_json()))
            .collect()
    };
    let placed = tradeoffs.iter().flat_map(|tradeoff| &tradeoff.placed).map(|placed| {
        json!({
            "id": placed.point.id,
            "validity": placed.point.validity,
            "codes": placed.point.codes,
            "params": params(placed.point.row),
            "x": placed.x.value,
            "y": placed.y.value,
            "runs": placed.point.used.len(),
            "frontier": placed.on_frontier,
            "knee": placed.is_knee,
        })
    });
    json!({
        "x": measure(x),
        "y": measure(y),
        "points": placed.collect::<Vec<Value>>(),
    })
}
