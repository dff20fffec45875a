//! The true limit of a target and its uncertainty: many runs are pooled at each load around the limit, and a rising curve is fitted to them
//! (pool adjacent violators).

use crate::worlds::{Host, World, figure};
use vsweep::search::{RequestLatencies, Target, Vary};

/// The limit of one target on one server.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct Truth {
    /// The load at which the margin over all requests is zero.
    pub limit: f64,
    /// Loads between which the limit lies, with two standard errors.
    pub low: f64,
    pub high: f64,
    /// Error of the limit if it is estimated from one run at that load, as a ratio.
    pub one_run: f64,
}

/// Requests at each load, and the widest uncertain range for which still more requests may help.
const EFFORTS: [(usize, f64); 3] = [(4_000, 1.09), (20_000, 1.04), (80_000, 1.02)];
/// Least number of runs at each load, so that the scatter of a run is known.
const FEWEST: usize = 12;
/// A margin nearer to zero than this is not clear after six runs.
const UNCLEAR: f64 = 0.02;
/// Margins farther from zero than this are not used to estimate the scatter at the limit.
const NEAR: f64 = 0.15;

impl Truth {
    /// Returns `None` if the limit is not known to one percent, or lies beyond the loads that may be tried.
    pub fn find(world: &World, server: usize, target: &Target) -> Option<Truth> {
        let settings = &world.servers[server].1.settings;
        let vary = settings.vary;
        let mut runs = Runs {
            host: world.host(server, 999),
            draw: 0,
        };
        let floor = |load: f64| vary.floor(load.clamp(settings.lower, settings.upper));
        let mut pooled = |load: f64| margin(target, vary, &runs.at(load, 6).concat());
        let (mut low, mut high) = (floor(world.aim / 1.2), floor((world.aim * 1.2).max(2.0)));
        while pooled(low) > -UNCLEAR {
            (low > settings.lower && low > world.aim / 12.0).then_some(())?;
            low = floor((low / 1.3).min(low - 1e-6));
        }
        while pooled(high) < UNCLEAR {
            (high < settings.upper && high < world.aim * 12.0).then_some(())?;
            high = floor(if vary == Vary::MaxConcurrency {
                (high * 1.3).max(high + 1.0)
            } else {
                high * 1.3
            });
        }
        while high / low > 1.25 {
            let middle = floor((low * high).sqrt());
            if middle <= low || middle >= high {
                break;
            }
            match pooled(middle) {
                margin if margin < -UNCLEAR => low = middle,
                margin if margin > UNCLEAR => high = middle,
                _ => {
                    (low, high) = (floor(middle / 1.12).max(low), floor(middle * 1.12 + 1.0).min(high));
                    break;
                }
            }
        }
        let (low, high) = (floor(low / 1.06), floor(high * 1.06));
        let step = 1.03f64.max((high / low).powf(1.0 / 16.0));
        let (mut loads, mut at) = (Vec::new(), low);
        while at <= high * 1.001 {
            let load = vary.floor(at);
            loads.push(load);
            at = match vary {
                Vary::MaxConcurrency => (at * step).max(load + 1.0),
                Vary::RequestRate => at * step,
            };
        }
        let mut samples = vec![Vec::new(); loads.len()];
        for (count, hopeful) in EFFORTS {
            for (load, sample) in loads.iter().zip(&mut samples) {
                let runs_of_all = count.div_ceil(settings.requests.at(*load) as usize).max(FEWEST);
                sample.extend(runs.at(*load, runs_of_all.saturating_sub(sample.len())));
            }
            let curve = Curve::of(loads.clone(), &samples, target, vary);
            let truth = curve.truth(vary);
            if truth.is_some() || !curve.open().is_some_and(|[low, _, high]| high / low <= hopeful) {
                return truth;
            }
        }
        None
    }

    /// The highest load that meets the target.
    pub fn highest(&self, vary: Vary) -> f64 {
        if vary == Vary::MaxConcurrency {
            self.limit.floor()
        } else {
            self.limit
        }
    }
}

struct Runs<'w> {
    host: Host<'w>,
    draw: u32,
}

impl Runs<'_> {
    fn at(&mut self, load: f64, count: usize) -> Vec<Vec<RequestLatencies>> {
        let runs = (0..count).map(|_| {
            self.draw += 1;
            self.host.run(load, self.draw).requests
        });
        runs.collect()
    }
}

/// Margins at loads around a limit, each over all requests of its load.
pub struct Curve {
    loads: Vec<f64>,
    margins: Vec<f64>,
    /// Standard error of the margins, and the standard deviation of a single run's margin.
    error: f64,
    scatter: f64,
}

impl Curve {
    /// Makes the curve from the runs at each load.
    pub fn of(loads: Vec<f64>, samples: &[Vec<Vec<RequestLatencies>>], target: &Target, vary: Vary) -> Curve {
        let margins: Vec<f64> = samples
            .iter()
            .map(|runs| margin(target, vary, &runs.concat()))
            .collect();
        let around = around(&rising(&margins));
        let (mut squares, mut error, mut count) = (0.0, 0.0, 0.0);
        for (at, runs) in samples.iter().enumerate() {
            // Only loads near the limit count. If the curve is steep, these are the two around it, however far their margins are from zero.
            let is_around = around.is_some_and(|below| (below..=below + 1).contains(&at));
            if is_around || margins[at].abs() < NEAR {
                let each: Vec<f64> = runs.iter().map(|run| margin(target, vary, run)).collect();
                let mean = each.iter().sum::<f64>() / each.len() as f64;
                let variance = each.iter().map(|margin| (margin - mean).powi(2)).sum::<f64>() / (each.len() - 1) as f64;
                squares += variance;
                error += variance / each.len() as f64;
                count += 1.0;
            }
        }
        let mean = |sum: f64| (sum / f64::max(count, 1.0)).sqrt();
        Curve {
            error: mean(error),
            scatter: mean(squares),
            margins,
            loads,
        }
    }

    /// Returns `None` if the limit is not known to one percent.
    pub fn truth(&self, vary: Vary) -> Option<Truth> {
        let [low, limit, high] = self.open()?;
        let whole = vary == Vary::MaxConcurrency && high - low < 0.5;
        (whole || high / low <= 1.02).then_some(())?;
        let wide = if vary == Vary::MaxConcurrency {
            1.07f64.max(1.0 + 1.5 / limit)
        } else {
            1.07
        };
        let slope = (self.at(limit * wide) - self.at(limit / wide)) / (2.0 * wide.ln());
        Some(Truth {
            limit,
            low,
            high,
            one_run: self.scatter / slope.max(1e-9),
        })
    }

    /// Returns the two loads around the limit. If the limit is not known, more must be measured there.
    pub fn around(&self) -> Option<[f64; 2]> {
        let below = around(&rising(&self.margins))?;
        Some([self.loads[below], self.loads[below + 1]])
    }

    /// Returns the limit and the ends of its range of two standard errors: by a parabola through all loads if it explains them, otherwise
    /// by the two loads around it.
    fn open(&self) -> Option<[f64; 3]> {
        if let Some(found) = self.smooth() {
            return Some(found);
        }
        let [low, limit, high] = [2.0 * self.error, 0.0, -2.0 * self.error].map(|by| self.crossing(by));
        Some([low?, limit?, high?])
    }

    /// Estimates the limit by a parabola of the margins over the logarithm of the load. `None` if there are too few loads, if it does not
    /// explain the margins (a kink, or a step between two criteria), or if it does not rise through zero among them.
    fn smooth(&self) -> Option<[f64; 3]> {
        let freedom = self.loads.len().checked_sub(3).filter(|freedom| *freedom >= 3)? as f64;
        let middle = self.loads.iter().map(|load| load.ln()).sum::<f64>() / self.loads.len() as f64;
        let powers = |load: f64| {
            let x = load.ln() - middle;
            [1.0, x, x * x]
        };
        let mut normal = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for (load, margin) in self.loads.iter().zip(&self.margins) {
            let powers = powers(*load);
            for (i, row) in normal.iter_mut().enumerate() {
                right[i] += powers[i] * margin;
                row.iter_mut()
                    .zip(powers)
                    .for_each(|(sum, power)| *sum += powers[i] * power);
            }
        }
        let inverse = invert(normal)?;
        let [a, b, c] = inverse.map(|row| dot(row, right));
        let fitted = |load: f64| dot(powers(load), [a, b, c]);
        let residuals = self
            .loads
            .iter()
            .zip(&self.margins)
            .map(|(load, margin)| margin - fitted(*load));
        let misfit = residuals.map(|residual| residual.powi(2)).sum::<f64>() / self.error.powi(2) / freedom;
        // At six degrees of freedom, one of a hundred good fits exceeds this.
        (misfit <= 2.8).then_some(())?;
        let (mut below, mut above) = (*self.loads.first()?, *self.loads.last()?);
        (fitted(below) < 0.0 && fitted(above) > 0.0).then_some(())?;
        for _ in 0..60 {
            let between = (below * above).sqrt();
            match fitted(between) < 0.0 {
                true => below = between,
                false => above = between,
            }
        }
        let at = powers(below);
        let slope = b + 2.0 * c * at[1];
        let error = self.error * dot(at, inverse.map(|row| dot(row, at))).sqrt();
        let wide = (2.0 * error / slope).exp();
        (slope > 0.0).then_some([below / wide, below, below * wide])
    }

    /// Returns the load at which the curve, raised by `by`, crosses zero. `None` if it does not.
    fn crossing(&self, by: f64) -> Option<f64> {
        let rising = rising(&self.margins);
        let i = rising.iter().rposition(|margin| margin + by <= 0.0)?;
        let above = rising.get(i + 1)? + by;
        let part = -(rising[i] + by) / (above - rising[i] - by);
        Some((self.loads[i].ln() + part * (self.loads[i + 1] / self.loads[i]).ln()).exp())
    }

    fn at(&self, load: f64) -> f64 {
        let rising = rising(&self.margins);
        let i = self
            .loads
            .partition_point(|place| *place < load)
            .clamp(1, self.loads.len() - 1);
        let part = (load / self.loads[i - 1]).ln() / (self.loads[i] / self.loads[i - 1]).ln();
        rising[i - 1] + (rising[i] - rising[i - 1]) * part.clamp(0.0, 1.0)
    }
}

fn margin(target: &Target, vary: Vary, requests: &[RequestLatencies]) -> f64 {
    let criteria = target.criteria.iter();
    let margins = criteria.filter_map(|criterion| {
        let reading = criterion.read(vary, |key| figure(requests, key), requests)?;
        Some(reading.margin())
    });
    margins.fold(f64::NEG_INFINITY, f64::max)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.into_iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Inverts by Cramer's rule; `None` for a singular matrix.
fn invert(m: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let minor = |row: usize, column: usize| {
        let [r, s] = [(row + 1) % 3, (row + 2) % 3];
        let [c, d] = [(column + 1) % 3, (column + 2) % 3];
        m[r][c] * m[s][d] - m[r][d] * m[s][c]
    };
    let determinant: f64 = (0..3).map(|column| m[0][column] * minor(0, column)).sum();
    (determinant.abs() > 1e-18).then(|| {
        let mut inverse = [[0.0; 3]; 3];
        for (row, line) in inverse.iter_mut().enumerate() {
            for (column, value) in line.iter_mut().enumerate() {
                *value = minor(column, row) / determinant;
            }
        }
        inverse
    })
}

/// Index of the last load at which a rising curve is not above zero.
fn around(rising: &[f64]) -> Option<usize> {
    let below = rising.iter().rposition(|margin| *margin <= 0.0)?;
    (below + 1 < rising.len()).then_some(below)
}

/// The nearest curve that never falls.
fn rising(values: &[f64]) -> Vec<f64> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for value in values {
        blocks.push((*value, 1));
        while let [.., (before, m), (last, n)] = blocks[..]
            && before > last
        {
            blocks.truncate(blocks.len() - 2);
            blocks.push(((before * m as f64 + last * n as f64) / (m + n) as f64, m + n));
        }
    }
    blocks
        .iter()
        .flat_map(|(value, count)| std::iter::repeat_n(*value, *count))
        .collect()
}
