//! The report as one web page: `report.html` holds its styles, its script and its data, and asks nobody for anything.
//!
//! What must be readable everywhere (the answer, failures, the environment, the plan) is plain HTML made in
//! `document`; charts, the run table and the timeline are drawn by the page's own script from the figures in
//! `data`. Equal experiments give equal bytes.

mod answer;
mod card;
mod data;
mod pictures;
mod targets;
pub(super) mod text;

use super::configs::Config;
use super::inputs::Inputs;
use minijinja::value::merge_maps;
use minijinja::{Value, context};
use text::safe;

const PAGE: &str = include_str!("page.html.jinja");
/// The styles that every page of ours begins with.
pub(super) const STYLE: &str = include_str!("page.css");

/// The script in the order in which its parts build on each other; one scope for all.
const SCRIPT: [&str; 14] = [
    include_str!("script/dom.js"),
    include_str!("script/data.js"),
    include_str!("script/pareto.js"),
    include_str!("script/view.js"),
    include_str!("script/filter.js"),
    include_str!("script/targets.js"),
    include_str!("script/detail.js"),
    include_str!("script/scale.js"),
    include_str!("script/chart.js"),
    include_str!("script/explore.js"),
    include_str!("script/sides.js"),
    include_str!("script/runs.js"),
    include_str!("script/timeline.js"),
    include_str!("script/telemetry.js"),
];

/// The name of the experiment that a page was made with.
pub fn name_in(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<title>")?;
    let (name, _) = rest.split_once(" · vsweep report</title>")?;
    Some(text::unescape(name))
}

/// The page, with what it has in common with other reports.
pub fn render(inputs: &Inputs<'_>, configs: &[Config], document: Value) -> String {
    let mut script = SCRIPT.concat();
    if inputs.live.is_some() {
        script += include_str!("script/live.js");
    }
    text::render(
        PAGE,
        context! {
            style => safe(STYLE),
            data => safe(data::encode(inputs)),
            script => safe(script),
            ..merge_maps([targets::parts(inputs, configs), answer::parts(inputs, configs), document]),
        },
    )
}
