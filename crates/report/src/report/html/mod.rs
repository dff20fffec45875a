//! The report as one web page: `report.html` holds its styles, its script and its data, and asks nobody for anything.
//!
//! Content that must be readable everywhere (the answer, failures, the environment, the plan) is plain HTML made from the `document`. The
//! page's own script draws charts, the run table and the timeline from the figures in `data`. Equal experiments give equal bytes.

mod data;
mod pictures;
pub(super) mod text;

use super::charts::{ChartContext, effects, families};
use super::inputs::Inputs;
use itertools::Itertools;
use minijinja::{Value, context};
use pictures::{MOST_FRONT, pictures};
use text::safe;

const PAGE: &str = include_str!("page.html.jinja");

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

/// The page of a document.
pub fn render(inputs: &Inputs<'_>, document: Value) -> String {
    let mut script = SCRIPT.concat();
    if inputs.live.is_some() {
        script += include_str!("script/live.js");
    }
    let subject = ChartContext {
        experiment: &inputs.experiment,
        points: inputs.points,
    };
    let families = pictures(families::of_each(&subject, &inputs.ranking));
    let measured = inputs.answers.workloads.iter().positions(|answer| answer.is_measured);
    let parts = context! {
        data => safe(data::encode(inputs)),
        script => safe(script),
        front => MOST_FRONT,
        // The chart of the first workload that has one is shown next to the common text.
        charted => measured.take(MOST_FRONT).find(|place| families[*place].is_some()),
        families,
        effects => pictures(effects::of_each(&subject, &inputs.answers)),
        ..document
    };
    text::render(PAGE, parts)
}
