//! The posterior of a metric: the probability of each noise level, and the mean and variance of every point at each level. The levels are
//! the cells of a grid.

use super::super::experiment::{NoisePrior, Point};
use super::block::{BlockSolution, BlockSystem};
use super::data::{Block, Observations};
use super::mixture::{self, Component};
use super::nodes::{NodeEffects, NodeSystem};
use super::noise::{Basis, FEWEST_REPEATS, Grid, Noise, NoiseEstimate, Range};
use super::scale::variance_of_sampling;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Number of levels of run noise, and of start noise, in a grid that is narrowed afterwards.
const COARSE: usize = 12;
/// Number of levels of run noise, and of start noise, in the final grid.
const FINE: usize = 14;
/// Number of times that the grid is narrowed.
const NARROWINGS: usize = 3;
/// Largest number of times that the noise is estimated again after points whose runs disagree were found.
const MOST_WIDENINGS: usize = 3;
/// Sizes with less than this part of the greatest weight are left out.
const NEGLIGIBLE: f64 = 1e-3;

/// The posterior of every point of a metric.
#[derive(Debug, Clone)]
pub struct Posterior {
    /// The runs.
    pub observations: Observations,
    /// Noise levels that are likely, with their probabilities.
    pub(super) noises: Vec<(Noise, f64)>,
}

/// Mean and variance of every point for each noise level. They are computed on demand, because for many points they fill the memory.
#[derive(Debug)]
pub struct Components<'p> {
    posterior: &'p Posterior,
    /// The number of points in the blocks before each block.
    begins: Vec<usize>,
    /// Mean and variance, by point in the order of the blocks, then by noise level.
    moments: Vec<(f64, f64)>,
}

impl Posterior {
    /// Returns the posterior with sizes of noise that are estimated from all runs. Runs of a point that disagree by more than this noise get
    /// the noise by which they disagree, so an outlier makes its own point uncertain and no other.
    pub fn fit(observations: Observations, prior: &NoisePrior) -> Posterior {
        let mut found = Posterior::pooled(observations, prior);
        for _ in 0..MOST_WIDENINGS {
            let run = found.mean_square(|noise| noise.run);
            let start = found.mean_square(|noise| noise.start);
            if !found.observations.widen(run, start) {
                break;
            }
            found = Posterior::pooled(found.observations, prior);
        }
        found
    }

    /// Returns the posterior with sizes of noise that are estimated from all runs alike. The start noise of an outlier then counts, too.
    pub fn pooled(observations: Observations, prior: &NoisePrior) -> Posterior {
        let mut range = Range::whole(prior);
        let mut weighed = Vec::new();
        for round in 0..=NARROWINGS {
            let count = if round == NARROWINGS { FINE } else { COARSE };
            let grid = range.grid(prior, observations.size, count, observations.nodes.len() > 1);
            weighed = weigh(&observations, &grid);
            if round < NARROWINGS {
                let kept: Vec<(usize, usize)> = weighed.iter().map(|(at, ..)| *at).collect();
                range = range.narrowed(count, &kept);
            }
        }
        let noises = weighed.into_iter().map(|(_, noise, weight)| (noise, weight)).collect();
        Posterior::given(observations, noises)
    }

    /// Returns the posterior with known noise levels.
    pub fn known(observations: Observations, noise: Noise) -> Posterior {
        Posterior::given(observations, vec![(noise, 1.0)])
    }

    fn given(observations: Observations, mut noises: Vec<(Noise, f64)>) -> Posterior {
        let total: f64 = noises.iter().map(|(_, weight)| weight).sum();
        noises.iter_mut().for_each(|(_, weight)| *weight /= total);
        Posterior { noises, observations }
    }

    /// Computes the mean and variance of every point for each noise level.
    pub fn components(&self) -> Components<'_> {
        let mut points = 0;
        let begin = |block: &Block| {
            points += block.points;
            points - block.points
        };
        let begins: Vec<usize> = self.observations.blocks.iter().map(begin).collect();
        let mut held = vec![self.observations.reference; points];
        for (place, node) in self.observations.places.iter().zip(&self.observations.held) {
            if let Some((block, position)) = place {
                held[begins[*block] + position] = *node;
            }
        }
        let count = self.noises.len();
        let mut moments = vec![(0.0, 0.0); points * count];
        let mut states = States::of(&self.observations);
        for (at, (noise, _)) in self.noises.iter().enumerate() {
            let places = moments.iter_mut().skip(at).step_by(count);
            states.at(*noise).put_moments(places.zip(&held));
        }
        Components {
            posterior: self,
            begins,
            moments,
        }
    }

    /// Returns the mean effect of each node by its name; empty if no config ran on several nodes. It does not depend on how good a config is
    /// as a whole, only on the differences between its own starts.
    pub fn effects_of_nodes(&self) -> BTreeMap<&str, f64> {
        let own = &self.observations;
        if !own.nodes_repeat {
            return BTreeMap::new();
        }
        let mut effects = vec![0.0; own.nodes.len()];
        let mut states = States::of(own);
        for (noise, weight) in &self.noises {
            let nodes = states.at(*noise).nodes;
            let means = nodes.iter().flat_map(|nodes| &nodes.means);
            effects
                .iter_mut()
                .zip(means)
                .for_each(|(sum, mean)| *sum += weight * noise.node * mean);
        }
        effects[own.reference] = 0.0;
        own.nodes.iter().map(String::as_str).zip(effects).collect()
    }

    /// Returns the noise between runs, between starts, and between nodes if there are several, relative to a typical figure.
    pub fn noise(&self) -> (NoiseEstimate, NoiseEstimate, Option<NoiseEstimate>) {
        let observations = &self.observations;
        let median = |of: fn(&Noise) -> f64| {
            let mut sizes: Vec<(f64, f64)> = self.noises.iter().map(|(noise, weight)| (of(noise), *weight)).collect();
            sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut below = 0.0;
            let middle = sizes.iter().find(|(_, weight)| {
                below += weight;
                below >= 0.5
            });
            middle.map_or(0.0, |(size, _)| *size / observations.size)
        };
        let node = NoiseEstimate {
            deviation: median(|noise| noise.node),
            basis: if observations.nodes_repeat {
                Basis::Measured
            } else {
                Basis::Assumed
            },
            repeats: observations.nodes.len().saturating_sub(1),
        };
        (
            NoiseEstimate::by(median(|noise| noise.run), observations.repeated_runs),
            NoiseEstimate::by(median(|noise| noise.start), observations.repeated_starts),
            (observations.nodes.len() > 1).then_some(node),
        )
    }

    /// Returns true if the start noise rests on the prior, because too few starts were repeated.
    pub fn assumes_starts(&self) -> bool {
        self.observations.repeated_starts < FEWEST_REPEATS
    }

    /// Returns the standard deviation of the mean of a further start of a point, on the metric's scale. The start has as many runs as the
    /// point's starts have on average.
    pub fn noise_of_a_start(&self, point: &Point) -> f64 {
        let observations = &self.observations;
        let figures = point
            .runs
            .iter()
            .filter_map(|run| Some((run, *run.figures.get(&observations.metric)?)));
        let (starts, sampling): (BTreeSet<&str>, Vec<f64>) = figures
            .map(|(run, figure)| {
                let variance = variance_of_sampling(observations.scale, run.disturbed, figure, observations.size());
                (&*run.start, variance)
            })
            .unzip();
        let runs = (sampling.len() as f64 / starts.len().max(1) as f64).max(1.0);
        let sampling = sampling.iter().sum::<f64>() / sampling.len().max(1) as f64;
        (self.mean_square(|noise| noise.start) + (self.mean_square(|noise| noise.run) + sampling) / runs).sqrt()
    }

    fn mean_square(&self, of: fn(&Noise) -> f64) -> f64 {
        let squares = self.noises.iter().map(|(noise, weight)| of(noise).powi(2) * weight);
        squares.sum()
    }
}

impl Components<'_> {
    /// Returns the mean and standard deviation of a point on the metric's scale, over all noise levels; `None` if it was not measured.
    pub fn moments(&self, point: usize) -> Option<(f64, f64)> {
        Some(mixture::moments(&self.of(point)?))
    }

    /// Returns the central interval that holds a point with the given probability, on the metric's scale. For a point with a figure of 0 on
    /// a logarithmic scale it is the range of its runs.
    pub fn interval(&self, point: usize, probability: f64) -> Option<(f64, f64)> {
        if let Some(zeros) = self.posterior.observations.zeros.get(&point) {
            return Some((*zeros.first()?, *zeros.last()?));
        }
        Some(mixture::interval(&self.of(point)?, probability))
    }

    /// Returns the normal distributions of a point, one for each noise level.
    pub fn of(&self, point: usize) -> Option<Vec<Component>> {
        let (block, position) = (*self.posterior.observations.places.get(point)?)?;
        let noises = &self.posterior.noises;
        let from = (self.begins[block] + position) * noises.len();
        let moments = self.moments[from..].iter().zip(noises);
        let components = moments.map(|((mean, variance), (_, weight))| Component {
            mean: *mean,
            variance: *variance,
            weight: *weight,
        });
        Some(components.collect())
    }
}

/// Computes the states at one noise level after another.
pub(super) struct States<'o> {
    observations: &'o Observations,
    /// The last run noise, and all blocks at it. They are kept because levels with the same run noise follow each other.
    reduced: (f64, Rc<[BlockSystem]>),
}

/// The means, effects and likelihoods of all blocks at one noise level.
pub(super) struct State<'o> {
    blocks: &'o [Block],
    reference: usize,
    noise: Noise,
    reduced: Rc<[BlockSystem]>,
    solved: Vec<BlockSolution>,
    /// The effects of nodes; `None` if there is only one node.
    pub nodes: Option<NodeEffects>,
}

impl<'o> States<'o> {
    pub fn of(observations: &Observations) -> States<'_> {
        States {
            observations,
            reduced: (f64::NAN, Rc::default()),
        }
    }

    pub fn at(&mut self, noise: Noise) -> State<'o> {
        let observations = self.observations;
        let blocks = &observations.blocks;
        if self.reduced.0 != noise.run {
            let reduced = blocks.iter().map(|block| BlockSystem::of(block, noise.run));
            self.reduced = (noise.run, reduced.collect());
        }
        let reduced = Rc::clone(&self.reduced.1);
        let solved: Vec<BlockSolution> = reduced.iter().map(|reduced| reduced.solve(noise.start)).collect();
        let nodes = NodeSystem::of(observations, &reduced, &solved).map(|system| system.solve(noise.node));
        State {
            blocks,
            reference: observations.reference,
            noise,
            reduced,
            solved,
            nodes,
        }
    }
}

impl State<'_> {
    /// Writes the mean and variance of all points, block by block, to `places`. Each has the node for which the figure holds.
    fn put_moments<'p>(&self, mut places: impl Iterator<Item = (&'p mut (f64, f64), &'p usize)>) {
        let mut scratch = Vec::new();
        let covariance = self.nodes.as_ref().map(|nodes| nodes.factor.inverse());
        for ((reduced, solved), block) in self.reduced.iter().zip(&self.solved).zip(self.blocks) {
            for (point, (place, held)) in (0..block.points).zip(&mut places) {
                let (mut mean, mut variance) = reduced.moments(solved, point, &mut scratch);
                if let Some((NodeEffects { means: effects, .. }, covariance)) =
                    self.nodes.as_ref().zip(covariance.as_ref())
                {
                    let mut leans = reduced.leans_on_nodes(solved, point, &block.nodes, effects.len());
                    if *held != self.reference {
                        leans[*held] -= 1.0;
                    }
                    // A point leans on few of many nodes.
                    let leans = leans.into_iter().enumerate().filter(|(_, lean)| *lean != 0.0);
                    let leans: Vec<(usize, f64)> = leans.map(|(node, lean)| (node, lean * self.noise.node)).collect();
                    for (node, lean) in &leans {
                        let row = &covariance.cells[node * covariance.size..][..covariance.size];
                        mean -= lean * effects[*node];
                        variance += lean * leans.iter().map(|(other, lean)| row[*other] * lean).sum::<f64>();
                    }
                }
                *place = (mean, variance);
            }
        }
    }
}

/// Returns the cells of a grid that are not negligible: position, noise levels, weight relative to the greatest.
fn weigh(observations: &Observations, grid: &Grid) -> Vec<((usize, usize), Noise, f64)> {
    let mut weighed = log_weights(observations, grid);
    let greatest = weighed.iter().map(|(.., log)| *log).fold(f64::NEG_INFINITY, f64::max);
    for (.., weight) in &mut weighed {
        // Figures whose squares overflow are explained by no noise level. All levels are then equally likely.
        *weight = match greatest.is_finite() {
            true => (*weight - greatest).exp(),
            false => 1.0,
        };
    }
    weighed.retain(|(.., weight)| *weight > NEGLIGIBLE);
    weighed
}

/// Returns the position, noise level and logarithm of likelihood times prior of every cell of a grid.
fn log_weights(observations: &Observations, grid: &Grid) -> Vec<((usize, usize), Noise, f64)> {
    let mut weighed: Vec<((usize, usize), Noise, f64)> = Vec::new();
    for (i, (run, run_prior)) in grid.runs.iter().enumerate() {
        let reduced: Vec<BlockSystem> = observations
            .blocks
            .iter()
            .map(|block| BlockSystem::of(block, *run))
            .collect();
        for (j, (start, start_prior)) in grid.starts.iter().enumerate() {
            let solved: Vec<BlockSolution> = reduced.iter().map(|reduced| reduced.solve(*start)).collect();
            let of_blocks: f64 = solved.iter().map(|solved| solved.likelihood).sum();
            let system = NodeSystem::of(observations, &reduced, &solved);
            for (node, node_prior) in &grid.nodes {
                let of_nodes = system.as_ref().map_or(0.0, |system| system.solve(*node).likelihood);
                let noise = Noise {
                    run: *run,
                    start: *start,
                    node: *node,
                };
                weighed.push((
                    (i, j),
                    noise,
                    of_blocks + of_nodes + run_prior + start_prior + node_prior,
                ));
            }
        }
    }
    weighed
}

#[cfg(test)]
mod tests {
    use super::super::super::Random;
    use super::super::super::experiment::{Metric, Point, Run, Scale};
    use super::super::super::run_figures::Figure;
    use super::super::block::Square;
    use super::*;
    use vsweep_strategy::stats::Better;

    /// Unbalanced runs of two configs on two nodes.
    fn observations() -> Observations {
        let mut random = Random::of(3, &["dense"]);
        let run = |start: &str, node: &str, random: &mut Random| Run {
            start: start.to_owned(),
            node: node.to_owned(),
            disturbed: random.below(4) == 0,
            figures: [(
                "m".to_owned(),
                Figure::Value {
                    value: (1.0 + 0.05 * random.normal()).exp(),
                    error: 0.02 * random.uniform(),
                },
            )]
            .into(),
        };
        let point = |config: &str, load: &str, runs: &[(&str, &str)], random: &mut Random| Point {
            id: format!("{config}{load}"),
            config: config.to_owned(),
            runs: runs.iter().map(|(start, node)| run(start, node, random)).collect(),
            ..Point::default()
        };
        let random = &mut random;
        let points = [
            point("a", "1", &[("0", "n"), ("0", "n"), ("1", "n"), ("2", "o")], random),
            point("a", "2", &[("0", "n"), ("2", "o"), ("2", "o")], random),
            point("b", "1", &[("0", "n"), ("1", "o"), ("1", "o"), ("1", "o")], random),
            point("b", "2", &[("3", "n"), ("3", "n")], random),
        ];
        Observations::among(&points.iter().collect::<Vec<_>>(), &metric())
    }

    fn metric() -> Metric {
        Metric {
            name: "m".to_owned(),
            scale: Scale::Log,
            better: Better::Higher,
            prior: NoisePrior::THROUGHPUT,
        }
    }

    struct DenseRun {
        point: usize,
        start: (usize, usize),
        node: usize,
        value: f64,
        variance: f64,
    }

    /// Computes the restricted likelihood, and the mean and variance of each point, with matrices over all runs.
    fn dense(own: &Observations, noise: Noise) -> (f64, Vec<(f64, f64)>) {
        let mut runs: Vec<DenseRun> = Vec::new();
        for (at, block) in own.blocks.iter().enumerate() {
            for cell in &block.cells {
                let place = own.places.iter().position(|place| *place == Some((at, cell.point)));
                let of = |(value, variance): &(f64, f64)| DenseRun {
                    point: place.expect("a point of the block"),
                    start: (at, cell.start),
                    node: block.nodes[cell.start],
                    value: *value,
                    variance: *variance,
                };
                runs.extend(block.runs_of(cell).iter().map(of));
            }
        }
        let n = runs.len();
        let mut v = Square::zero(n);
        for (i, one) in runs.iter().enumerate() {
            for (j, other) in runs.iter().enumerate() {
                let starts = if one.start == other.start {
                    noise.start.powi(2)
                } else {
                    0.0
                };
                let is_shared = one.node == other.node && one.node != own.reference;
                let nodes = if is_shared { noise.node.powi(2) } else { 0.0 };
                let own = if i == j { noise.run.powi(2) + one.variance } else { 0.0 };
                v.cells[i * n + j] = starts + nodes + own;
            }
        }
        let v = v.cholesky();
        let points = own.places.len();
        let column = |point: usize| {
            runs.iter()
                .map(|run| f64::from(u8::from(run.point == point)))
                .collect::<Vec<f64>>()
        };
        let y: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let solved: Vec<Vec<f64>> = (0..points).map(|point| v.solve(&column(point))).collect();
        let mut information = Square::zero(points);
        for i in 0..points {
            for (j, solved) in solved.iter().enumerate() {
                information.cells[i * points + j] = dot(&column(i), solved);
            }
        }
        let information = information.cholesky();
        let right: Vec<f64> = solved.iter().map(|solved| dot(solved, &y)).collect();
        let means = information.solve(&right);
        let left = dot(&y, &v.solve(&y)) - dot(&right, &means);
        let likelihood = -v.half_log_determinant() - information.half_log_determinant() - left / 2.0;
        let unit = |at: usize| (0..points).map(|i| f64::from(u8::from(i == at))).collect::<Vec<f64>>();
        let variances = (0..points).map(|at| information.solve(&unit(at))[at]);
        (likelihood, means.iter().copied().zip(variances).collect())
    }

    #[test]
    fn elimination_agrees_with_matrices_over_all_runs() {
        let own = observations();
        let noises = [(0.01, 0.02, 0.03), (0.03, 0.0, 0.01), (0.002, 0.05, 0.0)];
        let noises = noises.map(|(run, start, node)| Noise { run, start, node });
        let of_grid = |noise: Noise| {
            let one = |size: f64| vec![(size, 0.0)];
            let grid = Grid {
                runs: one(noise.run),
                starts: one(noise.start),
                nodes: one(noise.node),
            };
            log_weights(&own, &grid)[0].2
        };
        let (first, _) = dense(&own, noises[0]);
        for noise in noises {
            let (likelihood, moments) = dense(&own, noise);
            let found = of_grid(noise) - of_grid(noises[0]);
            assert!(
                (found - (likelihood - first)).abs() < 1e-6,
                "{found} {likelihood} {first}"
            );
            let posterior = Posterior::known(own.clone(), noise);
            let components = posterior.components();
            for (point, (mean, variance)) in moments.into_iter().enumerate() {
                let found = components.moments(point).expect("measured");
                assert!(
                    (found.0 - mean).abs() < 1e-6 && (found.1 - variance.sqrt()).abs() < 1e-6,
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn draws_have_the_moments_of_the_posterior() {
        let own = Posterior::fit(observations(), &NoisePrior::THROUGHPUT);
        let (draws, components) = (own.draw(1, 4000, 4000, &[0, 1, 2, 3]), own.components());
        for (point, draws) in (0..4).map(|point| (point, &draws[point])) {
            let (mean, deviation) = components.moments(point).expect("measured");
            let drawn = draws.iter().sum::<f64>() / draws.len() as f64;
            let spread = draws.iter().map(|draw| (draw - drawn).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((drawn - mean).abs() < 0.1 * deviation, "{drawn} {mean}");
            assert!((spread.sqrt() / deviation - 1.0).abs() < 0.1, "{spread} {deviation}");
            let (low, high) = components.interval(point, 0.95).expect("measured");
            let inside = draws.iter().filter(|draw| low <= **draw && **draw <= high).count();
            assert!((3750..3850).contains(&inside), "{inside}");
        }
    }

    #[test]
    fn a_start_without_the_figure_does_not_change_the_noise_of_a_further_one() {
        let of = |starts: &[&str], others: &[&str]| {
            let figure = Figure::Value { value: 1.0, error: 0.0 };
            let run = |start: &&str, name: &str| Run {
                start: (*start).to_owned(),
                figures: [(name.to_owned(), figure)].into(),
                ..Run::default()
            };
            let measured = starts.iter().map(|start| run(start, "m"));
            Point {
                runs: measured.chain(others.iter().map(|start| run(start, "other"))).collect(),
                ..Point::default()
            }
        };
        let (run, start, node) = (0.02, 0.0, 0.0);
        let posterior = Posterior::known(observations(), Noise { run, start, node });
        let noise = |point: Point| posterior.noise_of_a_start(&point);
        assert_eq!(noise(of(&["0", "0"], &["1"])), noise(of(&["0", "0"], &[])));
    }

    #[test]
    fn few_repeats_leave_the_prior() {
        let (run, start, node) = Posterior::fit(observations(), &NoisePrior::THROUGHPUT).noise();
        assert_eq!((run.basis, run.repeats), (Basis::Measured, 5));
        assert_eq!((start.basis, start.repeats), (Basis::Assumed, 2));
        assert_eq!(node.map(|node| node.basis), Some(Basis::Measured));
    }
}
