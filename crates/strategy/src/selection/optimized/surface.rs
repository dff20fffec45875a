//! The values of all candidates as a Gaussian process, given the trials. The sizes of effects (together: a shape) are drawn from their
//! posterior, so that estimates include the uncertainty of the sizes.

use super::shape::{LEVEL_VARIANCE, Shape, Variances};
use super::sites::{Datum, Site, sites};
use super::space::Space;
use crate::stats::{Cholesky, Random, dot};

/// The data to which a surface is fitted.
#[derive(Debug, Clone)]
pub(super) struct Data<'a> {
    pub space: &'a Space,
    /// The mean value of the candidates.
    pub level: f64,
    /// The expected difference of each candidate from the level. The mean of all is zero.
    pub expected: &'a [f64],
    /// Change of each candidate's expected value if a constant of the twin is one standard deviation larger; empty if not known.
    pub constant_slopes: &'a [Vec<f64>],
    /// The factor of the expected differences: mean and standard deviation.
    pub expected_factor: (f64, f64),
    /// Standard deviation of effects that are not expected.
    pub signal: f64,
    /// Observations, each with its candidate.
    pub observed: Vec<(usize, Datum)>,
}

/// Maximum number of shapes that are drawn from the posterior.
pub(super) const SHAPES: usize = 8;
/// Maximum number of observations from which the sizes of effects are estimated: the first ones, which are spread, and the last. Values
/// are estimated from all.
pub(super) const FITTED: usize = 96;
/// Number of sweeps over all sizes in the search for the likeliest shape.
const CLIMB_SWEEPS: usize = 3;
/// Number of sweeps over all sizes before the first draw.
const WARM_UP: usize = 3;
/// Number of sweeps over all sizes for each draw.
const SWEEPS_PER_DRAW: usize = 2;
/// Step of a size in the first sweep of the search for the likeliest shape, as a logarithm.
const CLIMB_STEP: f64 = 0.6;
/// Standard deviation of a random step of a size, as a logarithm.
const WALK_STEP: f64 = 0.7;

/// The values of candidates, given one shape.
#[derive(Debug, Clone)]
pub(super) struct Surface {
    shape: Shape,
    variances: Variances,
    seen: SeenLevels,
    /// Correlations on each axis, of each observed level with each level.
    tables: Vec<Vec<Vec<f64>>>,
    /// The candidate of each observation.
    observed: Vec<usize>,
    factor: Cholesky,
    /// The values of the sites, forward-substituted through the factor.
    solved: Vec<f64>,
}

/// The levels on each axis that were observed.
#[derive(Debug, Clone)]
struct SeenLevels {
    /// The observed levels of each axis.
    levels: Vec<Vec<usize>>,
    /// Index of each observation's level in `levels`, for each axis.
    index: Vec<Vec<usize>>,
}

/// Mean and variance of a candidate's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    pub mean: f64,
    pub variance: f64,
}

/// Draws `count` surfaces of likely shapes, with the random numbers of a stream.
pub(super) fn fit(data: &Data<'_>, count: usize, stream: &str) -> Vec<Surface> {
    let seen = SeenLevels::of(data);
    let free = Shape::free(data.space);
    let few = data.fewer();
    let few_seen = SeenLevels::of(&few);
    let (shape, few_sites) = climbed(&few, &few_seen, &free);
    let sites = match few.observed.len() == data.observed.len() {
        true => few_sites.clone(),
        false => data.sites(&seen, &shape),
    };
    let mut random = Random::of(data.observed.len() as u64, &[stream]);
    let mut now = (few.ln_posterior(&few_seen, &shape, &few_sites), shape);
    let mut found = Vec::new();
    for sweep in 1..=WARM_UP + count * SWEEPS_PER_DRAW {
        for at in &free {
            let moved = now.1.moved(*at, WALK_STEP * random.normal());
            let ln_posterior = few.ln_posterior(&few_seen, &moved, &few_sites);
            if random.uniform().ln() < ln_posterior - now.0 {
                now = (ln_posterior, moved);
            }
        }
        if sweep > WARM_UP && (sweep - WARM_UP).is_multiple_of(SWEEPS_PER_DRAW) {
            found.extend(Surface::new(data, &seen, now.1.clone(), &sites));
        }
    }
    found
}

/// Returns the surface of a given shape.
pub(super) fn of_shape(data: &Data<'_>, shape: Shape) -> Option<Surface> {
    let seen = SeenLevels::of(data);
    let sites = data.sites(&seen, &shape);
    Surface::new(data, &seen, shape, &sites)
}

/// Searches for the likeliest shape, by steps along one size after the other. Returns it with its sites.
fn climbed(data: &Data<'_>, seen: &SeenLevels, free: &[usize]) -> (Shape, Vec<Site>) {
    let mut shape = Shape::prior(data.space, data.signal);
    let mut found = data.sites(seen, &shape);
    for climb in 0..CLIMB_SWEEPS {
        let mut best = data.ln_posterior(seen, &shape, &found);
        for at in free {
            for step in [CLIMB_STEP, -CLIMB_STEP] {
                let moved = shape.moved(*at, step / (1.0 + climb as f64 / 2.0));
                let ln_posterior = data.ln_posterior(seen, &moved, &found);
                if ln_posterior > best {
                    (best, shape) = (ln_posterior, moved);
                }
            }
        }
        found = data.sites(seen, &shape);
    }
    (shape, found)
}

impl<'a> Data<'a> {
    /// Returns the data with at most [`FITTED`] observations.
    fn fewer(&self) -> Data<'a> {
        let all = &self.observed;
        let half = FITTED / 2;
        let observed = match all.len() > FITTED {
            true => [&all[..half], &all[all.len() - half..]].concat(),
            false => all.clone(),
        };
        Data {
            observed,
            ..self.clone()
        }
    }

    /// Returns the prior mean of a candidate's value.
    fn mean(&self, at: usize) -> f64 {
        self.level + self.expected_factor.0 * self.expected[at]
    }

    /// Returns the covariance of two candidates through the common level, the factor of expected differences, and the twin's constants.
    fn common(&self, of: [usize; 2]) -> f64 {
        let [a, b] = of.map(|at| self.expected_factor.1 * self.expected[at]);
        let [one, other] = of.map(|at| self.constant_slopes.get(at).map_or(&[][..], Vec::as_slice));
        LEVEL_VARIANCE + a * b + dot(one, other)
    }

    /// Returns the sites. Each replaces an observation by a normal one of the difference from the prior mean. The variance of a site of
    /// `Datum::Value` is without the variance between starts, because that depends on the shape; [`Data::factor`] adds it.
    fn sites(&self, seen: &SeenLevels, shape: &Shape) -> Vec<Site> {
        let start = shape.start_variance();
        let residual = |(at, observed): &(usize, Datum)| match *observed {
            Datum::Value(value, variance) => Datum::Value(value - self.mean(*at), variance + start),
            Datum::Below(bound, error) => Datum::Below(bound - self.mean(*at), error + start),
            Datum::Above(bound, error) => Datum::Above(bound - self.mean(*at), error + start),
        };
        let observed: Vec<Datum> = self.observed.iter().map(residual).collect();
        let covariances = self.covariances(seen, shape);
        let mut found = sites(&observed, |i, j| covariances[i.max(j)][i.min(j)]);
        for (site, (_, observed)) in found.iter_mut().zip(&self.observed) {
            if let Datum::Value(_, variance) = observed {
                site.variance = *variance;
            }
        }
        found
    }

    /// Covariances of the observed candidates, the lower triangle.
    fn covariances(&self, seen: &SeenLevels, shape: &Shape) -> Vec<Vec<f64>> {
        let variances = shape.variances();
        let tables: Vec<Vec<Vec<f64>>> = (0..self.space.len())
            .map(|axis| seen.table(self.space, axis, shape.length(axis), &seen.levels[axis]))
            .collect();
        let covariance = |i: usize, j: usize| {
            let rows = tables.iter().zip(&seen.index);
            let [at, other] = [i, j].map(|i| self.observed[i].0);
            let own = if at == other { shape.own_variance() } else { 0.0 };
            variances.covariance(rows.map(|(table, index)| table[index[i]][index[j]])) + own + self.common([at, other])
        };
        (0..self.observed.len())
            .map(|i| (0..=i).map(|j| covariance(i, j)).collect())
            .collect()
    }

    fn ln_posterior(&self, seen: &SeenLevels, shape: &Shape, sites: &[Site]) -> f64 {
        let Some(factor) = self.factor(seen, shape, sites) else {
            return f64::NEG_INFINITY;
        };
        let solved = factor.solve(|i| sites[i].value);
        shape.ln_prior(self.signal) - 0.5 * dot(&solved, &solved) - factor.ln_diagonal()
    }

    fn factor(&self, seen: &SeenLevels, shape: &Shape, sites: &[Site]) -> Option<Cholesky> {
        let covariances = self.covariances(seen, shape);
        let start = shape.start_variance();
        let noise = |i: usize| match self.observed[i].1 {
            Datum::Value(..) => sites[i].variance + start,
            _ => sites[i].variance,
        };
        let entry = |i: usize, j: usize| covariances[i.max(j)][i.min(j)] + if i == j { noise(i) } else { 0.0 };
        Cholesky::of(sites.len(), entry)
    }
}

impl SeenLevels {
    fn of(data: &Data<'_>) -> SeenLevels {
        let mut seen = SeenLevels {
            levels: vec![Vec::new(); data.space.len()],
            index: vec![Vec::new(); data.space.len()],
        };
        for (axis, (levels, index)) in seen.levels.iter_mut().zip(&mut seen.index).enumerate() {
            for (at, _) in &data.observed {
                let level = data.space.level(axis, *at);
                let known = levels.iter().position(|other| *other == level);
                index.push(known.unwrap_or(levels.len()));
                if known.is_none() {
                    levels.push(level);
                }
            }
        }
        seen
    }

    /// Returns the correlations of each observed level of an axis with others.
    fn table(&self, space: &Space, axis: usize, length: f64, others: &[usize]) -> Vec<Vec<f64>> {
        let row = |level: &usize| {
            let correlations = others
                .iter()
                .map(|other| space.correlation(axis, [*level, *other], length));
            correlations.collect()
        };
        self.levels[axis].iter().map(row).collect()
    }
}

impl Surface {
    fn new(data: &Data<'_>, seen: &SeenLevels, shape: Shape, sites: &[Site]) -> Option<Surface> {
        let factor = data.factor(seen, &shape, sites)?;
        let table = |axis: usize| {
            let all: Vec<usize> = (0..data.space.levels(axis)).collect();
            seen.table(data.space, axis, shape.length(axis), &all)
        };
        Some(Surface {
            solved: factor.solve(|i| sites[i].value),
            factor,
            variances: shape.variances(),
            tables: (0..data.space.len()).map(table).collect(),
            seen: seen.clone(),
            observed: data.observed.iter().map(|(at, _)| *at).collect(),
            shape,
        })
    }

    /// Variance between starts of a candidate.
    pub(super) fn start_variance(&self) -> f64 {
        self.shape.start_variance()
    }

    /// Returns a candidate's covariances with the observations, forward-substituted through the factor.
    fn column(&self, data: &Data<'_>, of: usize) -> Vec<f64> {
        let levels: Vec<usize> = (0..data.space.len()).map(|axis| data.space.level(axis, of)).collect();
        self.factor.solve(|i| {
            let rows = self.tables.iter().zip(&self.seen.index).zip(&levels);
            let own = if self.observed[i] == of {
                self.shape.own_variance()
            } else {
                0.0
            };
            self.variances
                .covariance(rows.map(|((table, index), level)| table[index[i]][*level]))
                + own
                + data.common([self.observed[i], of])
        })
    }

    /// Returns the prior covariance of two candidates.
    fn covariance(&self, data: &Data<'_>, of: [usize; 2]) -> f64 {
        let correlations = (0..data.space.len()).map(|axis| {
            let levels = of.map(|at| data.space.level(axis, at));
            data.space.correlation(axis, levels, self.shape.length(axis))
        });
        let own = if of[0] == of[1] { self.shape.own_variance() } else { 0.0 };
        self.variances.covariance(correlations) + own + data.common(of)
    }

    /// Returns the belief about a candidate.
    pub(super) fn belief(&self, data: &Data<'_>, of: usize) -> Belief {
        let column = self.column(data, of);
        let before = self.covariance(data, [of, of]);
        Belief {
            mean: data.mean(of) + dot(&column, &self.solved),
            variance: (before - dot(&column, &column)).max(1e-12),
        }
    }

    /// Returns the means of some candidates, and the factor of their covariances.
    pub(super) fn joint(&self, data: &Data<'_>, of: &[usize]) -> Option<(Vec<f64>, Cholesky)> {
        let columns: Vec<Vec<f64>> = of.iter().map(|at| self.column(data, *at)).collect();
        let mean = |(at, column): (&usize, &Vec<f64>)| data.mean(*at) + dot(column, &self.solved);
        let entry = |i: usize, j: usize| {
            // Candidates whose values are known exactly would make the matrix singular.
            let least = if i == j { 1e-8 } else { 0.0 };
            self.covariance(data, [of[i], of[j]]) - dot(&columns[i], &columns[j]) + least
        };
        Some((
            of.iter().zip(&columns).map(mean).collect(),
            Cholesky::of(of.len(), entry)?,
        ))
    }

    /// Returns the surface of this shape for other data.
    pub(super) fn with(&self, data: &Data<'_>) -> Option<Surface> {
        of_shape(data, self.shape.clone())
    }
}
