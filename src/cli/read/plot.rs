//! `vsweep plot`: draws line charts of any figure against any setting or figure, from results of vsweep or vLLM.

use super::charts::{Directories, choose, list};
use super::pareto;
use crate::cli::flags::{number, one_of};
use crate::cli::output::print_note;
use crate::error::{Error, Exit, Result};
use crate::report::chart::{MOST_CURVES, Scale};
use crate::report::charts::ChartContext;
use crate::report::charts::grid::{Grid, GridPicture};
use crate::report::findings::variation::curves_along;
use crate::report::picture::{Form, Size};
use crate::table::{Bin, Column, Filter, Points, Section};
use crate::units::show_many;
use clap::Subcommand;
use itertools::Itertools;
use std::path::PathBuf;

/// Draw line charts of any columns
///
/// Reads directories of vsweep and result trees of vLLM.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<OtherChart>,
    #[command(flatten)]
    directories: Directories,
    /// The column along the x axis: a parameter or a figure
    #[arg(
        long,
        visible_alias = "x",
        value_name = "COLUMN",
        default_value = "total_token_throughput"
    )]
    var_x: String,
    /// The column along the y axis
    #[arg(long, visible_alias = "y", value_name = "COLUMN", default_value = "median_ttft_ms")]
    var_y: String,
    /// Draw a chart for each combination of these columns (a,b,...)
    #[arg(long, value_name = "COLUMNS", default_value = "", hide_default_value = true)]
    fig_by: String,
    /// Draw a row of panels for each combination of these columns
    #[arg(long, value_name = "COLUMNS", default_value = "", hide_default_value = true)]
    row_by: String,
    /// Draw a column of panels for each combination of these columns
    #[arg(long, value_name = "COLUMNS", default_value = "", hide_default_value = true)]
    col_by: String,
    /// Draw a curve for each combination of these columns; points are medians over everything else that varies [default: every other
    /// parameter that varies]
    #[arg(long, value_name = "COLUMNS")]
    curve_by: Option<String>,
    /// Draw only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(
        long,
        visible_alias = "filter-by",
        value_name = "CONDITIONS",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// Put numbers into bins, as in max_concurrency%16: each becomes the lower edge of its bin
    #[arg(long, value_name = "BINS", default_value = "", hide_default_value = true)]
    bin_by: String,
    /// Spacing of the x axis [default: what suits the values]
    #[arg(long, value_name = "SCALE", value_parser = one_of(SCALES))]
    scale_x: Option<Scale>,
    /// Spacing of the y axis
    #[arg(long, value_name = "SCALE", value_parser = one_of(SCALES))]
    scale_y: Option<Scale>,
    /// First part of the charts' names
    #[arg(long, value_name = "NAME", default_value = "FIGURE")]
    fig_name: String,
    /// Folder of the charts, within DIR unless absolute; with several DIRs, within the current folder [default: charts, if DIR is an
    /// experiment]
    #[arg(short, long, visible_alias = "fig-dir", value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Leave out the bars
    #[arg(long)]
    no_error_bars: bool,
    /// Format of the charts
    #[arg(long, value_name = "FORMAT", default_value = "png", value_parser = one_of([("png", Form::Png), ("svg", Form::Svg)]))]
    format: Form,
    /// Height of each panel in inches
    #[arg(long, value_name = "INCHES", allow_negative_numbers = true, default_value_t = 6.4, value_parser = inches)]
    fig_height: f64,
    /// Pixels per inch; 300 is for print
    #[arg(long, value_name = "DPI", allow_negative_numbers = true, default_value_t = 150, value_parser = clap::value_parser!(u32).range(30..=1200))]
    fig_dpi: u32,
    /// Show what would be drawn, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Charts with flags of their own.
#[derive(Debug, Subcommand)]
enum OtherChart {
    Pareto(Box<pareto::Args>),
}

/// Scales of an axis.
const SCALES: [(&str, Scale); 3] = [
    ("linear", Scale::Linear),
    ("log", Scale::Log),
    ("symlog", Scale::Symlog),
];

/// Parses the height of a panel, in inches.
fn inches(text: &str) -> Result<f64, String> {
    number(text, "must be a number from 2 to 40", |inches| {
        (2.0..=40.0).contains(&inches)
    })
}

/// Units of length per inch, chosen so that text has the size that it has in a report's charts.
const UNITS_PER_INCH: f64 = 150.0;
/// Ratio of a panel's width to its height.
const ASPECT: f64 = 1.25;

pub fn run(mut args: Args) -> Result<Exit> {
    if let Some(OtherChart::Pareto(args)) = args.other {
        return pareto::run(*args);
    }
    args.directories = args.directories.settle()?;
    let filters = Filter::parse_list(&args.only).map_err(Error::Usage)?;
    let bins = Bin::parse_list(&args.bin_by).map_err(Error::Usage)?;
    let axes = [args.var_x.as_str(), args.var_y.as_str()];
    let mut experiments = args.directories.read(Some(&axes[..]), |_| Ok(()))?;
    let rows = choose(&experiments.table, &filters)?;
    for bin in &bins {
        bin.apply(&mut experiments.table).map_err(Error::Usage)?;
    }
    let mut points = Points::of(&experiments.table);
    points.keep(&rows);
    experiments.estimate(&mut points);
    let context = ChartContext {
        experiment: &args.directories.name(),
        points: &points,
    };
    let grid = grid(&args, &context, &bins).map_err(Error::Usage)?;
    let figures = grid.draw(&rows);
    warn(&figures);
    let panels = figures.iter().flat_map(|figure| &figure.chart.panels);
    let mut series = panels.flat_map(|panel| &panel.series);
    if series.all(|series| series.points.is_empty()) {
        return Err(Error::Usage(format!(
            "no run has values of {} and {} that such axes can show; choose other columns, or `--scale-y symlog` for zeros",
            args.var_x, args.var_y
        )));
    }
    let folder = match &args.output {
        Some(output) => args.directories.folder().join(output),
        None => args.directories.pictures(),
    };
    let height = args.fig_height * UNITS_PER_INCH;
    let size = Size {
        panel: Some((height * ASPECT, height)),
        density: f64::from(args.fig_dpi) / UNITS_PER_INCH,
    };
    let pictures = figures.iter().map(|figure| (figure.group.as_str(), &figure.chart));
    args.directories
        .deliver(&folder, pictures, (&size, args.format), args.dry_run)?;
    Ok(experiments.damage)
}

fn grid<'a>(args: &Args, context: &ChartContext<'a>, bins: &[Bin]) -> Result<Grid<'a>, String> {
    let runs = context.points.runs;
    let columns = |names: &str| {
        list(names)
            .map(|name| runs.known_column(name))
            .collect::<Result<Vec<&Column>, _>>()
    };
    let (fig_by, row_by, col_by) = (columns(&args.fig_by)?, columns(&args.row_by)?, columns(&args.col_by)?);
    let x = runs.known_column(&args.var_x)?;
    let y = runs.numeric_column(&args.var_y)?;
    let is_binned = |axis: &Column| {
        let mut binned = bins.iter().filter_map(|bin| runs.column(&bin.column));
        binned.any(|column| column.name == axis.name)
    };
    let x_is_setting = is_binned(x) || !matches!(x.section, Section::Metric | Section::Derived);
    if !x_is_setting {
        runs.numeric_column(&args.var_x)?;
    }
    let facets: Vec<&Column> = [&fig_by, &row_by, &col_by].into_iter().flatten().copied().collect();
    let (curve_by, over) = match args.curve_by.as_deref().map(str::trim) {
        Some("") => (Vec::new(), Vec::new()),
        Some(names) => {
            let mut asked = columns(names)?;
            let others = curves_along(context.points, x, asked.clone(), &facets).split_off(asked.len());
            let (workloads, over): (Vec<&Column>, _) = others.into_iter().partition(|column| column.is_of_workload());
            note_added_curves(&workloads);
            asked.extend(workloads);
            (asked, over)
        }
        None => (curves_along(context.points, x, Vec::new(), &facets), Vec::new()),
    };
    Ok(Grid {
        points: context.points,
        x,
        x_is_setting,
        y,
        fig_by,
        row_by,
        col_by,
        curve_by,
        over,
        scales: (args.scale_x, args.scale_y),
        // Estimates are of the measured figures, not of bins.
        has_estimates: !is_binned(y),
        error_bars: !args.no_error_bars,
        name: args.fig_name.clone(),
        footer: context.footer(),
    })
}

/// Prints the parameters for which curves were added without being requested.
fn note_added_curves(added: &[&Column]) {
    if !added.is_empty() {
        let names = added.iter().map(|column| &column.name).join(", ");
        print_note(format_args!(
            "{names} varies as well, so its values have curves of their own; use --only or --fig-by to part them, or \
             --curve-by \"\" for one curve through all"
        ));
    }
}

fn warn(figures: &[GridPicture]) {
    for figure in figures {
        let name = &figure.chart.name;
        let series = figure.chart.panels.iter().flat_map(|panel| &panel.series);
        let curves = series.map(|series| &series.name).unique().count();
        if curves > MOST_CURVES {
            print_note(format_args!(
                "{name} has {curves} curves, more than can be distinguished; use --curve-by, --row-by, --col-by or --only"
            ));
        }
        if figure.left_out > 0 {
            print_note(format_args!(
                "{name} leaves out {} without a number that its axes can show",
                show_many(figure.left_out as u64, "run")
            ));
        }
    }
}
