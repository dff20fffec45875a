//! The report as one web page: `report.html` holds its styles, its script and its data, and asks nobody for anything.
//!
//! What must be readable everywhere (the answer, failures, the environment, the plan) is plain HTML made in
//! `sections`; charts, the run table and the timeline are drawn by the page's own script from the figures in
//! `data`. Equal experiments give equal bytes.

mod answer;
mod data;
mod lead;
mod sections;
mod targets;
pub(super) mod text;

use super::configs::Config;
use super::inputs::Inputs;
use super::variation::varying;
use text::fill;
use vsweep_record::table::Column;

/// What the parts of a page are made from.
struct Page<'a> {
    inputs: &'a Inputs<'a>,
    /// The parameters that tell points apart.
    varied: Vec<&'a Column>,
    /// The winners' configuration files.
    configs: &'a [Config],
}

const PAGE: &str = include_str!("page.html");
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

/// The page.
pub fn render(inputs: &Inputs<'_>, configs: &[Config]) -> String {
    let page = Page {
        inputs,
        varied: varying(inputs.points),
        configs,
    };
    let mut script = SCRIPT.concat();
    let (mut connect, mut live) = ("", String::new());
    if let Some(version) = inputs.live {
        script += include_str!("script/live.js");
        connect = "; connect-src 'self'";
        live = include_str!("live.html").replace("VERSION", &version.to_string());
    }
    let data = data::encode(&page, inputs.answers);
    fill(
        PAGE,
        &[
            ("name", &text::escape(inputs.experiment)),
            ("style", STYLE),
            ("connect", connect),
            ("live", &live),
            ("head", &sections::head(&page)),
            ("summary", &sections::summary(&page)),
            ("banner", &sections::banners(&page)),
            (
                "answer",
                &(sections::requirements(&page)
                    + &sections::compared(&page)
                    + &targets::cards(&page)
                    + &answer::targets(&page)
                    + &sections::explored(&page)
                    + &answer::of_workloads(&page, inputs.answers)
                    + &sections::clients(&page)
                    + &sections::unsteady(&page)),
            ),
            ("failures", &sections::failures(&page)),
            ("environment", &sections::environment(&page)),
            ("plan", &sections::plan(&page)),
            ("data", &data),
            ("script", &script),
        ],
    )
}
