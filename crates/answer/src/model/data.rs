//! The runs of one metric, arranged for the model: by config, since nothing but nodes connects one config with another.

use super::super::experiment::{Experiment, Metric, Point, Run, Scale};
use super::scale::variance_of_sampling;
use std::collections::BTreeMap;

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
    /// The runs, those of one point and start together.
    pub cells: Vec<Cell>,
}

/// The runs of one point on one start.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub point: usize,
    pub start: usize,
    /// Place on the scale and variance of sampling of each run.
    pub runs: Vec<(f64, f64)>,
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
            Scale::Linear => typical_size(points, metric),
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
        measured.for_each(|run| *nodes.entry(&run.node).or_default() += 1);
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
        };
        let own = || own.iter().map(|at| (*at, points[*at]));
        let placed = |run: &Run| metric.scale.place(*run.figures.get(&metric.name)?);
        let runs = own().flat_map(|(_, point)| &point.runs);
        let measured = runs.filter(|run| placed(run).is_some());
        let mut starts: Vec<(&str, &str)> = measured.map(|run| (&*run.start, &*run.node)).collect();
        starts.sort_unstable();
        starts.dedup();
        for (at, point) in own() {
            for run in &point.runs {
                let Some(place) = placed(run) else {
                    continue;
                };
                let variance = variance_of_sampling(metric.scale, run, run.figures[&*metric.name], self.size);
                let start = starts.partition_point(|other| *other < (&*run.start, &*run.node));
                let (_, point) = *self.places[at].get_or_insert_with(|| {
                    block.points += 1;
                    (self.blocks.len(), block.points - 1)
                });
                block.add(point, start, (place, variance));
            }
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
        self.repeated_runs += block.cells.iter().map(|cell| cell.runs.len() - 1).sum::<usize>();
        self.blocks.push(block);
    }
}

impl Block {
    fn add(&mut self, point: usize, start: usize, run: (f64, f64)) {
        let is_own = |cell: &&mut Cell| (cell.point, cell.start) == (point, start);
        match self.cells.iter_mut().find(is_own) {
            Some(cell) => cell.runs.push(run),
            None => self.cells.push(Cell {
                point,
                start,
                runs: vec![run],
            }),
        }
    }
}

/// The median of the figures' sizes, at least a tiny number.
fn typical_size(points: &[&Point], metric: &Metric) -> f64 {
    let runs = points.iter().flat_map(|point| &point.runs);
    let figures = runs.filter_map(|run| metric.scale.place(*run.figures.get(&metric.name)?));
    let mut sizes: Vec<f64> = figures.map(f64::abs).filter(|size| *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes
        .get(sizes.len() / 2)
        .copied()
        .unwrap_or(1.0)
        .max(f64::MIN_POSITIVE.sqrt())
}
