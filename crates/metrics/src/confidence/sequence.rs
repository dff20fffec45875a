//! The sampling error of means and percentiles of successive values, which may depend on each other. The long-run variance is estimated by
//! the method of batch means.

use super::NORMAL;
use crate::moments::seconds;
use crate::samples::Samples;

/// Maximum number of batches into which values are divided.
pub(super) const BATCHES: usize = 20;
/// Minimum number of batches that can show a dependence.
const FEWEST_BATCHES: usize = 4;
/// Weight of the assumption that values are independent, as a number of batches.
const PRIOR_BATCHES: f64 = 2.0;
/// Assumed deviation of one additional value, relative to the mean.
const PRIOR_DEVIATION: f64 = 0.1;
/// Assumed growth of a latency's logarithm beyond the sample, for each factor e of rarity. The rarity of a percentile is
/// `1 / (1 - share)`.
const PRIOR_TAIL: f64 = 0.15;
/// Factor above which the two sides of an interval differ by more than chance.
const UNEVEN: f64 = 2.5;
/// Least number of values above a percentile for which the two sides of its interval are averaged. With fewer, the longer side counts.
const FEW_ABOVE: f64 = 5.0;
/// Maximum number of gaps that are kept. If there are more, only every second, third, … is kept.
const MOST_VALUES: usize = 1 << 16;

/// Values of requests in the order in which the requests ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequence {
    values: Vec<f64>,
    /// For each request with values, the position in `values` after its last value.
    ends: Vec<usize>,
    /// Logarithms of the values, ascending.
    sorted: Vec<f64>,
    /// Expected position of each logarithm in `sorted` on the scale of an exponential distribution.
    positions: Vec<f64>,
}

impl Sequence {
    /// A sequence with one value per request.
    pub fn of_values(values: Vec<f64>) -> Sequence {
        let ends = (1..=values.len()).collect();
        Sequence::of(values, ends)
    }

    /// The gaps between output events, in seconds.
    pub fn of_gaps(samples: &Samples) -> Sequence {
        let count: usize = samples.ok().map(|sample| sample.events.len().saturating_sub(1)).sum();
        let step = count.div_ceil(MOST_VALUES).max(1);
        let (mut values, mut ends, mut place) = (Vec::new(), Vec::new(), 0);
        for sample in samples.ok() {
            for gap in sample.events.into_gaps() {
                if place % step == 0 {
                    values.push(seconds(gap));
                }
                place += 1;
            }
            if ends.last().copied().unwrap_or(0) < values.len() {
                ends.push(values.len());
            }
        }
        Sequence::of(values, ends)
    }

    fn of(values: Vec<f64>, ends: Vec<usize>) -> Sequence {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        // A value of 0 has no logarithm.
        let least = (mean * 1e-6).max(f64::MIN_POSITIVE);
        let mut sorted: Vec<f64> = values.iter().map(|value| value.max(least).ln()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let mut reached = 0.0;
        let position = |place| {
            reached += 1.0 / (n - place) as f64;
            reached
        };
        Sequence {
            positions: (0..n).map(position).collect(),
            values,
            ends,
            sorted,
        }
    }

    /// The relative error of the mean; `None` if the mean is not above 0.
    pub fn mean_error(&self, wave: usize) -> Option<f64> {
        let sum: f64 = self.values.iter().sum();
        let mean = sum / self.values.len() as f64;
        let deviations: Vec<f64> = self
            .requests()
            .map(|values| values.iter().map(|value| value - mean).sum())
            .collect();
        let prior = PRIOR_DEVIATION * sum / self.ends.len().max(1) as f64;
        (mean > 0.0).then(|| error_of_sum(&deviations, wave, prior) / sum)
    }

    /// The error of a percentile's logarithm, by the order statistics around it; `None` if no value is above 0.
    pub fn percentile_error(&self, share: f64, wave: usize) -> Option<f64> {
        let count = self.values.len();
        if count == 0 || self.values.iter().all(|value| *value <= 0.0) {
            return None;
        }
        let share = share.clamp(0.0, 1.0 - 1e-6);
        let (n, all) = (self.independent(share, wave), count as f64);
        let deviation = deviation_at(share, n);
        let place = reached(share, all);
        let [low, middle, high] = [-1.0, 0.0, 1.0].map(|side| self.at(place + side * NORMAL * deviation));
        let (longer, shorter) = ((high - middle).max(middle - low), (high - middle).min(middle - low));
        // If values come in steps, or few are beyond the percentile, the mean of both sides would be too short for the longer side.
        let is_uneven = longer > UNEVEN * shorter || above(share, n) < FEW_ABOVE;
        let seen = if is_uneven { longer } else { (high - low) / 2.0 } / NORMAL;
        let least = PRIOR_DEVIATION * deviation / all.sqrt();
        let tail = self.tail().max(PRIOR_TAIL * (1.0 - above(share, n)).max(0.0));
        let unseen = tail * beyond(share, n);
        Some((seen.powi(2) + least.powi(2) + unseen.powi(2)).sqrt())
    }

    fn requests(&self) -> impl Iterator<Item = &[f64]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.values[start..*end])
    }

    /// Number of independent values that would give as much information about the percentile as these values.
    fn independent(&self, share: f64, wave: usize) -> f64 {
        let count = self.values.len() as f64;
        let rank = ((count - 1.0) * share) as usize;
        let limit = self.sorted[rank];
        let is_above = |value: &&f64| **value > 0.0 && value.ln() > limit + 1e-12;
        let above: Vec<f64> = self
            .requests()
            .map(|values| values.iter().filter(is_above).count() as f64)
            .collect();
        let part = above.iter().sum::<f64>() / count;
        let requests = self.ends.len() as f64;
        if part <= 0.0 || part >= 1.0 || requests < 2.0 {
            return requests;
        }
        let lengths = self.requests().map(|values| values.len() as f64);
        let deviations: Vec<f64> = above
            .iter()
            .zip(lengths)
            .map(|(above, all)| above - part * all)
            .collect();
        let error = error_of_sum(&deviations, wave, 0.0);
        (count * count * part * (1.0 - part) / error.powi(2))
            .min(count)
            .max(1.0)
    }

    /// The logarithm of the value at a position on the exponential scale.
    fn at(&self, position: f64) -> f64 {
        let last = self.sorted.len() - 1;
        let next = self.positions.partition_point(|known| *known < position);
        match next {
            0 => self.sorted[0],
            _ if next > last => self.sorted[last] + self.tail() * (position - self.positions[last]),
            _ => {
                let (from, to) = (self.positions[next - 1], self.positions[next]);
                let share = (position - from) / (to - from);
                self.sorted[next - 1] + share * (self.sorted[next] - self.sorted[next - 1])
            }
        }
    }

    /// Growth of the logarithm beyond the greatest values, per unit of the exponential scale: their mean excess.
    fn tail(&self) -> f64 {
        let n = self.sorted.len();
        let greatest = ((n as f64).sqrt().ceil() as usize).min(n - 1);
        let from = self.sorted[n - 1 - greatest];
        self.sorted[n - greatest..]
            .iter()
            .map(|value| value - from)
            .sum::<f64>()
            / greatest.max(1) as f64
    }
}

/// The standard error of the sum of successive deviations. Batches are not shorter than a wave. `prior` is the assumed size of one
/// additional deviation.
pub(super) fn error_of_sum(deviations: &[f64], wave: usize, prior: f64) -> f64 {
    let n = deviations.len();
    let center = deviations.iter().sum::<f64>() / n.max(1) as f64;
    let squares = deviations
        .iter()
        .map(|deviation| (deviation - center).powi(2))
        .sum::<f64>();
    let independent = squares + prior * prior;
    let plain = independent.sqrt() * widening(n as f64);
    let batches = BATCHES.min(n / wave.max(2));
    // Few batches are not compared: the first wave differs from the others in any case, because its requests did not meet earlier ones.
    if batches < FEWEST_BATCHES {
        return plain;
    }
    let sum = |at| batch(deviations, batches, at).iter().sum();
    let sums: Vec<f64> = (0..batches).map(sum).collect();
    plain.max(pooled(independent, &sums))
}

/// Returns one of `batches` parts of about equal length.
pub(super) fn batch<T>(all: &[T], batches: usize, at: usize) -> &[T] {
    let start = |at: usize| all.len() * at / batches;
    &all[start(at)..start(at + 1)]
}

/// Expected number of values above a percentile, of `n` values.
fn above(share: f64, n: f64) -> f64 {
    (n - 1.0).max(0.0) * (1.0 - share)
}

/// Expected position of the percentile of `n` values on the scale of an exponential distribution.
fn reached(share: f64, n: f64) -> f64 {
    digamma(1.0 + n) - digamma(1.0 + above(share, n))
}

/// Standard deviation of the position of the percentile, on the same scale as [`reached`].
pub(super) fn deviation_at(share: f64, n: f64) -> f64 {
    (trigamma(1.0 + above(share, n)) - trigamma(1.0 + n)).max(0.0).sqrt()
}

/// Distance from the expected position to the true percentile, on the same scale as [`reached`]; 0 if the true percentile is not farther.
pub(super) fn beyond(share: f64, n: f64) -> f64 {
    (-(1.0 - share).ln() - reached(share, n)).max(0.0)
}

/// The standard error of a sum. It combines `independent`, the variance if the parts are independent, with the variation of `batches`. A
/// correlation of neighbouring batches means that a dependence is longer than a batch, so it raises the error.
pub(super) fn pooled(independent: f64, batches: &[f64]) -> f64 {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares = batches.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>();
    let degrees = PRIOR_BATCHES + count - 1.0;
    let variance = (PRIOR_BATCHES * independent + count * squares) / degrees;
    let products = batches
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum::<f64>();
    let correlation = if squares > 0.0 && batches.len() > 4 {
        products / squares
    } else {
        0.0
    };
    // Corrects the bias of an estimate from few batches, and subtracts what may be chance.
    let correlation = (correlation + (1.0 + 3.0 * correlation) / count - 0.5 / count.sqrt()).clamp(0.0, 0.8);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    (variance * inflation).sqrt() * widening(degrees / inflation)
}

/// Student's t for a two-sided interval of 95 %, in units of the normal quantile. From 3.5 degrees of freedom on, it is approximated
/// by the expansion of Abramowitz and Stegun, 26.7.5.
pub(super) fn widening(degrees: f64) -> f64 {
    let z = NORMAL;
    let n = degrees.max(1.0);
    let student = match n {
        ..1.5 => 12.706,
        ..2.5 => 4.303,
        ..3.5 => 3.182,
        _ => {
            let first = (z.powi(3) + z) / (4.0 * n);
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
            z + first + second
        }
    };
    student / z
}

fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    sum + x.ln() - 0.5 / x - 1.0 / (12.0 * x * x) + 1.0 / (120.0 * x.powi(4))
}

fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    sum + 1.0 / x + 0.5 / (x * x) + 1.0 / (6.0 * x.powi(3)) - 1.0 / (30.0 * x.powi(5))
}
