//! The answers of searches: for each target what every server holds, the rows of `sla.csv` and the table in the terminal.

mod csv;

pub use csv::to_csv;

use super::align::align;
use super::words::{short_label, show_number};
use serde::Serialize;
use serde_json::Value;
use vsweep_plan::plan::spelling;
use vsweep_plan::units::show_many;
use vsweep_plan::validity::Validity;
use vsweep_record::journal::{RunRecord, SearchRecord, ServerRecord, State};
use vsweep_record::table::{Point, Points, Sought, Standing, races, sought};
use vsweep_strategy::search::{Answer, Criterion, DOUBT, Found, Probe, RISK, Vary, Verdict};

/// One target of one search that has begun, in words.
#[derive(Debug)]
pub(super) struct Row<'a> {
    sought: Sought<'a>,
    state: &'a State,
    server: Option<&'a ServerRecord>,
}

/// The rows of one target under one load, the winner first.
pub(super) struct Ranked<'a> {
    pub rows: Vec<Row<'a>>,
    /// How many of them cannot be told from the best one, the winner included.
    equals: usize,
    standing: Option<Standing>,
}

/// What the interval beside an answer means.
pub fn explain_interval() -> String {
    format!(
        "by the search's model, the true limit lies below the interval in {} % of cases, and above it in {} %",
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
    sought(state).into_iter().map(|sought| Row::of(sought, state)).collect()
}

/// The rows of each target under each load in the order of the plan.
pub(super) fn by_target(state: &State) -> Vec<Ranked<'_>> {
    let ranked = races(state).into_iter().map(|race| Ranked {
        rows: race.servers.into_iter().map(|sought| Row::of(sought, state)).collect(),
        equals: race.equals,
        standing: race.standing,
    });
    ranked.collect()
}

/// The points at the best answer of each target under each load, as far as they are there.
pub(super) fn winners(state: &State, points: &Points<'_>) -> Vec<usize> {
    let runs: Vec<&RunRecord> = state.runs().collect();
    let best = by_target(state).into_iter();
    best.filter_map(|ranked| ranked.rows[0].point(points, &runs)).collect()
}

impl<'a> Ranked<'a> {
    /// The winner, and the others.
    pub fn split(&self) -> (&Row<'a>, &[Row<'a>]) {
        self.rows.split_first().expect("a target is sought on a server")
    }

    /// Those that cannot be told from the winner.
    pub fn tied(&self) -> &[Row<'a>] {
        &self.rows[1..self.equals.max(1)]
    }

    /// In what they are tied with it.
    pub fn why_tied(&self) -> &'static str {
        match self.standing {
            None => "with others whose limit may lie as high",
            Some(standing) => standing.words(),
        }
    }
}

impl<'a> Row<'a> {
    fn of(sought: Sought<'a>, state: &'a State) -> Row<'a> {
        Row {
            server: state.servers.get(&sought.record().started.server),
            sought,
            state,
        }
    }
}

impl<'a> std::ops::Deref for Row<'a> {
    type Target = Sought<'a>;

    fn deref(&self) -> &Sought<'a> {
        &self.sought
    }
}

impl Row<'_> {
    /// `Target chat`, and the load where there are several.
    pub fn question(&self) -> String {
        let load = self.load_name().map(|load| format!(", {load}"));
        format!("Target {}{}", self.target.name, load.unwrap_or_default())
    }

    /// The load's name; none if it is the only one.
    pub fn load_name(&self) -> Option<&str> {
        let name = self.record().started.name.as_str();
        (!name.is_empty() && name != "default").then_some(name)
    }

    /// The server's settings.
    pub fn settings(&self) -> String {
        self.server.map_or_else(
            || self.record().started.server.to_string(),
            |server| server.name.clone(),
        )
    }

    /// The point at the answer, by its place in `points.points`; `runs` are those of the table's rows. It has no figures
    /// where its run was cut as soon as the verdict was certain.
    pub fn point(&self, points: &Points<'_>, runs: &[&RunRecord]) -> Option<usize> {
        let started = &self.record().started;
        let value = self.load()?;
        let is_asked = |run: &RunRecord| run.search.as_ref() == Some(&started.search);
        let load = |run: &RunRecord| spelling::find(&run.params, started.vary.name()).and_then(Value::as_f64);
        let is_at_it = |run: &&RunRecord| is_asked(run) && load(run) == Some(value);
        let is_there = |point: &Point| runs.get(point.row).is_some_and(is_at_it);
        points.points.iter().position(is_there)
    }

    /// The answer's word, or why there is none.
    fn word(&self) -> &'static str {
        match self.answer() {
            _ if self.is_open() => "not finished",
            _ if self.doubt().is_some() => Validity::Invalid.name(),
            Some(answer) => answer.found.word(),
            None if self.given_up().is_some() => "given up",
            None => Found::Undecided.word(),
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
        Some(match self.record().started.vary {
            Vary::MaxConcurrency => (answer.low.floor(), answer.high.floor()),
            Vary::RequestRate => (answer.low, answer.high),
        })
    }

    pub fn notes(&self) -> String {
        if let Some(doubt) = self.doubt() {
            return doubt.to_string();
        }
        match (self.answer(), self.given_up()) {
            _ if self.is_open() => self.seen(),
            (Some(answer), _) => answer.notes.join("; "),
            (None, Some((cause, detail))) => format!("{cause}: {detail}; {}", self.seen()),
            (None, None) => String::new(),
        }
    }

    /// What the runs of a search without an answer have shown.
    fn seen(&self) -> String {
        let mut probes: Vec<&Probe> = Vec::new();
        for record in &self.starts {
            probes.extend(self.state.probes(&record.started.search, record.started.slot));
        }
        let meets = |probe: &&&Probe| {
            let met = |criterion: &Criterion| {
                let reading = probe.readings.get(&criterion.to_string());
                reading.is_some_and(|reading| reading.met)
            };
            probe.stopped != Some(Verdict::Fail) && self.target.criteria.iter().all(met)
        };
        let passes = probes.iter().filter(meets).map(|probe| probe.question.value);
        let runs = show_many(probes.len() as u64, "run");
        match passes.reduce(f64::max) {
            Some(highest) => format!("after {runs} the highest load seen to meet the target is {highest}"),
            None => format!("after {runs} no load was seen to meet the target"),
        }
    }
}

/// What tells a search from the others: its server, its load unless that is the only one, and its start where there are several.
pub fn search_name(record: &SearchRecord, state: &State) -> String {
    let name = name_on_any_start(record, state);
    match state.planning_session().is_some_and(|planned| planned.starts > 1) {
        true => format!("{name}, start {}", record.started.slot + 1),
        false => name,
    }
}

fn name_on_any_start(record: &SearchRecord, state: &State) -> String {
    let server = state.servers.get(&record.started.server);
    let server = server.map_or_else(|| record.started.server.to_string(), |server| short_label(&server.name));
    match record.started.name.as_str() {
        "default" => server,
        load => format!("{server}, {load}"),
    }
}

/// One answer in words.
#[derive(Serialize)]
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
            settings: name_on_any_start(row.record(), state),
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
    rows(state).first().map(|row| row.record().started.vary.name())
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
