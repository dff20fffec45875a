//! Which settings of the server mattered for a figure: points as observations for the statistics ([`vsweep_strategy::stats::Effects`]),
//! and what those found in words. Charts and pages show it.

use super::variation::{swept, varying, within};
use super::words::{axis_title, short_name, short_setting, show_number};
use super::yardstick::Yardstick;
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
    settings: Vec<Setting<'t>>,
    load: Option<Setting<'t>>,
}

#[derive(Debug)]
struct Setting<'t> {
    column: &'t Column,
    values: Vec<&'t Cell>,
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
    let settings: Vec<Setting<'_>> = server.into_iter().map(|column| Setting::of(column, &rows)).collect();
    let loads = Loads::of(points, &bench, &rows);
    let mut observations = Vec::new();
    for point in measured {
        let values: Vec<usize> = settings.iter().map(|setting| setting.place(point.row)).collect();
        let load = loads.place(point.row);
        let logs = point
            .used
            .iter()
            .filter_map(|row| Some((points.runs.slot(*row), log(column, *row)?)));
        let of_starts = logs.into_group_map().into_iter().sorted_by_key(|(start, _)| *start);
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
        load: loads.of_one.map(|column| Setting::of(column, &rows)),
        settings,
    })
}

/// The logarithm of a figure above 0.
fn log(column: &Column, row: usize) -> Option<f64> {
    let value = column.cells[row].number().filter(|value| *value > 0.0);
    value.map(f64::ln)
}

impl<'t> Setting<'t> {
    fn of(column: &'t Column, rows: &[usize]) -> Self {
        let cells = rows.iter().map(|row| &column.cells[*row]);
        let mut values: Vec<&Cell> = cells.collect();
        values.sort_by(|a, b| a.order(b));
        values.dedup();
        Setting { column, values }
    }

    fn place(&self, row: usize) -> usize {
        let cell = &self.column.cells[row];
        self.values.iter().position(|value| *value == cell).unwrap_or_default()
    }

    fn name(&self, at: usize) -> String {
        short_setting(&self.column.name, self.values[at])
    }

    /// A value where the setting was named just before.
    fn value(&self, at: usize) -> String {
        match self.values[at] {
            Cell::Integer(_) | Cell::Text(_) => self.values[at].to_string(),
            Cell::Float(number) => show_number(*number),
            _ => self.name(at),
        }
    }
}

/// The loads of a workload: what its points were measured under apart from the server.
struct Loads<'t> {
    columns: Vec<&'t Column>,
    /// A row of each load, in order.
    rows: Vec<usize>,
    /// The parameter whose values are the loads, where it is the only one.
    of_one: Option<&'t Column>,
}

impl<'t> Loads<'t> {
    fn of(points: &Points<'t>, bench: &[&'t Column], rows: &[usize]) -> Self {
        let first = swept(points, bench).filter(|column| column.section == Section::Bench);
        let all = first.into_iter().chain(bench.iter().copied());
        let columns: Vec<&Column> = all.unique_by(|column| &column.name).collect();
        let order = |a: &usize, b: &usize| Self::order(&columns, *a, *b);
        let mut rows = rows.to_vec();
        rows.sort_by(order);
        rows.dedup_by(|a, b| order(a, b).is_eq());
        Loads {
            of_one: first.filter(|_| columns.len() == 1),
            columns,
            rows,
        }
    }

    fn order(columns: &[&Column], a: usize, b: usize) -> Ordering {
        let orders = columns.iter().map(|column| column.cells[a].order(&column.cells[b]));
        orders.fold(Ordering::Equal, Ordering::then)
    }

    fn place(&self, row: usize) -> usize {
        let mut loads = self.rows.iter();
        loads
            .position(|load| Self::order(&self.columns, *load, row).is_eq())
            .unwrap_or_default()
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

/// How much is known of what a setting does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// More than the noise.
    Matters,
    /// Less than two runs of one point differ.
    Noise,
    /// Too little was measured to tell.
    Undecided,
}

impl Mattered<'_> {
    /// The setting that matters most.
    pub fn leading(&self) -> &str {
        &self.settings[self.found.effects[0].setting].column.name
    }

    /// Sorts settings from the one that matters most to the one that matters least; those of which nothing can be said come last.
    pub fn sort(&self, columns: &mut [&Column]) {
        columns.sort_by_key(|column| {
            let mut effects = self.found.effects.iter();
            let place = effects.position(|effect| self.settings[effect.setting].column.name == column.name);
            place.unwrap_or(usize::MAX)
        });
    }

    /// How much is known of an effect.
    pub fn weight(&self, effect: &Effect) -> Weight {
        let margin = Margin { log: self.noise };
        let verdict = effect
            .interval
            .map(|interval| Verdict::of(interval, margin, Better::Higher));
        match verdict {
            Some(Verdict::Same) => Weight::Noise,
            Some(Verdict::Improved | Verdict::Regressed) => Weight::Matters,
            Some(Verdict::Undecided) | None => Weight::Undecided,
        }
    }

    /// `TP 2 over 8`: the value with the highest figure over the one with the lowest.
    pub fn name(&self, effect: &Effect) -> String {
        let setting = &self.settings[effect.setting];
        let (low, high) = effect.values;
        format!("{} over {}", setting.name(high), setting.value(low))
    }

    /// What was found, a sentence each: what matters, what does not, what cannot be told, and what depends on what.
    pub fn sentences(&self) -> Vec<String> {
        let of = |weight| {
            self.found
                .effects
                .iter()
                .filter(move |effect| self.weight(effect) == weight)
        };
        let mut told: Vec<String> = of(Weight::Matters).map(|effect| self.tell(effect)).collect();
        let runs = percent(self.noise);
        let leads = [
            (
                Weight::Noise,
                format!("Less than the noise, which is {runs} between two runs of a point"),
            ),
            (Weight::Undecided, "Too little was measured to tell".to_owned()),
        ];
        for (weight, lead) in leads {
            let mut named = of(weight).map(|effect| format!("{} {}", self.short(effect), self.reach(effect)));
            let named = named.join("; ");
            if !named.is_empty() {
                told.push(format!("{lead}: {named}"));
            }
        }
        told.extend(self.interaction());
        told
    }

    /// The same in a line: the setting that matters most, and those that do not; nothing if neither can be told.
    pub fn brief(&self) -> Option<String> {
        let effects = || self.found.effects.iter();
        let most = effects().find(|effect| self.weight(effect) == Weight::Matters);
        let most = most.map(|effect| {
            let ratio = show_number(effect.ratio.log.exp());
            format!("{}, {ratio} times at equal load", self.name(effect))
        });
        let least = effects().filter(|effect| self.weight(effect) == Weight::Noise);
        let least = least.map(|effect| self.short(effect)).join(", ");
        let least = (!least.is_empty()).then(|| {
            format!(
                "less than the noise of {} between two runs: {least}",
                percent(self.noise)
            )
        });
        let told = most.into_iter().chain(least).join("; ");
        (!told.is_empty()).then_some(told)
    }

    fn short(&self, effect: &Effect) -> String {
        short_name(&self.settings[effect.setting].column.name)
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
        let name = |at: usize| match (found.with, &self.load) {
            (With::Setting(other), _) => self.settings[other].name(at),
            (With::Load, Some(load)) => load.name(at),
            (With::Load, None) if at == found.at.0 => "the lowest load".to_owned(),
            (With::Load, None) => "the highest load".to_owned(),
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
