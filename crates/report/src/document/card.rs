//! The card of a point that is best at something: its figure, its settings, further figures, its command lines, and the file that starts
//! its server.

use super::points::PointWords;
use crate::inputs::Inputs;
use crate::output::configs::Config;
use crate::texts::words::{axis_title, money_sign, show_of, show_parts, split_title};
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_base::shell::{shell_command, shell_line};
use vsweep_record::table::MetricSet;

/// Figures that a card shows after those by which the workload is judged.
const COSTS: [&str; 2] = ["cost_per_million_output_tokens", "joules_per_output_token"];

/// Returns the card of the point with the index `at`, which is best in a metric. Its configuration file is the one that answers `question`.
pub fn parts(configs: &[Config], words: &PointWords<'_>, at: usize, metric: &str, question: &str) -> Value {
    let inputs = words.inputs;
    let points = inputs.points;
    let point = &points.points[at];
    // A load is known even where its run was cut short and has no figures.
    let (value, range) = points.spread(point, metric).map_or_else(
        || (points.param(point, metric).to_string(), String::new()),
        |spread| {
            let (value, range) = show_parts(&spread);
            (money_sign(metric).to_owned() + &value, range)
        },
    );
    let title = axis_title(metric);
    // Titles end in their unit, except where the unit is the figure: `Output tokens/s per GPU`.
    let (name, unit) = split_title(&title);
    let judged = MetricSet::of_point(points, point).shown.iter();
    let of_classes = MetricSet::of_classes(points.runs);
    let companions = judged.map(|shown| shown.metric).chain(of_classes).chain(COSTS);
    let companions = companions.filter(|name| *name != metric).filter_map(|name| {
        let title = axis_title(name);
        let figure = words.value(at, name)?;
        Some((title.trim_end_matches(" ($)").to_owned(), show_of(name, figure)))
    });
    let config = configs.iter().find(|config| config.question == question);
    context! {
        value,
        // Money has its sign in front.
        unit => unit.unwrap_or("tokens/s").trim_start_matches('$'),
        name,
        range,
        // A single point has no distinguishing settings.
        is_only_point => words.params.is_empty(),
        companions => companions.collect_vec(),
        commands => commands(inputs, point.row),
        // The file's text is included, because a page may be passed on without the folder.
        config => config.map(|config| context! {
            path => format!("best/{}", config.file),
            is_linked => inputs.is_in_directory,
            text => config.text.as_str(),
        }),
        ..words.part(at)
    }
}

/// Returns the command lines of the point in a row: the server's, unless there is none or the benchmark loads the engine itself, and the
/// benchmark's.
pub fn commands(inputs: &Inputs<'_>, row: usize) -> Option<[Option<String>; 2]> {
    let run = inputs.state.runs().nth(row)?;
    let server = inputs.state.servers.get(&run.server);
    let bench = inputs.bench_command(server.map_or(&[], |server| &server.argv), &run.params);
    Some(match server {
        Some(server) if inputs.bench.offline().is_some() => [None, Some(shell_command(&server.env, &bench))],
        Some(server) => [Some(shell_command(&server.env, &server.argv)), Some(shell_line(bench))],
        None => [None, Some(shell_line(bench))],
    })
}
