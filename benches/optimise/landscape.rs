//! A planted landscape: configs with known true values, and virtual servers on which they are measured.

use std::collections::BTreeSet;
use vsweep_strategy::selection::optimized::{Axis, Candidate, Level, Predicted, Trial, WarmStart};
use vsweep_strategy::stats::Random;

/// Seconds of a start and of a probe.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    pub name: &'static str,
    pub cold_s: f64,
    /// Seconds of a start whose settings were compiled before.
    pub warm_s: f64,
    pub probe_s: f64,
}

pub const COSTS: [Costs; 2] = [
    Costs {
        name: "150 s + 6 x 60 s",
        cold_s: 150.0,
        warm_s: 150.0,
        probe_s: 60.0,
    },
    Costs {
        name: "91/53 s + 6 x 8 s",
        cold_s: 91.0,
        warm_s: 53.0,
        probe_s: 8.0,
    },
];

/// Probes of a full measurement.
pub const PROBES: f64 = 6.0;
/// Share of a start's time after which a server that does not fit has failed.
const FAILS_AFTER: f64 = 0.5;

/// Configs with their true values.
#[derive(Debug, Clone)]
pub struct Landscape {
    pub axes: Vec<Axis>,
    /// For each config, the number of its level on each axis.
    pub levels: Vec<Vec<usize>>,
    /// For each ordered axis, the positions of its levels.
    pub places: Vec<Vec<f64>>,
    /// Logarithm of the true value.
    pub values: Vec<f64>,
    pub fits: Vec<bool>,
    /// True of configs that meet the targets at some load.
    pub meets: Vec<bool>,
    /// Predictions of a twin: logarithms of the values, and their standard deviation.
    pub predicted: Option<(Vec<f64>, f64)>,
    /// For each config, the changes of its prediction for one standard deviation of each constant of the twin.
    pub slopes: Vec<Vec<f64>>,
    pub memory: Option<Vec<f64>>,
    pub start_sd: f64,
    pub run_sd: f64,
    pub defaults: usize,
    /// Axes whose levels are compiled into the server.
    pub compiled: usize,
}

impl Landscape {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The best true value.
    pub fn best(&self) -> f64 {
        (0..self.len())
            .filter(|at| self.works(*at))
            .map(|at| self.values[at])
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// True if a config fits and meets the targets.
    pub fn works(&self, at: usize) -> bool {
        self.fits[at] && self.meets[at]
    }

    /// Share by which a config is worse than the best; 1 without a config.
    pub fn regret(&self, config: Option<usize>) -> f64 {
        config.map_or(1.0, |at| 1.0 - (self.values[at] - self.best()).exp())
    }

    /// Configs within 1 % of the best.
    pub fn near_best(&self) -> Vec<usize> {
        let best = self.best();
        (0..self.len())
            .filter(|at| self.works(*at) && self.values[*at] >= best - 0.01)
            .collect()
    }

    /// Levels of a config that are compiled into the server.
    fn graphs(&self, config: usize) -> &[usize] {
        &self.levels[config][..self.compiled]
    }

    pub fn candidates(&self, costs: Costs) -> Vec<Candidate> {
        let graphs: BTreeSet<&[usize]> = (0..self.len()).map(|at| self.graphs(at)).collect();
        let candidate = |at: usize| Candidate {
            levels: self.levels[at]
                .iter()
                .enumerate()
                .map(|(axis, level)| match self.axes[axis].is_ordered {
                    true => Level::Number(self.places[axis][*level]),
                    false => Level::Choice(*level as u32),
                })
                .collect(),
            changes: self.levels[at]
                .iter()
                .zip(&self.levels[self.defaults])
                .filter(|(a, b)| a != b)
                .count() as u32,
            predicted: self.predicted.as_ref().map(|(values, sd)| Predicted {
                ln_value: values[at],
                sd: *sd,
            }),
            slopes: self.slopes.get(at).cloned().unwrap_or_default(),
            memory: self.memory.as_ref().map(|memory| memory[at]),
            most: None,
            start_s: costs.cold_s,
            warm: graphs
                .iter()
                .position(|own| *own == self.graphs(at))
                .map(|own| WarmStart {
                    graphs: own as u32,
                    start_s: costs.warm_s,
                }),
            measure_s: PROBES * costs.probe_s,
            gpus: 1,
            at_once: 1,
        };
        (0..self.len()).map(candidate).collect()
    }
}

/// Virtual servers of a landscape.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    pub landscape: &'a Landscape,
    pub costs: Costs,
    random: Random,
    compiled: BTreeSet<Vec<usize>>,
    /// Seconds of servers so far.
    pub seconds: f64,
    /// Configs that were measured, with the mean and number of their values.
    pub measured: Vec<(usize, f64, f64)>,
    /// After each measurement, the seconds so far and the best config.
    pub story: Vec<(f64, usize)>,
    pub starts: usize,
}

impl<'a> Node<'a> {
    pub fn new(landscape: &'a Landscape, costs: Costs, seed: u64) -> Node<'a> {
        Node {
            landscape,
            costs,
            random: Random::of(seed, &["node"]),
            compiled: BTreeSet::new(),
            seconds: 0.0,
            measured: Vec::new(),
            story: Vec::new(),
            starts: 0,
        }
    }

    /// Server seconds of the whole grid.
    pub fn grid_s(landscape: &Landscape, costs: Costs) -> f64 {
        let mut node = Node::new(landscape, costs, 0);
        for at in 0..landscape.len() {
            node.start(at, None);
        }
        node.seconds
    }

    /// The config with the highest mean of its own values.
    pub fn best(&self) -> Option<(usize, f64)> {
        let best = self.measured.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((best.0, best.1))
    }

    /// Seconds until the server of a config is ready.
    pub fn start_s(&self, config: usize) -> f64 {
        match self.compiled.contains(self.landscape.graphs(config)) {
            true => self.costs.warm_s,
            false => self.costs.cold_s,
        }
    }

    /// Starts a server and measures it. If the first probe shows less than `first`, no more is measured.
    pub fn start(&mut self, config: usize, first: Option<f64>) -> Trial {
        let graphs = self.landscape.graphs(config);
        let start_s = self.start_s(config);
        self.starts += 1;
        if !self.landscape.fits[config] {
            self.seconds += FAILS_AFTER * start_s;
            return Trial::DidNotFit;
        }
        self.compiled.insert(graphs.to_vec());
        if !self.landscape.meets[config] {
            self.seconds += start_s + 2.0 * self.costs.probe_s;
            return Trial::Unmet;
        }
        let value = self.landscape.values[config] + self.landscape.start_sd * self.random.normal();
        let probe = value + self.landscape.run_sd * self.random.normal();
        let ln_value = value + self.landscape.run_sd * self.random.normal();
        if let Some(ln_below) = first.filter(|first| probe < *first) {
            self.seconds += start_s + self.costs.probe_s;
            return Trial::Beaten { ln_below };
        }
        self.seconds += start_s + PROBES * self.costs.probe_s;
        match self.measured.iter_mut().find(|(at, ..)| *at == config) {
            Some((_, mean, count)) => {
                *mean = (*mean * *count + ln_value) / (*count + 1.0);
                *count += 1.0;
            }
            None => self.measured.push((config, ln_value, 1.0)),
        }
        if let Some((best, _)) = self.best() {
            self.story.push((self.seconds, best));
        }
        Trial::Measured {
            ln_value,
            sd: self.landscape.run_sd,
        }
    }

    /// The best config that was known after `seconds`.
    pub fn best_at(&self, seconds: f64) -> Option<usize> {
        self.story
            .iter()
            .take_while(|(at, _)| *at <= seconds)
            .last()
            .map(|(_, best)| *best)
    }
}
