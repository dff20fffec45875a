//! Where the boundary between meeting and missing a target lies, as a probability given noisy margins.
//!
//! The model, around the boundary `b` and in logarithms: the margin grows like a straight line of slope `k` below it
//! and `m` above it, is zero at it, and departs from the lines in proportion to the distance. Slopes from flat to
//! vertical are all considered and weighed by how well they explain the margins, so a smooth curve is interpolated, a
//! hockey stick is bent at its knee and a cliff is only ever bisected. Tails are heavy (Student's t), so one bad run
//! cannot outvote several good ones. Deciding what to do with the probability is left to the callers.

use super::seed::Seed;

/// One margin at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    /// The load.
    pub value: f64,
    /// Logarithm of measured over limit; negative meets the target.
    pub margin: f64,
    /// Standard error of the margin from the run's own requests and from run to run.
    pub error: f64,
    /// Whether the run was stopped early by its failure, so that the size of its margin is a rough guess.
    pub stopped: bool,
}

/// Distribution of the boundary over a grid of loads.
#[derive(Debug, Clone)]
pub(super) struct Boundary {
    /// Logarithms of the loads, ascending.
    grid: Vec<f64>,
    /// Probability that the boundary is at or below each of them.
    cumulative: Vec<f64>,
}

/// Slopes of log margin against log load: 0.15 is nearly flat, 200 a cliff.
const SLOPES: [f64; 10] = [0.15, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 60.0, 200.0];
/// The slope below the boundary that is most likely before anything was measured, and the spread of its logarithm.
const TYPICAL_SLOPE: f64 = 2.0;
const SLOPE_SPREAD: f64 = 1.2;
/// Margins beyond this say no more than their sign.
pub(super) const FAR: f64 = 1.0;
/// How far a margin may be from its straight line, relative to the line's own margin there.
const BEND: f64 = 0.3;
/// Degrees of freedom of the noise.
const TAIL: i32 = 5;
/// Distance between two loads of the grid.
const STEP: f64 = 0.006;
/// Share of the prior that does not believe the seed.
const DOUBT: f64 = 0.1;
/// What the size of a failed run's margin is worth if the run was stopped early.
const STOPPED_ERROR: f64 = 0.1;
/// How often a run is on the wrong side of the limit for no reason that noise explains.
const FREAK: f64 = 1e-4;

impl Boundary {
    /// The boundary given `observations`, starting from `seed`, between `lower` and `upper` and a little beyond.
    pub(super) fn infer(seed: Seed, lower: f64, upper: f64, observations: &[Observation]) -> Boundary {
        let (start, end) = (lower.ln() - 1.0, upper.ln() + 1.0);
        let points = ((end - start) / STEP).ceil() as usize + 1;
        let grid: Vec<f64> = (0..points).map(|i| start + STEP * i as f64).collect();
        let coupling = coupling();
        let mut cumulative: Vec<f64> = grid
            .iter()
            .map(|&boundary| prior(boundary, seed, end - start) * likelihood(boundary, observations, &coupling))
            .collect();
        let mut total = 0.0;
        for weight in &mut cumulative {
            total += *weight;
            *weight = total;
        }
        cumulative.iter_mut().for_each(|weight| *weight /= total);
        Boundary { grid, cumulative }
    }

    /// The load below which the boundary lies with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let i = self
            .cumulative
            .partition_point(|&cumulative| cumulative < p)
            .min(self.grid.len() - 1);
        let before = if i == 0 { 0.0 } else { self.cumulative[i - 1] };
        let part = ((p - before) / (self.cumulative[i] - before).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        (self.grid[i] - STEP * (1.0 - part)).exp()
    }

    /// The probability that the boundary lies below `load`, that is, that `load` fails.
    pub fn chance_below(&self, load: f64) -> f64 {
        let position = (load.ln() - self.grid[0]) / STEP;
        if position < 0.0 {
            return 0.0;
        }
        let i = (position as usize).min(self.grid.len() - 1);
        let next = self.cumulative.get(i + 1).copied().unwrap_or(1.0);
        self.cumulative[i] + (next - self.cumulative[i]) * (position - i as f64).clamp(0.0, 1.0)
    }
}

fn prior(boundary: f64, seed: Seed, width: f64) -> f64 {
    let scale = seed.factor.max(1.05).ln();
    let z = (boundary - seed.value.ln()) / scale;
    (1.0 - DOUBT) * (-z * z / 2.0).exp() / (scale * std::f64::consts::TAU.sqrt()) + DOUBT / width
}

/// Prior weight of each pair of slopes (below, above), up to a factor: latency curves are convex, so the slope rarely falls.
fn coupling() -> [[f64; SLOPES.len()]; SLOPES.len()] {
    SLOPES.map(|below| {
        let z = (below / TYPICAL_SLOPE).ln() / SLOPE_SPREAD;
        let own = (-z * z / 2.0).exp();
        let weights = SLOPES.map(|above| {
            let steeper = (above / below).ln();
            (if steeper >= 0.0 { -0.7 * steeper } else { 2.0 * steeper }).exp()
        });
        let total: f64 = weights.iter().sum();
        weights.map(|weight| own * weight / total)
    })
}

fn likelihood(boundary: f64, observations: &[Observation], coupling: &[[f64; SLOPES.len()]; SLOPES.len()]) -> f64 {
    let mut below = [1.0; SLOPES.len()];
    let mut above = [1.0; SLOPES.len()];
    let mut sides = 1.0;
    for observation in observations {
        let distance = observation.value.ln() - boundary;
        if (distance < 0.0) != (observation.margin < 0.0) {
            sides *= chance_of_wrong_side(observation);
        }
        let side = if distance < 0.0 { &mut below } else { &mut above };
        for (weight, slope) in side.iter_mut().zip(SLOPES) {
            *weight *= density(observation, slope * distance);
        }
    }
    let pairs = below
        .iter()
        .zip(coupling)
        .map(|(below, row)| below * above.iter().zip(row).map(|(above, prior)| above * prior).sum::<f64>());
    // Densities of a few dozen probes stay far above the smallest number; zero would lose the grid altogether.
    (sides * pairs.sum::<f64>()).max(f64::MIN_POSITIVE)
}

/// The chance that noise alone brings a run this far to the wrong side of the limit (logistic tail).
fn chance_of_wrong_side(observation: &Observation) -> f64 {
    let z = observation.margin.abs() / observation.error;
    (2.0 / (1.0 + (1.7 * z).exp())).max(FREAK)
}

/// Student's density, up to a factor, of a margin where the lines say `expected`.
fn density(observation: &Observation, expected: f64) -> f64 {
    let stopped = if observation.stopped { STOPPED_ERROR } else { 0.0 };
    let (margin, expected) = (observation.margin.clamp(-FAR, FAR), expected.clamp(-FAR, FAR));
    let bend = BEND * expected;
    let variance = observation.error * observation.error + stopped * stopped + bend * bend;
    let z2 = (margin - expected).powi(2) / variance;
    (1.0 + z2 / f64::from(TAIL)).powi(-(TAIL + 1) / 2) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(observations: &[(f64, f64)]) -> Boundary {
        let observations: Vec<_> = observations
            .iter()
            .map(|&(value, margin)| Observation {
                value,
                margin,
                error: 0.02,
                stopped: false,
            })
            .collect();
        Boundary::infer(Seed::UNKNOWN, 1.0, 8192.0, &observations)
    }

    #[test]
    fn without_a_probe_the_boundary_is_where_the_seed_says() {
        let prior = boundary(&[]);
        assert!((5.0..20.0).contains(&prior.quantile(0.5)), "{}", prior.quantile(0.5));
        assert!((prior.chance_below(prior.quantile(0.3)) - 0.3).abs() < 0.01);
    }

    #[test]
    fn the_boundary_lies_between_a_pass_and_a_failure_and_follows_the_margins() {
        let middle = boundary(&[(80.0, -0.2), (125.0, 0.2)]);
        assert!(
            (95.0..105.0).contains(&middle.quantile(0.5)),
            "{}",
            middle.quantile(0.5)
        );
        assert!(middle.chance_below(80.0) < 0.03 && middle.chance_below(125.0) > 0.97);
        let near_the_pass = boundary(&[(80.0, -0.04), (125.0, 0.4)]);
        assert!(near_the_pass.quantile(0.5) < 95.0);
    }

    #[test]
    fn a_repeat_narrows_the_boundary() {
        let width = |boundary: Boundary| boundary.quantile(0.95) / boundary.quantile(0.05);
        let once = width(boundary(&[(100.0, -0.02), (110.0, 0.1)]));
        let twice = width(boundary(&[(100.0, -0.02), (100.0, -0.02), (110.0, 0.1)]));
        assert!(twice < once, "{twice} {once}");
    }
}
