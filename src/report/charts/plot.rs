//! A line chart that the plan asks for (`[[report.plot]]`).

use super::Subject;
use super::curves::{Request, draw};
use crate::plan::Plot;
use crate::report::chart::Chart;
use crate::report::variation::varying;
use crate::report::words::axis_title;
use crate::table::Column;

/// The asked chart, or why it cannot be drawn. Without `curve_by`, every combination of the other varying parameters
/// is a curve.
pub fn charts(subject: &Subject<'_>, plot: &Plot, number: usize) -> Result<Vec<Chart>, String> {
    let runs = subject.points.runs;
    let column = |name: &str| {
        let found = runs.column(name);
        found.ok_or_else(|| format!("there is no column {name}; summary.csv has them all"))
    };
    let x = column(&plot.x)?;
    let y = column(&plot.y)?;
    let curve_by: Vec<&Column> = if plot.curve_by.is_empty() {
        let params = varying(subject.points).into_iter();
        params.filter(|column| column.name != x.name).collect()
    } else {
        plot.curve_by
            .iter()
            .map(|name| column(name))
            .collect::<Result<_, _>>()?
    };
    let request = Request {
        name: format!("plot_{number}"),
        title: format!("{} against {}", axis_title(&y.name), axis_title(&x.name)),
        x,
        ys: std::slice::from_ref(&y.name),
        curve_by,
    };
    draw(subject, &request)
}
