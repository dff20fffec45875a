//! The posterior of a metric: how likely each size of the noise is, and the mean and variance of every point given them.

use super::super::experiment::NoisePrior;
use super::block::{Reduced, Solved, Square};
use super::data::Observations;
use super::noise::{Basis, FEWEST_REPEATS, Grid, Noise, NoiseKnown, Range};
use statrs::function::erf::erf;

/// Sizes of each noise of the first look, and of the second.
const COARSE: usize = 12;
const FINE: usize = 14;
/// How many looks narrow the grid.
const LOOKS: usize = 3;
/// Sizes with less than this part of the greatest weight are left out.
const NEGLIGIBLE: f64 = 1e-4;

/// What is known of every point of a metric.
#[derive(Debug, Clone)]
pub struct Posterior {
    /// The runs.
    pub observations: Observations,
    /// Sizes of noise that are likely, with their probabilities.
    pub(super) noises: Vec<(Noise, f64)>,
    /// For each size of noise, mean and variance of each point of each block.
    moments: Vec<Vec<Vec<(f64, f64)>>>,
}

impl Posterior {
    /// With sizes of noise that are estimated from all runs.
    pub fn fit(observations: Observations, prior: &NoisePrior) -> Posterior {
        let mut range = Range::whole(prior);
        let mut weighed = Vec::new();
        for look in 0..=LOOKS {
            let count = if look == LOOKS { FINE } else { COARSE };
            let grid = range.grid(prior, observations.size, count, observations.nodes.len() > 1);
            weighed = weigh(&observations, &grid);
            if look < LOOKS {
                let kept: Vec<(usize, usize)> = weighed.iter().map(|(at, ..)| *at).collect();
                range = range.narrowed(count, &kept);
            }
        }
        let noises = weighed.into_iter().map(|(_, noise, weight)| (noise, weight)).collect();
        Posterior::given(observations, noises)
    }

    /// With sizes of noise that are known.
    pub fn known(observations: Observations, noise: Noise) -> Posterior {
        Posterior::given(observations, vec![(noise, 1.0)])
    }

    fn given(observations: Observations, mut noises: Vec<(Noise, f64)>) -> Posterior {
        let total: f64 = noises.iter().map(|(_, weight)| weight).sum();
        noises.iter_mut().for_each(|(_, weight)| *weight /= total);
        let moments = noises
            .iter()
            .map(|(noise, _)| State::at(&observations, *noise).moments());
        Posterior {
            moments: moments.collect(),
            noises,
            observations,
        }
    }

    /// The noise between runs and between starts, and between nodes where there are several.
    pub fn noise(&self) -> (NoiseKnown, NoiseKnown, Option<NoiseKnown>) {
        let own = &self.observations;
        let median = |of: fn(&Noise) -> f64| {
            let mut sizes: Vec<(f64, f64)> = self.noises.iter().map(|(noise, weight)| (of(noise), *weight)).collect();
            sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut below = 0.0;
            let middle = sizes.iter().find(|(_, weight)| {
                below += weight;
                below >= 0.5
            });
            middle.map_or(0.0, |(size, _)| *size)
        };
        let node = NoiseKnown {
            deviation: median(|noise| noise.node),
            basis: if own.nodes_repeat {
                Basis::Measured
            } else {
                Basis::Assumed
            },
            repeats: own.nodes.len().saturating_sub(1),
        };
        (
            NoiseKnown::by(median(|noise| noise.run), own.repeated_runs),
            NoiseKnown::by(median(|noise| noise.start), own.repeated_starts),
            (own.nodes.len() > 1).then_some(node),
        )
    }

    /// Whether the start noise rests on the prior.
    pub fn assumes_starts(&self) -> bool {
        self.observations.repeated_starts < FEWEST_REPEATS
    }

    /// Mean and standard deviation of a point on the metric's scale, over all sizes of noise; none if it was not measured.
    pub fn moments(&self, point: usize) -> Option<(f64, f64)> {
        let parts = self.parts(point)?;
        let mean: f64 = parts.iter().map(|(mean, _, weight)| mean * weight).sum();
        let second = parts
            .iter()
            .map(|(m, variance, weight)| (variance + (m - mean).powi(2)) * weight);
        Some((mean, second.sum::<f64>().sqrt()))
    }

    /// The values between which a point lies with a probability, on the metric's scale.
    pub fn interval(&self, point: usize, probability: f64) -> Option<(f64, f64)> {
        let parts = self.parts(point)?;
        let outside = (1.0 - probability) / 2.0;
        Some((quantile(&parts, outside), quantile(&parts, 1.0 - outside)))
    }

    /// Mean, variance and probability of a point for each size of noise.
    pub(super) fn parts(&self, point: usize) -> Option<Vec<(f64, f64, f64)>> {
        let (block, place) = (*self.observations.places.get(point)?)?;
        let parts = self.moments.iter().zip(&self.noises).map(|(moments, (_, weight))| {
            let (mean, variance) = moments[block][place];
            (mean, variance, *weight)
        });
        Some(parts.collect())
    }
}

/// The value below which a mixture of normal distributions lies with a probability.
pub fn quantile(parts: &[(f64, f64, f64)], probability: f64) -> f64 {
    let reach = |sign: f64| {
        parts
            .iter()
            .map(move |(mean, variance, _)| mean + sign * 9.0 * variance.sqrt())
    };
    let mut low = reach(-1.0).fold(f64::INFINITY, f64::min);
    let mut high = reach(1.0).fold(f64::NEG_INFINITY, f64::max);
    let below = |at: f64| -> f64 {
        let part = parts.iter().map(|(mean, variance, weight)| {
            let off = (at - mean) / variance.sqrt().max(f64::MIN_POSITIVE);
            weight * (1.0 + erf(off / std::f64::consts::SQRT_2)) / 2.0
        });
        part.sum()
    };
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match below(middle) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// Everything at one size of noise.
pub(super) struct State {
    pub noise: Noise,
    pub blocks: Vec<(Reduced, Solved)>,
    /// With several nodes: the means of their effects in standard deviations, and the factor of their precision.
    pub nodes: Option<(Vec<f64>, Square)>,
    places: Vec<Vec<usize>>,
}

impl State {
    pub fn at(observations: &Observations, noise: Noise) -> State {
        let blocks = observations.blocks.iter().map(|block| {
            let reduced = Reduced::of(block, noise.run);
            let solved = reduced.solve(noise.start);
            (reduced, solved)
        });
        let blocks: Vec<(Reduced, Solved)> = blocks.collect();
        let places: Vec<Vec<usize>> = observations.blocks.iter().map(|block| block.nodes.clone()).collect();
        let count = observations.nodes.len();
        let nodes = (count > 1).then(|| {
            let all = blocks
                .iter()
                .zip(&places)
                .map(|((reduced, solved), nodes)| (reduced, solved, &**nodes));
            let (means, factor, _) = solve_nodes(all, noise.node, count);
            (means, factor)
        });
        State {
            noise,
            blocks,
            nodes,
            places,
        }
    }

    fn moments(&self) -> Vec<Vec<(f64, f64)>> {
        let of_block = |((reduced, solved), places): (&(Reduced, Solved), &Vec<usize>)| {
            let moments = (0..reduced.means.len()).map(|point| {
                let (mut mean, mut variance) = reduced.moments(solved, point);
                if let Some((effects, factor)) = &self.nodes {
                    let mut leans = reduced.leans_on_nodes(solved, point, places, effects.len());
                    leans.iter_mut().for_each(|lean| *lean *= self.noise.node);
                    mean -= leans
                        .iter()
                        .zip(effects)
                        .map(|(lean, effect)| lean * effect)
                        .sum::<f64>();
                    variance += leans.iter().zip(factor.solve(&leans)).map(|(a, b)| a * b).sum::<f64>();
                }
                (mean, variance)
            });
            moments.collect()
        };
        self.blocks.iter().zip(&self.places).map(of_block).collect()
    }
}

/// Means of the effects of nodes, in standard deviations, the factor of their precision, and their part of the likelihood.
fn solve_nodes<'a>(
    blocks: impl Iterator<Item = (&'a Reduced, &'a Solved, &'a [usize])>,
    deviation: f64,
    count: usize,
) -> (Vec<f64>, Square, f64) {
    let mut precision = Square::zero(count);
    let mut pull = vec![0.0; count];
    for (reduced, solved, nodes) in blocks {
        let about = reduced.about_nodes(solved, nodes, count);
        precision
            .cells
            .iter_mut()
            .zip(&about.cells)
            .for_each(|(sum, own)| *sum += own * deviation * deviation);
        for (s, node) in nodes.iter().enumerate() {
            pull[*node] += deviation * solved.pulled[s];
        }
    }
    for node in 0..count {
        precision.cells[node * count + node] += 1.0;
    }
    let factor = precision.cholesky();
    let means = factor.solve(&pull);
    let explained: f64 = means.iter().zip(&pull).map(|(a, b)| a * b).sum();
    let likelihood = explained / 2.0 - factor.half_log_determinant();
    (means, factor, likelihood)
}

/// The cells of a grid that have any weight: place, sizes, weight.
fn weigh(observations: &Observations, grid: &Grid) -> Vec<((usize, usize), Noise, f64)> {
    let mut weighed: Vec<((usize, usize), Noise, f64)> = Vec::new();
    let count = observations.nodes.len();
    for (i, (run, run_prior)) in grid.runs.iter().enumerate() {
        let reduced: Vec<Reduced> = observations
            .blocks
            .iter()
            .map(|block| Reduced::of(block, *run))
            .collect();
        for (j, (start, start_prior)) in grid.starts.iter().enumerate() {
            let solved: Vec<Solved> = reduced.iter().map(|reduced| reduced.solve(*start)).collect();
            let own: f64 = solved.iter().map(|solved| solved.likelihood).sum();
            for (node, node_prior) in &grid.nodes {
                let of_nodes = match count > 1 {
                    true => {
                        let blocks = reduced.iter().zip(&solved).zip(&observations.blocks);
                        let blocks = blocks.map(|((reduced, solved), block)| (reduced, solved, &*block.nodes));
                        solve_nodes(blocks, *node, count).2
                    }
                    false => 0.0,
                };
                let noise = Noise {
                    run: *run,
                    start: *start,
                    node: *node,
                };
                weighed.push(((i, j), noise, own + of_nodes + run_prior + start_prior + node_prior));
            }
        }
    }
    let greatest = weighed.iter().map(|(.., log)| *log).fold(f64::NEG_INFINITY, f64::max);
    for (.., weight) in &mut weighed {
        *weight = (*weight - greatest).exp();
    }
    weighed.retain(|(.., weight)| *weight > NEGLIGIBLE);
    weighed
}
