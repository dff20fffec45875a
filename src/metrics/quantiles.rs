//! Mean, deviation and percentiles, computed in numpy's order so that even last digits agree.

/// Statistics of one distribution, in milliseconds. All are 0 for an empty one, as `vllm bench serve` has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Percentiles asked for, as (percent, value).
    pub percentiles: Vec<(f64, f64)>,
    /// How many values there were.
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
        let n = count as f64;
        let mean = pairwise_sum(&values) / n;
        let squares: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
        let std = (pairwise_sum(&squares) / n).sqrt();
        drop(squares);
        values.sort_unstable_by(f64::total_cmp);
        Stats {
            mean: mean * 1000.0,
            median: median(&values) * 1000.0,
            std: std * 1000.0,
            percentiles: percents.iter().map(|&p| (p, percentile(&values, p) * 1000.0)).collect(),
            count,
        }
    }
}

/// The percentile `percent` (0 to 100) of ascending values by linear interpolation (numpy's default); 0 when empty.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(top) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let rank = (top as f64 * (percent / 100.0)).clamp(0.0, top as f64);
    let below = rank as usize;
    let (a, b) = (sorted[below], sorted[(below + 1).min(top)]);
    let t = rank - below as f64;
    if t < 0.5 {
        a + (b - a) * t
    } else {
        b - (b - a) * (1.0 - t)
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    }
}

/// numpy's pairwise summation: blocks of 128 added in eight lanes, halves added recursively.
fn pairwise_sum(values: &[f64]) -> f64 {
    match values.len() {
        0..8 => values.iter().fold(0.0, |sum, value| sum + value),
        8..=128 => {
            let mut lanes: [f64; 8] = std::array::from_fn(|i| values[i]);
            let blocks = values[8..].chunks_exact(8);
            let rest = blocks.remainder();
            for block in blocks {
                lanes.iter_mut().zip(block).for_each(|(lane, value)| *lane += value);
            }
            let sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
            rest.iter().fold(sum, |sum, value| sum + value)
        }
        n => {
            let half = n / 2 - (n / 2) % 8;
            pairwise_sum(&values[..half]) + pairwise_sum(&values[half..])
        }
    }
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
        fn pairwise_and_plain_sums_agree(values in prop::collection::vec(-1e3..1e3f64, 0..1000)) {
            let plain: f64 = values.iter().sum();
            prop_assert!((pairwise_sum(&values) - plain).abs() < 1e-6);
        }
    }
}
