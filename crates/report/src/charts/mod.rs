//! Chooses the charts of an experiment, one file for each kind. Everything here is data: see [`super::chart`].

pub mod bars;
pub(super) mod cdf;
pub mod compared;
mod curves;
pub mod effects;
pub(super) mod explore;
pub mod families;
pub mod grid;
pub(super) mod multiples;
pub mod optimization;
pub mod pareto;
mod roofline;
pub mod sla;
mod standard;
mod startup;
mod x_axis;

use super::chart::{Chart, Mark, Panel};
use super::findings::answer::Answers;
use super::findings::ranking::Ranking;
use itertools::Itertools;
use vsweep_base::units::show_many;
use vsweep_base::validity::Validity;
use vsweep_plan::ReportOptions;
use vsweep_record::journal::State;
use vsweep_record::table::{Cell, Column, Point, Points, Spread};

/// Data common to all charts of a report.
#[derive(Debug)]
pub struct ChartContext<'a> {
    /// Name of the experiment.
    pub experiment: &'a str,
    /// Its points.
    pub points: &'a Points<'a>,
}

/// The charts to draw, and a sentence for each that was expected but cannot be drawn.
#[derive(Debug, Default)]
pub struct Charts {
    /// The charts, in the order of a report.
    pub charts: Vec<Chart>,
    /// Reasons for missing charts.
    pub missing: Vec<String>,
}

/// Maximum number of pictures of one kind.
const MOST_PICTURES: usize = 8;

/// The standard charts, then those that the plan asks for. `recommended` are indices of points.
pub fn make_charts(subject: &ChartContext<'_>, options: &ReportOptions, recommended: &[usize]) -> Charts {
    let mut charts = Charts::default();
    if subject.points.points.iter().all(|point| point.used.is_empty()) {
        charts
            .missing
            .push("no run was measured to its end, or all are invalid, so there is nothing to draw".into());
        return charts;
    }
    let ranking = Ranking::of(subject.points);
    let families = families::of_each(subject, &ranking, recommended).into_iter().flatten();
    // With a single point there is nothing to compare.
    if subject.points.points.len() > 1 {
        charts.add(
            "Pareto chart",
            pareto::charts(subject, &options.pareto_label_by, recommended),
        );
        charts.charts.extend(numbered("families", families.collect()));
        charts.add("latency charts", standard::latency(subject, &ranking));
        charts.add("throughput chart", standard::throughput(subject, &ranking));
    }
    charts.charts.extend(startup::charts(subject));
    charts.charts.extend(roofline::charts(subject, recommended));
    for (i, plot) in options.plots.iter().enumerate() {
        let what = format!("plot {} of the plan ({} against {})", i + 1, plot.y, plot.x);
        charts.add(&what, standard::requested(subject, &ranking, plot, i + 1));
    }
    charts
}

/// The charts of an answer: what a comparison found, how an optimisation went, and the effect of each setting at the recommended point.
pub fn make_answer_charts(subject: &ChartContext<'_>, answers: &Answers, state: &State) -> Vec<Chart> {
    let compared = compared::chart(subject, &answers.document, state).into_iter();
    let optimized = optimization::chart(subject, &answers.document);
    let effects = effects::of_each(subject, answers).into_iter().flatten();
    compared
        .chain(optimized)
        .chain(numbered("effects", effects.collect()))
        .collect()
}

/// Keeps the first [`MOST_PICTURES`] charts of a kind, and names them. The last one says if there were more.
fn numbered(name: &str, mut charts: Vec<Chart>) -> Vec<Chart> {
    let count = charts.len();
    charts.truncate(MOST_PICTURES);
    for (number, chart) in (1..).zip(&mut charts) {
        chart.name = match count {
            1 => name.to_owned(),
            _ => format!("{name}_{number}"),
        };
    }
    if let Some(last) = charts.last_mut().filter(|_| count > MOST_PICTURES) {
        last.note += " Further workloads are not drawn; all figures are in points.csv.";
    }
    charts
}

/// A title with the workload that it is about, if there are several.
fn of_workload(title: &str, workload: &str) -> String {
    match workload {
        "" => title.to_owned(),
        workload => format!("{title}, {workload}"),
    }
}

/// Gives the panels `first`, `first + step`, … axes of equal extent, so that these panels can be compared.
fn share_extent(panels: &mut [Panel], first: usize, step: usize) {
    let marks = || panels.iter().skip(first).step_by(step).flat_map(Panel::marks);
    let finite = |value: &f64| value.is_finite();
    let x = marks().map(|mark| mark.x).filter(finite).minmax().into_option();
    let y = marks().flat_map(Mark::ends).filter(finite).minmax().into_option();
    for panel in panels.iter_mut().skip(first).step_by(step) {
        (panel.x.covers, panel.y.covers) = (x, y);
    }
}

/// Greatest ratio of the ends of an interval that is drawn.
const WIDEST: f64 = 10.0;

/// The error bar of a figure. A very wide interval has none, because it would compress everything else.
fn bar_of(spread: &Spread) -> Option<(f64, f64)> {
    let is_too_wide = spread.interval.is_some_and(|(low, high)| high > WIDEST * low);
    (!is_too_wide).then(|| spread.reach())
}

/// The marks of a curve, each given by its point and its position. If the load is given, at most `most` marks are labelled with it.
fn labelled<'p>(
    curve: impl ExactSizeIterator<Item = (&'p Point, f64, f64)>,
    load: Option<&Column>,
    most: usize,
) -> Vec<Mark> {
    let step = curve.len().div_ceil(most);
    let mark = |(i, (point, x, y)): (usize, (&Point, f64, f64))| {
        let load = load.filter(|_| i.is_multiple_of(step));
        let load = load.map(|load| load.cells.at(point.row).to_string());
        Mark {
            label: load.into_iter().collect(),
            suspect: point.is_suspect(),
            ..Mark::at(x, y)
        }
    };
    curve.enumerate().map(mark).collect()
}

/// Repeats as one mark: the means of both figures, and a bar from the lowest to the highest of the second.
fn mean_of(repeats: &[(f64, f64)]) -> Mark {
    let mean = |figures: &mut dyn Iterator<Item = f64>| figures.sum::<f64>() / repeats.len() as f64;
    let ys = || repeats.iter().map(|(_, y)| *y);
    Mark {
        bar: ys().minmax().into_option().filter(|_| repeats.len() > 1),
        ..Mark::at(mean(&mut repeats.iter().map(|(x, _)| *x)), mean(&mut ys()))
    }
}

impl Charts {
    fn add(&mut self, what: &str, made: Result<Vec<Chart>, String>) {
        match made {
            Ok(made) => self.charts.extend(made),
            Err(reason) => self.missing.push(format!("{what} left out: {reason}")),
        }
    }
}

impl ChartContext<'_> {
    /// Returns true if a point is one of those with the indices `places`.
    fn is_among(&self, point: &Point, places: &[usize]) -> bool {
        places.iter().any(|at| self.points.points[*at].row == point.row)
    }

    /// A chart with its panels side by side, still without a name.
    fn chart(&self, title: String, note: String, panels: Vec<Panel>) -> Chart {
        let has_hollow = panels.iter().flat_map(Panel::marks).any(|mark| mark.suspect);
        Chart {
            name: String::new(),
            title,
            note,
            footer: self.footer_with(has_hollow),
            simulated: self.is_simulated(),
            columns: panels.len(),
            panels,
        }
    }

    /// The line below a chart of all points: experiment and runs per point.
    pub fn footer(&self) -> String {
        self.footer_with(self.points.points.iter().any(Point::is_suspect))
    }

    /// Returns the footer of a chart, which explains hollow points if there are any.
    fn footer_with(&self, has_hollow: bool) -> String {
        let counts = self.points.points.iter().map(|point| point.used.len());
        let runs = match counts.filter(|count| *count > 0).minmax().into_option() {
            // No point has a run that counts: there are only probes that were cut short.
            None => return self.footer_of_runs(),
            Some((1, 1)) => "1 run per point".to_owned(),
            Some((least, most)) if least == most => format!("{most} runs per point"),
            Some((least, most)) => format!("{least} to {most} runs per point"),
        };
        let points = self.points.points.iter();
        let invalid = points.filter(|point| point.validity == Some(Validity::Invalid));
        let invalid = invalid.count() as u64;
        self.footer_of([
            Some(runs),
            has_hollow.then(|| "hollow: suspect".to_owned()),
            (invalid > 0).then(|| format!("{} left out", show_many(invalid, "invalid point"))),
        ])
    }

    /// The line below a chart of searches. It does not count runs per point, because searches choose themselves what to repeat.
    fn footer_of_runs(&self) -> String {
        self.footer_of([Some(show_many(self.points.runs.rows() as u64, "run"))])
    }

    /// A line with the experiment, `facts`, and the version of vsweep that drew the chart.
    fn footer_of(&self, facts: impl IntoIterator<Item = Option<String>>) -> String {
        let facts = facts.into_iter().flatten();
        let version = format!("vsweep {}", env!("CARGO_PKG_VERSION"));
        let experiment = self.experiment.to_owned();
        [experiment].into_iter().chain(facts).chain([version]).join(" · ")
    }

    /// A chart of searches. `part` counts the charts that share `name`, from 0; the names of all but the first end in a number.
    fn search_chart(&self, name: &str, part: usize, title: String, note: &str, panels: Vec<Panel>) -> Chart {
        Chart {
            name: match part {
                0 => name.to_owned(),
                part => format!("{name}_{}", part + 1),
            },
            footer: self.footer_of_runs(),
            ..self.chart(title, note.to_owned(), panels)
        }
    }

    fn is_simulated(&self) -> bool {
        let points = self.points;
        let mut all = points.points.iter();
        all.any(|point| points.param(point, "simulated") == Cell::Bool(true))
    }

    /// The meaning of the figures and bars of a chart of these metrics.
    fn reading(&self, metrics: &[&String]) -> &'static str {
        let points = || self.points.points.iter();
        let repeated = points().any(|point| point.used.len() > 1);
        let judged = metrics.iter().filter(|metric| self.points.judges(metric)).count();
        if judged > 0 && judged == metrics.len() {
            "Points are estimates, bars their 95 % intervals, unless these span more than a factor of ten."
        } else if judged > 0 {
            "Points are estimates, bars their 95 % intervals, unless these span more than a factor of ten; of metrics that the answer does not \
             judge, medians over runs and their range."
        } else if repeated {
            "Points are medians over runs, bars reach from the lowest to the highest run."
        } else {
            "Each point is a single run."
        }
    }
}
