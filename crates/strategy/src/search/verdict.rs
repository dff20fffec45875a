//! Verdicts of a running probe about a target, from the number of requests that keep its limits. Only counts decide, so a monotone
//! transformation of the latencies does not change a verdict.

use serde::{Deserialize, Serialize};

/// Verdict of a probe about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The target is met.
    Pass,
    /// The target is missed.
    Fail,
}

/// Standard normal quantile of a 99.9 % one-sided bound. It is strict because a probe is judged many times.
const SURE: f64 = 3.09;

/// Minimum number of settled requests from which the rest is predicted.
const FEWEST: u64 = 100;

/// Requests of a running probe, counted for one criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CriterionCounts {
    /// Number of requests that the whole probe will send.
    pub planned: u64,
    /// Maximum number of requests that were in flight at once.
    pub reached: u64,
    /// Number of requests that kept the criterion's limits.
    pub attained: u64,
    /// Number of requests that broke the limits, including those in flight that can no longer keep them.
    pub missed: u64,
    /// Number of requests that ended and were sent after the first wave.
    pub settled: u64,
    /// Number of settled requests that kept the limits.
    pub settled_attained: u64,
}

impl CriterionCounts {
    /// Returns the reason why the probe certainly fails, if at least `least` requests must keep the limits; `None` if that is not certain.
    pub fn failure(&self, least: u64) -> Option<&'static str> {
        if self.attained + self.rest() < least {
            return Some("more than the rest could make up for");
        }
        let (_, most) = self.predicted()?;
        (most < least as f64).then_some("too many beyond reasonable doubt")
    }

    /// Returns the reason why the probe certainly passes, if `enough` requests that keep the limits suffice; `None` if that is not certain.
    pub fn success(&self, enough: u64) -> Option<&'static str> {
        let (fewest, _) = self.predicted()?;
        (fewest >= enough as f64).then_some("few enough beyond reasonable doubt")
    }

    fn rest(&self) -> u64 {
        self.planned.saturating_sub(self.attained + self.missed)
    }

    /// Returns almost certain bounds of the number of requests of the whole probe that will keep the limits. `None` while too few have
    /// ended.
    ///
    /// The rest is predicted from the requests after the first wave, because only the first wave meets an empty server.
    fn predicted(&self) -> Option<(f64, f64)> {
        // The first requests to end are not typical, so at least as many must have settled as were in flight at once.
        if self.settled < FEWEST.max(self.reached) {
            return None;
        }
        let (attained, rest, settled) = (self.attained as f64, self.rest() as f64, self.settled as f64);
        // The prediction depends on the requests seen and on chance in the rest, so it is as uncertain as a mean over this many trials.
        let trials = settled * rest / (settled + rest);
        let (low, high) = wilson(self.settled_attained as f64 / settled, trials, SURE);
        Some((attained + low * rest, attained + high * rest))
    }
}

/// Returns Wilson's score interval of a share of `n` trials, `z` standard errors to each side (Wilson 1927; Brown, Cai, DasGupta 2001).
pub fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Judges a target that this percentage of requests must attain.
    fn judge(counts: CriterionCounts, percent: u64) -> Option<Verdict> {
        let needed = (counts.planned * percent).div_ceil(100);
        let failure = counts.failure(needed).map(|_| Verdict::Fail);
        failure.or_else(|| counts.success(needed).map(|_| Verdict::Pass))
    }

    /// Judges a target of 99 %, which the first `wave` requests that ended have attained.
    fn verdict(planned: u64, wave: u64, attained: u64, missed: u64) -> Option<Verdict> {
        let counts = CriterionCounts {
            planned,
            reached: wave,
            attained,
            missed,
            settled: (attained + missed).saturating_sub(wave),
            settled_attained: attained.saturating_sub(wave),
        };
        judge(counts, 99)
    }

    #[test]
    fn a_probe_stops_when_too_many_requests_are_lost() {
        assert_eq!(verdict(1000, 8, 20, 10), None);
        assert_eq!(verdict(1000, 8, 20, 11), Some(Verdict::Fail));
    }

    #[test]
    fn a_first_wave_that_misses_speaks_for_itself_and_not_for_the_rest() {
        let after_a_slow_start = |settled, settled_missed| {
            let counts = CriterionCounts {
                planned: 1000,
                reached: 100,
                attained: 60 + settled - settled_missed,
                missed: 40 + settled_missed,
                settled,
                settled_attained: settled - settled_missed,
            };
            judge(counts, 95)
        };
        // 40 misses are too many for 300 requests, but not for 1000.
        assert_eq!(after_a_slow_start(200, 0), None);
        assert_eq!(after_a_slow_start(800, 0), Some(Verdict::Pass));
        assert_eq!(after_a_slow_start(200, 10), Some(Verdict::Fail));
    }

    #[test]
    fn a_probe_stops_when_the_share_is_beyond_doubt_but_not_in_the_first_waves() {
        assert_eq!(verdict(5000, 8, 900, 0), None);
        assert_eq!(verdict(5000, 8, 1000, 0), Some(Verdict::Pass));
        assert_eq!(verdict(5000, 800, 1000, 0), None);
    }

    proptest! {
        #[test]
        fn an_arithmetic_failure_stays_one_however_the_probe_ends(planned in 1u64..2000, missed in 0u64..100) {
            // All requests are in the first wave, so only the number of misses can give a verdict.
            let missed = missed.min(planned);
            let failed = verdict(planned, planned, 0, missed) == Some(Verdict::Fail);
            let best = (planned - missed) as f64 / planned as f64;
            prop_assert_eq!(failed, best + 1e-9 < 0.99);
        }

        #[test]
        fn the_interval_encloses_the_share(trials in 1u64..10_000, part in 0.0f64..1.0, z in 0.5f64..4.0) {
            let hits = (trials as f64 * part) as u64;
            let share = hits as f64 / trials as f64;
            let (low, high) = wilson(share, trials as f64, z);
            prop_assert!(low <= share + 1e-12 && share <= high + 1e-12);
        }
    }
}
