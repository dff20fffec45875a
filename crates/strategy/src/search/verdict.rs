//! What a probe says about a target, and when the share of requests that attained a limit is beyond doubt. Counts
//! decide, so any growing transformation of the latencies leaves the verdict alone.

use serde::{Deserialize, Serialize};

/// What a probe says about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The target is met.
    Pass,
    /// It is not.
    Fail,
    /// The measurement is too near to the limit to tell.
    Undecided,
}

/// Standard normal quantile of a 99.9 % one-sided bound: a probe is looked at many times, so one look must be sure.
const SURE: f64 = 3.09;

/// Fewer finished requests than this judge nothing but arithmetic.
const FEWEST: u64 = 100;

/// Requests of a running probe, counted for one criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TargetCounts {
    /// Requests that the whole probe will send.
    pub planned: u64,
    /// The most requests that were in flight at once.
    pub reached: u64,
    /// Requests that satisfied the criterion's limits.
    pub attained: u64,
    /// Requests that did not, failed ones among them, and those in flight that no longer can.
    pub missed: u64,
    /// Requests that ended and were sent after the first wave.
    pub settled: u64,
    /// How many of these satisfied the limits.
    pub settled_attained: u64,
}

impl TargetCounts {
    /// The verdict that the rest of the probe cannot change, or only against all odds, where with fewer than `least` of its
    /// requests it fails and with `enough` it holds; with the reason. None while open.
    ///
    /// The rest is foreseen from what ended after the first wave: the start of a probe happens once, and counts as it was.
    pub fn verdict(&self, (least, enough): (u64, u64)) -> Option<(Verdict, &'static str)> {
        let done = self.attained + self.missed;
        let planned = self.planned.max(done);
        let (attained, rest) = (self.attained as f64, (planned - done) as f64);
        let (least, enough) = (least as f64, enough as f64);
        if attained + rest < least {
            return Some((Verdict::Fail, "more than the rest could make up for"));
        }
        // What ends early in a system that fills up is not what is typical.
        if self.settled < FEWEST.max(self.reached) {
            return None;
        }
        let settled = self.settled as f64;
        // The mean of the rest scatters like one over so many trials: those seen, and those to come themselves.
        let trials = settled * rest / (settled + rest);
        let (low, high) = score_interval(self.settled_attained as f64 / settled, trials, SURE);
        if attained + low * rest >= enough {
            Some((Verdict::Pass, "few enough beyond reasonable doubt"))
        } else if attained + high * rest < least {
            Some((Verdict::Fail, "too many beyond reasonable doubt"))
        } else {
            None
        }
    }
}

/// Wilson's score interval of a share from counts, `z` standard errors wide (Wilson 1927; Brown, Cai, DasGupta 2001).
pub fn wilson(hits: u64, trials: u64, z: f64) -> (f64, f64) {
    score_interval(hits as f64 / trials.max(1) as f64, trials as f64, z)
}

/// The same from a share.
fn score_interval(share: f64, n: f64, z: f64) -> (f64, f64) {
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

    /// So many percent of the requests must attain, rounded up.
    fn needed(planned: u64, percent: u64) -> (u64, u64) {
        let needed = (planned * percent).div_ceil(100);
        (needed, needed)
    }

    /// The first `wave` requests to end attained.
    fn verdict(planned: u64, wave: u64, attained: u64, missed: u64) -> Option<Verdict> {
        let counts = TargetCounts {
            planned,
            reached: wave,
            attained,
            missed,
            settled: (attained + missed).saturating_sub(wave),
            settled_attained: attained.saturating_sub(wave),
        };
        counts.verdict(needed(planned, 99)).map(|(verdict, _)| verdict)
    }

    #[test]
    fn a_probe_stops_when_too_many_requests_are_lost() {
        assert_eq!(verdict(1000, 8, 20, 10), None);
        assert_eq!(verdict(1000, 8, 20, 11), Some(Verdict::Fail));
    }

    #[test]
    fn a_first_wave_that_misses_speaks_for_itself_and_not_for_the_rest() {
        let after_a_slow_start = |settled, settled_missed| {
            let counts = TargetCounts {
                planned: 1000,
                reached: 100,
                attained: 60 + settled - settled_missed,
                missed: 40 + settled_missed,
                settled,
                settled_attained: settled - settled_missed,
            };
            counts.verdict(needed(1000, 95)).map(|(verdict, _)| verdict)
        };
        // 40 of 300 are too many, but the 40 alone are not too many of 1000.
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
            // With everything in flight no verdict but arithmetic's is given.
            let missed = missed.min(planned);
            let failed = verdict(planned, planned, 0, missed) == Some(Verdict::Fail);
            let best = (planned - missed) as f64 / planned as f64;
            prop_assert_eq!(failed, best + 1e-9 < 0.99);
        }

        #[test]
        fn the_interval_encloses_the_share(trials in 1u64..10_000, part in 0.0f64..1.0, z in 0.5f64..4.0) {
            let hits = (trials as f64 * part) as u64;
            let (low, high) = wilson(hits, trials, z);
            let share = hits as f64 / trials as f64;
            prop_assert!(low <= share + 1e-12 && share <= high + 1e-12);
        }
    }
}
