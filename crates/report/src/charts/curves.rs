//! Line charts over a swept parameter: a picture for each workload, a curve for each combination of settings, in several panels if a single
//! one would be unreadable. Points that differ only in other parameters are drawn as their median, in a band from the lowest to the
//! highest.

use super::multiples::{Curve, MOST_READ, PanelLayout, arrange, count, groups, without};
use super::x_axis::{XAxis, scale_of_figures};
use super::{ChartContext, bar_of, numbered, of_workload, share_extent};
use crate::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::findings::ranking::{Ranking, sort};
use crate::findings::variation::{name_workload, swept, varying, within};
use crate::ordered::Ordered;
use crate::texts::words::{axis_title, short_name};
use itertools::Itertools;
use vsweep_metrics::median;
use vsweep_record::table::{Column, MetricSet, Point, Points, Workload};

/// Columns to draw against each other.
pub struct Lines<'a> {
    /// File name of the chart.
    pub name: String,
    /// Title of the chart.
    pub title: String,
    /// Column along the x axis.
    pub x: &'a Column,
    /// One panel for each of these metrics.
    pub ys: &'a [String],
    /// Parameters whose combinations make the curves; each workload has a picture of its own in any case.
    pub curve_by: Vec<&'a Column>,
    /// True if the user chose `curve_by`. Its order then decides which parameter is most important, instead of the measurements.
    pub is_curve_by_chosen: bool,
}

/// Smallest share of places at which curves must agree to be merged.
const ALIKE: f64 = 0.8;
/// Greatest factor between the ends of two intervals that count as overlapping. A smaller gap cannot be seen in a chart.
const NEARLY: f64 = 1.1;
/// Greatest number of panels in a row if there is only one metric.
const MOST_COLUMNS: usize = 3;

/// The charts that show these lines: one for each workload with measured points.
pub fn draw(subject: &ChartContext<'_>, lines: &Lines<'_>, ranking: &Ranking) -> Vec<Chart> {
    let points = subject.points;
    let varied = varying(points);
    let workloads = points.workloads();
    let pictures = workloads.iter().enumerate().filter_map(|(place, workload)| {
        let used = workload.points.iter().map(|at| &points.points[*at]);
        let used: Vec<&Point> = used.filter(|point| !point.used.is_empty()).collect();
        let varied = within(&varied, workload).collect_vec();
        (!used.is_empty()).then(|| picture(subject, lines, workload, &used, &varied, ranking.of_workload(place)))
    });
    let mut pictures = numbered(&lines.name, pictures.collect());
    pictures.retain(|picture| !picture.panels.is_empty());
    pictures
}

/// Draws one workload from its measured points and the parameters that distinguish them.
fn picture(
    subject: &ChartContext<'_>,
    lines: &Lines<'_>,
    workload: &Workload<'_>,
    measured: &[&Point],
    varied: &[&Column],
    ranked: &[String],
) -> Chart {
    let points = subject.points;
    // Metrics that were not measured under this workload, or do not apply to it, have no panel.
    let metric_set = MetricSet::of(points, workload);
    let is_drawn = |y: &&String| metric_set.knows(y) && measured.iter().any(|point| points.spread(point, y).is_some());
    let ys: Vec<&String> = lines.ys.iter().filter(is_drawn).collect();
    let is_setting = lines.x.section.is_parameter();
    let chart = CurveChart {
        points,
        along: XAxis::of(lines.x, is_setting, measured.iter().map(|point| point.row), None),
        traced: match is_setting {
            true => Some(lines.x),
            false => swept(points, varied),
        },
    };
    let mut curve_by = columns(lines, workload, measured, ranked);
    if !lines.is_curve_by_chosen {
        chart.merge_alike(&mut curve_by, measured, &ys);
    }
    let arranged = arrange(measured, curve_by);
    let groups = arranged.panels.iter();
    let mut panels: Vec<Panel> = groups
        .flat_map(|(title, curves)| ys.iter().map(|y| chart.panel(title, curves, y)))
        .collect();
    share_scale(&mut panels);
    if arranged.panels.len() > 1 {
        (0..ys.len()).for_each(|metric| share_extent(&mut panels, metric, ys.len()));
    }
    let title = of_workload(&lines.title, &name_workload(points, workload));
    let note = note(subject, &arranged, &ys, &chart, &panels, varied);
    Chart {
        columns: match ys.len() {
            0 | 1 => arranged.panels.len().clamp(1, MOST_COLUMNS),
            metrics => metrics,
        },
        ..subject.chart(title, note, panels)
    }
}

/// The parameters that make curves in this workload, the one that matters most first.
fn columns<'a>(lines: &Lines<'a>, workload: &Workload<'_>, measured: &[&Point], ranked: &[String]) -> Vec<&'a Column> {
    // A parameter that is unset, or the same, wherever something was measured distinguishes no curves.
    let differs = |column: &&Column| {
        let mut set = measured.iter().map(|point| column.cells.at(point.row));
        let is_set = set.clone().any(|cell| !cell.is_missing());
        is_set && !set.all_equal()
    };
    let mut columns: Vec<&Column> = within(&lines.curve_by, workload).filter(differs).collect();
    if !lines.is_curve_by_chosen {
        sort(&mut columns, ranked);
    }
    columns
}

fn note(
    subject: &ChartContext<'_>,
    arranged: &PanelLayout<'_>,
    ys: &[&String],
    chart: &CurveChart<'_>,
    panels: &[Panel],
    varied: &[&Column],
) -> String {
    let mut note = subject.reading(ys).to_owned();
    let mut series = panels.iter().flat_map(|panel| &panel.series);
    if series.any(|series| matches!(series.style, Style::Band(_))) {
        let named = arranged
            .distinct_by
            .iter()
            .copied()
            .chain([chart.along.column])
            .chain(chart.traced);
        let others = varied
            .iter()
            .filter(|column| !named.clone().any(|other| other.name == column.name));
        let over = others.map(|column| short_name(&column.name)).join(" and ");
        let over = if over.is_empty() {
            "points of equal settings"
        } else {
            &over
        };
        note = format!("Curves are medians over {over}; their bands reach from the lowest to the highest.");
    }
    if arranged.left_out > 0 {
        note += " Some panels are not drawn; all figures are in points.csv.";
    }
    note
}

/// Gives all panels a logarithmic vertical axis if one of them needs it and all values are positive, so that they can be compared.
fn share_scale(panels: &mut [Panel]) {
    let needs_log = panels.iter().any(|panel| panel.y.scale == Scale::Log);
    let is_positive = |panel: &Panel| panel.marks().all(|mark| mark.ends()[0] > 0.0);
    if needs_log && panels.iter().all(is_positive) {
        for panel in panels {
            panel.y.scale = Scale::Log;
        }
    }
}

/// Data common to all panels of a picture.
struct CurveChart<'a> {
    points: &'a Points<'a>,
    /// The horizontal axis.
    along: XAxis<'a>,
    /// The parameter that varies along a curve, if there is one.
    traced: Option<&'a Column>,
}

impl CurveChart<'_> {
    /// Removes parameters that make no difference to the curves, the least important first, while there are more curves than a reader can
    /// follow.
    fn merge_alike(&self, curve_by: &mut Vec<&Column>, measured: &[&Point], ys: &[&String]) {
        let Some(traced) = self.traced else { return };
        for column in curve_by.clone().into_iter().rev() {
            let rest = without(curve_by, Some(column));
            if count(measured, curve_by) <= MOST_READ || rest.is_empty() {
                return;
            }
            let along = rest.iter().copied().chain([traced]).collect_vec();
            let places = groups(measured, &along, |point| point.row);
            let merged = places.iter().filter(|points| points.len() > 1).collect_vec();
            let agrees = |y: &&&String| {
                let alike = merged.iter().filter(|points| self.are_alike(points, y)).count();
                alike as f64 >= ALIKE * merged.len() as f64
            };
            // A median over curves that differ in one of the figures would hide the difference.
            if ys.iter().all(|y| agrees(&y)) {
                *curve_by = rest;
            }
        }
    }

    /// True if the intervals of a figure have a value in common at all these points, or nearly so.
    fn are_alike(&self, points: &[&Point], y: &str) -> bool {
        let spreads = points.iter().filter_map(|point| self.points.spread(point, y));
        let reach = spreads.map(|spread| spread.reach());
        let (low, high) = reach.fold((f64::MIN, f64::MAX), |(low, high), ends| {
            (low.max(ends.0), high.min(ends.1))
        });
        low <= high * NEARLY
    }

    fn panel(&self, title: &str, curves: &[Curve<'_>], y: &str) -> Panel {
        let (mut bands, mut lines) = (Vec::new(), Vec::new());
        for curve in curves {
            let (mut marks, is_banded) = self.marks(curve, y);
            if is_banded {
                bands.push(Series::new("", Style::Band(curve.number), marks.clone()));
                marks.iter_mut().for_each(|mark| mark.bar = None);
            }
            lines.push(Series::new(&curve.name, Style::Curve(curve.number), marks));
        }
        let values = lines.iter().flat_map(|line| &line.points).map(|mark| mark.y);
        Panel {
            title: title.to_owned(),
            y: Axis::of(axis_title(y), scale_of_figures(values)),
            x: self.along.axis(),
            series: bands.into_iter().chain(lines).collect(),
        }
    }

    /// Returns the marks of a curve from left to right, and true if any of them combines several points.
    fn marks(&self, curve: &Curve<'_>, y: &str) -> (Vec<Mark>, bool) {
        // Without a parameter along the curve every point has its own mark.
        let places = match self.traced {
            Some(traced) => groups(&curve.points, &[traced], |point| point.row),
            None => curve.points.iter().map(|point| vec![*point]).collect(),
        };
        let marks = places.iter().filter_map(|points| self.mark(points, y));
        let marks = marks.ordered_by(|(a, _), (b, _)| a.x.total_cmp(&b.x)).collect_vec();
        let is_banded = marks.iter().any(|(_, points)| *points > 1);
        (marks.into_iter().map(|(mark, _)| mark).collect(), is_banded)
    }

    /// The mark of the points at one place, and the number of points in it.
    fn mark(&self, together: &[&Point], y: &str) -> Option<(Mark, usize)> {
        let spread = |point: &Point| {
            let spread = self.points.spread(point, y)?;
            (spread.min.is_finite() && spread.max.is_finite()).then_some(spread)
        };
        let place = |point: &Point| match self.along.is_setting {
            true => self.along.place(&point.used),
            false => Some(self.points.spread(point, &self.along.column.name)?.value),
        };
        let placed = |point: &&Point| Some((place(point)?, spread(point)?, point.is_suspect()));
        let placed = together.iter().filter_map(placed).collect_vec();
        let medians = || placed.iter().map(|(_, spread, _)| spread.value);
        let reach = match &placed[..] {
            [(_, only, _)] => bar_of(only),
            _ => medians().minmax().into_option(),
        };
        let mark = Mark {
            bar: reach.filter(|(low, high)| high > low && high.is_finite()),
            suspect: placed.iter().any(|(.., is_suspect)| *is_suspect),
            ..Mark::at(median(placed.iter().map(|(x, _, _)| *x))?, median(medians())?)
        };
        Some((mark, placed.len()))
    }
}
