//! A line chart that the plan asks for (`[[report.plot]]`).

use super::Subject;
use super::curves::{Request, draw};
use crate::report::chart::Chart;
use crate::report::variation::curves_along;
use crate::report::words::axis_title;
use vsweep_plan::plan::Plot;
use vsweep_record::table::Column;

/// The asked charts, or why they cannot be drawn: a curve for each combination of `curve_by` and of whatever else varies.
pub fn charts(subject: &Subject<'_>, plot: &Plot, number: usize) -> Result<Vec<Chart>, String> {
    let runs = subject.points.runs;
    let column = |name: &str| {
        let found = runs.column(name);
        found.ok_or_else(|| format!("there is no column {name}; summary.csv has them all"))
    };
    let x = column(&plot.x)?;
    let y = column(&plot.y)?;
    let asked = plot.curve_by.iter().map(|name| column(name));
    let asked: Vec<&Column> = asked.collect::<Result<_, _>>()?;
    let request = Request {
        name: format!("plot_{number}"),
        title: format!("{} against {}", axis_title(&y.name), axis_title(&x.name)),
        x,
        ys: std::slice::from_ref(&y.name),
        curve_by: curves_along(subject.points, x, asked, &[]),
    };
    draw(subject, &request)
}
