//! The probability distribution of the position of a target's limit, and of the size of the noise, given noisy margins.
//!
//! In logarithms, the margin is zero at the boundary. It follows a line of one slope below the boundary and a line of another slope above
//! it. Its deviation from the lines grows in proportion to the distance, and it may jump at the boundary. Each run adds noise, whose size
//! is unknown too. Slopes from flat to vertical and noise from small to large are all considered, and weighted by how well they explain the
//! margins. So a smooth curve is interpolated, a hockey stick is bent at its knee, a cliff is bisected, and runs that scatter more than
//! expected widen the distribution. Callers decide what to do with it.

use super::seed::Seed;
use crate::stats::dot;

/// One margin at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    /// The load.
    pub value: f64,
    /// Logarithm of the measured figure divided by the limit. A negative margin meets the target.
    pub margin: f64,
    /// Standard error of the margin, as stated by the run itself.
    pub error: f64,
    /// Greatest part of the margin that a disturbance explains.
    pub slack: f64,
    /// Lower bound of the absolute margin, if only this bound and the sign of the margin are known.
    pub bound: Option<f64>,
    /// The distribution of the run's requests; `None` if the margin is that of a mean or of the run as a whole.
    pub tail: Option<Tail>,
}

/// Distribution of a run's requests around the percentile that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tail {
    /// Growth of the margin each time that the number of requests beyond the percentile falls by a factor of e.
    pub growth: f64,
    /// Standard error of the margin if all requests were independent.
    pub error: f64,
}

/// Distribution of the boundary over a grid of loads.
#[derive(Debug, Clone)]
pub(super) struct Boundary {
    /// Logarithms of the loads, ascending.
    grid: Vec<f64>,
    /// Probability that the boundary is at or below each load.
    cumulative: Vec<f64>,
    /// Ratio of the actual scatter of a run's margin to its stated error.
    pub noise: f64,
    /// Slope of log margin against log load at the boundary: the geometric mean of those on its two sides.
    pub slope: f64,
}

/// Slopes of log margin against log load: 0.03 is flat, 200 a cliff.
const SLOPES: [f64; 12] = [0.03, 0.07, 0.15, 0.3, 0.6, 1.0, 1.7, 3.0, 6.0, 15.0, 50.0, 200.0];
/// Sizes of the margin's jump up to zero at the boundary, with their prior probabilities. The margin jumps if a queue no longer drains, or
/// a cache is full.
const JUMPS: [(f64, f64); 4] = [(0.0, 0.85), (0.06, 0.05), (0.15, 0.05), (0.4, 0.05)];
/// The slope below the boundary that is most likely before anything was measured.
const TYPICAL_SLOPE: f64 = 1.0;
/// Prior spread of the logarithm of the slope below the boundary.
const SLOPE_SPREAD: f64 = 1.3;
/// Distance, as a logarithm of the load, over which a jump counts as a slope.
const JUMP_WIDTH: f64 = 0.03;
/// Sizes of a run's noise that are considered, relative to its stated error.
const NOISES: [f64; 8] = [0.25, 0.4, 0.63, 1.0, 1.6, 2.5, 4.0, 6.3];
/// The size of the noise that is most likely before anything was measured.
const TYPICAL_NOISE: f64 = 1.1;
/// Prior spread of the logarithm of the size of the noise.
const NOISE_SPREAD: f64 = 0.75;
/// Largest margin that counts. A larger margin says nothing more and counts as this one.
pub(super) const FAR: f64 = 1.0;
/// The stated error of a run that states none.
pub(super) const TYPICAL_ERROR: f64 = 0.006;
/// Greatest deviation of a margin from its straight line, relative to the line's own margin there.
const BEND: f64 = 0.3;
/// Deviation of the percentile of all requests from that of a typical run, as a multiple of a run's noise. No run shows it, so it is
/// assumed to be normal. Three points approximate its distribution: this deviation to either side, and no deviation.
const OFFSET: f64 = 0.45;
/// Probability of the deviation [`OFFSET`] to one side, and also to the other.
const OFFSET_CHANCE: f64 = 1.0 / 6.0;
/// Parts of the slack by which margins may be too high. All runs have about the same part, because equal stalls have equal effects.
const PARTS: [f64; 3] = [0.0, 0.5, 1.0];
/// Standard deviation of a single run's part around the common part.
const PART_SPREAD: f64 = 0.15;
/// Degrees of freedom of the noise, which has Student's distribution.
const FREEDOM: f64 = 7.0;
/// Largest distance between two loads of the first grid, as a logarithm.
const COARSE: f64 = 0.04;
/// Number of steps of the second grid.
const FINE: usize = 240;
/// Weight of the part of the prior that is uniform over the range and ignores the seed.
const UNIFORM_WEIGHT: f64 = 0.1;

impl Boundary {
    /// Infers the boundary from `observations`, with a prior around `seed`, between `lower` and `upper` and a little beyond.
    pub(super) fn infer(seed: Seed, lower: f64, upper: f64, observations: &[Observation]) -> Boundary {
        let (start, end) = (lower.ln() - 1.0, upper.ln() + 1.0);
        let model = Model::new(seed, end - start, observations);
        let coarse = model.on_grid(start, end, ((end - start) / COARSE).ceil() as usize);
        // The second grid leaves out the loads in the outermost tails of the first.
        let edge = |p: f64| coarse.quantile(p).ln();
        let (start, end) = (edge(1e-5) - 2.0 * COARSE, edge(1.0 - 1e-5) + 2.0 * COARSE);
        model.on_grid(start, end, FINE)
    }

    /// Returns the load below which the boundary lies with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let i = self
            .cumulative
            .partition_point(|&cumulative| cumulative < p)
            .clamp(1, self.grid.len() - 1);
        let (before, after) = (self.cumulative[i - 1], self.cumulative[i]);
        let part = ((p - before) / (after - before).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        (self.grid[i - 1] + (self.grid[i] - self.grid[i - 1]) * part).exp()
    }

    /// Returns the probability that the boundary lies below `load`, that is, that `load` fails.
    pub fn chance_below(&self, load: f64) -> f64 {
        let at = load.ln();
        let i = self.grid.partition_point(|&grid| grid < at);
        match i {
            0 => 0.0,
            i if i == self.grid.len() => 1.0,
            i => {
                let part = (at - self.grid[i - 1]) / (self.grid[i] - self.grid[i - 1]);
                self.cumulative[i - 1] + (self.cumulative[i] - self.cumulative[i - 1]) * part
            }
        }
    }
}

/// Inputs for the likelihood of every possible boundary.
struct Model {
    seed: Seed,
    width: f64,
    /// The runs, for each assumed part of their slack.
    cases: Vec<Vec<LoadRun>>,
    coupling: [[f64; SLOPES.len()]; SLOPES.len()],
    /// Slopes below the boundary with their logarithms, for each jump, the first of which is 0.
    slopes: [[(f64, f64); SLOPES.len()]; JUMPS.len()],
    /// Prior weight of each of `NOISES`.
    noise_priors: [f64; NOISES.len()],
    /// Mean stated error of the runs that read a percentile.
    error: f64,
}

impl Model {
    fn new(seed: Seed, width: f64, observations: &[Observation]) -> Model {
        let tails = observations
            .iter()
            .filter(|run| run.tail.is_some() && run.bound.is_none());
        let count = tails.clone().count().max(1) as f64;
        let has_slack = observations.iter().any(|run| run.slack > 0.0);
        let parts: &[f64] = if has_slack { &PARTS } else { &PARTS[..1] };
        let case = |part: f64| observations.iter().map(|run| LoadRun::of(run, part)).collect();
        Model {
            error: tails.map(|run| run.error).sum::<f64>() / count,
            seed,
            width,
            cases: parts.iter().map(|part| case(*part)).collect(),
            coupling: coupling(),
            slopes: JUMPS.map(|(jump, _)| {
                SLOPES
                    .map(|slope| slope + jump / JUMP_WIDTH)
                    .map(|steep| (steep, steep.ln()))
            }),
            noise_priors: NOISES.map(|noise| bell((noise / TYPICAL_NOISE).ln() / NOISE_SPREAD)),
        }
    }

    /// Returns the distribution on a grid of `points` steps between two logarithms of loads.
    fn on_grid(&self, start: f64, end: f64, points: usize) -> Boundary {
        let step = (end - start) / points as f64;
        let (mut weights, mut noise, mut slope) = (vec![0.0; points + 1], 0.0, 0.0);
        for runs in &self.cases {
            let mut tally = Tally {
                start,
                step,
                weights: vec![0.0; points + 1],
                noise: 0.0,
                slope: 0.0,
            };
            for i in 0..=points {
                self.weigh(start + step * i as f64, runs, &mut tally);
            }
            // All cases have equal weight: less scatter of the margins does not make one of them more probable.
            let total = tally.weights.iter().sum::<f64>().max(f64::MIN_POSITIVE) * self.cases.len() as f64;
            weights
                .iter_mut()
                .zip(tally.weights)
                .for_each(|(sum, weight)| *sum += weight / total);
            noise += tally.noise / total;
            slope += tally.slope / total;
        }
        let mut sum = 0.0;
        let cumulative = weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        Boundary {
            cumulative: cumulative.collect(),
            // Each weight is that of the interval around its point.
            grid: (0..=points).map(|i| start + step * (i as f64 + 0.5)).collect(),
            noise: noise.exp(),
            slope: slope.exp(),
        }
    }

    /// Weighs every curve with this boundary. The offset of a limit depends on the slope on one side only, so the slopes on the other side
    /// are summed first.
    fn weigh(&self, boundary: f64, runs: &[LoadRun], tally: &mut Tally) {
        let prior = prior(boundary, self.seed, self.width);
        for (i, noise) in NOISES.into_iter().enumerate() {
            let mut above = [1.0; SLOPES.len()];
            let mut below = [[1.0; SLOPES.len()]; JUMPS.len()];
            for run in runs {
                let distance = run.load - boundary;
                if distance >= 0.0 {
                    run.weigh(&mut above, distance, 0.0, i);
                    continue;
                }
                for (weights, (jump, _)) in below.iter_mut().zip(JUMPS) {
                    run.weigh(weights, distance, jump, i);
                }
            }
            let prior = prior * self.noise_priors[i];
            let offset = OFFSET * noise * self.error;
            let above_sums = self.coupling.each_ref().map(|row| dot(row, &above));
            let mut below_sums = [0.0; SLOPES.len()];
            for ((weights, slopes), (_, jump_prior)) in below.iter().zip(&self.slopes).zip(JUMPS) {
                for (at, weight) in weights.iter().enumerate() {
                    let weight = prior * jump_prior * weight;
                    below_sums[at] += weight;
                    tally.add_side(boundary, -offset, weight * above_sums[at], slopes[at]);
                }
            }
            let whole = dot(&below_sums, &above_sums);
            for (at, above) in above.iter().enumerate() {
                let below: f64 = below_sums
                    .iter()
                    .zip(&self.coupling)
                    .map(|(weight, row)| weight * row[at])
                    .sum();
                tally.add_side(boundary, offset, above * below, self.slopes[0][at]);
            }
            tally.add(boundary, (1.0 - 2.0 * OFFSET_CHANCE) * whole);
            tally.noise += whole * noise.ln();
        }
    }
}

/// The weights of the limit's positions on an evenly spaced grid. [`OFFSET`] moves a limit away from the boundary of a typical run.
struct Tally {
    start: f64,
    step: f64,
    weights: Vec<f64>,
    /// Sums of the logarithms of the noise and of the slope, weighted.
    noise: f64,
    slope: f64,
}

impl Tally {
    fn add(&mut self, limit: f64, weight: f64) {
        let place = ((limit - self.start) / self.step + 0.5).clamp(0.0, self.weights.len() as f64 - 1.0);
        self.weights[place as usize] += weight;
    }

    /// Adds a limit next to a boundary, where a curve with this slope differs by `offset` from the margin at the boundary.
    fn add_side(&mut self, boundary: f64, offset: f64, weight: f64, (slope, ln_slope): (f64, f64)) {
        self.slope += weight * ln_slope / 2.0;
        self.add(boundary + offset / slope, OFFSET_CHANCE * weight);
    }
}

/// An observation, prepared for every size of the noise.
struct LoadRun {
    /// The logarithm of its load.
    load: f64,
    run: Observation,
    /// For each size of the noise, the variance of the margin and its [`Tail::shift`].
    noises: [(f64, f64); NOISES.len()],
}

impl LoadRun {
    /// Prepares a run, with its margin lowered by a part of its slack.
    fn of(run: &Observation, part: f64) -> LoadRun {
        let noises = NOISES.map(|noise| {
            let deviation = noise * run.error;
            let shift = run.tail.map_or(0.0, |tail| tail.shift(deviation));
            (deviation.hypot(PART_SPREAD * run.slack).powi(2), shift)
        });
        LoadRun {
            load: run.value.ln(),
            run: Observation {
                margin: run.margin - part * run.slack,
                ..*run
            },
            noises,
        }
    }

    /// Multiplies the weight of each slope by the likelihood of the margin at this distance from the boundary, with this `jump`. The
    /// likelihood is Student's density up to a factor or, for a bound, the probability of a margin beyond the bound.
    fn weigh(&self, weights: &mut [f64; SLOPES.len()], distance: f64, jump: f64, noise: usize) {
        let (variance, shift) = self.noises[noise];
        let Observation {
            margin, error, bound, ..
        } = self.run;
        let expected = SLOPES.map(|slope| (slope * distance - jump - shift).clamp(-FAR, FAR));
        let variance = expected.map(|expected| variance + BEND * BEND * expected * expected);
        let lines = weights.iter_mut().zip(expected).zip(variance);
        if let Some(bound) = bound {
            for ((weight, expected), variance) in lines {
                let z = (expected * margin.signum() - bound) / variance.sqrt();
                *weight /= 1.0 + (-1.7 * z).exp();
            }
            return;
        }
        for ((weight, expected), variance) in lines {
            let deviation = margin - expected;
            let tail = 1.0 + deviation * deviation / (variance * FREEDOM);
            // The exponent is half of FREEDOM + 1. The factor of the error keeps the product over many runs within the range of numbers.
            *weight *= error / (variance.sqrt() * (tail * tail) * (tail * tail));
        }
    }
}

impl Tail {
    /// Returns the margin over all requests of many runs minus the margin of a typical run, if runs scatter by `deviation`. Scatter c that
    /// their own requests do not explain shifts whole runs, and the slow runs have most of the late requests. With an exponential tail of
    /// growth g the shift is c²/2g; in simulations it was half as large, and at most 1.2 c.
    fn shift(self, deviation: f64) -> f64 {
        let common = (deviation * deviation - self.error * self.error).max(0.0);
        (common / (4.0 * self.growth)).min(1.2 * common.sqrt())
    }
}

fn bell(z: f64) -> f64 {
    (-z * z / 2.0).exp()
}

fn prior(boundary: f64, seed: Seed, width: f64) -> f64 {
    let scale = seed.factor.max(1.05).ln();
    let z = (boundary - seed.value.ln()) / scale;
    (1.0 - UNIFORM_WEIGHT) * bell(z) / (scale * std::f64::consts::TAU.sqrt()) + UNIFORM_WEIGHT / width
}

/// Returns the prior weight of each pair of slopes (below, above), up to a factor. Latency curves are convex, so the slope rarely falls.
fn coupling() -> [[f64; SLOPES.len()]; SLOPES.len()] {
    SLOPES.map(|below| {
        let weight_below = bell((below / TYPICAL_SLOPE).ln() / SLOPE_SPREAD);
        let weights = SLOPES.map(|above| {
            let steeper = (above / below).ln();
            (if steeper >= 0.0 { -0.7 * steeper } else { 2.0 * steeper }).exp()
        });
        let total: f64 = weights.iter().sum();
        weights.map(|weight| weight_below * weight / total)
    })
}
