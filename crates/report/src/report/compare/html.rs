//! A comparison as one offline page. Its text comes from `page.html.jinja`.

use super::{Comparison, Side, document, frontiers};
use crate::report::html::STYLE;
use crate::report::html::text::{self, safe};
use crate::report::picture::{Form, render};
use minijinja::context;

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
    let parts = context! { style => safe(STYLE), pictures, ..document::parts(comparison) };
    Ok(text::render(include_str!("page.html.jinja"), parts))
}
