//! The report as one web page: `report.html` holds its styles, its script and its data, and asks nobody for anything.
//!
//! What must be readable everywhere (the answer, failures, the environment, the plan) is plain HTML made in
//! `sections`; charts, the run table and the timeline are drawn by the page's own script from the figures in
//! `data`. Equal experiments give equal bytes.

mod answer;
mod card;
mod data;
mod pictures;
mod sections;
mod targets;
pub(super) mod text;

use super::configs::Config;
use super::inputs::Inputs;
use super::variation::varying;
use minijinja::context;
use minijinja::value::merge_maps;
use text::safe;
use vsweep_record::table::Column;

/// What the parts of a page are made from.
struct Page<'a> {
    inputs: &'a Inputs<'a>,
    /// The parameters that tell points apart.
    varied: Vec<&'a Column>,
    /// The winners' configuration files.
    configs: &'a [Config],
}

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

/// The page.
pub fn render(inputs: &Inputs<'_>, configs: &[Config]) -> String {
    let page = Page {
        inputs,
        varied: varying(inputs.points),
        configs,
    };
    let mut script = SCRIPT.concat();
    if inputs.live.is_some() {
        script += include_str!("script/live.js");
    }
    text::render(
        PAGE,
        context! {
            name => inputs.experiment,
            style => safe(STYLE),
            live => inputs.live,
            data => safe(data::encode(&page, inputs.answers)),
            script => safe(script),
            ..merge_maps([targets::parts(&page), answer::parts(&page), sections::parts(&page)]),
        },
    )
}
