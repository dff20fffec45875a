//! A comparison as one offline page. Its text comes from `page.html.jinja`; here is what goes into it.

use super::{Comparison, HEADS, Side, cells, frontiers, percent, requirement_name, show_limit, tally, verdict_name};
use crate::report::html::STYLE;
use crate::report::html::text::{self, safe};
use crate::report::picture::{Form, render};
use minijinja::{Value, context};
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
        pictures.push(context! { title => chart.title.clone(), svg => safe(String::from_utf8_lossy(&svg)) });
    }
    let limits = comparison.limits.iter().map(|judged| {
        let result = requirement_name(judged.requirement);
        context! {
            cells => [show_limit(&judged.limit), judged.settings.clone(), percent(judged.ratio), format!("{:.3}", judged.p_value)],
            result,
        }
    });
    let points = comparison.points.iter().map(|pair| {
        let rows = pair.figures.iter().map(|figure| {
            context! { cells => cells(figure), verdict => verdict_name(figure.verdict) }
        });
        context! { settings => pair.settings.clone(), rows => rows.collect::<Vec<Value>>() }
    });
    let lone = [(&comparison.only_base, "base"), (&comparison.only_new, "new")];
    let lone = lone.into_iter().filter(|(settings, _)| !settings.is_empty());
    let lone = lone.map(|(settings, side)| format!("{} in {side} only", show_many(settings.len() as u64, "point")));
    let changes = comparison.changes.iter();
    let changes = changes.map(|change| [change.name.clone(), change.base.clone(), change.new.clone()]);
    let context = context! {
        style => safe(STYLE),
        base => comparison.base.clone(),
        new => comparison.new.clone(),
        tally => tally(comparison),
        notes => comparison.notes(),
        heads => HEADS,
        limits => limits.collect::<Vec<Value>>(),
        pictures,
        points => points.collect::<Vec<Value>>(),
        lone => lone.collect::<Vec<String>>(),
        changes => changes.collect::<Vec<_>>(),
    };
    Ok(text::render(PAGE, context))
}
