//! A comparison as one offline page. Its text comes from `page.html.jinja`; here is what goes into it.

use super::{Comparison, HEADS, Side, cells, frontiers, percent, requirement_name, show_limit, tally, verdict_name};
use crate::report::html::STYLE;
use crate::report::picture::{Form, render};
use minijinja::{AutoEscape, Environment, Value, context};
use vsweep_plan::printable::printable_lines;
use vsweep_plan::units::show_many;

const PAGE: &str = include_str!("page.html.jinja");

/// The tally first, then limits, both frontiers, a table for each point, and what else changed.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn to_html(comparison: &Comparison, base: &Side, new: &Side) -> Result<String, String> {
    let mut pictures = Vec::new();
    for chart in frontiers::charts(base, new) {
        let svg = render(&chart, Form::Svg)?;
        let svg = String::from_utf8(svg).map_err(|error| error.to_string())?;
        pictures.push(context! { title => shown(&chart.title), svg => Value::from_safe_string(svg) });
    }
    let limits = comparison.limits.iter().map(|judged| {
        let result = requirement_name(judged.requirement);
        context! {
            cells => [show_limit(&judged.limit), shown(&judged.settings), percent(judged.ratio), format!("{:.3}", judged.p_value)],
            result,
        }
    });
    let points = comparison.points.iter().map(|pair| {
        let rows = pair.figures.iter().map(|figure| {
            let cells: Vec<String> = cells(figure).iter().map(|cell| shown(cell)).collect();
            context! { cells, verdict => verdict_name(figure.verdict) }
        });
        context! { settings => shown(&pair.settings), rows => rows.collect::<Vec<Value>>() }
    });
    let lone = [(&comparison.only_base, "base"), (&comparison.only_new, "new")];
    let lone = lone.into_iter().filter(|(settings, _)| !settings.is_empty());
    let lone = lone.map(|(settings, side)| format!("{} in {side} only", show_many(settings.len() as u64, "point")));
    let changes = comparison.changes.iter();
    let changes = changes.map(|change| [shown(&change.name), shown(&change.base), shown(&change.new)]);
    let mut page = Environment::new();
    page.set_auto_escape_callback(|_| AutoEscape::Html);
    let context = context! {
        style => Value::from_safe_string(STYLE.to_owned()),
        base => shown(&comparison.base),
        new => shown(&comparison.new),
        tally => tally(comparison),
        notes => comparison.notes().iter().map(|note| shown(note)).collect::<Vec<String>>(),
        heads => HEADS,
        limits => limits.collect::<Vec<Value>>(),
        pictures,
        points => points.collect::<Vec<Value>>(),
        lone => lone.collect::<Vec<String>>(),
        changes => changes.collect::<Vec<_>>(),
    };
    page.render_str(PAGE, context).map_err(|error| error.to_string())
}

fn shown(text: &str) -> String {
    printable_lines(text).into_owned()
}
