//! Judges the ratios of one member of a comparison's family.

use crate::stats::{Better, Bound, Estimate, Interval, Margin, RequirementVerdict, Verdict, level_of_look};
use serde::{Deserialize, Serialize};

/// A metric at a point, and the question about its ratio of new to base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The better direction.
    pub better: Better,
    /// A change below this does not matter.
    pub margin: Margin,
    /// A requirement of the plan. If there is one, pairs are added until the requirement is decided, otherwise until the verdict is.
    pub bound: Option<Bound>,
}

/// The ratio of new to base in one pair of starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    /// The difference of logarithms.
    pub log: f64,
    /// 1 or -1 in turn, because the arms swap their order or their GPUs from pair to pair.
    pub turn: f64,
}

/// Fewest pairs from which a look can decide. With three pairs, only one degree of freedom would be left.
pub(super) const FIRST_LOOK: usize = 4;

/// The probability, at the last look, that an interval within the margin misses the truth. It is smaller than the probability of a false
/// alarm, because a regression that is called `same` is shipped.
const ALPHA_SAME: f64 = 0.0005;

/// The confidence of intervals at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Levels {
    /// The probability that an interval that shows a change, or is compared with a bound, misses the truth.
    pub change: f64,
    /// The probability that an interval that lies within the margin misses the truth.
    pub same: f64,
}

impl Levels {
    /// Returns the levels after `pairs` of at most `last` pairs, if the family may spend `alpha` on this member.
    ///
    /// Early looks at the margin are the strictest, because four pairs may agree by luck. The level grows with the cube of the number of
    /// pairs, as in the power family of Kim and DeMets (1987).
    pub fn at(pairs: usize, last: usize, alpha: f64) -> Levels {
        Levels {
            change: level_of_look(FIRST_LOOK, last, alpha),
            same: ALPHA_SAME * (pairs as f64 / last as f64).powi(3),
        }
    }
}

/// Returns the mean over pairs without the effect of the turn, by least squares on a constant and the turn. A linear drift and a difference
/// between the GPU sets have such an effect. `None` with fewer than [`FIRST_LOOK`] pairs, or if all pairs have the same turn.
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
    /// True if a ratio above 1 is the worse one.
    pub fn is_worse_above(&self) -> bool {
        self.bound.map_or(self.better == Better::Lower, |bound| bound.is_upper)
    }

    /// Number of pairs in which the figure is 0 on one side alone: to the new arm's disadvantage, and to its advantage.
    fn zeros(&self, pairs: &[Pair]) -> (usize, usize) {
        let worst = match self.is_worse_above() {
            true => f64::INFINITY,
            false => f64::NEG_INFINITY,
        };
        let count = |log: f64| pairs.iter().filter(|pair| pair.log == log).count();
        (count(worst), count(-worst))
    }

    /// Number of pairs in which the figure is 0 on one side alone, to the new arm's disadvantage, if that is more than chance. Each pair
    /// of another kind takes two more of them: between equal arms a pair is of this kind in one of four cases at most.
    pub(super) fn lost(&self, pairs: &[Pair]) -> Option<usize> {
        let (lost, _) = self.zeros(pairs);
        (lost >= FIRST_LOOK + 2 * (pairs.len() - lost)).then_some(lost)
    }

    /// Returns true if the figure is 0 to the new arm's disadvantage more often than to its advantage. The ratios of the other pairs then
    /// show nothing good.
    pub(super) fn loses_figures(&self, pairs: &[Pair]) -> bool {
        let (lost, won) = self.zeros(pairs);
        lost > won
    }

    /// Returns the p-value of the alarm: that the ratio has changed or, with a bound, that the bound is broken.
    pub(super) fn p_value(&self, ratio: Estimate) -> f64 {
        match self.bound {
            Some(bound) => bound.p_value(ratio),
            None => ratio.p_value(0.0).unwrap_or(1.0),
        }
    }

    /// Returns true if the result is harmless: within the margin, or the bound met.
    pub(super) fn is_fine(&self, ratio: Estimate, levels: Levels) -> bool {
        match self.bound {
            Some(_) => self.requirement(ratio.interval(levels.change)) == Some(RequirementVerdict::Met),
            None => self.is_same(ratio, levels),
        }
    }

    fn is_same(&self, ratio: Estimate, levels: Levels) -> bool {
        let strict = ratio.interval(levels.same);
        strict.is_some_and(|interval| self.margin.holds(interval))
    }

    /// Returns the interval and the verdict of a ratio. The verdict `same` requires a stricter level than that of the interval.
    pub(super) fn verdict(&self, ratio: Estimate, levels: Levels) -> (Option<Interval>, Verdict) {
        let interval = ratio.interval(levels.change);
        let no_margin = Margin { log: 0.0 };
        let verdict = match interval {
            _ if self.is_same(ratio, levels) => Verdict::Same,
            Some(interval) => Verdict::of(interval, no_margin, self.better),
            None => Verdict::Undecided,
        };
        (interval, verdict)
    }

    /// Returns the verdict on the requirement, if there is one.
    pub(super) fn requirement(&self, interval: Option<Interval>) -> Option<RequirementVerdict> {
        let bound = self.bound?;
        Some(interval.map_or(RequirementVerdict::Undecided, |interval| bound.judge(interval)))
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
