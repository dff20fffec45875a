//! Which settings of the server mattered for a figure: points as observations for the statistics ([`vsweep_strategy::stats::Effects`]),
//! and what those found in words. Charts and pages show it.

use super::variation::{swept, varying, within};
use super::words::{axis_title, short_name, short_setting, show_number};
use super::yardstick::Yardstick;
use crate::report::ordered::{Order, Ordered};
use itertools::Itertools;
use std::cmp::Ordering;
use vsweep_plan::units::show_many;
use vsweep_record::table::{Cell, Column, Points, Section, Workload};
use vsweep_strategy::stats::{
    Basis, Better, Effect, Effects, Interval, Margin, Observation, Verdict, With, normal_quantile,
};

/// The share of differences between equals that are called noise.
const NOISE_TAIL: f64 = 0.025;
/// From the lowest to the highest end of an interval that says anything, as a logarithm: a factor of ten.
const WIDEST: f64 = 2.3;

/// What the settings of the server did to one figure of a workload.
#[derive(Debug)]
pub struct Mattered<'t> {
    /// The figure.
    pub metric: String,
    /// What was found, the strongest first.
    pub found: Effects,
    /// The largest change that is noise, as a logarithm.
    pub noise: f64,
    settings: Vec<Levels<'t>>,
    loads: Levels<'t>,
}

/// What rows differ in: one setting of the server, or all that makes a load.
#[derive(Debug)]
struct Levels<'t> {
    columns: Vec<&'t Column>,
    /// A row of each level, in order.
    rows: Vec<usize>,
}

/// What mattered in each workload of an experiment.
#[derive(Debug)]
pub struct Findings<'t>(Vec<Vec<Mattered<'t>>>);

impl<'t> Findings<'t> {
    /// In the order of [`Points::workloads`], for throughput and for latency.
    pub fn of(points: &Points<'t>) -> Self {
        let varied = varying(points);
        let of_workload = |workload: &Workload<'_>| {
            let metrics = Yardstick::measured(points, workload).into_iter();
            metrics
                .flatten()
                .filter_map(|metric| find(points, workload, &varied, metric))
                .collect()
        };
        Findings(points.workloads().iter().map(of_workload).collect())
    }

    /// What mattered in the workload of this place, a figure each.
    pub fn of_workload(&self, place: usize) -> &[Mattered<'t>] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// The setting that matters most for throughput, by the first workload that tells.
    pub fn leading(&self) -> Option<&str> {
        Some(self.0.iter().find_map(|found| found.first())?.leading())
    }
}

/// What mattered for a figure; none where nothing but the load was varied, or too little was measured.
fn find<'t>(points: &Points<'t>, workload: &Workload<'_>, varied: &[&'t Column], metric: &str) -> Option<Mattered<'t>> {
    let column = points.runs.column(metric)?;
    let (server, bench): (Vec<&Column>, Vec<&Column>) =
        within(varied, workload).partition(|column| column.section == Section::Serve);
    let measured = workload.points.iter().map(|at| &points.points[*at]);
    let measured: Vec<_> = measured.filter(|point| !point.used.is_empty()).collect();
    let rows: Vec<usize> = measured.iter().map(|point| point.row).collect();
    let settings = server.into_iter().map(|column| Levels::of(vec![column], &rows));
    let settings: Vec<Levels<'_>> = settings.collect();
    let first = swept(points, &bench).filter(|column| column.section == Section::Bench);
    let load = first.into_iter().chain(bench).unique_by(|column| &column.name);
    let loads = Levels::of(load.collect(), &rows);
    let mut observations = Vec::new();
    for point in measured {
        let values: Vec<usize> = settings.iter().map(|setting| setting.place(point.row)).collect();
        let load = loads.place(point.row);
        let logs = point
            .used
            .iter()
            .filter_map(|row| Some((points.runs.slot(*row), log(column, *row)?)));
        let of_starts = logs.into_group_map().into_iter().ordered_by_key(|(start, _)| *start);
        observations.extend(of_starts.map(|(start, logs)| Observation {
            values: values.clone(),
            load,
            start,
            log: logs.iter().sum::<f64>() / logs.len() as f64,
        }));
    }
    let found = Effects::of(&observations, settings.len());
    (!found.effects.is_empty()).then(|| Mattered {
        metric: column.name.clone(),
        found,
        noise: noise(points, workload, column),
        settings,
        loads,
    })
}

/// The logarithm of a figure above 0.
fn log(column: &Column, row: usize) -> Option<f64> {
    let value = column.cells[row].number().filter(|value| *value > 0.0);
    value.map(f64::ln)
}

impl<'t> Levels<'t> {
    fn of(columns: Vec<&'t Column>, rows: &[usize]) -> Self {
        let order = |a: &usize, b: &usize| Self::order(&columns, *a, *b);
        let rows = rows.iter().copied().ordered_by(order);
        let rows = rows.dedup_by(|a, b| order(a, b).is_eq()).collect();
        Levels { columns, rows }
    }

    fn order(columns: &[&Column], a: usize, b: usize) -> Ordering {
        let orders = columns.iter().map(|column| column.cells[a].order(&column.cells[b]));
        orders.fold(Ordering::Equal, Ordering::then)
    }

    fn place(&self, row: usize) -> usize {
        let mut rows = self.rows.iter();
        rows.position(|known| Self::order(&self.columns, *known, row).is_eq())
            .unwrap_or_default()
    }

    /// The name of the setting, or of the load's first parameter.
    fn column(&self) -> &str {
        &self.columns[0].name
    }

    fn name(&self, at: usize) -> String {
        short_setting(self.column(), &self.columns[0].cells[self.rows[at]])
    }

    /// A value where the setting was named just before.
    fn value(&self, at: usize) -> String {
        match &self.columns[0].cells[self.rows[at]] {
            cell @ (Cell::Integer(_) | Cell::Text(_)) => cell.to_string(),
            Cell::Float(number) => show_number(*number),
            _ => self.name(at),
        }
    }
}

/// By how much two runs of one point differ in 19 of 20 cases, as a logarithm; never less than what does not matter.
fn noise(points: &Points<'_>, workload: &Workload<'_>, column: &Column) -> f64 {
    let least = Margin::percent(Margin::TYPICAL_PERCENT).log;
    let (mut squares, mut freedom) = (0.0, 0.0);
    for at in &workload.points {
        let used = points.points[*at].used.iter();
        let logs: Vec<f64> = used.filter_map(|row| log(column, *row)).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        freedom += logs.len().saturating_sub(1) as f64;
    }
    if freedom == 0.0 {
        return least;
    }
    (normal_quantile(NOISE_TAIL) * (2.0 * squares / freedom).sqrt()).max(least)
}

impl Mattered<'_> {
    /// The setting that matters most.
    pub fn leading(&self) -> &str {
        self.settings[self.found.effects[0].setting].column()
    }

    /// Sorts settings from the one that matters most to the one that matters least; those of which nothing can be said come last.
    pub fn sort(&self, columns: &mut Vec<&Column>) {
        columns.order_by_key(|column| {
            let mut effects = self.found.effects.iter();
            let place = effects.position(|effect| self.settings[effect.setting].column() == column.name);
            place.unwrap_or(usize::MAX)
        });
    }

    /// What is known of an effect, whose best value is held against its worst: an improvement of more than the noise, the same but for
    /// noise, or undecided where too little was measured to tell.
    pub fn verdict(&self, effect: &Effect) -> Verdict {
        let margin = Margin { log: self.noise };
        let verdict = |interval| Verdict::of(interval, margin, Better::Higher);
        effect.interval.map_or(Verdict::Undecided, verdict)
    }

    /// `TP 2 over 8`: the value with the highest figure over the one with the lowest.
    pub fn name(&self, effect: &Effect) -> String {
        let setting = &self.settings[effect.setting];
        let (low, high) = effect.values;
        format!("{} over {}", setting.name(high), setting.value(low))
    }

    /// What was found, a sentence each: what matters, what does not, what cannot be told, and what depends on what.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self
            .of_verdict(Verdict::Improved)
            .map(|effect| self.tell(effect))
            .collect();
        let runs = percent(self.noise);
        let leads = [
            (
                Verdict::Same,
                format!("Less than the noise, which is {runs} between two runs of a point"),
            ),
            (Verdict::Undecided, "Too little was measured to tell".to_owned()),
        ];
        for (verdict, lead) in leads {
            let named = self.of_verdict(verdict);
            let named = named
                .map(|effect| format!("{} {}", self.short(effect), self.reach(effect)))
                .join("; ");
            if !named.is_empty() {
                sentences.push(format!("{lead}: {named}"));
            }
        }
        sentences.extend(self.interaction());
        sentences
    }

    /// The same in a line: the setting that matters most, and those that do not; nothing if neither can be told.
    pub fn brief(&self) -> Option<String> {
        let most = self.of_verdict(Verdict::Improved).next().map(|effect| {
            let ratio = show_number(effect.ratio.log.exp());
            format!("{}, {ratio} times at equal load", self.name(effect))
        });
        let least = self
            .of_verdict(Verdict::Same)
            .map(|effect| self.short(effect))
            .join(", ");
        let runs = percent(self.noise);
        let least = (!least.is_empty()).then(|| format!("less than the noise of {runs} between two runs: {least}"));
        let text = most.into_iter().chain(least).join("; ");
        (!text.is_empty()).then_some(text)
    }

    fn of_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &Effect> {
        let effects = self.found.effects.iter();
        effects.filter(move |effect| self.verdict(effect) == verdict)
    }

    fn short(&self, effect: &Effect) -> String {
        short_name(self.settings[effect.setting].column())
    }

    fn tell(&self, effect: &Effect) -> String {
        let setting = &self.settings[effect.setting];
        let (low, high) = effect.values;
        let ratio = show_number(effect.ratio.log.exp());
        format!(
            "{} has {ratio} times the figure of {} {}",
            setting.name(high),
            setting.value(low),
            self.reach(effect)
        )
    }

    /// The interval of an effect, where it says anything.
    pub fn interval(&self, effect: &Effect) -> Option<Interval> {
        effect.interval.filter(|interval| interval.high - interval.low < WIDEST)
    }

    /// `(95 %: 1.6 to 1.9 times, 8 pairs of servers)`.
    fn reach(&self, effect: &Effect) -> String {
        let basis = match effect.basis {
            Basis::Pairs(count) => show_many(count as u64, "pair") + " of servers",
            Basis::Model(count) => format!("additive model of {}", show_many(count as u64, "server")),
        };
        match self.interval(effect).map(Interval::exp) {
            Some((low, high)) => format!("(95 %: {} to {} times, {basis})", show_number(low), show_number(high)),
            None => format!("({} times, {basis})", show_number(effect.ratio.log.exp())),
        }
    }

    fn interaction(&self) -> Option<String> {
        let found = self.found.interaction.as_ref()?;
        let setting = &self.settings[found.setting];
        let name = |at: usize| match found.with {
            With::Setting(other) => self.settings[other].name(at),
            With::Load if self.loads.columns.len() == 1 => self.loads.name(at),
            With::Load if at == found.at.0 => "the lowest load".to_owned(),
            With::Load => "the highest load".to_owned(),
        };
        let (first, second) = (found.logs.0.exp(), found.logs.1.exp());
        Some(format!(
            "It depends: {} over {} is {} times at {}, and {} times at {}",
            setting.name(found.values.1),
            setting.value(found.values.0),
            show_number(first),
            name(found.at.0),
            show_number(second),
            name(found.at.1),
        ))
    }

    /// What the sentences are about: `Output tokens/s per GPU, at equal load`.
    pub fn subject(&self) -> String {
        let title = axis_title(&self.metric);
        let name = title.split_once(" (").map_or(title.as_str(), |(name, _)| name);
        format!("{name}, at equal load")
    }
}

/// A logarithm of a ratio as a change: `+72 %`.
pub fn percent(log: f64) -> String {
    let change = log.exp_m1() * 100.0;
    let sign = if change < 0.0 { "-" } else { "" };
    // Two digits: nothing here is known better.
    match change.abs() {
        large if large >= 9.95 => format!("{sign}{} %", show_number(large.round())),
        small => format!("{sign}{small:.1} %"),
    }
}
