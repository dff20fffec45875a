//! The report as one web page: `report.html` contains its styles, its script and its data, and loads nothing else.
//!
//! Content that must be readable everywhere (the answer, failures, the environment, the plan) is plain HTML made from the `document`. The
//! page's own script draws charts, the run table and the timeline from the figures in `data`. Equal experiments give equal bytes.

mod data;
mod numbers;
mod pictures;
pub(super) mod text;

use super::chart::Chart;
use super::charts::{ChartContext, compared, effects, families, optimization, sla};
use super::inputs::Inputs;
use minijinja::{Value, context};
use pictures::pictures;
use std::collections::HashMap;
use text::safe;

const PAGE: &str = include_str!("page.html.jinja");

/// The parts of the script, in the order in which they build on each other. They share one scope.
const SCRIPT: [&str; 15] = [
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
    include_str!("script/answer.js"),
    include_str!("script/sides.js"),
    include_str!("script/runs.js"),
    include_str!("script/timeline.js"),
    include_str!("script/telemetry.js"),
];

/// The name of the experiment in the title of a report page; `None` for another page.
pub fn name_in(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<title>")?;
    let (name, _) = rest.split_once(" · vsweep report</title>")?;
    Some(text::unescape(name))
}

/// Returns the page of a document.
pub fn render(inputs: &Inputs<'_>, document: Value) -> String {
    let mut script = SCRIPT.concat();
    if inputs.live.is_some() {
        script += include_str!("script/live.js");
    }
    let subject = ChartContext {
        experiment: &inputs.experiment,
        points: inputs.points,
    };
    let (names, searched): (Vec<String>, Vec<Option<Chart>>) = sla::of_each(&subject, inputs.state).into_iter().unzip();
    let searched: HashMap<String, Option<Value>> = names.into_iter().zip(pictures(searched)).collect();
    let parts = context! {
        data => safe(data::encode(inputs)),
        script => safe(script),
        families => pictures(families::of_each(&subject, &inputs.ranking, &inputs.answers.recommended())),
        searched,
        changes => pictures(vec![compared::chart(&subject, &inputs.answers.document, inputs.state)]),
        optimization => pictures(vec![optimization::chart(&subject, &inputs.answers.document)]),
        effects => pictures(effects::of_each(&subject, &inputs.answers)),
        ..document
    };
    text::render(PAGE, parts)
}
