//! One member of a family of paired tests: one metric at one point. Its ratio by the pairs so far, and its verdict at a look.

use crate::stats::{Better, Bound, Estimate, Interval, Margin, Requirement, Verdict, level_of_look};
use serde::{Deserialize, Serialize};

/// A metric at a point, and what is asked of its ratio of new over base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The better direction.
    pub better: Better,
    /// A change below this does not matter.
    pub margin: Margin,
    /// A stated requirement. Where there is one, the pairs go on until it is decided, and not until the verdict is.
    pub bound: Option<Bound>,
}

/// New over base in one pair of starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    /// The difference of logarithms.
    pub log: f64,
    /// 1 or -1: which arm came first, or which GPUs it had.
    pub turn: f64,
}

/// The fewest pairs at which is looked: one fewer would leave one degree of freedom.
pub(super) const FIRST_LOOK: usize = 4;

/// The chance, at the last look, that an interval that is to lie within the margin misses the truth. A regression that is called `same` is
/// shipped, so this is rarer than a false alarm.
const ALPHA_SAME: f64 = 0.0005;

/// The confidence of intervals at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Levels {
    /// The chance that the interval against no change, or against a bound, misses.
    pub change: f64,
    /// The significance level against the margin.
    pub same: f64,
}

impl Levels {
    /// Levels after `pairs` of at most `last` pairs, if the family may spend `alpha` on this member.
    ///
    /// Early looks at the margin are the strictest, as the power family of Kim and DeMets (1987) spends it: four pairs may
    /// agree by luck.
    pub fn at(pairs: usize, last: usize, alpha: f64) -> Levels {
        Levels {
            change: level_of_look(FIRST_LOOK, last, alpha),
            same: ALPHA_SAME * (pairs as f64 / last as f64).powi(3),
        }
    }
}

/// The mean over pairs, and the effect of the turn taken out: least squares on a constant and the turn. A linear drift and a difference
/// between GPU sets are such effects. None before the first look.
pub(super) fn ratio(pairs: &[Pair]) -> Option<Estimate> {
    let n = pairs.len() as f64;
    let sum = |value: fn(&Pair) -> f64| pairs.iter().map(value).sum::<f64>();
    let (turns, logs, products) = (sum(|p| p.turn), sum(|p| p.log), sum(|p| p.turn * p.log));
    let determinant = n * n - turns * turns;
    if pairs.len() < FIRST_LOOK || determinant <= 0.0 {
        return None;
    }
    let log = (n * logs - turns * products) / determinant;
    let effect = (n * products - turns * logs) / determinant;
    let residuals: f64 = pairs
        .iter()
        .map(|pair| (pair.log - log - effect * pair.turn).powi(2))
        .sum();
    let freedom = n - 2.0;
    let standard = (residuals / freedom * n / determinant).sqrt();
    Some(Estimate::new(log, standard, freedom))
}

impl Member {
    /// The p-value of what a false alarm would be: a change, or a broken bound.
    pub(super) fn p_value(&self, ratio: Estimate) -> f64 {
        match self.bound {
            Some(bound) => bound.p_value(ratio),
            None => ratio.p_value(0.0).unwrap_or(1.0),
        }
    }

    /// Returns true if the result is harmless: within the margin, or the bound met.
    pub(super) fn is_fine(&self, ratio: Estimate, levels: Levels) -> bool {
        match self.bound {
            Some(_) => self.requirement(ratio.interval(levels.change)) == Some(Requirement::Met),
            None => self.is_same(ratio, levels),
        }
    }

    fn is_same(&self, ratio: Estimate, levels: Levels) -> bool {
        let strict = ratio.interval(levels.same);
        strict.is_some_and(|interval| self.margin.holds(interval))
    }

    /// The verdict of a ratio. It is `same` only at the strict level, which the interval shown is not.
    pub(super) fn verdict(&self, ratio: Estimate, levels: Levels) -> (Option<Interval>, Verdict) {
        let interval = ratio.interval(levels.change);
        let nothing = Margin { log: 0.0 };
        let verdict = match interval {
            _ if self.is_same(ratio, levels) => Verdict::Same,
            Some(interval) => Verdict::of(interval, nothing, self.better),
            None => Verdict::Undecided,
        };
        (interval, verdict)
    }

    /// Returns the verdict on the requirement, if there is one.
    pub(super) fn requirement(&self, interval: Option<Interval>) -> Option<Requirement> {
        let bound = self.bound?;
        Some(interval.map_or(Requirement::Undecided, |interval| bound.judge(interval)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn drift_and_gpu_sets_cancel(
            noise in prop::collection::vec(-0.02f64..0.02, 4..20), change in -0.1f64..0.1, effect in -0.5f64..0.5,
        ) {
            let turn = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            let pairs = |effect: f64| -> Vec<Pair> {
                noise.iter().enumerate().map(|(i, e)| Pair { log: change + e + effect * turn(i), turn: turn(i) }).collect()
            };
            let (without, with) = (ratio(&pairs(0.0)).expect("pairs"), ratio(&pairs(effect)).expect("pairs"));
            prop_assert!((without.log - with.log).abs() < 1e-9);
            let (a, b) = (without.error.expect("known"), with.error.expect("known"));
            prop_assert!((a.standard - b.standard).abs() < 1e-9);
        }
    }

    #[test]
    fn as_statsmodels_fits() {
        // statsmodels 0.15.0: OLS([0.01, 0.03, -0.01, 0.02, 0.025], [[1, 1], [1, -1], [1, 1], [1, -1], [1, 1]]).fit()
        let logs = [0.01, 0.03, -0.01, 0.02, 0.025];
        let pairs: Vec<Pair> = logs
            .iter()
            .zip([1.0, -1.0, 1.0, -1.0, 1.0])
            .map(|(log, turn)| Pair { log: *log, turn })
            .collect();
        let found = ratio(&pairs).expect("pairs");
        let error = found.error.expect("known");
        assert!((found.log - 0.016_666_666_666_666_666).abs() < 1e-12, "{}", found.log);
        assert!(
            (error.standard - 0.006_804_138_174_397_718).abs() < 1e-12,
            "{}",
            error.standard
        );
        assert_eq!(ratio(&pairs[..3]), None);
    }
}
