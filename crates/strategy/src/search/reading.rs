//! The reading of one criterion from one run: the distance of the measured value from the limit, and its error, estimated from the run's
//! own requests. The spread between runs is not part of it.

use super::Vary;
use crate::stats::ClassTag;
use serde::{Deserialize, Serialize};

/// Number of standard errors between a reading's value and either end of its interval: 90 % two-sided.
const WIDTH: f64 = 1.645;

/// Largest size of a ratio's logarithm. Ratios farther from 1 count as this.
const FAR: f64 = 4.0;

/// More than the error of a number of requests that is computed from a share: 1000 · (99.9 / 100) is a little more than 999.
const ROUNDING: f64 = 1e-9;

/// Factor by which the figure of a run must certainly lie above or below its limit for the run to be cut. A search needs no exact value of
/// such a figure.
pub(super) const CLEAR: f64 = 1.25;

/// Stalls of the load generator around a request. They also delay requests that are sent soon after them, because all requests that had to
/// wait are then sent at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stalls {
    /// Time from the sending of the request to the next stall, in ms; 0 for a request that was sent soon after a stall.
    pub calm_ms: f64,
    /// Upper bound of the part of its time to the first token that is due to stalls, in ms.
    pub of_ttft_ms: f64,
    /// Upper bound of the part of its whole latency that is due to stalls, in ms.
    pub of_e2el_ms: f64,
}

/// The latencies of one request; a failed request has infinite ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestLatencies {
    /// Time to the first token, in ms.
    pub ttft_ms: f64,
    /// Time per output token after the first, in ms; 0 if there was only one.
    pub tpot_ms: f64,
    /// Time to the last token, in ms.
    pub e2el_ms: f64,
    /// Its class in a mixed load.
    pub class: ClassTag,
    /// Stalls of the generator around it, if the run had any.
    pub stalls: Option<Stalls>,
}

impl RequestLatencies {
    /// A request that ended without a complete answer.
    pub const FAILED: RequestLatencies = RequestLatencies {
        ttft_ms: f64::INFINITY,
        tpot_ms: f64::INFINITY,
        e2el_ms: f64::INFINITY,
        class: ClassTag::NONE,
        stalls: None,
    };

    /// Returns the least and the greatest latencies that it may have had without the stalls.
    pub(super) fn without_stalls(&self) -> [RequestLatencies; 2] {
        let Some(stalls) = self.stalls.filter(|_| self.e2el_ms.is_finite()) else {
            return [*self; 2];
        };
        let decode_ms = (self.e2el_ms - self.ttft_ms).max(f64::MIN_POSITIVE);
        // A first token that a stall delayed shortens the measured time of the rest, so the greatest time per token is longer.
        let tpot_ms = |part: f64| self.tpot_ms * part.max(0.0);
        let least = RequestLatencies {
            ttft_ms: (self.ttft_ms - stalls.of_ttft_ms).max(0.0),
            tpot_ms: tpot_ms(1.0 - stalls.of_e2el_ms / decode_ms),
            e2el_ms: (self.e2el_ms - stalls.of_e2el_ms).max(0.0),
            ..*self
        };
        let most = RequestLatencies {
            tpot_ms: tpot_ms(1.0 + stalls.of_ttft_ms / decode_ms),
            ..*self
        };
        [least, most]
    }
}

/// A measured value as a ratio to its limit, inverted for lower limits, so that more than 1 fails: `500 ms` for `<= 250` is 2, and
/// `2.5 req/s` for `>= 5` is 2 as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The measured ratio.
    #[serde(with = "maybe_infinite")]
    pub ratio: f64,
    /// True if the criterion holds for the measured value.
    pub met: bool,
    /// Lower end of the 90 % interval from the run's own requests; the ratio itself if the run has none.
    #[serde(with = "maybe_infinite")]
    pub low: f64,
    /// Upper end of the 90 % interval; infinite if too few requests were measured to bound it.
    #[serde(with = "maybe_infinite")]
    pub high: f64,
    /// True if the load itself was too low for the criterion, whatever the server did. A lower load cannot meet it either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starved: bool,
    /// Growth of the ratio's logarithm each time that the number of requests beyond it falls by a factor of e, near the criterion's share
    /// of the requests; 0 if the criterion is about the run as a whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tail: f64,
    /// Number of requests beyond the limits of a single request; 0 if the criterion is about the run as a whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Number of all requests that were read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Greatest part of the margin that the stalls of the generator explain, if they are known for each request. All other fields are then
    /// those for the greatest latencies that the requests may have had without stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<f64>,
}

pub(super) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Reading {
    /// Returns the reading of a value without an interval.
    pub(super) fn exact(ratio: f64, met: bool) -> Reading {
        Reading {
            ratio,
            met,
            low: ratio,
            high: ratio,
            ..Reading::default()
        }
    }

    /// Returns the reading of a run that was cut because it was certain to be clear of the limit, on the side `met`. Its ratio, for
    /// display, is the one `measured` by then, moved clear of the limit on that side if necessary.
    pub(super) fn clear(met: bool, measured: Option<f64>) -> Reading {
        let (low, high) = match met {
            true => (0.0, CLEAR.recip()),
            false => (CLEAR, f64::INFINITY),
        };
        let nearest = if met { high } else { low };
        let ratio = measured.map_or(nearest, |ratio| ratio.clamp(low, high));
        Reading {
            low,
            high,
            ..Reading::exact(ratio, met)
        }
    }

    /// Returns the `share` quantile of the requests' ratios with its order-statistic interval: the number of requests below the true
    /// quantile is binomial, so ranks `n·share ± 1.645·sqrt(n·share·(1−share))` enclose it in 90 % of runs (David & Nagaraja, Order
    /// Statistics, 7.1). The value itself is taken at rank `share·(n + 1/3) + 1/3`, which has the true quantile as its median whatever the
    /// distribution (Hyndman & Fan 1996, definition 8): of 200 requests the 198th is too low a p99. Requests that depend on each other
    /// count as fewer independent requests. The criterion is met if a `share` of the requests keeps the limits. `None` without requests.
    pub(super) fn from_requests(mut ratios: Vec<f64>, share: f64, vary: Vary) -> Option<Reading> {
        let n = ratios.len() as f64;
        let independent = independent(&ratios, vary);
        ratios.sort_by(f64::total_cmp);
        let half = WIDTH * n * (share * (1.0 - share) / independent).sqrt();
        let at = |rank: f64| ratios.get((rank.ceil().max(1.0) as usize) - 1).copied();
        let low = at(n * share - half)?;
        let high = at(n * share + half).unwrap_or(f64::INFINITY);
        let rank = share * (independent + 1.0 / 3.0) + 1.0 / 3.0;
        let rank = ((rank - 0.5) * n / independent + 0.5).clamp(1.0, n.max(1.0));
        let (below, above) = (at(rank.floor())?, at(rank)?);
        let part = rank.fract();
        // A part of zero of an infinite value would not be a number.
        let ratio = if part > 0.0 {
            below * (1.0 - part) + above * part
        } else {
            below
        };
        Some(Reading {
            low,
            high,
            tail: tail(&ratios, share),
            missed: ratios.iter().filter(|ratio| **ratio > 1.0).count() as u64,
            requests: ratios.len() as u64,
            ..Reading::exact(ratio.clamp(low, high), at(n * share - ROUNDING)? <= 1.0)
        })
    }

    /// Adds to the reading of a mean over requests the interval of its standard error. Failed requests are left out.
    pub(super) fn of_mean(exact: Reading, ratios: &[f64], vary: Vary) -> Reading {
        let ratios: Vec<f64> = ratios.iter().copied().filter(|ratio| ratio.is_finite()).collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let independent = independent(&ratios, vary);
        let half = WIDTH * (variance / independent).sqrt() / mean;
        if !half.is_finite() {
            return exact;
        }
        Reading {
            low: exact.ratio * (-half).exp(),
            high: exact.ratio * half.exp(),
            ..exact
        }
    }

    /// Returns the bounded logarithm of the ratio: 0 at the limit itself, positive if the criterion fails.
    pub fn margin(&self) -> f64 {
        let margin = log(self.ratio);
        // A strict comparison fails at its limit, and NaN fails always. The margin is then positive whatever the ratio is.
        if self.met {
            margin.min(0.0)
        } else {
            margin.max(f64::EPSILON)
        }
    }

    /// Returns the standard error of the margin from the run's own requests; 0 if it has no interval.
    pub fn standard_error(&self) -> f64 {
        let below = (log(self.ratio) - log(self.low)).max(0.0) / WIDTH;
        // With too few requests the upper end is infinite. The upper half then counts as wider than the lower one.
        let above = if self.high.is_finite() {
            (log(self.high) - log(self.ratio)).max(0.0) / WIDTH
        } else {
            1.5 * below
        };
        below.min(above)
    }
}

/// Returns the logarithm of a ratio, bounded by [`FAR`].
fn log(ratio: f64) -> f64 {
    ratio.max(f64::MIN_POSITIVE).ln().clamp(-FAR, FAR)
}

/// Returns the growth of the ratios' logarithms towards the end of their tail, each time that the number of requests beyond falls by a
/// factor of e. It is measured from twice to half the part of the requests that lies beyond `share`.
fn tail(sorted: &[f64], share: f64) -> f64 {
    let n = sorted.len() as f64;
    let beyond = |part: f64| {
        let rank = (n * (1.0 - part)).ceil().clamp(1.0, n.max(1.0));
        sorted.get(rank as usize - 1).copied().unwrap_or(f64::NAN)
    };
    let growth = (beyond((1.0 - share) / 2.0) / beyond(2.0 * (1.0 - share))).ln() / 4f64.ln();
    if growth.is_finite() { growth.max(0.0) } else { 0.0 }
}

/// Returns the number of independent requests with as much information as these, which are in the order of sending. With a varied
/// concurrency, all count as independent, because each waits only for those sent with it. With a varied rate they queue, and slow ones come
/// in a row: the variance of a mean grows by (1+r)/(1-r), where r is the correlation of each value with the one before. Correlation over
/// longer distances is not included; it shows in the scatter of a search's runs.
fn independent(ratios: &[f64], vary: Vary) -> f64 {
    if vary == Vary::MaxConcurrency {
        return ratios.len() as f64;
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| log(*ratio)).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let products: f64 = logs.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = if squares > 0.0 {
        (products / squares).max(0.0)
    } else {
        0.0
    };
    (n * (1.0 - correlation) / (1.0 + correlation)).max(1.0)
}

/// Writes an infinite number as `null`, because JSON has no infinity.
pub(super) mod maybe_infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        number.is_finite().then_some(*number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_growing_transformation_of_the_metric_changes_no_verdict(
            ratios in prop::collection::vec(0.2f64..3.0, 1..600), power in 0.2f64..4.0,
        ) {
            let straight = Reading::from_requests(ratios.clone(), 0.9, Vary::MaxConcurrency).expect("valid in this test");
            let bent = Reading::from_requests(ratios.iter().map(|r| r.powf(power)).collect(), 0.9, Vary::MaxConcurrency).expect("valid in this test");
            prop_assert_eq!(straight.met, bent.met);
            prop_assert_eq!(straight.low > 1.0, bent.low > 1.0);
            prop_assert_eq!(straight.high > 1.0, bent.high > 1.0);
        }

        #[test]
        fn the_interval_encloses_the_value(ratios in prop::collection::vec(0.2f64..3.0, 1..600), share in 0.01f64..0.999) {
            let reading = Reading::from_requests(ratios, share, Vary::MaxConcurrency).expect("valid in this test");
            prop_assert!(reading.low <= reading.ratio && reading.ratio <= reading.high);
            prop_assert!(reading.standard_error() >= 0.0);
        }
    }

    #[test]
    fn requests_that_wait_for_one_another_say_less_than_independent_ones() {
        let ratio = |i: u32| 0.5 + f64::from(i) / 400.0;
        let in_a_row: Vec<f64> = (0..200).map(ratio).collect();
        // The same values, each far from its neighbours.
        let scattered: Vec<f64> = (0..200).map(|i| ratio(i * 77 % 200)).collect();
        let error = |ratios: &[f64], dependence| {
            let reading = Reading::from_requests(ratios.to_vec(), 0.9, dependence).expect("valid in this test");
            reading.standard_error()
        };
        let independent = error(&in_a_row, Vary::MaxConcurrency);
        assert!(error(&in_a_row, Vary::RequestRate) > 3.0 * independent);
        assert_eq!(error(&scattered, Vary::RequestRate), independent);
    }

    #[test]
    fn an_infinite_ratio_survives_the_journal() {
        let reading =
            Reading::from_requests(vec![0.5, f64::INFINITY], 0.99, Vary::MaxConcurrency).expect("valid in this test");
        let text = serde_json::to_string(&reading).expect("valid in this test");
        assert_eq!(
            serde_json::from_str::<Reading>(&text).expect("valid in this test"),
            reading
        );
        assert_eq!(reading.margin(), FAR);
    }
}
