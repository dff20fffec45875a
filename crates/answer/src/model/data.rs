//! The runs of one metric, arranged for the model: by config, because only nodes connect one config with another.

use super::super::experiment::{Experiment, Metric, Point, Run, Scale};
use super::scale::{LEAST_SIZE, variance_of_sampling, with_zero};
use statrs::function::gamma::gamma_ur;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Probability of a scatter as large as that of a point's runs, below which they disagree by more than the noise.
const DISAGREEING: f64 = 1e-3;

/// All runs of one metric.
#[derive(Debug, Clone)]
pub struct Observations {
    /// Name of the metric.
    pub metric: String,
    /// Its scale.
    pub scale: Scale,
    /// The runs of each config that has any.
    pub(super) blocks: Vec<Block>,
    /// Names of the nodes on which runs were measured, in ascending order. Nodes without runs, for which some figures hold, come last.
    pub(super) nodes: Vec<String>,
    /// Index of the node with the most runs. Its effect is 0 and figures are those on this node, so runs on other nodes never widen the
    /// intervals of points that were measured on this one.
    pub(super) reference: usize,
    /// Index of the node for which the figure of each point of the experiment holds: the reference, unless a comparison needs another.
    pub(super) held: Vec<usize>,
    /// Block of each point of the experiment, and its position there.
    pub(super) places: Vec<Option<(usize, usize)>>,
    /// Positions of the figures of each point of which one is 0 or below, on a logarithmic scale: ascending, from minus infinity. Such a
    /// point is in no block, so it changes no other.
    pub(super) zeros: BTreeMap<usize, Vec<f64>>,
    /// Size of a typical figure, to which the priors of linear scales and counts are relative; 1 for the other scales.
    pub(super) size: f64,
    /// Number of runs beyond the first of each point and start.
    pub repeated_runs: usize,
    /// Number of starts beyond the first of each config and node.
    pub repeated_starts: usize,
    /// True if some config ran on several nodes.
    pub nodes_repeat: bool,
}

/// The runs of one config.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// The id of the config.
    pub config: String,
    /// Index of the node of each start.
    pub nodes: Vec<usize>,
    /// Number of points.
    pub points: usize,
    /// Pairs of a point and a start that have runs, in the order of the points.
    pub cells: Vec<Cell>,
    /// Position on the scale and variance of sampling of each run, in the order of the cells. The variance is larger if runs disagree.
    runs: Vec<(f64, f64)>,
}

/// The runs of one point on one start.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// The position of the point in the block.
    pub point: usize,
    /// The position of the start in the block.
    pub start: usize,
    /// The indices of its runs in the block.
    runs: Range<usize>,
}

impl Observations {
    /// Returns the observations of a metric. `experiment` is in canonical order.
    pub fn of(experiment: &Experiment, metric: &Metric) -> Observations {
        let points: Vec<&Point> = experiment.points.iter().collect();
        Observations::among(&points, metric)
    }

    /// Returns the observations of a metric at some points.
    pub fn among(points: &[&Point], metric: &Metric) -> Observations {
        let size = match metric.scale {
            Scale::Linear | Scale::Count => typical_size(points, metric),
            Scale::Log | Scale::Share => 1.0,
        };
        let mut configs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut zeros = BTreeMap::new();
        for (at, point) in points.iter().enumerate() {
            match with_zero(point, metric) {
                Some(figures) => {
                    zeros.insert(at, figures.iter().map(|figure| figure.max(0.0).ln()).collect());
                }
                None => configs.entry(&point.config).or_default().push(at),
            }
        }
        let mut found = Observations {
            metric: metric.name.clone(),
            scale: metric.scale,
            blocks: Vec::new(),
            nodes: Vec::new(),
            reference: 0,
            held: Vec::new(),
            places: vec![None; points.len()],
            zeros,
            size,
            repeated_runs: 0,
            repeated_starts: 0,
            nodes_repeat: false,
        };
        let is_placed = |run: &&Run| {
            run.figures
                .get(&metric.name)
                .is_some_and(|own| metric.scale.place(*own).is_some())
        };
        let placed = points
            .iter()
            .enumerate()
            .filter(|(at, _)| !found.zeros.contains_key(at));
        let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
        for run in placed.flat_map(|(_, point)| &point.runs).filter(is_placed) {
            *nodes.entry(&run.node).or_default() += 1;
        }
        let most = nodes.values().copied().max();
        found.reference = nodes.values().position(|count| Some(*count) == most).unwrap_or(0);
        found.nodes = nodes.into_keys().map(str::to_owned).collect();
        found.held = vec![found.reference; points.len()];
        for (config, indices) in configs {
            found.add(config, &indices, points, metric);
        }
        found
    }

    /// Makes the figures of some points hold for these nodes. Points are given by their indices. The effect of a node without runs is as
    /// uncertain as the prior.
    pub fn hold_for(mut self, nodes: &BTreeMap<usize, String>) -> Observations {
        for (point, name) in nodes.iter().filter(|(point, _)| self.places[**point].is_some()) {
            let known = self.nodes.iter().position(|node| node == name);
            self.held[*point] = known.unwrap_or(self.nodes.len());
            if known.is_none() {
                self.nodes.push(name.clone());
            }
        }
        self
    }

    /// Name of the node for which the figure of a point holds; `None` if there are no runs.
    pub fn node_of(&self, point: usize) -> Option<&str> {
        self.nodes.get(self.held[point]).map(String::as_str)
    }

    /// Widens the variances of the runs of every point that disagree by more than the noise. Its variances between runs and between starts
    /// are given. Returns true if there are any.
    pub(super) fn widen(&mut self, run: f64, start: f64) -> bool {
        let widened = self.blocks.iter_mut().map(|block| block.widen(run, start));
        widened.fold(false, |any, own| any | own)
    }

    /// Size of a typical figure on a linear scale or of a count; 1 for the other scales.
    pub fn size(&self) -> f64 {
        self.size
    }

    /// Adds the runs of a config, whose points have these indices.
    fn add(&mut self, config: &str, indices: &[usize], points: &[&Point], metric: &Metric) {
        let mut block = Block {
            config: config.to_owned(),
            nodes: Vec::new(),
            points: 0,
            cells: Vec::new(),
            runs: Vec::new(),
        };
        let figure = |run: &Run| {
            let figure = *run.figures.get(&metric.name)?;
            let variance = || variance_of_sampling(metric.scale, run.disturbed, figure, self.size);
            Some((metric.scale.place(figure)?, variance()))
        };
        let mut starts: Vec<(&str, &str)> = Vec::new();
        let mut measured = Vec::new();
        for at in indices {
            for run in &points[*at].runs {
                let Some(figure) = figure(run) else { continue };
                let start = (&*run.start, &*run.node);
                if starts.last() != Some(&start) {
                    starts.push(start);
                }
                measured.push((*at, start, figure));
            }
        }
        starts.sort_unstable();
        starts.dedup();
        for of_point in measured.chunk_by(|(one, ..), (other, ..)| one == other) {
            self.places[of_point[0].0] = Some((self.blocks.len(), block.points));
            let start = |start: &(&str, &str)| starts.partition_point(|other| other < start);
            let mut runs: Vec<(usize, (f64, f64))> = of_point.iter().map(|(_, at, run)| (start(at), *run)).collect();
            runs.sort_by_key(|(start, _)| *start);
            for cell in runs.chunk_by(|(one, _), (other, _)| one == other) {
                let first = block.runs.len();
                block.runs.extend(cell.iter().map(|(_, run)| *run));
                block.cells.push(Cell {
                    point: block.points,
                    start: cell[0].0,
                    runs: first..block.runs.len(),
                });
            }
            block.points += 1;
        }
        if block.points == 0 {
            return;
        }
        let node_of = |name: &str| self.nodes.partition_point(|other| &**other < name);
        block.nodes = starts.iter().map(|(_, node)| node_of(node)).collect();
        let own_nodes: BTreeSet<usize> = block.nodes.iter().copied().collect();
        self.repeated_starts += starts.len() - own_nodes.len();
        self.nodes_repeat |= own_nodes.len() > 1;
        self.repeated_runs += block.runs.len() - block.cells.len();
        self.blocks.push(block);
    }
}

impl Block {
    fn widen(&mut self, run: f64, start: f64) -> bool {
        let mut is_widened = false;
        for cells in self.cells.chunk_by(|one, other| one.point == other.point) {
            let runs = |all: &[(f64, f64)], cell: &Cell| -> Vec<(f64, f64)> {
                let own = all[cell.runs.clone()].iter();
                own.map(|(place, variance)| (*place, variance + run)).collect()
            };
            let within: Vec<Vec<(f64, f64)>> = cells.iter().map(|cell| runs(&self.runs, cell)).collect();
            if let Some(times) = unexplained(&within) {
                is_widened = true;
                for cell in cells {
                    multiply(&mut self.runs[cell.runs.clone()], run, times);
                }
            }
            let means = cells.iter().map(|cell| weighted(&runs(&self.runs, cell)));
            let means: Vec<(f64, f64)> = means.collect();
            let mut on_nodes = vec![Vec::new(); self.nodes.iter().max().map_or(0, |last| last + 1)];
            for (cell, (mean, variance)) in cells.iter().zip(&means) {
                on_nodes[self.nodes[cell.start]].push((*mean, variance + start));
            }
            on_nodes.retain(|starts| !starts.is_empty());
            if let Some(times) = unexplained(&on_nodes) {
                is_widened = true;
                for (cell, (_, variance)) in cells.iter().zip(&means) {
                    let times = times * (variance + start) / variance;
                    multiply(&mut self.runs[cell.runs.clone()], run, times);
                }
            }
        }
        is_widened
    }

    /// Returns the position on the scale and the variance of sampling of each run of a cell.
    pub fn runs_of(&self, cell: &Cell) -> &[(f64, f64)] {
        &self.runs[cell.runs.clone()]
    }
}

/// Returns the mean of values that are weighted by their variances, and its variance.
fn weighted(values: &[(f64, f64)]) -> (f64, f64) {
    let weight: f64 = values.iter().map(|(_, variance)| 1.0 / variance).sum();
    let sum: f64 = values.iter().map(|(value, variance)| value / variance).sum();
    (sum / weight, 1.0 / weight)
}

/// Returns by how many times values scatter more about the means of their groups than by their variances, if a chi-square test finds it
/// unlikely by chance (the ratio of Birge 1932).
fn unexplained(groups: &[Vec<(f64, f64)>]) -> Option<f64> {
    let (mut scatter, mut freedom) = (0.0, 0.0);
    for group in groups {
        let (mean, _) = weighted(group);
        let squares = group.iter().map(|(value, variance)| (value - mean).powi(2) / variance);
        scatter += squares.sum::<f64>();
        freedom += group.len() as f64 - 1.0;
    }
    let is_unusual = freedom > 0.0 && scatter > freedom && scatter.is_finite();
    let is_unexplained = is_unusual && gamma_ur(freedom / 2.0, scatter / 2.0) < DISAGREEING;
    is_unexplained.then(|| scatter / freedom)
}

/// Multiplies the variances of runs, which consist of the variance of sampling and of run noise.
fn multiply(runs: &mut [(f64, f64)], run: f64, times: f64) {
    runs.iter_mut()
        .for_each(|(_, variance)| *variance = (*variance + run) * times);
}

/// Returns the median absolute value of the figures other than 0, at least [`LEAST_SIZE`]; 1 if there are none.
fn typical_size(points: &[&Point], metric: &Metric) -> f64 {
    let runs = points.iter().flat_map(|point| &point.runs);
    let figures = runs.filter_map(|run| metric.scale.place(*run.figures.get(&metric.name)?));
    let mut sizes: Vec<f64> = figures.map(f64::abs).filter(|size| *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(1.0).max(LEAST_SIZE)
}
