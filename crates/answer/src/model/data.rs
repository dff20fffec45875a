//! The runs of one metric, arranged for the model: by config, since nothing but nodes connects one config with another.

use super::super::experiment::{Experiment, Metric, Point, Run, Scale};
use super::scale::{LEAST_SIZE, variance_of_sampling};
use std::collections::BTreeMap;
use std::ops::Range;

/// All runs of one metric.
#[derive(Debug, Clone)]
pub struct Observations {
    /// Name of the metric.
    pub metric: String,
    /// Its scale.
    pub scale: Scale,
    /// One for each config that has a run.
    pub(super) blocks: Vec<Block>,
    /// Nodes that a run was measured on.
    pub(super) nodes: Vec<String>,
    /// The node with the most runs, for which all figures hold: its effect is 0. So another node never widens what was measured on it.
    pub(super) reference: usize,
    /// Block of each point of the experiment, and its position there.
    pub(super) places: Vec<Option<(usize, usize)>>,
    /// Size of a typical figure, to which the priors of a linear scale are relative; 1 for the other scales.
    pub(super) size: f64,
    /// Runs beyond the first of their point and start.
    pub repeated_runs: usize,
    /// Starts beyond the first of their config, on one node.
    pub repeated_starts: usize,
    /// True if some config ran on several nodes.
    pub nodes_repeat: bool,
}

/// The runs of one config.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// The id of the config.
    pub config: String,
    /// The node of each start.
    pub nodes: Vec<usize>,
    /// Number of points.
    pub points: usize,
    /// The points on their starts, those of one point together.
    pub cells: Vec<Cell>,
    /// Place on the scale and variance of sampling of each run, those of one cell together.
    runs: Vec<(f64, f64)>,
}

/// The runs of one point on one start.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub point: usize,
    pub start: usize,
    /// The places of its runs among those of the block.
    runs: Range<usize>,
}

impl Observations {
    /// Observations of a metric. `experiment` is in order.
    pub fn of(experiment: &Experiment, metric: &Metric) -> Observations {
        let points: Vec<&Point> = experiment.points.iter().collect();
        Observations::among(&points, metric)
    }

    /// Observations of some points.
    pub fn among(points: &[&Point], metric: &Metric) -> Observations {
        let size = match metric.scale {
            Scale::Linear | Scale::Count => typical_size(points, metric),
            Scale::Log | Scale::Share => 1.0,
        };
        let mut configs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, point) in points.iter().enumerate() {
            configs.entry(&point.config).or_default().push(at);
        }
        let mut found = Observations {
            metric: metric.name.clone(),
            scale: metric.scale,
            blocks: Vec::new(),
            nodes: Vec::new(),
            reference: 0,
            places: vec![None; points.len()],
            size,
            repeated_runs: 0,
            repeated_starts: 0,
            nodes_repeat: false,
        };
        let runs = points.iter().flat_map(|point| &point.runs);
        let measured = runs.filter(|run| run.figures.get(&metric.name).is_some());
        let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
        for run in measured {
            *nodes.entry(&run.node).or_default() += 1;
        }
        let most = nodes.values().copied().max();
        found.reference = nodes.values().position(|count| Some(*count) == most).unwrap_or(0);
        found.nodes = nodes.into_keys().map(str::to_owned).collect();
        for (config, own) in configs {
            found.add(config, &own, points, metric);
        }
        found
    }

    /// Size of a typical figure on a linear scale; 1 for the other scales.
    pub fn size(&self) -> f64 {
        self.size
    }

    /// Adds a config, whose points have these places among all.
    fn add(&mut self, config: &str, own: &[usize], points: &[&Point], metric: &Metric) {
        let mut block = Block {
            config: config.to_owned(),
            nodes: Vec::new(),
            points: 0,
            cells: Vec::new(),
            runs: Vec::new(),
        };
        let figure = |run: &Run| {
            let figure = *run.figures.get(&metric.name)?;
            let variance = || variance_of_sampling(metric.scale, run, figure, self.size);
            Some((metric.scale.place(figure)?, variance()))
        };
        let mut starts: Vec<(&str, &str)> = Vec::new();
        let mut measured = Vec::new();
        for at in own {
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
        for own in measured.chunk_by(|(one, ..), (other, ..)| one == other) {
            self.places[own[0].0] = Some((self.blocks.len(), block.points));
            let start = |start: &(&str, &str)| starts.partition_point(|other| other < start);
            let mut runs: Vec<(usize, (f64, f64))> = own.iter().map(|(_, at, run)| (start(at), *run)).collect();
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
        let mut own_nodes = block.nodes.clone();
        own_nodes.sort_unstable();
        own_nodes.dedup();
        self.repeated_starts += starts.len() - own_nodes.len();
        self.nodes_repeat |= own_nodes.len() > 1;
        self.repeated_runs += block.runs.len() - block.cells.len();
        self.blocks.push(block);
    }
}

impl Block {
    /// Place on the scale and variance of sampling of the runs of a cell.
    pub fn runs_of(&self, cell: &Cell) -> &[(f64, f64)] {
        &self.runs[cell.runs.clone()]
    }
}

/// The median of the figures' sizes, at least a tiny number.
fn typical_size(points: &[&Point], metric: &Metric) -> f64 {
    let runs = points.iter().flat_map(|point| &point.runs);
    let figures = runs.filter_map(|run| metric.scale.place(*run.figures.get(&metric.name)?));
    let mut sizes: Vec<f64> = figures.map(f64::abs).filter(|size| *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(1.0).max(LEAST_SIZE)
}
