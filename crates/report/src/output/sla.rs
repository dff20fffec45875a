//! The answers of searches: the highest load of each server for each target, as rows of `sla.csv` and as a table in the terminal.

use super::files::{self, cell};
use crate::ordered::Ordered;
use crate::rows::with_combo;
use crate::texts::align::{align, fitting_in};
use crate::texts::criteria::phrase_of;
use crate::texts::words::{server_name, short_name, show_number};
use itertools::Itertools;
use serde::Serialize;
use std::collections::BTreeMap;
use vsweep_answer::{Answer as Document, Goal, QuestionAnswer};
use vsweep_base::closed_list::in_words;
use vsweep_base::ids::SearchId;
use vsweep_base::units::show_many;
use vsweep_base::validity::Validity;
use vsweep_plan::{Params, show};
use vsweep_record::journal::{SearchRecord, SearchStarted, ServerRecord, State};
use vsweep_record::table::{SearchResult, search_results};
use vsweep_strategy::search::{Answer, Found, Probe, RISK_ABOVE, RISK_BELOW, Vary, Verdict};

/// Explains the intervals of these answers.
pub fn explain_interval(rows: &[ShownAnswer]) -> String {
    let own = match rows.iter().any(|row| row.has_own_interval) {
        true => "; the recommended server: 95 % interval, including what a restart changes",
        false => "",
    };
    format!(
        "limits of the measured starts: {} % risk that the true limit is below the interval, {} % that it is above{own}",
        show_number(RISK_BELOW * 100.0),
        show_number(RISK_ABOVE * 100.0)
    )
}

/// Remedy for answers that are less precise than the requested tolerance.
pub const COARSE: &str = "answers \"within N %\" had too few runs to reach sla.tolerance; raise \
                          sla.max_probes, or send more requests per run (num_prompts)";

/// Most rows of the table in the terminal.
const MOST_ROWS: usize = 20;

/// The question that a search answers: `Target chat`, with the load if there are several.
pub(crate) fn question(result: &SearchResult<'_>) -> String {
    let load = load_name(result).map(|load| format!(", {load}"));
    format!("Target {}{}", result.target.name, load.unwrap_or_default())
}

/// The load's name; `None` if it is the only one.
pub(crate) fn load_name<'a>(result: &SearchResult<'a>) -> Option<&'a str> {
    let name = result.record().started.name.as_str();
    (!name.is_empty() && name != "default").then_some(name)
}

fn server<'a>(result: &SearchResult<'a>) -> Option<&'a ServerRecord> {
    result.state.servers.get(&result.record().started.server)
}

/// The word for the answer, or for the reason that there is none.
fn word(result: &SearchResult<'_>) -> &'static str {
    match result.answer() {
        _ if result.is_open() => "not finished",
        _ if result.doubt().is_some() => Validity::Invalid.name(),
        Some(answer) => answer.found.word(),
        None if result.given_up().is_some() => "given up",
        None => Found::Undecided.word(),
    }
}

/// The answer in words: `met, within 14 %` if it is less precise than requested.
pub(crate) fn words(result: &SearchResult<'_>) -> String {
    let answer = result.answer().filter(|_| !result.is_open());
    answer.map_or_else(|| word(result).to_owned(), Answer::words)
}

/// The answer's load in words: `>= 400` if the highest load allowed meets the target.
pub(crate) fn value_in_words(result: &SearchResult<'_>) -> Option<String> {
    result.answer().and_then(|answer| match answer.found {
        Found::Beyond(value) => Some(format!(">= {value}")),
        found => found.value().map(|value| value.to_string()),
    })
}

/// Interval of the answer's limit. The ends are rounded down if concurrency varies, because only whole numbers of requests can meet the
/// target. The tolerance makes up for rounding in logarithms.
pub(crate) fn interval(result: &SearchResult<'_>) -> Option<(f64, f64)> {
    let answer = result.answer()?;
    Some(rounded((answer.low, answer.high), result))
}

fn rounded((low, high): (f64, f64), result: &SearchResult<'_>) -> (f64, f64) {
    let whole = |end: f64| (end * (1.0 + 1e-9)).floor();
    match result.record().started.vary {
        Vary::MaxConcurrency => (whole(low), whole(high)),
        Vary::RequestRate => (low, high),
    }
}

fn interval_in_words((low, high): (f64, f64)) -> String {
    match high {
        // Not even one request at a time meets the target.
        0.0 => "below 1".to_owned(),
        f64::INFINITY => format!("above {}", show_number(low)),
        _ => format!("{} and {}", show_number(low), show_number(high)),
    }
}

/// Notes for the reader of the answer; empty if there are none.
pub(crate) fn notes(result: &SearchResult<'_>) -> String {
    if let Some(doubt) = result.doubt() {
        return doubt.to_string();
    }
    match (result.answer(), result.given_up()) {
        _ if result.is_open() => highest_so_far(result),
        (Some(answer), _) => answer.disturbance(in_words).iter().chain(answer.remarks()).join("; "),
        (None, Some(failure)) => {
            let (cause, so_far) = (failure.cause.in_words(), highest_so_far(result));
            format!("{cause}: {}; {so_far}", failure.detail)
        }
        (None, None) => String::new(),
    }
}

/// The highest load so far that met the target, in a search without an answer.
fn highest_so_far(result: &SearchResult<'_>) -> String {
    let started = result.starts.iter().map(|record| &record.started);
    let probes = started.flat_map(|started| result.state.probes(&started.search, started.slot));
    let probes: Vec<&Probe> = probes.collect();
    let meets =
        |probe: &&&Probe| probe.stopped != Some(Verdict::Fail) && result.target.is_met_by(&[probe]) == Some(true);
    let passes = probes.iter().filter(meets).map(|probe| probe.question.value);
    let runs = show_many(probes.len() as u64, "run");
    match passes.reduce(f64::max) {
        Some(highest) => format!("after {runs} the highest load seen to meet the target is {highest}"),
        None => format!("after {runs} no load was seen to meet the target"),
    }
}

/// Name that distinguishes a search: its server, its load unless that is the only one, and its start if there are several.
pub fn search_name(record: &SearchRecord, state: &State) -> String {
    let name = name_on_any_start(&record.started, state);
    match state.planning_session().is_some_and(|planned| planned.starts > 1) {
        true => format!("{name}, start {}", record.started.slot.saturating_add(1)),
        false => name,
    }
}

/// A search in words: its server, and its load unless that is the only one.
pub(crate) fn name_on_any_start(started: &SearchStarted, state: &State) -> String {
    let server = server_name(&started.server, state);
    match started.name.as_str() {
        "default" => server,
        load => format!("{server}, {load}"),
    }
}

/// One answer in words.
#[derive(Serialize)]
pub struct ShownAnswer {
    /// The target's name.
    pub target: String,
    /// True if this server is recommended for the target.
    pub is_recommended: bool,
    /// The server's settings, and the load unless it is the only one.
    pub settings: String,
    /// The highest load found, or a dash.
    pub value: String,
    /// Interval of the limit, or a dash.
    pub interval: String,
    /// True if the interval is that of the answer, and not that of the search.
    pub has_own_interval: bool,
    /// The answer in words.
    pub answer: String,
    /// True if the answer is less precise than requested.
    pub is_coarse: bool,
    /// The criterion nearest to its limit; empty where there is none.
    pub binding: String,
    /// Number of runs that were made for the target or measured something of it, or a dash.
    pub probes: String,
    /// Notes for the reader; empty if there are none.
    pub notes: String,
}

/// Every answer in words, by target, the recommended server first and then the highest load.
pub fn shown(state: &State, answer: Option<&Document>) -> Vec<ShownAnswer> {
    let winner = |result: &SearchResult<'_>| {
        let winner = answer.and_then(|answer| asked(answer, result)?.winner.as_ref());
        winner.filter(|winner| *winner.config == *result.record().started.server.0)
    };
    let is_recommended = |result: &SearchResult<'_>| winner(result).is_some();
    // The interval of the recommendation, for one replica. If the highest load allowed meets the target, the limit is unknown.
    let recommended = |result: &SearchResult<'_>| {
        let winner = winner(result).filter(|winner| !winner.at_ceiling)?;
        let ends = [winner.value.low, winner.value.high].map(|end| end / f64::from(winner.replicas.max(1)));
        Some(rounded(ends.into(), result))
    };
    let dash = || "-".to_owned();
    let show = |result: &SearchResult<'_>| {
        let answer = result.answer();
        let own = recommended(result);
        let has_own_interval = own.is_some();
        // An answer over several starts has no posterior of its own.
        let of_starts = result
            .starts
            .iter()
            .filter_map(|record| record.answer(&result.target.name));
        let mut posteriors = of_starts.filter_map(|answer| answer.posterior.as_ref());
        let mut is_open = |high: f64| high.is_finite() && posteriors.any(|posterior| posterior.is_ceiling(high));
        let interval = own.or_else(|| interval(result)).map(|ends| {
            let more = if is_open(ends.1) { " or more" } else { "" };
            interval_in_words(ends) + more
        });
        ShownAnswer {
            target: result.target.name.clone(),
            is_recommended: is_recommended(result),
            has_own_interval,
            settings: name_on_any_start(&result.record().started, state),
            value: value_in_words(result).unwrap_or_else(dash),
            interval: interval.unwrap_or_else(dash),
            answer: words(result),
            is_coarse: answer.is_some_and(|answer| answer.is_coarse),
            binding: answer
                .and_then(|answer| answer.binding.as_deref())
                .map_or_else(String::new, |name| phrase_of(result.target, name)),
            probes: answer.map_or_else(dash, |answer| answer.probes.to_string()),
            notes: notes(result),
        }
    };
    let all = search_results(state);
    let targets = all.iter().map(|result| &result.target.name).unique().collect_vec();
    let rank = |result: &SearchResult<'_>| targets.iter().position(|name| **name == result.target.name);
    let load = |result: &SearchResult<'_>| result.answer().and_then(|answer| answer.found.value());
    let ordered = all.iter().ordered_by(|a, b| {
        let loads = load(b).unwrap_or(-1.0).total_cmp(&load(a).unwrap_or(-1.0));
        let recommended = is_recommended(b).cmp(&is_recommended(a));
        rank(a).cmp(&rank(b)).then(recommended).then(loads)
    });
    ordered.map(show).collect()
}

/// The question that a search helps to answer.
fn asked<'a>(answer: &'a Document, result: &SearchResult<'_>) -> Option<&'a QuestionAnswer> {
    let load = load_name(result).unwrap_or_default();
    let mut questions = answer.questions.iter().filter(|asked| asked.workload == load);
    questions.find(|asked| matches!(&asked.goal, Goal::Load { target, .. } if *target == result.target.name))
}

/// Number of replicas of a search's config that fit on the user's GPUs; `None` if no search has answered.
fn replicas(answer: &Document, result: &SearchResult<'_>) -> Option<u32> {
    let mut entrants = asked(answer, result)?.entrants.iter();
    let own = entrants.find(|own| *own.config == *result.record().started.server.0)?;
    Some(own.replicas)
}

/// The parameter that the searches vary; `None` if no search has begun. Explorations, which have no target, do not count.
pub fn varied(state: &State) -> Option<&'static str> {
    let mut searches = state.searches();
    let search = searches.find(|record| !record.started.targets.is_empty());
    search.map(|record| record.started.vary.name())
}

/// The answers as text of at most `room` columns; empty if no search has begun.
pub fn to_text(state: &State, answer: Option<&Document>, room: usize) -> String {
    let Some(vary) = varied(state) else {
        return String::new();
    };
    let all = shown(state, answer);
    let table = |has_binding: bool| {
        let last = if has_binding {
            "target: settings (limited by)"
        } else {
            "target: settings"
        };
        let header = ["highest", "limit between", "answer", "runs", last].map(String::from);
        let row = |row: &ShownAnswer| {
            let binding = match row.binding.as_str() {
                binding if has_binding && !binding.is_empty() => format!(" ({binding})"),
                _ => String::new(),
            };
            let settings = format!("{}: {}{binding}", row.target, row.settings);
            [&row.value, &row.interval, &row.answer, &row.probes, &settings]
                .map(String::clone)
                .to_vec()
        };
        let rows = all.iter().take(MOST_ROWS).map(row);
        align(&[header.to_vec()].into_iter().chain(rows).collect_vec())
    };
    // Limiting criteria are left out if the table would be too wide.
    let tables = [true, false].into_iter().map(table);
    let table = fitting_in(room, tables, |table| table.lines().collect()).unwrap_or_default();
    // The first line has the headings.
    let marks = [" "]
        .into_iter()
        .chain(all.iter().map(|row| if row.is_recommended { ">" } else { " " }));
    let table = table
        .lines()
        .zip(marks)
        .map(|(line, mark)| format!("{mark} {line}\n"))
        .join("");
    let mut text = format!("\nhighest {} that meets each target\n{table}", short_name(vary));
    if all.iter().any(|row| row.is_recommended) {
        text += "> recommended\n";
    }
    let noted = all.iter().filter(|row| !row.notes.is_empty());
    let noted = noted.map(|row| ((&row.settings, &row.notes), &*row.target));
    for ((settings, notes), targets) in noted.into_grouping_map().collect::<Vec<&str>>().into_iter().sorted() {
        text += &format!("{}: {settings}: {notes}\n", targets.join(", "));
    }
    if all.iter().any(|row| row.interval != "-") {
        text += &format!("{}\n", explain_interval(&all));
    }
    if all.iter().any(|row| row.is_coarse) {
        text += &format!("{COARSE}\n");
    }
    if all.len() > MOST_ROWS {
        let more = show_many((all.len() - MOST_ROWS) as u64, "more answer");
        text += &format!("and {more}; see sla.csv\n");
    }
    text
}

/// `sla.csv`: a row for each server config, load and target; `None` if no search has begun.
pub fn to_csv(state: &State, document: &Document) -> Option<Vec<u8>> {
    let all = search_results(state);
    // The name of a load's combination is recorded with its runs.
    let runs = state
        .runs()
        .filter_map(|run| Some((run.search.as_ref()?, run.combo.as_deref()?)));
    let combos: BTreeMap<&SearchId, &str> = runs.collect();
    let sides = |result: &SearchResult<'_>| -> [Params; 2] {
        let started = &result.record().started;
        let serve = server(result).map(|server| with_combo(&server.params, server.combo.as_deref()).into_owned());
        let bench = with_combo(&started.params, combos.get(&started.search).copied());
        [serve.unwrap_or_default(), bench.into_owned()]
    };
    let params = all.iter().map(sides).collect_vec();
    let names = [0, 1].map(|side| {
        params
            .iter()
            .flat_map(|sides| sides[side].keys())
            .unique()
            .collect_vec()
    });
    let title = |side: usize, name: &String| match names[1 - side].contains(&name) {
        true => format!("{}.{name}", ["serve", "bench"][side]),
        false => name.clone(),
    };
    let has_starts = all.iter().any(|result| result.starts.len() > 1);
    let row = |(result, params): (&SearchResult<'_>, &[Params; 2])| {
        let (started, answer) = (&result.record().started, result.answer());
        let value = answer.and_then(|answer| answer.found.value());
        let replicas = replicas(document, result).map(f64::from);
        let mut row = vec![("server".to_owned(), started.server.to_string())];
        for side in [0, 1] {
            let value = |name: &String| cell(params[side].get(name).map(show));
            row.extend(names[side].iter().map(|name| (title(side, name), value(name))));
        }
        let found = [
            ("target", result.target.name.clone()),
            ("vary", started.vary.name().to_owned()),
            ("value", cell(value)),
            ("low", cell(answer.map(|answer| answer.low))),
            ("high", cell(answer.map(|answer| answer.high))),
            ("replicas", cell(replicas)),
            (
                "value_of_replicas",
                cell(value.zip(replicas).map(|(value, replicas)| value * replicas)),
            ),
            ("answer", word(result).to_owned()),
            ("within", cell(answer.and_then(|answer| answer.within))),
            ("binding", cell(answer.and_then(|answer| answer.binding.as_ref()))),
            ("probes", cell(answer.map(|answer| answer.probes))),
            ("disturbed", cell(answer.map(|answer| answer.disturbed))),
            ("seed", started.seed.value.to_string()),
            ("seed_from", started.seed.basis.word().to_owned()),
            ("notes", notes(result)),
        ];
        row.extend(found.map(|(name, cell)| (name.to_owned(), cell)));
        row.extend(has_starts.then(|| ("starts".to_owned(), result.starts.len().to_string())));
        row
    };
    files::to_csv(&all.iter().zip(&params).map(row).collect_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_one_user_is_not_between_0_and_0() {
        let said = [(0.0, 0.0), (0.0, 1.0), (12.0, 13.0), (64.0, f64::INFINITY)].map(interval_in_words);
        assert_eq!(said, ["below 1", "0 and 1", "12 and 13", "above 64"]);
    }
}
