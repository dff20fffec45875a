//! The ratio of two sides, and the verdict against a margin. Where the sides were measured is not known here.

use super::effort::{IntervalRule, more_units};
use super::estimate::{Estimate, Interval};
use super::margin::Margin;
use super::starts::{RunPrior, Start, estimate};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Latencies.
    Lower,
    /// Throughputs.
    Higher,
}

impl Better {
    /// The good direction of a metric, by its name: times, failures, powers and costs are better low, rates, goodput and attainments high.
    /// None of a name that says nothing.
    pub fn by_name(metric: &str) -> Option<Better> {
        let is_low = metric.ends_with("_ms")
            || metric.ends_with("_time")
            || ["duration", "failed", "gpu_count"].contains(&metric)
            || ["latency", "power", "joule", "cost", "preempt", "startup", "compilation"]
                .iter()
                .any(|word| metric.contains(word));
        let is_high = ["throughput", "goodput", "tokens_per_", "attainment", "completed"]
            .iter()
            .any(|word| metric.contains(word));
        match (is_low, is_high) {
            (true, _) => Some(Better::Lower),
            (false, true) => Some(Better::Higher),
            (false, false) => None,
        }
    }

    /// The order of two values, the better one first.
    pub fn order(self, one: f64, other: f64) -> Ordering {
        match self {
            Better::Higher => other.total_cmp(&one),
            Better::Lower => one.total_cmp(&other),
        }
    }

    /// True if one value is better than another.
    pub fn prefers(self, one: f64, other: f64) -> bool {
        match self {
            Better::Higher => one > other,
            Better::Lower => one < other,
        }
    }

    /// The worst value there is.
    pub fn worst(self) -> f64 {
        match self {
            Better::Higher => f64::NEG_INFINITY,
            Better::Lower => f64::INFINITY,
        }
    }
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
        })
    }
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the better side of no change.
    Improved,
    /// It lies on the worse side.
    Regressed,
    /// It lies within the margin.
    Same,
    /// It does neither: there are too few starts.
    Undecided,
}

impl Verdict {
    /// Judges a ratio's interval. An interval within the margin is `same` even if it excludes no change: a change within the margin does
    /// not matter.
    pub fn of(interval: Interval, margin: Margin, better: Better) -> Verdict {
        if margin.holds(interval) {
            Verdict::Same
        } else if interval.contains(0.0) {
            Verdict::Undecided
        } else if (interval.low > 0.0) == (better == Better::Higher) {
            Verdict::Improved
        } else {
            Verdict::Regressed
        }
    }
}

/// New over base, in one metric at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioComparison {
    /// The logarithm of the ratio; its error is unknown where a side has one start.
    pub ratio: Estimate,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// The verdict against the margin.
    pub verdict: Verdict,
    /// If undecided: the starts per side, beyond those of the smaller side, that would decide in four of five cases if the estimate were
    /// the truth. `None` if a side has one start, or a thousand would not suffice.
    pub more_starts: Option<usize>,
}

/// The chance that an interval of [`compare`] misses the truth.
pub const ALPHA: f64 = 0.05;

/// Compares the starts of two sides by Welch's interval on logarithms; None if a side has no start.
pub fn compare(
    base: &[Start],
    new: &[Start],
    better: Better,
    margin: Margin,
    prior: RunPrior,
) -> Option<RatioComparison> {
    let (of_base, of_new) = (estimate(base, prior)?, estimate(new, prior)?);
    let ratio = of_new.minus(of_base);
    let interval = ratio.interval(ALPHA);
    let verdict = interval.map_or(Verdict::Undecided, |interval| Verdict::of(interval, margin, better));
    let undecided = verdict == Verdict::Undecided;
    let more_starts = ratio.error.filter(|_| undecided).and_then(|_| {
        let variance = |side: Estimate, starts: &[Start]| Some(side.error?.standard.powi(2) * starts.len() as f64);
        let one_pair = variance(of_base, base)? + variance(of_new, new)?;
        let rule = IntervalRule {
            alpha: ALPHA,
            alpha_same: ALPHA,
            freedom: |starts| 2.0 * starts as f64 - 2.0,
        };
        let have = base.len().min(new.len());
        more_units((margin, None), ratio.log, one_pair.sqrt(), have, &rule)
    });
    Some(RatioComparison {
        ratio,
        interval,
        verdict,
        more_starts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn side(values: &[f64]) -> Vec<Start> {
        values
            .iter()
            .map(|value| Start::of(&[*value]).expect("positive"))
            .collect()
    }

    #[test]
    fn one_start_a_side_is_undecided() {
        let found = compare(
            &side(&[100.0]),
            &side(&[50.0]),
            Better::Higher,
            Margin::percent(3.0),
            RunPrior::TYPICAL,
        );
        let found = found.expect("both sides");
        assert_eq!(
            (found.interval, found.verdict, found.more_starts),
            (None, Verdict::Undecided, None)
        );
        assert_eq!(
            compare(
                &[],
                &side(&[1.0]),
                Better::Higher,
                Margin::percent(3.0),
                RunPrior::TYPICAL
            ),
            None
        );
    }

    #[test]
    fn as_scipy_compares() {
        // scipy 1.17.1: ttest_ind(log(new), log(base), equal_var=False).confidence_interval(0.95)
        let found = compare(
            &side(&[100.0, 102.0, 98.0, 101.0]),
            &side(&[95.0, 99.0, 97.0]),
            Better::Higher,
            Margin::percent(3.0),
            RunPrior::TYPICAL,
        );
        let interval = found.expect("both sides").interval.expect("starts");
        assert!((interval.low - -0.07408808638676082).abs() < 1e-9, "{}", interval.low);
        assert!((interval.high - 0.008111069153671019).abs() < 1e-9, "{}", interval.high);
    }

    #[test]
    fn undecided_says_how_many_starts_would_decide() {
        let base = side(&[100.0, 102.0, 98.0]);
        let slower = side(&[97.0, 99.0, 95.0]);
        let found =
            compare(&base, &slower, Better::Higher, Margin::percent(1.0), RunPrior::TYPICAL).expect("both sides");
        assert_eq!(found.verdict, Verdict::Undecided);
        let more = found.more_starts.expect("a thousand are plenty");
        assert!((3..20).contains(&more), "{more}");
    }

    proptest! {
        #[test]
        fn to_swap_the_sides_or_the_direction_swaps_the_verdict(
            base in prop::collection::vec(0.9f64..1.1, 2..6), new in prop::collection::vec(0.8f64..1.2, 2..6), percent in 0.5f64..10.0,
        ) {
            let margin = Margin::percent(percent);
            let there = compare(&side(&base), &side(&new), Better::Higher, margin, RunPrior::TYPICAL).expect("sides");
            let back = compare(&side(&new), &side(&base), Better::Higher, margin, RunPrior::TYPICAL).expect("sides");
            let turned = compare(&side(&base), &side(&new), Better::Lower, margin, RunPrior::TYPICAL).expect("sides");
            let swapped = match there.verdict {
                Verdict::Improved => Verdict::Regressed,
                Verdict::Regressed => Verdict::Improved,
                other => other,
            };
            prop_assert!((there.ratio.log + back.ratio.log).abs() < 1e-12);
            prop_assert_eq!(back.verdict, swapped);
            prop_assert_eq!(turned.verdict, swapped);
        }
    }
}
