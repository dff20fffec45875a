//! A line chart that the plan asks for (`[[report.plot]]`).

use super::Subject;
use super::curves::{Request, draw};
use crate::report::chart::Chart;
use crate::report::effects::Findings;
use crate::report::variation::curves_along;
use crate::report::words::axis_title;
use vsweep_plan::plan::Plot;
use vsweep_record::table::Column;

/// The asked charts, or why they cannot be drawn: a curve for each combination of `curve_by`, else of
/// whatever varies.
pub fn charts(subject: &Subject<'_>, found: &Findings<'_>, plot: &Plot, number: usize) -> Result<Vec<Chart>, String> {
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
        is_asked: !asked.is_empty(),
        curve_by: match asked.is_empty() {
            true => curves_along(subject.points, x, asked, &[]),
            false => asked,
        },
    };
    draw(subject, &request, found)
}
