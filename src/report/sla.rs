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

/// The answers for a terminal; empty where no search has ended.
pub fn to_text(state: &State) -> String {
    let rows = rows(state);
    let Some(first) = rows.first() else {
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
    for row in rows.iter().take(MOST_ROWS) {
        let answer = row.answer();
        let value = answer.and_then(|answer| answer.found.value());
        let interval = answer.map(|answer| format!("{} and {}", show_number(answer.low), show_number(answer.high)));
        let server = row.server.map_or("", |server| server.name.as_str());
        let load = Some(row.record.started.name.as_str()).filter(|load| *load != "default");
        let settings = [Some(server), load].into_iter().flatten().join(", ");
        let binding = answer.and_then(|answer| answer.binding.as_ref());
        let binding = binding.map_or_else(String::new, |binding| format!(" ({binding})"));
        let notes = Some(row.notes()).filter(|notes| !notes.is_empty());
        let notes = notes.map_or_else(String::new, |notes| format!(" - {notes}"));
        table.push(vec![
            value.map_or("-".into(), |value| value.to_string()),
            interval.unwrap_or("-".into()),
            row.verdict().to_owned(),
            answer.map_or("-".into(), |answer| answer.probes.to_string()),
            format!("{}: {settings}{binding}{notes}", row.target.name),
        ]);
    }
    let vary = first.record.started.vary.name();
    let mut text = format!("\nhighest {vary} that meets each target\n{}", align(&table));
    if rows.len() > MOST_ROWS {
        text += &format!("and {} more; see sla.csv\n", rows.len() - MOST_ROWS);
    }
    text
}
