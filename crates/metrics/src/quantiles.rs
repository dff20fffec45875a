//! Mean, deviation and percentiles, computed in the order of numpy's operations, so that even the last digits agree.

use super::moments::{Nanos, seconds};
use std::collections::{BTreeMap, BTreeSet};

/// Statistics of one distribution, in milliseconds. All are 0 if the distribution is empty, as in `vllm bench serve`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Population standard deviation.
    pub std: f64,
    /// The percentiles that were asked for, as (percent, value).
    pub percentiles: Vec<(f64, f64)>,
    /// Number of values.
    pub count: usize,
}

impl Stats {
    /// Statistics of values in seconds, reported in milliseconds.
    pub fn of_seconds(mut values: Vec<f64>, percents: &[f64]) -> Stats {
        let count = values.len();
        if count == 0 {
            return Stats {
                percentiles: percents.iter().map(|&p| (p, 0.0)).collect(),
                ..Stats::default()
            };
        }
        let (mean, std) = mean_and_std(|| values.iter().copied(), count);
        values.sort_unstable_by(f64::total_cmp);
        Stats::with(mean, std, count, percents, |rank| values[rank])
    }

    /// Statistics of values in nanoseconds that are too many to keep. `walk` yields all of them, each time in the same order.
    pub fn of_nanos<I: Iterator<Item = Nanos>>(walk: impl Fn() -> I, percents: &[f64]) -> Stats {
        let count = walk().count();
        if count == 0 {
            return Stats::of_seconds(vec![], percents);
        }
        let (mean, std) = mean_and_std(|| walk().map(seconds), count);
        let mut ranks = BTreeSet::from([(count - 1) / 2, count / 2]);
        for percent in percents {
            interpolate(count, *percent, |rank| {
                ranks.insert(rank);
                0.0
            });
        }
        let values = at_ranks(walk, ranks);
        Stats::with(mean, std, count, percents, |rank| seconds(values[&rank]))
    }

    /// Statistics from a known mean and deviation in seconds; `at` returns the value at a rank.
    fn with(mean: f64, std: f64, count: usize, percents: &[f64], at: impl Fn(usize) -> f64) -> Stats {
        let median = if count.is_multiple_of(2) {
            (at(count / 2 - 1) + at(count / 2)) / 2.0
        } else {
            at(count / 2)
        };
        let percentile = |percent: f64| (percent, interpolate(count, percent, &at) * 1000.0);
        Stats {
            mean: mean * 1000.0,
            median: median * 1000.0,
            std: std * 1000.0,
            percentiles: percents.iter().copied().map(percentile).collect(),
            count,
        }
    }
}

/// Mean and population standard deviation of `count` values, at least one.
fn mean_and_std<I: Iterator<Item = f64>>(walk: impl Fn() -> I, count: usize) -> (f64, f64) {
    let n = count as f64;
    let mean = pairwise_sum(&mut walk(), count) / n;
    let mut squares = walk().map(|value| (value - mean) * (value - mean));
    (mean, (pairwise_sum(&mut squares, count) / n).sqrt())
}

/// The percentile `percent` (0 to 100) of ascending values by linear interpolation (numpy's default); 0 when empty.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    interpolate(sorted.len(), percent, |rank| sorted[rank])
}

/// The median of values; `None` if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[values.len() / 2]))
}

/// Interpolates a percentile of `count` values; `at` returns the value at a rank.
fn interpolate(count: usize, percent: f64, mut at: impl FnMut(usize) -> f64) -> f64 {
    let Some(top) = count.checked_sub(1) else {
        return 0.0;
    };
    let rank = (top as f64 * (percent / 100.0)).clamp(0.0, top as f64);
    let below = rank as usize;
    let (a, b) = (at(below), at((below + 1).min(top)));
    let t = rank - below as f64;
    if t < 0.5 {
        a + (b - a) * t
    } else {
        b - (b - a) * (1.0 - t)
    }
}

/// numpy's pairwise summation of the next `count` values: blocks of 128 added in eight lanes, halves added recursively.
fn pairwise_sum(values: &mut impl Iterator<Item = f64>, count: usize) -> f64 {
    match count {
        0..8 => values.take(count).fold(0.0, |sum, value| sum + value),
        8..=128 => {
            let mut lanes = [0.0; 8];
            lanes
                .iter_mut()
                .zip(&mut *values)
                .for_each(|(lane, value)| *lane = value);
            for _ in 1..count / 8 {
                lanes
                    .iter_mut()
                    .zip(&mut *values)
                    .for_each(|(lane, value)| *lane += value);
            }
            let sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
            values.take(count % 8).fold(sum, |sum, value| sum + value)
        }
        n => {
            let half = n / 2 - (n / 2) % 8;
            pairwise_sum(values, half) + pairwise_sum(values, n - half)
        }
    }
}

/// Bits of a digit in [`at_ranks`].
const DIGIT_BITS: u32 = 11;
/// Number of values that a digit can have.
const DIGIT_VALUES: usize = 1 << DIGIT_BITS;

/// Returns the exact values at `ranks` (0 is the smallest) of a sequence that is too long to sort. Each call of `walk` yields the whole
/// sequence. Each rank must be below the number of values. The values are found digit by digit, with one walk for each digit, in memory
/// that does not depend on the length of the sequence.
pub fn at_ranks<I: Iterator<Item = Nanos>>(
    walk: impl Fn() -> I,
    ranks: impl IntoIterator<Item = usize>,
) -> BTreeMap<usize, Nanos> {
    let most = walk().max().unwrap_or(0);
    let digits = (Nanos::BITS - most.leading_zeros()).div_ceil(DIGIT_BITS).max(1);
    // For each rank: the leading digits of its value, and its rank among the values with these leading digits.
    let mut found: BTreeMap<usize, (Nanos, usize)> = ranks.into_iter().map(|rank| (rank, (0, rank))).collect();
    for digit in (0..digits).rev() {
        let shift = digit * DIGIT_BITS;
        let mut counts: Vec<(Nanos, Vec<usize>)> = vec![];
        for (leading, _) in found.values() {
            // Ranks ascend, so equal leading digits are neighbours.
            if counts.last().is_none_or(|(last, _)| last != leading) {
                counts.push((*leading, vec![0; DIGIT_VALUES]));
            }
        }
        for value in walk() {
            let leading = value.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
            if let Some((_, counts)) = counts.iter_mut().find(|(wanted, _)| *wanted == leading) {
                counts[(value >> shift) as usize % DIGIT_VALUES] += 1;
            }
        }
        for (leading, rest) in found.values_mut() {
            let counts = counts
                .iter()
                .find(|(wanted, _)| wanted == leading)
                .map(|(_, counts)| counts);
            for (digit, count) in counts.into_iter().flatten().enumerate() {
                if *rest < *count {
                    *leading = *leading << DIGIT_BITS | digit as Nanos;
                    break;
                }
                *rest -= count;
            }
        }
    }
    found.into_iter().map(|(rank, (value, _))| (rank, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_distribution_is_all_zeros() {
        let stats = Stats::of_seconds(vec![], &[99.0]);
        assert_eq!(
            (stats.mean, stats.std, stats.percentiles),
            (0.0, 0.0, vec![(99.0, 0.0)])
        );
    }

    proptest! {
        #[test]
        fn percentiles_stay_within_the_values_and_grow(
            mut values in prop::collection::vec(0.0..1e6f64, 1..300), p in 0.0..100.0f64, q in 0.0..100.0f64,
        ) {
            values.sort_unstable_by(f64::total_cmp);
            let (low, high) = (percentile(&values, p.min(q)), percentile(&values, p.max(q)));
            prop_assert!(low <= high * (1.0 + 1e-12));
            prop_assert!(values[0] <= low * (1.0 + 1e-12) && high <= values[values.len() - 1] * (1.0 + 1e-12));
        }

        #[test]
        fn walking_and_sorting_agree(values in prop::collection::vec(0u64..1 << 40, 0..500), p in 0.0..100.0f64) {
            let sorted = Stats::of_seconds(values.iter().map(|value| seconds(*value)).collect(), &[p, 99.0]);
            prop_assert_eq!(Stats::of_nanos(|| values.iter().copied(), &[p, 99.0]), sorted);
        }

        #[test]
        fn pairwise_and_plain_sums_agree(values in prop::collection::vec(-1e3..1e3f64, 0..1000)) {
            let plain: f64 = values.iter().sum();
            prop_assert!((pairwise_sum(&mut values.iter().copied(), values.len()) - plain).abs() < 1e-6);
        }
    }
}

#[cfg(test)]
mod ranks_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(prop_oneof![0..5000u64, any::<u64>()], 1..200),
            ranks in prop::collection::vec(0usize..200, 0..6),
        ) {
            let ranks: Vec<usize> = ranks.into_iter().map(|rank| rank % values.len()).collect();
            let found = at_ranks(|| values.iter().copied(), ranks.clone());
            values.sort_unstable();
            for rank in ranks {
                prop_assert_eq!(found[&rank], values[rank]);
            }
        }
    }
}
