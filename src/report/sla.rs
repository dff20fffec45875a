//! The answers of searches: the rows of `sla.csv` and the table in the terminal.

use super::text::align;
use super::words::show_number;
use crate::journal::{SearchEnd, SearchRecord, ServerRecord, State};
use crate::plan::{Params, show};
use crate::search::{Answer, Found, Target};
use itertools::Itertools;

/// One target of one search that has ended.
struct Row<'a> {
    record: &'a SearchRecord,
    target: &'a Target,
    end: &'a SearchEnd,
    server: Option<&'a ServerRecord>,
}

/// Rows of the table in the terminal.
const MOST_ROWS: usize = 20;

fn rows(state: &State) -> Vec<Row<'_>> {
    let ended = state
        .searches()
        .filter_map(|record| Some((record, record.ended.as_ref()?)));
    let rows = ended.flat_map(|(record, end)| {
        record.started.targets.iter().map(move |target| Row {
            record,
            target,
            end,
            server: state.servers.get(&record.started.server),
        })
    });
    rows.collect()
}

impl Row<'_> {
    fn answer(&self) -> Option<&Answer> {
        match self.end {
            SearchEnd::Answered(answers) => answers.iter().find(|answer| answer.target == self.target.name),
            SearchEnd::GivenUp(..) => None,
        }
    }

    fn verdict(&self) -> &'static str {
        self.answer().map_or(Found::Undecided, |answer| answer.found).word()
    }

    fn notes(&self) -> String {
        match self.end {
            SearchEnd::Answered(_) => self.answer().map_or_else(String::new, |answer| answer.notes.join("; ")),
            SearchEnd::GivenUp(cause, detail) => format!("given up: {cause}: {detail}"),
        }
    }
}

/// `sla.csv`: a row for each server config, load and target; `None` where no search has ended.
pub fn to_csv(state: &State) -> Option<Vec<u8>> {
    let rows = rows(state);
    if rows.is_empty() {
        return None;
    }
    let none = Params::new();
    let serve_of = |row: &Row<'_>| row.server.map_or(none.clone(), |server| server.params.clone());
    let names = |params: &dyn Fn(&Row<'_>) -> Params| -> Vec<String> {
        let all = rows
            .iter()
            .flat_map(|row| params(row).keys().cloned().collect::<Vec<_>>());
        all.unique().collect()
    };
    let bench_of = |row: &Row<'_>| row.record.started.params.clone();
    let (serve, bench) = (names(&serve_of), names(&bench_of));
    let title = |side: &str, name: &String, other: &[String]| match other.contains(name) {
        true => format!("{side}.{name}"),
        false => name.clone(),
    };
    let mut header = vec!["server".to_owned()];
    header.extend(serve.iter().map(|name| title("serve", name, &bench)));
    header.extend(bench.iter().map(|name| title("bench", name, &serve)));
    let rest = [
        "target", "vary", "value", "low", "high", "verdict", "binding", "probes", "notes",
    ];
    header.extend(rest.map(String::from));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: &[String]| writer.write_record(record).expect("memory takes every row");
    write(&header);
    for row in &rows {
        let cell = |params: &Params, name: &String| params.get(name).map(show).unwrap_or_default();
        let mut line = vec![row.record.started.server.to_string()];
        line.extend(serve.iter().map(|name| cell(&serve_of(row), name)));
        line.extend(bench.iter().map(|name| cell(&bench_of(row), name)));
        let answer = row.answer();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        line.push(row.target.name.clone());
        line.push(row.record.started.vary.name().to_owned());
        line.push(number(answer.and_then(|answer| answer.found.value())));
        line.push(number(answer.map(|answer| answer.low)));
        line.push(number(answer.map(|answer| answer.high)));
        line.push(row.verdict().to_owned());
        line.push(answer.and_then(|answer| answer.binding.clone()).unwrap_or_default());
        line.push(answer.map_or_else(String::new, |answer| answer.probes.to_string()));
        line.push(row.notes());
        write(&line);
    }
    Some(writer.into_inner().expect("memory takes every row"))
}

/// What tells a search from the others: its server, and its load unless that is the only one.
pub fn search_name(record: &SearchRecord, state: &State) -> String {
    let server = state.servers.get(&record.started.server);
    let server = server.map_or_else(|| record.started.server.to_string(), |server| server.name.clone());
    match record.started.name.as_str() {
        "default" => server,
        load => format!("{server}, {load}"),
    }
}

/// One answer in words.
pub struct Shown {
    /// The target's name.
    pub target: String,
    /// The server's settings, and the load's unless it is the only one.
    pub settings: String,
    /// The highest load found, or a dash.
    pub value: String,
    /// Where the limit lies, or a dash.
    pub interval: String,
    /// The verdict's word.
    pub verdict: &'static str,
    /// The criterion nearest to its limit; empty where there is none.
    pub binding: String,
    /// Runs that said something about the target, or a dash.
    pub probes: String,
    /// What a reader should know; empty if nothing.
    pub notes: String,
}

/// Every answer in words, in the order of `sla.csv`.
pub fn shown(state: &State) -> Vec<Shown> {
    let dash = || "-".to_owned();
    let show = |row: &Row<'_>| {
        let answer = row.answer();
        let value = answer.and_then(|answer| answer.found.value());
        let interval = answer.map(|answer| format!("{} and {}", show_number(answer.low), show_number(answer.high)));
        Shown {
            target: row.target.name.clone(),
            settings: search_name(row.record, state),
            value: value.map_or_else(dash, |value| value.to_string()),
            interval: interval.unwrap_or_else(dash),
            verdict: row.verdict(),
            binding: answer.and_then(|answer| answer.binding.clone()).unwrap_or_default(),
            probes: answer.map_or_else(dash, |answer| answer.probes.to_string()),
            notes: row.notes(),
        }
    };
    rows(state).iter().map(show).collect()
}

/// The load that the searches vary; `None` where no search has ended.
pub fn varied(state: &State) -> Option<&'static str> {
    rows(state).first().map(|row| row.record.started.vary.name())
}

/// The answers for a terminal; empty where no search has ended.
pub fn to_text(state: &State) -> String {
    let Some(vary) = varied(state) else {
        return String::new();
    };
    let header = [
        "highest",
        "limit between",
        "verdict",
        "runs",
        "target: settings (limited by)",
    ];
    let mut table = vec![header.map(String::from).to_vec()];
    let all = shown(state);
    for row in all.iter().take(MOST_ROWS) {
        let optional = |text: &str, around: [&str; 2]| match text {
            "" => String::new(),
            text => [around[0], text, around[1]].concat(),
        };
        let (binding, notes) = (optional(&row.binding, [" (", ")"]), optional(&row.notes, [" - ", ""]));
        table.push(vec![
            row.value.clone(),
            row.interval.clone(),
            row.verdict.to_owned(),
            row.probes.clone(),
            format!("{}: {}{binding}{notes}", row.target, row.settings),
        ]);
    }
    let mut text = format!("\nhighest {vary} that meets each target\n{}", align(&table));
    if all.len() > MOST_ROWS {
        text += &format!("and {} more; see sla.csv\n", all.len() - MOST_ROWS);
    }
    text
}
