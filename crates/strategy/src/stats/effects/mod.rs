//! What each setting of a server does to a figure at equal load: the mean difference between configs that differ in that setting
//! alone, and which two settings do not simply add up. A pair of configs is the unit, since all loads of a server share its start.
//! Where no two configs differ in one setting alone, a model of additive logarithms stands in. What settings are called is not
//! known here.

mod model;

use super::{ALPHA, Estimate, Interval, RunPrior, Start, estimate, holm};
use std::collections::{BTreeMap, BTreeSet};

/// A figure of one server config under one load, on one start of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// For each setting, the place of its value in the order of values.
    pub values: Vec<usize>,
    /// The place of the load, in ascending order.
    pub load: usize,
    /// Which start of the server.
    pub start: u32,
    /// The natural logarithm of the figure.
    pub log: f64,
}

/// What one setting does.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The place of the setting.
    pub setting: usize,
    /// The value with the lowest figure and the one with the highest.
    pub values: (usize, usize),
    /// The figure at the highest over that at the lowest, as a logarithm.
    pub ratio: Estimate,
    /// Its 95 % interval, widened for the choice of two of several values; none where one pair was measured on one start.
    pub interval: Option<Interval>,
    /// What it rests on.
    pub basis: Basis,
}

/// What an effect rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// So many pairs of configs that differ in this setting alone.
    Pairs(usize),
    /// An additive model of the logarithms of so many configs.
    Model(usize),
}

/// What the effect of a setting depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// The place of another setting.
    Setting(usize),
    /// The load.
    Load,
}

/// A setting whose effect is another at one value of something else than at another.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// The setting, and its two values as in its [`Effect`].
    pub setting: usize,
    /// See [`Effect::values`].
    pub values: (usize, usize),
    /// What that depends on.
    pub with: With,
    /// Two values of it.
    pub at: (usize, usize),
    /// The logarithm of the ratio at the first and at the second of them.
    pub logs: (f64, f64),
}

/// What all settings do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    /// The strongest first. A setting that nothing can be said of is missing.
    pub effects: Vec<Effect>,
    /// The largest interaction that is no chance, by Holm's correction over all of them.
    pub interaction: Option<Interaction>,
}

/// A config's logarithms, by load and start.
type Logs = BTreeMap<usize, BTreeMap<u32, f64>>;
type Configs = BTreeMap<Vec<usize>, Logs>;

impl Effects {
    /// Those of so many settings. Several observations of one config, load and start are taken for one, the last.
    pub fn of(observations: &[Observation], settings: usize) -> Effects {
        let mut configs = Configs::new();
        for one in observations.iter().filter(|one| one.log.is_finite()) {
            let logs = configs.entry(one.values.clone()).or_default();
            logs.entry(one.load).or_default().insert(one.start, one.log);
        }
        let mut effects: Vec<Effect> = (0..settings).filter_map(|at| effect(&configs, at)).collect();
        effects.sort_by(|a, b| b.ratio.log.total_cmp(&a.ratio.log));
        let interaction = largest_interaction(&configs, &effects);
        Effects { effects, interaction }
    }
}

fn effect(configs: &Configs, setting: usize) -> Option<Effect> {
    let mut alike: BTreeMap<Vec<usize>, Vec<(usize, &Logs)>> = BTreeMap::new();
    for (values, logs) in configs {
        let mut others = values.clone();
        let value = others.remove(setting);
        alike.entry(others).or_default().push((value, logs));
    }
    let mut pairs: BTreeMap<(usize, usize), Vec<(&Logs, &Logs)>> = BTreeMap::new();
    for members in alike.values() {
        for (i, (a, of_a)) in members.iter().enumerate() {
            for (b, of_b) in &members[i + 1..] {
                if difference(of_a, of_b).is_some() {
                    pairs.entry((*a, *b)).or_default().push((of_a, of_b));
                }
            }
        }
    }
    let choices = pairs.len();
    let estimated = pairs
        .into_iter()
        .map(|(values, pairs)| (values, over_pairs(&pairs), pairs.len()));
    // A single pair says little, however far apart its values are.
    let most = estimated.max_by(|a, b| {
        (a.2 > 1, a.1.log.abs())
            .partial_cmp(&(b.2 > 1, b.1.log.abs()))
            .expect("finite")
    });
    let (values, ratio, basis) = match most {
        Some((values, ratio, count)) => (values, ratio, Basis::Pairs(count)),
        None => {
            let (values, ratio) = model::contrast(configs, setting)?;
            (values, ratio, Basis::Model(configs.len()))
        }
    };
    let (low, high) = values;
    let values = if ratio.log < 0.0 { (high, low) } else { (low, high) };
    let ratio = Estimate {
        log: ratio.log.abs(),
        ..ratio
    };
    let interval = ratio.interval(ALPHA / choices.max(1) as f64);
    Some(Effect {
        setting,
        values,
        ratio,
        // Too few pairs leave no bound at all.
        interval: interval.filter(|interval| interval.low.is_finite()),
        basis,
    })
}

/// The mean over loads that both have of the second's logarithm less the first's.
fn difference(a: &Logs, b: &Logs) -> Option<f64> {
    let shared = a
        .iter()
        .filter_map(|(load, logs)| Some(mean(b.get(load)?.values()) - mean(logs.values())));
    let shared: Vec<f64> = shared.collect();
    (!shared.is_empty()).then(|| mean(shared.iter()))
}

/// What pairs amount to: by how they differ from each other, or, if there is but one, by how its starts do.
fn over_pairs(pairs: &[(&Logs, &Logs)]) -> Estimate {
    if let [(a, b)] = pairs {
        let of_a = by_start(a, b);
        let of_b = by_start(b, a);
        if let (Some(a), Some(b)) = (estimate(&of_a, RunPrior::TYPICAL), estimate(&of_b, RunPrior::TYPICAL)) {
            return b.minus(a);
        }
    }
    let differences = pairs.iter().filter_map(|(a, b)| difference(a, b));
    Estimate::of_mean(&differences.collect::<Vec<f64>>())
}

/// The starts of the first config, over the loads that the second has too and all starts have.
fn by_start(of: &Logs, other: &Logs) -> Vec<Start> {
    let starts: BTreeSet<u32> = of.values().flat_map(|logs| logs.keys().copied()).collect();
    let is_whole = |logs: &&BTreeMap<u32, f64>| starts.iter().all(|start| logs.contains_key(start));
    let shared: Vec<&BTreeMap<u32, f64>> = of
        .iter()
        .filter(|(load, _)| other.contains_key(load))
        .map(|(_, logs)| logs)
        .filter(is_whole)
        .collect();
    let of_start = |start: &u32| Start::of(&[mean(shared.iter().map(|logs| &logs[start])).exp()]);
    match shared.is_empty() {
        true => Vec::new(),
        false => starts.iter().filter_map(of_start).collect(),
    }
}

/// Of all pairs of settings, and of each setting and the load.
fn largest_interaction(configs: &Configs, effects: &[Effect]) -> Option<Interaction> {
    let mut found: Vec<(Interaction, f64)> = Vec::new();
    for (rank, effect) in effects.iter().enumerate() {
        let stronger = effects[..rank]
            .iter()
            .map(|other| (With::Setting(other.setting), other.values));
        let of_load = ends(configs, effect).map(|ends| (With::Load, ends));
        for (with, at) in stronger.chain(of_load) {
            found.extend(interaction(configs, effect, with, at));
        }
    }
    let p_values: Vec<f64> = found.iter().map(|(_, p_value)| *p_value).collect();
    let sure = found
        .into_iter()
        .zip(holm(&p_values))
        .filter(|(_, adjusted)| *adjusted <= ALPHA);
    let change = |found: &Interaction| (found.logs.1 - found.logs.0).abs();
    sure.map(|((found, _), _)| found)
        .max_by(|a, b| change(a).total_cmp(&change(b)))
}

/// The lowest and the highest load under which two pairs or more were measured.
fn ends(configs: &Configs, effect: &Effect) -> Option<(usize, usize)> {
    let (low, high) = effect.values;
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    for (values, of_low) in configs.iter().filter(|(values, _)| values[effect.setting] == low) {
        let mut values = values.clone();
        values[effect.setting] = high;
        let shared = configs.get(&values).into_iter().flat_map(|of_high| of_high.keys());
        for load in shared.filter(|load| of_low.contains_key(load)) {
            *counts.entry(*load).or_default() += 1;
        }
    }
    let mut loads = counts.into_iter().filter(|(_, count)| *count > 1).map(|(load, _)| load);
    let first = loads.next()?;
    Some((first, loads.next_back()?))
}

/// How the effect of a setting differs between two values of something else, and the chance of that if it does not; none where fewer
/// than two pairs tell.
fn interaction(configs: &Configs, effect: &Effect, with: With, at: (usize, usize)) -> Option<(Interaction, f64)> {
    let (low, high) = effect.values;
    let logs = |values: &[usize], place: usize, value: usize| {
        let mut values = values.to_vec();
        values[place] = value;
        configs.get(&values)
    };
    let mut both: Vec<(f64, f64)> = Vec::new();
    for (values, of_low) in configs.iter().filter(|(values, _)| values[effect.setting] == low) {
        let Some(of_high) = logs(values, effect.setting, high) else {
            continue;
        };
        match with {
            With::Load => {
                let under = |load| Some(mean(of_high.get(&load)?.values()) - mean(of_low.get(&load)?.values()));
                both.extend(under(at.0).zip(under(at.1)));
            }
            With::Setting(other) if values[other] == at.0 => {
                let mut there = values.clone();
                there[other] = at.1;
                let far = configs.get(&there).zip(logs(&there, effect.setting, high));
                let far = far.and_then(|(low, high)| difference(low, high));
                both.extend(difference(of_low, of_high).zip(far));
            }
            With::Setting(_) => {}
        }
    }
    let changes: Vec<f64> = both.iter().map(|(first, second)| second - first).collect();
    let p_value = Estimate::of_mean(&changes).p_value(0.0)?;
    let found = Interaction {
        setting: effect.setting,
        values: effect.values,
        with,
        at,
        logs: (
            mean(both.iter().map(|(first, _)| first)),
            mean(both.iter().map(|(_, second)| second)),
        ),
    };
    Some((found, p_value))
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests;
