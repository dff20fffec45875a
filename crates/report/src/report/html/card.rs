//! The card of a point that is best at something: its figure, its settings, companions, its command lines, and the file that starts
//! its server.

use crate::report::answer::mark;
use crate::report::configs::Config;
use crate::report::inputs::Inputs;
use crate::report::variation::settings;
use crate::report::words::{axis_title, show_of};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_plan::shell::{shell_command, shell_line};
use vsweep_record::table::{Column, Point, Spread};

/// Figures shown beside the one a point is best at, after those that its workload is judged by.
const COSTS: [&str; 2] = ["cost_per_million_output_tokens", "joules_per_output_token"];

/// What a card is about.
pub struct Card<'a> {
    /// What the point is best at, as the reader needs it at its place on the page.
    pub title: &'a str,
    /// The same, as its configuration file has it.
    pub question: &'a str,
    /// The parameters that tell it from the points around it.
    pub told: &'a [&'a Column],
    /// The point.
    pub at: usize,
    /// The figure that it is best in.
    pub metric: &'a str,
    /// That figure in words, where it is more than a number.
    pub shown: Option<String>,
}

impl Card<'_> {
    /// The card as the template takes it.
    pub fn parts(self, inputs: &Inputs<'_>, configs: &[Config]) -> Value {
        let points = inputs.points;
        let point = &points.points[self.at];
        // A load is known even where its run was cut short and has no figures.
        let (value, range) = points.spread(point, self.metric).map_or_else(
            || (points.param(point, self.metric).to_string(), String::new()),
            |spread| (show_of(self.metric, spread.median), range(self.metric, &spread)),
        );
        let title = axis_title(self.metric);
        // Titles end in their unit, except where the unit is the figure: `Output tokens/s per GPU`.
        let (name, unit) = title.rsplit_once(" (").unwrap_or((&title, "tokens/s"));
        let judged = Yardstick::of_point(points, point).shown.iter();
        let companions = judged.map(|shown| shown.metric).chain(COSTS);
        let companions = companions.filter(|name| *name != self.metric).filter_map(|name| {
            let spread = points.spread(point, name)?;
            let title = axis_title(name);
            Some((title.trim_end_matches(" ($)").to_owned(), show_of(name, spread.median)))
        });
        let goals = &inputs.goals;
        let config = configs.iter().find(|config| config.question == self.question);
        context! {
            title => self.title,
            value => self.shown.unwrap_or(value),
            // Money has its sign in front.
            unit => unit.trim_end_matches(')').trim_start_matches('$'),
            name,
            range,
            settings => if self.told.is_empty() { String::new() } else { settings(self.told, point.row) },
            companions => companions.collect_vec(),
            meets => (!goals.is_empty()).then(|| goals.met_by(self.at)),
            mark => mark(point),
            commands => commands(inputs, point),
            // With its text: a page that is passed around comes without the folder.
            config => config.map(|config| context! { path => format!("best/{}", config.file), text => config.text.as_str() }),
        }
    }
}

fn range(metric: &str, spread: &Spread) -> String {
    let show = |value| show_of(metric, value);
    if let (Some((low, high)), Some(starts)) = (spread.interval, spread.starts) {
        return format!(", 95 %: {} to {} over {starts} starts", show(low), show(high));
    }
    match spread.count {
        1 => String::new(),
        count if spread.max <= spread.min => format!(", in {count} runs"),
        count => format!(", {} to {} in {count} runs", show(spread.min), show(spread.max)),
    }
}

/// The command lines of a point, and what each is.
fn commands(inputs: &Inputs<'_>, point: &Point) -> Vec<(String, &'static str)> {
    let Some(run) = inputs.state.runs().nth(point.row) else {
        return Vec::new();
    };
    let server = inputs.state.servers.get(&run.server);
    let argv = server.map_or(&[][..], |server| &server.argv);
    let bench = inputs.bench_command(argv, &run.params);
    let is_offline = inputs.bench.offline().is_some();
    let (launched, bench) = match server {
        Some(server) if is_offline => (None, shell_command(&server.env, &bench)),
        Some(server) => (Some(shell_command(&server.env, &server.argv)), shell_line(bench)),
        None => (None, shell_line(bench)),
    };
    let launched = launched.map(|server| (server, "the server's command line"));
    launched
        .into_iter()
        .chain([(bench, "the benchmark's command line")])
        .collect()
}
