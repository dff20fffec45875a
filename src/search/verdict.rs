//! When a running probe can stop: its verdict is certain, either by arithmetic or because the share of attained
//! requests is beyond doubt. Counts decide, so any growing transformation of the latencies leaves the verdict alone.

use super::criterion::Criterion;
use super::target::Target;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Finished requests of a running probe, counted for one criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that satisfied the criterion's limits ([`Criterion::attained`]).
    pub attained: u64,
    /// Requests that did not, failed ones among them.
    pub missed: u64,
}

/// A probe while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partial {
    /// Requests that the whole probe will send.
    pub planned: u64,
    /// Requests in flight now: they are the slowest so far and not yet counted.
    pub in_flight: u64,
    /// Counts by the criterion's text, for criteria about single requests.
    pub counts: BTreeMap<String, Counts>,
}

/// The verdict about `target` that the rest of the probe cannot change, or only against all odds; None while open.
///
/// A criterion about a whole run (a mean, a throughput) is open until the run ends, so it never stops a probe.
pub fn early_verdict(target: &Target, partial: &Partial) -> Option<Verdict> {
    let verdicts = || target.criteria.iter().map(|criterion| certain(criterion, partial));
    if verdicts().any(|verdict| verdict == Some(Verdict::Fail)) {
        return Some(Verdict::Fail);
    }
    verdicts()
        .all(|verdict| verdict == Some(Verdict::Pass))
        .then_some(Verdict::Pass)
}

fn certain(criterion: &Criterion, partial: &Partial) -> Option<Verdict> {
    let share = criterion.share()?;
    let counts = partial.counts.get(&criterion.to_string())?;
    let done = counts.attained + counts.missed;
    let planned = partial.planned.max(done) as f64;
    // Arithmetic: even if every request still to come were attained, too many are already lost.
    if planned - counts.missed as f64 + 1e-9 < share * planned {
        return Some(Verdict::Fail);
    }
    // Before two waves are done the finished requests are the quick ones of a system still filling up.
    if done < FEWEST.max(2 * partial.in_flight) {
        return None;
    }
    let (low, high) = wilson(counts.attained, done, SURE);
    if low >= share {
        Some(Verdict::Pass)
    } else if high < share {
        Some(Verdict::Fail)
    } else {
        None
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
        let criterion = Criterion::metric("p99_ttft_ms", "<=500").expect("valid in this test");
        let counts = BTreeMap::from([(criterion.to_string(), Counts { attained, missed })]);
        let target = Target {
            name: "chat".into(),
            criteria: vec![criterion],
        };
        early_verdict(
            &target,
            &Partial {
                planned,
                in_flight,
                counts,
            },
        )
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

    #[test]
    fn a_criterion_about_the_whole_run_is_open_until_the_end() {
        let criterion = Criterion::metric("request_goodput", ">=5").expect("valid in this test");
        let target = Target {
            name: "goodput".into(),
            criteria: vec![criterion],
        };
        assert_eq!(
            early_verdict(
                &target,
                &Partial {
                    planned: 10,
                    ..Partial::default()
                }
            ),
            None
        );
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
