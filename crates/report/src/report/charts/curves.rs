//! Line charts over a swept parameter: a picture for each workload, a curve for each combination of settings, in several panels before
//! they become unreadable. What is not asked for is drawn as its median, in a band from the lowest to the highest.

use super::ladder::{Ladder, scale_of_figures};
use super::multiples::{Arranged, Curve, arrange};
use super::{Subject, numbered, of_workload};
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style};
use crate::report::effects::{Findings, Mattered};
use crate::report::variation::{name_workload, swept, varying, within};
use crate::report::words::{axis_title, short_name};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_metrics::metrics::median;
use vsweep_record::table::{Column, Point, Points, Workload};

/// From the lower to the upper end of an interval that is drawn, at the most.
const WIDEST: f64 = 10.0;

/// What to draw against what.
pub struct Request<'a> {
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
    /// Whether these were asked for: then their order says which matters most, and not what was measured.
    pub is_asked: bool,
}

/// Panels beside each other where there is but one metric.
const MOST_COLUMNS: usize = 3;

/// The charts that the request takes, or why there is none.
pub fn draw(subject: &Subject<'_>, request: &Request<'_>, found: &Findings<'_>) -> Result<Vec<Chart>, String> {
    let points = subject.points;
    for y in request.ys {
        if !points.points.iter().any(|point| points.spread(point, y).is_some()) {
            return Err(format!("no run has a number for {y}"));
        }
    }
    let is_measured = |workload: &Workload<'_>| workload.points.iter().any(|at| !points.points[*at].used.is_empty());
    let workloads = points.workloads();
    let measured = workloads
        .iter()
        .enumerate()
        .filter(|(_, workload)| is_measured(workload));
    let varied = varying(points);
    let pictures =
        measured.map(|(place, workload)| picture(subject, request, (workload, &varied), found.of_workload(place)));
    let mut pictures = numbered(&request.name, pictures.collect());
    pictures.retain(|picture| !picture.panels.is_empty());
    Ok(pictures)
}

fn picture(
    subject: &Subject<'_>,
    request: &Request<'_>,
    (workload, varied): (&Workload<'_>, &[&Column]),
    found: &[Mattered<'_>],
) -> Chart {
    let points = subject.points;
    let own = workload.points.iter().map(|at| &points.points[*at]);
    let own: Vec<&Point> = own.filter(|point| !point.used.is_empty()).collect();
    let arranged = arrange(&own, columns(request, workload, &own, found));
    // What was not measured under this workload, or says nothing of it, has no panel.
    let yardstick = Yardstick::of(points, workload);
    let is_drawn = |y: &&String| yardstick.knows(y) && own.iter().any(|point| points.spread(point, y).is_some());
    let ys: Vec<&String> = request.ys.iter().filter(is_drawn).collect();
    let ladder = Ladder::of(own.iter().map(|point| &request.x.cells[point.row]), None);
    let traced = match request.x.section.is_parameter() {
        true => Some(request.x),
        false => swept(points, &within(varied, workload).collect::<Vec<_>>()),
    };
    let sketch = Sketch {
        points,
        request,
        ladder: &ladder,
        traced,
    };
    let groups = arranged.panels.iter();
    let mut panels: Vec<Panel> = groups
        .flat_map(|(title, curves)| ys.iter().map(|y| sketch.panel(title, curves, y)))
        .collect();
    share_scale(&mut panels);
    share_extent(&mut panels, ys.len());
    let is_banded = panels
        .iter()
        .flat_map(|panel| &panel.series)
        .any(|series| matches!(series.style, Style::Band(_)));
    let is_told = |column: &&Column| {
        let mut told = arranged.told.iter().copied().chain([request.x]).chain(traced);
        !told.any(|told| told.name == column.name)
    };
    let others: Vec<&Column> = within(varied, workload).filter(is_told).collect();
    let title = of_workload(&request.title, &name_workload(points, workload));
    let note = note(subject, &arranged, is_banded.then_some(others));
    Chart {
        columns: match ys.len() {
            0 | 1 => arranged.panels.len().clamp(1, MOST_COLUMNS),
            metrics => metrics,
        },
        ..subject.chart(title, note, panels)
    }
}

/// The parameters that make curves in this workload, the one that matters most first.
fn columns<'a>(
    request: &Request<'a>,
    workload: &Workload<'_>,
    own: &[&Point],
    found: &[Mattered<'_>],
) -> Vec<&'a Column> {
    // What is unset wherever something was measured tells no curve from another.
    let is_drawn = |column: &&Column| {
        let is_shared = workload.settings.iter().any(|shared| shared.name == column.name);
        !is_shared && own.iter().any(|point| !column.cells[point.row].is_missing())
    };
    let mut columns: Vec<&Column> = request.curve_by.iter().copied().filter(is_drawn).collect();
    if let Some(found) = found.first().filter(|_| !request.is_asked) {
        found.sort(&mut columns);
    }
    columns
}

fn note(subject: &Subject<'_>, arranged: &Arranged<'_>, others: Option<Vec<&Column>>) -> String {
    let mut note = subject.reading().to_owned();
    if let Some(others) = others {
        let over = others.iter().map(|column| short_name(&column.name)).join(" and ");
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

/// Panels side by side are read against each other, so where one needs a logarithmic axis all have one, if they can.
fn share_scale(panels: &mut [Panel]) {
    let needs_log = panels.iter().any(|panel| panel.y.scale == Scale::Log);
    let is_positive = |panel: &Panel| {
        let marks = panel.series.iter().flat_map(|series| &series.points);
        marks
            .map(|mark| mark.bar.map_or(mark.y, |(low, _)| low))
            .all(|low| low > 0.0)
    };
    if needs_log && panels.iter().all(is_positive) {
        for panel in panels {
            panel.y.scale = Scale::Log;
        }
    }
}

/// Panels of one metric have one extent, so that they can be compared.
fn share_extent(panels: &mut [Panel], metrics: usize) {
    if panels.len() <= metrics || metrics == 0 {
        return;
    }
    for metric in 0..metrics {
        let own = || panels.iter().skip(metric).step_by(metrics);
        let marks = || own().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let ends = |mark: &Mark| mark.bar.map_or([mark.y; 2], |(low, high)| [low, high]);
        let extent =
            |values: &mut dyn Iterator<Item = f64>| values.filter(|value| value.is_finite()).minmax().into_option();
        let (x, y) = (
            extent(&mut marks().map(|mark| mark.x)),
            extent(&mut marks().flat_map(ends)),
        );
        let is_log = own().any(|panel| panel.y.scale == Scale::Log) && marks().flat_map(ends).all(|value| value > 0.0);
        for panel in panels.iter_mut().skip(metric).step_by(metrics) {
            (panel.x.covers, panel.y.covers) = (x, y);
            if is_log {
                panel.y.scale = Scale::Log;
            }
        }
    }
}

/// What all panels of a picture share.
struct Sketch<'a> {
    points: &'a Points<'a>,
    request: &'a Request<'a>,
    ladder: &'a Ladder,
    /// The parameter along a curve.
    traced: Option<&'a Column>,
}

impl Sketch<'_> {
    fn panel(&self, title: &str, curves: &[Curve<'_>], y: &str) -> Panel {
        let x = self.request.x;
        let drawn = curves.iter().map(|curve| (curve, self.marks(curve, y)));
        let drawn: Vec<(&Curve<'_>, Vec<(Mark, bool)>)> = drawn.collect();
        let bands = drawn.iter().filter_map(|(curve, marks)| {
            let is_banded = marks.iter().any(|(_, is_median)| *is_median);
            let points = marks.iter().map(|(mark, _)| mark.clone()).collect();
            is_banded.then_some(Series {
                name: String::new(),
                style: Style::Band(curve.number),
                points,
            })
        });
        let lines = drawn.iter().map(|(curve, marks)| Series {
            name: curve.name.clone(),
            style: Style::Curve(curve.number),
            points: marks
                .iter()
                .map(|(mark, is_median)| Mark {
                    bar: mark.bar.filter(|_| !is_median),
                    ..mark.clone()
                })
                .collect(),
        });
        let series: Vec<Series> = bands.chain(lines).collect();
        let values = series.iter().flat_map(|series| &series.points).map(|mark| mark.y);
        Panel {
            title: title.to_owned(),
            y: Axis::of(axis_title(y), scale_of_figures(values)),
            x: Axis {
                ticks: match x.section.is_parameter() {
                    true => self.ladder.ticks.clone(),
                    false => Vec::new(),
                },
                ..Axis::of(axis_title(&x.name), self.ladder.scale)
            },
            series,
        }
    }

    /// The marks of a curve from left to right, and whether each stands for several points.
    fn marks(&self, curve: &Curve<'_>, y: &str) -> Vec<(Mark, bool)> {
        let mut places: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
        for point in &curve.points {
            // Without a parameter along the curve each point stands for itself.
            let key = self
                .traced
                .map_or(point.id.to_string(), |traced| traced.cells[point.row].to_string());
            places.entry(key).or_default().push(point);
        }
        let marks = places.values().filter_map(|points| self.mark(points, y));
        marks.sorted_by(|(a, _), (b, _)| a.x.total_cmp(&b.x)).collect()
    }

    fn mark(&self, together: &[&Point], y: &str) -> Option<(Mark, bool)> {
        let x = &self.request.x;
        let place = |point: &Point| match x.section.is_parameter() {
            true => self.ladder.place(&x.cells[point.row]),
            false => self.points.spread(point, &x.name).map(|spread| spread.median),
        };
        let spread = |point: &Point| {
            let spread = self.points.spread(point, y)?;
            (spread.min.is_finite() && spread.max.is_finite()).then_some(spread)
        };
        let placed = together
            .iter()
            .filter_map(|point| Some((place(point)?, spread(point)?, *point)));
        let placed: Vec<_> = placed.collect();
        let reach = match &placed[..] {
            [] => return None,
            // What spans anything says nothing, and would squeeze all else.
            [(_, only, _)] if only.interval.is_some_and(|(low, high)| high > WIDEST * low) => {
                (only.median, only.median)
            }
            [(_, only, _)] => only.reach(),
            several => several
                .iter()
                .map(|(_, spread, _)| spread.median)
                .minmax()
                .into_option()?,
        };
        let mark = Mark {
            x: median(placed.iter().map(|(x, _, _)| *x))?,
            y: median(placed.iter().map(|(_, spread, _)| spread.median))?,
            bar: Some(reach).filter(|(low, high)| high > low && high.is_finite()),
            label: Vec::new(),
            suspect: placed.iter().any(|(_, _, point)| point.is_suspect()),
        };
        Some((mark, placed.len() > 1))
    }
}
