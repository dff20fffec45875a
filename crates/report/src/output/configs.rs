//! Ready configuration files for `vllm serve --config`: one for the winner of each question of the answer, with its measurements in
//! comments.

use super::yaml::write_flags;
use crate::charts::multiples::order;
use crate::environment::{facts, versions};
use crate::findings::answer::mark as suspect;
use crate::findings::nodes;
use crate::inputs::Inputs;
use crate::ordered::Order;
use crate::sentences::parts::replicas;
use crate::sentences::whole_sentence;
use crate::texts::align::align;
use crate::texts::status::unfinished;
use crate::texts::template::plain;
use crate::texts::words::{show_number, show_together};
use itertools::Itertools;
use minijinja::{Value, context};
use std::collections::BTreeMap;
use vsweep_answer::QuestionAnswer;
use vsweep_base::cause::Cause;
use vsweep_base::ids::ServerId;
use vsweep_base::printable::printable;
use vsweep_base::shell::shell_command;
use vsweep_plan::matrix::ServeFlags;
use vsweep_record::journal::RunRecord;
use vsweep_record::table::{Cell, Column, MetricSet, Point, Section, Spread};

/// Most loads that are listed.
const MOST_LOADS: usize = 40;
/// Facts about the measurement for readers of the file; the report has the rest.
const FACTS: [&str; 7] = [
    "host",
    "CPU",
    "GPUs",
    "GPU driver",
    "nodes",
    "git commit",
    "server version",
];

/// Facts about the machine of the manifest, which are left out if the figures come from other nodes.
const OF_ITS_MACHINE: [&str; 4] = ["host", "CPU", "GPUs", "GPU driver"];

/// A file for `vllm serve --config`.
#[derive(Debug)]
pub struct Config {
    /// The question that its settings answer best: `Highest throughput`, `Target chat`.
    pub question: String,
    /// Its name in the folder `best`.
    pub file: String,
    /// The settings, below comments with the reasons for them.
    pub text: String,
}

/// Returns the files; none for a server whose command does not show its flags, or that vsweep only attached to.
pub fn render(inputs: &Inputs<'_>) -> Vec<Config> {
    let runs: Vec<&RunRecord> = inputs.state.runs().collect();
    let started = |answered: &QuestionAnswer| {
        let at = inputs.answers.place_of(answered)?;
        let server = &runs.get(inputs.points.points[at].row)?.server;
        Some((at, server, ServeFlags::of(&inputs.state.servers.get(server)?.argv)?))
    };
    let mut configs: Vec<Config> = Vec::new();
    for answered in &inputs.answers.document.questions {
        let Some((at, server, command)) = started(answered) else {
            continue;
        };
        let question = answered.title();
        let file = free_name(&file_name(&question), &configs);
        let text = comments(inputs, &runs, (answered, at), &file, server, &command) + "\n" + &write_flags(&command);
        configs.push(Config { question, file, text });
    }
    configs
}

/// Comment above the settings: the reason for them, the command line that uses them, the measurements and the machine. `at` is the index of
/// the point that won the question.
fn comments(
    inputs: &Inputs<'_>,
    runs: &[&RunRecord],
    (answered, at): (&QuestionAnswer, usize),
    file: &str,
    server: &ServerId,
    command: &ServeFlags,
) -> String {
    let points = inputs.points;
    let point = &points.points[at];
    let reason = whole_sentence(&inputs.answers.document, answered).text();
    let of_workload = (!answered.workload.is_empty()).then(|| answered.title());
    let mut argv = command.program.clone();
    argv.extend(["--config".to_owned(), file.to_owned()]);
    argv.extend(command.apart.iter().cloned());
    let none = BTreeMap::new();
    let env = inputs.state.servers.get(server).map_or(&none, |server| &server.env);
    let mut facts = facts(&inputs.manifest, inputs.state);
    facts.retain(|(name, _)| FACTS.contains(&name.as_str()));
    if let Some(at) = facts.iter().position(|(name, _)| name == "server version") {
        facts[at].1 = versions(inputs.state, Some(server));
        facts.retain(|(_, value)| !value.is_empty());
    }
    if let Some(at) = facts.iter().position(|(name, _)| name == "nodes") {
        let own = runs.iter().filter(|run| run.server == *server);
        let machines = own.filter_map(|run| inputs.state.measured_at(run)).collect();
        facts[at].1 = nodes::in_words(&machines);
        facts.retain(|(name, _)| !OF_ITS_MACHINE.contains(&name.as_str()));
    }
    let text = plain(
        include_str!("configs.txt.jinja"),
        context! {
            reason => of_workload.into_iter().chain([reason]).join(": "),
            unfinished => unfinished(inputs.state),
            simulated => points.param(point, "simulated") == Cell::Bool(true),
            one_of => replicas(answered),
            command => shell_command(env, &argv),
            meets => (!inputs.goals.is_empty()).then(|| inputs.goals.met_by(at)),
            mark => suspect(point).map(|mark| mark.replacen("suspect", "SUSPECT", 1)),
            advice => point.codes.iter().map(|code| code.advice()).unique().join(";\n  "),
            remarks => nodes::remarks(inputs.state),
            experiment => inputs.experiment.as_str(),
            measured => inputs.state.last_session().map(|session| session.started_at.as_str()),
            facts,
            ..loads_of_server(inputs, runs, point, server)
        },
    );
    comment(&text)
}

/// Data for the template: the loads that were measured on the winner's server, with a mark at the load that won.
fn loads_of_server(inputs: &Inputs<'_>, runs: &[&RunRecord], won: &Point, server: &ServerId) -> Value {
    let points = inputs.points;
    let is_here = |point: &&Point| runs.get(point.row).is_some_and(|run| run.server == *server);
    let all = points.points.iter().enumerate();
    let mut here = all.filter(|(_, point)| is_here(point)).collect_vec();
    let differs = |column: &&Column| {
        let mut rows = here.iter().map(|(_, point)| point.row);
        column.section == Section::Bench && rows.any(|row| column.cells.at(row) != column.cells.at(won.row))
    };
    let varied = inputs.varied.iter().copied().filter(differs).collect_vec();
    let fixed = points.runs.columns().iter();
    let fixed = fixed.filter(|column| column.section == Section::Bench && !differs(column));
    let fixed = fixed.map(|column| (&column.name, column.cells.at(won.row)));
    let under = fixed
        .filter(|(_, cell)| !cell.is_missing())
        .map(|(name, cell)| format!("{name} {cell}"))
        .join(", ");
    // `varied` begins with the load, which should change fastest.
    let by_load: Vec<&Column> = varied.iter().rev().copied().collect();
    here.order_by(|(_, a), (_, b)| order(&by_load, a.row, b.row));
    let figures = MetricSet::of_point(points, won).shown.iter();
    let figures = figures
        .filter(|shown| points.runs.column(shown.metric).is_some())
        .collect_vec();
    let has_goals = !inputs.goals.is_empty();
    let heads = varied.iter().map(|column| column.name.as_str());
    let heads = heads.chain(figures.iter().map(|shown| shown.heading)).chain(["runs"]);
    let heads = heads.chain(has_goals.then_some("meets")).chain([""]);
    let mut table = vec![heads.map(str::to_owned).collect_vec()];
    for (at, point) in here.iter().take(MOST_LOADS) {
        let load = varied.iter().map(|column| column.cells.at(point.row).to_string());
        let figures = figures.iter().map(|shown| points.spread(point, shown.metric));
        let figures = figures.map(|spread| spread.map_or("-".into(), |spread| range(&spread)));
        let mark = match (point.id == won.id, point.used.is_empty()) {
            (true, false) => "<- this".to_owned(),
            (true, true) => "<- this, cut short".to_owned(),
            (false, true) if !point.cut.is_empty() => "cut short".to_owned(),
            (false, true) if !point.invalid.is_empty() => {
                format!("invalid: {}", point.codes.iter().map(|code| code.in_words()).join(", "))
            }
            (false, true) => runs[point.row].cause.map_or("failed".into(), Cause::in_words),
            (false, false) => suspect(point).unwrap_or_default(),
        };
        let row = load.chain(figures).chain([point.used.len().to_string()]);
        let meets = has_goals.then(|| inputs.goals.met_by(*at));
        table.push(row.chain(meets).chain([mark]).collect());
    }
    let shown = here.iter().take(MOST_LOADS).map(|(at, _)| *at).collect_vec();
    context! {
        under,
        legend => inputs.goals.legend(&shown),
        loads => align(&table).lines().map(str::to_owned).collect_vec(),
        more => here.len().saturating_sub(MOST_LOADS),
    }
}

/// Formats a figure with its range, if it has one: `12.5 (12.1-13.0)`.
fn range(spread: &Spread) -> String {
    let (low, high) = spread.reach();
    match high > low {
        true => {
            let [value, low, high] = show_together([spread.value, low, high]);
            format!("{value} ({low}-{high})")
        }
        false => show_number(spread.value),
    }
}

/// A text as YAML comments; nothing in it can end one.
fn comment(text: &str) -> String {
    let line = |line: &str| format!("# {}", printable(line)).trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

/// Most bytes of a file name's stem. A file system allows 255 for a name, and a file that is being written has a longer one.
const MOST_BYTES: usize = 160;

/// Words as a file name: `Lowest latency` becomes `lowest-latency`.
fn file_name(words: &str) -> String {
    let plain = words
        .to_lowercase()
        .replace(|c: char| !(c.is_alphanumeric() || "._".contains(c)), "-");
    let plain: String = plain.trim_start_matches('.').chars().take(80).collect();
    plain[..plain.floor_char_boundary(MOST_BYTES)].to_owned()
}

/// The name with `.yaml`, numbered if another file has it: `Chat` and `chat` are two targets but one name of a file.
fn free_name(stem: &str, taken: &[Config]) -> String {
    let numbered = (2..).map(|number| format!("{stem}-{number}.yaml"));
    let mut names = std::iter::once(format!("{stem}.yaml")).chain(numbered);
    let is_free = |name: &String| taken.iter().all(|config| config.file != *name);
    names.find(is_free).expect("there is always another number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_where_their_text_does() {
        assert_eq!(
            comment("a\n\nb\u{2028}c\u{85}d: e"),
            "# a\n#\n# b\\u{2028}c\\u{85}d: e\n"
        );
        assert_eq!(file_name("../Chat 99%"), "-chat-99-");
    }

    #[test]
    fn two_winners_never_share_a_file() {
        let mut taken = Vec::new();
        for expected in ["target-chat.yaml", "target-chat-2.yaml", "target-chat-3.yaml"] {
            let file = free_name("target-chat", &taken);
            assert_eq!(file, expected);
            taken.push(Config {
                question: String::new(),
                file,
                text: String::new(),
            });
        }
    }
}
