//! How far a run's own figures can be off by chance: 95 % confidence intervals from the run itself.
//!
//! Rates: means of equal spans of time (batch means). Percentiles: order statistics, which assume nothing of the
//! distribution. Requests of one run influence each other, so these are a lower bound of what repeating it would show.

use super::moments::Nanos;
use super::samples::Samples;

/// Spans a run is cut into.
const BATCHES: usize = 20;
/// Student's t for 19 degrees of freedom, two-sided 95 %.
const STUDENT_19: f64 = 2.093;
/// The normal quantile, two-sided 95 %.
const NORMAL: f64 = 1.96;

/// An interval that holds the true value in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Output events a second, by batch means over `duration`; `None` if a span would hold fewer than ten events.
pub fn output_rate(samples: &Samples, duration: Nanos) -> Option<Interval> {
    rate(samples.ok().flat_map(|sample| sample.events.into_each()), duration)
}

/// Completed requests a second, likewise.
pub fn request_rate(samples: &Samples, duration: Nanos) -> Option<Interval> {
    rate(samples.ok().map(|sample| sample.end), duration)
}

/// Moments a second over `duration`, by batch means; `None` if a span would hold fewer than ten on average.
pub fn rate(moments: impl Iterator<Item = Nanos>, duration: Nanos) -> Option<Interval> {
    let mut counts = [0u64; BATCHES];
    for moment in moments.filter(|moment| *moment < duration) {
        counts[(moment.saturating_mul(BATCHES as Nanos) / duration) as usize] += 1;
    }
    let total: u64 = counts.iter().sum();
    if total < 10 * BATCHES as u64 {
        return None;
    }
    let span_s = duration as f64 / 1e9 / BATCHES as f64;
    let n = BATCHES as f64;
    let mean = total as f64 / n;
    let variance = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = STUDENT_19 * (variance / n).sqrt();
    Some(Interval {
        low: (mean - half).max(0.0) / span_s,
        high: (mean + half) / span_s,
    })
}

/// The percentile `percent` of ascending values; `None` if there are too few for both ends to be among them, as for p99.9
/// of 200 values.
pub fn percentile_interval(sorted: &[f64], percent: f64) -> Option<Interval> {
    let (n, p) = (sorted.len() as f64, percent / 100.0);
    // Of the least and the greatest value the sample bounds one side only.
    if percent <= 0.0 || percent >= 100.0 {
        return None;
    }
    let half = NORMAL * (n * p * (1.0 - p)).sqrt();
    let (low, high) = ((n * p - half).floor(), (n * p + half).ceil());
    let fits = low >= 1.0 && high <= n;
    fits.then(|| Interval {
        low: sorted[low as usize - 1],
        high: sorted[high as usize - 1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Sample;
    use crate::rng::NumpyPcg64;

    #[test]
    fn rare_percentiles_need_many_values() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        for percent in [0.0, 99.9, 100.0] {
            assert_eq!(percentile_interval(&values, percent), None);
        }
        assert_eq!(
            percentile_interval(&values, 50.0),
            Some(Interval { low: 85.0, high: 113.0 })
        );
        assert_eq!(percentile_interval(&[], 50.0), None);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut random = NumpyPcg64::new(1);
        let mut held = 0;
        for _ in 0..1000 {
            let mut values: Vec<f64> = (0..500).map(|_| random.double()).collect();
            values.sort_by(f64::total_cmp);
            let interval = percentile_interval(&values, 90.0).expect("enough values");
            held += u32::from(interval.low <= 0.9 && 0.9 <= interval.high);
        }
        assert!((930..=980).contains(&held), "{held} of 1000");
    }

    #[test]
    fn an_even_rate_is_certain() {
        let sample = Sample {
            events: (0..1000).map(|i| i * 1_000_000).collect(),
            ..Sample::default()
        };
        let interval = output_rate(&vec![sample].into(), 1_000_000_000).expect("enough events");
        assert_eq!(
            interval,
            Interval {
                low: 1000.0,
                high: 1000.0
            }
        );
        assert_eq!(output_rate(&Samples::default(), 1_000_000_000), None);
        assert_eq!(output_rate(&Samples::default(), 0), None);
    }
}
