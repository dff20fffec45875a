//! The distribution of a latency in at most 64 counts, small enough for every run file. Buckets grow by a constant factor, like the
//! exponential histograms of OpenTelemetry. Merging two histograms gives the one that all their values together would have made.

use super::moments::Nanos;
use super::samples::Samples;
use super::summary::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of buckets that are kept.
const MOST_BUCKETS: usize = 64;
/// The scale of the finest buckets: 32 for a doubling, each 2.2 % wide.
const FINEST: i32 = 5;

/// Counts of values in milliseconds. Bucket `i` counts the values from `base^i` to below `base^(i+1)`, where `base = 2^(2^-scale)`. Empty
/// buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    scale: i32,
    /// Number of values of 0, which no bucket holds.
    zeros: u64,
    buckets: BTreeMap<i32, u64>,
}

impl Histogram {
    /// Histograms of TTFT, ITL and E2EL over the completed requests, by their names in results.
    pub fn of_samples(samples: &Samples) -> BTreeMap<&'static str, Histogram> {
        // Counts in the finest buckets, because millions of values are added. The lowest bucket counts the values of 0.
        let [mut ttft, mut itl, mut e2el] = [(); 3].map(|()| vec![0; BUCKETS]);
        for sample in samples.ok() {
            ttft[finest_bucket(sample.ttft())] += 1;
            e2el[finest_bucket(sample.latency())] += 1;
            let gaps = sample.events.into_gaps();
            gaps.for_each(|gap| itl[finest_bucket(gap)] += 1);
        }
        let named = [(Metric::Ttft, ttft), (Metric::Itl, itl), (Metric::E2el, e2el)];
        let all = named.into_iter();
        all.map(|(metric, counts)| (metric.name(), Histogram::of_finest(counts)))
            .collect()
    }

    fn of_finest(counts: Vec<u64>) -> Histogram {
        let zeros = counts[0];
        let buckets = (LOWEST..).zip(counts).skip(1).filter(|(_, count)| *count > 0);
        let mut histogram = Histogram {
            scale: FINEST,
            zeros,
            buckets: buckets.collect(),
        };
        histogram.shrink();
        histogram
    }

    fn shrink(&mut self) {
        while self.buckets.len() > MOST_BUCKETS {
            self.coarsen();
        }
    }

    /// Merges neighbouring buckets in pairs.
    fn coarsen(&mut self) {
        self.scale -= 1;
        let mut joined = BTreeMap::new();
        for (bucket, count) in &self.buckets {
            *joined.entry(bucket.div_euclid(2)).or_default() += count;
        }
        self.buckets = joined;
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        let mut other = other.clone();
        while self.scale > other.scale {
            self.coarsen();
        }
        while other.scale > self.scale {
            other.coarsen();
        }
        self.zeros += other.zeros;
        for (bucket, count) in other.buckets {
            *self.buckets.entry(bucket).or_default() += count;
        }
        self.shrink();
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.zeros + self.buckets.values().sum::<u64>()
    }

    /// The value in milliseconds below which a share (0 to 1) of the values lies, to within [`Histogram::relative_error`]; `None` if there
    /// are no values.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.count().checked_sub(1)?;
        let rank = (share.clamp(0.0, 1.0) * last as f64).round() as u64;
        let mut below = self.zeros;
        let bucket = self.buckets.iter().find(|(_, count)| {
            below += **count;
            rank < below
        });
        match bucket {
            Some((bucket, _)) if rank >= self.zeros => Some(self.edge(f64::from(*bucket) + 0.5)),
            _ => Some(0.0),
        }
    }

    /// Points of the cumulative distribution: times in milliseconds with the share of values (0 to 1) up to each, both ascending; empty if
    /// there are no values.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut below = self.zeros;
        let first = self.buckets.keys().next().map(|bucket| self.edge(f64::from(*bucket)));
        let start = (self.zeros > 0).then_some(0.0).or(first);
        let begin = start.map(|at| (at, self.zeros as f64 / all));
        let steps = self.buckets.iter().map(|(bucket, count)| {
            below += count;
            (self.edge(f64::from(*bucket) + 1.0), below as f64 / all)
        });
        begin.into_iter().chain(steps).collect()
    }

    /// Greatest ratio between a quantile and the true value at its rank, minus one: 0.011 at the finest resolution.
    pub fn relative_error(&self) -> f64 {
        self.edge(0.5) - 1.0
    }

    fn edge(&self, bucket: f64) -> f64 {
        (bucket * 2f64.powi(-self.scale)).exp2()
    }
}

/// Index of the lowest bucket. The shortest time above 0, a nanosecond, is in bucket -638.
const LOWEST: i32 = -640;
/// Number of buckets, which is enough for the longest time.
const BUCKETS: usize = 2100;

/// Returns the place of a time among the finest buckets.
fn finest_bucket(nanos: Nanos) -> usize {
    if nanos == 0 {
        return 0;
    }
    let ms = nanos as f64 / 1e6;
    let bucket = (ms.log2() * 2f64.powi(FINEST)).floor() as i32;
    (bucket - LOWEST) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;
    use proptest::prelude::*;

    fn of(values: &[Nanos]) -> Histogram {
        let mut counts = vec![0; BUCKETS];
        values.iter().for_each(|value| counts[finest_bucket(*value)] += 1);
        Histogram::of_finest(counts)
    }

    /// Times over nine decades, some of them 0.
    fn values() -> impl Strategy<Value = Vec<Nanos>> {
        let value = prop_oneof![9 => (0.0..9.0f64).prop_map(|power| 10f64.powf(power) as Nanos), 1 => Just(0)];
        prop::collection::vec(value, 1..400)
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_the_stated_error_of_the_value_at_its_rank(mut values in values(), share in 0.0..=1.0f64) {
            let histogram = of(&values);
            values.sort_unstable();
            let value = values[(share * (values.len() - 1) as f64).round() as usize] as f64 / 1e6;
            let read = histogram.quantile(share).expect("there are values");
            let error = histogram.relative_error() * (1.0 + 1e-9);
            prop_assert!((read - value).abs() <= value * error, "{} for {}", read, value);
            prop_assert!(histogram.buckets.len() <= MOST_BUCKETS && histogram.count() == values.len() as u64);
        }

        #[test]
        fn shares_grow_to_one_and_are_those_of_the_values(values in values()) {
            let cumulative = of(&values).cumulative();
            prop_assert_eq!(cumulative.last().map(|(_, share)| *share), Some(1.0));
            for pair in cumulative.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            }
            for (at, share) in cumulative {
                let below = values.iter().filter(|value| **value as f64 / 1e6 < at * (1.0 + 1e-9)).count() as f64;
                let least = values.iter().filter(|value| (**value as f64 / 1e6) < at * (1.0 - 1e-9)).count() as f64;
                let count = share * values.len() as f64;
                prop_assert!(at == 0.0 || least - 1e-6 <= count && count <= below + 1e-6, "{} at {}", share, at);
            }
        }

        #[test]
        fn a_factor_of_three_is_kept_within_one_percent(values in prop::collection::vec(100u64..300, 1..400)) {
            prop_assert!(of(&values).relative_error() < 0.011);
        }

        #[test]
        fn merging_is_counting_together(one in values(), other in values()) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(merged, of(&[one, other].concat()));
        }

        #[test]
        fn what_is_written_is_read_back(values in values()) {
            let histogram = of(&values);
            let text = serde_json::to_string(&histogram).expect("plain data");
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).expect("valid"), histogram);
        }
    }

    #[test]
    fn every_time_has_a_bucket() {
        assert_eq!(of(&[0, 1, Nanos::MAX]).count(), 3);
    }

    #[test]
    fn failed_requests_are_in_none() {
        let failed = Sample {
            error: Some("gone".into()),
            ..Sample::default()
        };
        let done = Sample {
            end: 3_000_000,
            ..Sample::default()
        };
        let histograms = Histogram::of_samples(&Samples::from(vec![failed, done]));
        assert_eq!(histograms["e2el"].count(), 1);
        assert_eq!(histograms["itl"].quantile(0.5), None);
        let three = histograms["e2el"].quantile(0.5).expect("one value");
        assert!((three / 3.0 - 1.0).abs() < 0.011, "{three}");
    }
}
