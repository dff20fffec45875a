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
pub(super) struct Counts {
    /// Requests that the whole probe will send.
    pub planned: u64,
    /// Requests in flight now: they are the slowest so far.
    pub in_flight: u64,
    /// Requests that satisfied the criterion's limits.
    pub attained: u64,
    /// Requests that did not, failed ones among them, and those in flight that no longer can.
    pub missed: u64,
}

impl Counts {
    /// The verdict that the rest of the probe cannot change, or only against all odds, where `share` of its requests
    /// must attain; with the reason. None while open.
    pub fn verdict(&self, share: f64) -> Option<(Verdict, &'static str)> {
        let done = self.attained + self.missed;
        let planned = self.planned.max(done) as f64;
        // Arithmetic: even if every request still to come were attained, too many are already lost.
        if planned - self.missed as f64 + 1e-9 < share * planned {
            return Some((Verdict::Fail, "more than the rest could make up for"));
        }
        // Before two waves are done the finished requests are the quick ones of a system still filling up.
        if done < FEWEST.max(2 * self.in_flight) {
            return None;
        }
        let (low, high) = wilson(self.attained, done, SURE);
        if low >= share {
            Some((Verdict::Pass, "few enough beyond reasonable doubt"))
        } else if high < share {
            Some((Verdict::Fail, "too many beyond reasonable doubt"))
        } else {
            None
        }
    }
}

/// Wilson's score interval of a share from counts, `z` standard errors wide (Wilson 1927; Brown, Cai, DasGupta 2001).
pub fn wilson(hits: u64, trials: u64, z: f64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let n = trials as f64;
    let share = hits as f64 / n;
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(planned: u64, in_flight: u64, attained: u64, missed: u64) -> Option<Verdict> {
        let counts = Counts {
            planned,
            in_flight,
            attained,
            missed,
        };
        counts.verdict(0.99).map(|(verdict, _)| verdict)
    }

    #[test]
    fn a_probe_stops_when_too_many_requests_are_lost() {
        assert_eq!(verdict(1000, 8, 20, 10), None);
        assert_eq!(verdict(1000, 8, 20, 11), Some(Verdict::Fail));
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
