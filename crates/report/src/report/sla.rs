//! The answers of searches: for each target what every server holds, the rows of `sla.csv` and the table in the terminal.

use super::align::align;
use super::rows::with_combo;
use super::words::show_number;
use itertools::Itertools;
use serde_json::Value;
use std::collections::BTreeMap;
use vsweep_plan::ids::SearchId;
use vsweep_plan::plan::{Params, show, spelling};
use vsweep_plan::units::show_many;
use vsweep_plan::validity::{Doubt, Validity};
use vsweep_record::journal::{RunRecord, SearchEnd, SearchRecord, ServerRecord, State};
use vsweep_record::table::{Point, Points};
use vsweep_strategy::search::{Answer, Basis, Criterion, DOUBT, Found, Probe, RISK, Target, Vary, Verdict};

/// One target of one search that has begun.
pub(super) struct Row<'a> {
    pub record: &'a SearchRecord,
    pub target: &'a Target,
    state: &'a State,
    server: Option<&'a ServerRecord>,
}

/// What the interval beside an answer means.
pub fn explain_interval() -> String {
    format!(
        "the limit lies below the interval with a risk of {} %, and above it with one of {} %, by the search's model",
        show_number(RISK * 100.0),
        show_number(DOUBT * 100.0)
    )
}

/// What to do about answers that are less sure than was asked for.
pub const COARSE: &str = "where the answer says within how many percent, the runs allowed were too few for sla.tolerance; raise \
                          sla.max_probes, or send more requests a run (num_prompts)";

/// Rows of the table in the terminal.
const MOST_ROWS: usize = 20;

fn rows(state: &State) -> Vec<Row<'_>> {
    let rows = state.searches().flat_map(|record| {
        record.started.targets.iter().map(move |target| Row {
            record,
            target,
            state,
            server: state.servers.get(&record.started.server),
        })
    });
    rows.collect()
}

/// The rows of each target under each load in the order of the plan, the highest load first; of equal ones the server that
/// the plan names first. What long prompts allow is no match for what short ones do, so loads do not compete.
pub(super) fn by_target(state: &State) -> Vec<Vec<Row<'_>>> {
    let mut targets: Vec<Vec<Row<'_>>> = Vec::new();
    for row in rows(state) {
        match targets.iter_mut().find(|known| known[0].asks_as(&row)) {
            Some(known) => known.push(row),
            None => targets.push(vec![row]),
        }
    }
    for rows in &mut targets {
        let value = |row: &Row<'_>| row.value().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
    }
    targets
}

/// The points at the best answer of each target under each load, as far as they are there.
pub(super) fn winners(state: &State, points: &Points<'_>) -> Vec<usize> {
    let runs: Vec<&RunRecord> = state.runs().collect();
    let best = by_target(state).into_iter();
    best.filter_map(|rows| rows[0].point(points, &runs)).collect()
}

impl Row<'_> {
    fn asks_as(&self, other: &Row<'_>) -> bool {
        let question = |row: &Row<'_>| (row.target.name.clone(), row.record.started.name.clone());
        question(self) == question(other)
    }

    /// `Target chat`, and the load where there are several.
    pub fn question(&self) -> String {
        let load = self.load().map(|load| format!(", {load}"));
        format!("Target {}{}", self.target.name, load.unwrap_or_default())
    }

    /// The load's name; none if it is the only one.
    pub fn load(&self) -> Option<&str> {
        let name = self.record.started.name.as_str();
        (!name.is_empty() && name != "default").then_some(name)
    }

    /// The highest load that meets the target, if there is one.
    pub fn value(&self) -> Option<f64> {
        self.answer()?.found.value()
    }

    /// Whether its limit may lie as high as the best row's load.
    pub fn may_hold(&self, best: &Row<'_>) -> bool {
        let reach = |row: &Row<'_>| {
            row.answer()
                .filter(|answer| answer.found.value().is_some())
                .map(|answer| answer.high)
        };
        best.value().zip(reach(self)).is_some_and(|(value, high)| high >= value)
    }

    /// The server's settings.
    pub fn settings(&self) -> String {
        self.server
            .map_or_else(|| self.record.started.server.to_string(), |server| server.name.clone())
    }

    /// The point at the answer, by its place in `points.points`; `runs` are those of the table's rows. It has no figures
    /// where its run was cut as soon as the verdict was certain.
    pub fn point(&self, points: &Points<'_>, runs: &[&RunRecord]) -> Option<usize> {
        let started = &self.record.started;
        let value = self.value()?;
        let is_asked = |run: &RunRecord| run.search.as_ref().is_some_and(|search| search.id == started.search);
        let load = |run: &RunRecord| spelling::find(&run.params, started.vary.name()).and_then(Value::as_f64);
        let is_at_it = |run: &&RunRecord| is_asked(run) && load(run) == Some(value);
        let is_there = |point: &Point| runs.get(point.row).is_some_and(is_at_it);
        points.points.iter().position(is_there)
    }

    /// The answer that counts: none of a server whose own answers may not be believed.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.record.ended {
            _ if self.doubt().is_some() => None,
            Some(SearchEnd::Answered(answers)) => answers.iter().find(|answer| answer.target == self.target.name),
            Some(SearchEnd::GivenUp(..)) | None => None,
        }
    }

    /// Why nothing on this server counts, as its answers to the fixed questions tell.
    fn doubt(&self) -> Option<&Doubt> {
        self.state.doubted_server(&self.record.started.server)
    }

    /// Whether the search has not ended, so that its answer is not known yet.
    pub fn is_open(&self) -> bool {
        self.record.ended.is_none()
    }

    /// The answer's word, or why there is none.
    fn word(&self) -> &'static str {
        match &self.record.ended {
            Some(_) if self.doubt().is_some() => Validity::Invalid.name(),
            Some(SearchEnd::Answered(_)) => self.answer().map_or(Found::Undecided, |answer| answer.found).word(),
            Some(SearchEnd::GivenUp(..)) => "given up",
            None => "not finished",
        }
    }

    /// The same for people: `met, within 14 %` where that is less sure than was asked for.
    pub fn words(&self) -> String {
        self.answer().map_or_else(|| self.word().to_owned(), Answer::words)
    }

    /// The answer's load in words: `>= 400` where the highest load allowed meets the target.
    pub fn value_in_words(&self) -> Option<String> {
        self.answer().and_then(|answer| match answer.found {
            Found::Beyond(value) => Some(format!(">= {value}")),
            found => found.value().map(|value| value.to_string()),
        })
    }

    /// Between which loads the answer's limit lies; of whole loads, the highest that may meet the target.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let answer = self.answer()?;
        Some(match self.record.started.vary {
            Vary::MaxConcurrency => (answer.low.floor(), answer.high.floor()),
            Vary::RequestRate => (answer.low, answer.high),
        })
    }

    pub fn notes(&self) -> String {
        if let Some(doubt) = self.doubt() {
            return doubt.to_string();
        }
        match &self.record.ended {
            Some(SearchEnd::Answered(_)) => self.answer().map_or_else(String::new, |answer| answer.notes.join("; ")),
            Some(SearchEnd::GivenUp(cause, detail)) => format!("{cause}: {detail}; {}", self.seen()),
            None => self.seen(),
        }
    }

    /// What the runs of a search without an answer have shown.
    fn seen(&self) -> String {
        let id = &self.record.started.search;
        let meets = |probe: &&Probe| {
            let met = |criterion: &Criterion| {
                let reading = probe.readings.get(&criterion.to_string());
                reading.is_some_and(|reading| reading.met)
            };
            probe.stopped != Some(Verdict::Fail) && self.target.criteria.iter().all(met)
        };
        let passes = self.state.probes(id).filter(meets).map(|probe| probe.question.value);
        let runs = show_many(self.state.probes(id).count() as u64, "run");
        match passes.reduce(f64::max) {
            Some(highest) => format!("after {runs} the highest load seen to meet the target is {highest}"),
            None => format!("after {runs} no load was seen to meet the target"),
        }
    }
}

/// `sla.csv`: a row for each server config, load and target; `None` where no search has begun.
pub fn to_csv(state: &State) -> Option<Vec<u8>> {
    let rows = rows(state);
    if rows.is_empty() {
        return None;
    }
    let none = Params::new();
    let serve_of = |row: &Row<'_>| {
        let server = row.server;
        server.map_or(none.clone(), |server| {
            with_combo(&server.params, server.combo.as_deref()).into_owned()
        })
    };
    let names = |params: &dyn Fn(&Row<'_>) -> Params| -> Vec<String> {
        let all = rows
            .iter()
            .flat_map(|row| params(row).keys().cloned().collect::<Vec<_>>());
        all.unique().collect()
    };
    // Which combination a load is, its runs say.
    let runs = state
        .runs()
        .filter_map(|run| Some((&run.search.as_ref()?.id, run.combo.as_deref()?)));
    let combos: BTreeMap<&SearchId, &str> = runs.collect();
    let bench_of = |row: &Row<'_>| {
        let started = &row.record.started;
        with_combo(&started.params, combos.get(&started.search).copied()).into_owned()
    };
    let (serve, bench) = (names(&serve_of), names(&bench_of));
    let title = |side: &str, name: &String, other: &[String]| match other.contains(name) {
        true => format!("{side}.{name}"),
        false => name.clone(),
    };
    let mut header = vec!["server".to_owned()];
    header.extend(serve.iter().map(|name| title("serve", name, &bench)));
    header.extend(bench.iter().map(|name| title("bench", name, &serve)));
    let rest = [
        "target",
        "vary",
        "value",
        "low",
        "high",
        "answer",
        "within",
        "binding",
        "probes",
        "seed",
        "seed_from",
        "notes",
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
        line.push(row.word().to_owned());
        line.push(number(answer.and_then(|answer| answer.within)));
        line.push(answer.and_then(|answer| answer.binding.clone()).unwrap_or_default());
        line.push(answer.map_or_else(String::new, |answer| answer.probes.to_string()));
        let seed = row.record.started.seed;
        line.push(seed.value.to_string());
        line.push(seed.basis.map_or("", Basis::word).to_owned());
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
    /// The answer in words, and whether it is less sure than was asked for.
    pub answer: String,
    pub is_coarse: bool,
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
        let interval = row.interval().map(|(low, high)| match high.is_finite() {
            true => format!("{} and {}", show_number(low), show_number(high)),
            false => format!("above {}", show_number(low)),
        });
        Shown {
            target: row.target.name.clone(),
            settings: search_name(row.record, state),
            value: row.value_in_words().unwrap_or_else(dash),
            interval: interval.unwrap_or_else(dash),
            answer: row.words(),
            is_coarse: answer.is_some_and(|answer| answer.is_coarse),
            binding: answer.and_then(|answer| answer.binding.clone()).unwrap_or_default(),
            probes: answer.map_or_else(dash, |answer| answer.probes.to_string()),
            notes: row.notes(),
        }
    };
    rows(state).iter().map(show).collect()
}

/// The load that the searches vary; `None` where no search has begun.
pub fn varied(state: &State) -> Option<&'static str> {
    rows(state).first().map(|row| row.record.started.vary.name())
}

/// The answers for a terminal; empty where no search has begun.
pub fn to_text(state: &State) -> String {
    let Some(vary) = varied(state) else {
        return String::new();
    };
    let header = [
        "highest",
        "limit between",
        "answer",
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
            row.answer.clone(),
            row.probes.clone(),
            format!("{}: {}{binding}{notes}", row.target, row.settings),
        ]);
    }
    let mut text = format!("\nhighest {vary} that meets each target\n{}", align(&table));
    if all.iter().any(|row| row.interval != "-") {
        text += &format!("{}\n", explain_interval());
    }
    if all.iter().any(|row| row.is_coarse) {
        text += &format!("{COARSE}\n");
    }
    if all.len() > MOST_ROWS {
        text += &format!("and {} more; see sla.csv\n", all.len() - MOST_ROWS);
    }
    text
}
