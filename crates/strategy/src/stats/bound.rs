//! A stated requirement: a metric may not change by more than so much. A family of them is judged together.

use super::estimate::{Estimate, Interval};
use super::holm::holm;
use serde::{Deserialize, Serialize};

/// A ratio that must not be passed: `+5 %` from below, `-5 %` from above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The logarithm of the ratio.
    pub log: f64,
    /// True if ratios above the bound are forbidden.
    pub is_upper: bool,
}

/// Result of a requirement. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The ratio's interval lies on the allowed side of the bound.
    Met,
    /// It holds the bound, or is known too little.
    Undecided,
    /// It lies on the forbidden side, also after Holm's correction.
    Broken,
}

/// The judgement of one member of a family.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// Result of the requirement.
    pub requirement: Requirement,
    /// The p-value of the hypothesis that the bound is kept, by Holm's correction.
    pub p_value: f64,
}

impl Bound {
    /// `+5` forbids ratios above 1.05, `-5` those below 0.95. More than -100.
    pub fn percent(percent: f64) -> Bound {
        Bound {
            log: (percent / 100.0).ln_1p(),
            is_upper: percent >= 0.0,
        }
    }

    /// Distance of a logarithm beyond the bound; negative on the allowed side.
    fn excess(self, log: f64) -> f64 {
        if self.is_upper { log - self.log } else { self.log - log }
    }

    /// Judges the requirement by a whole interval.
    pub(crate) fn judge(self, interval: Interval) -> Requirement {
        match (self.excess(interval.low), self.excess(interval.high)) {
            (low, high) if low < 0.0 && high < 0.0 => Requirement::Met,
            (low, high) if low > 0.0 && high > 0.0 => Requirement::Broken,
            _ => Requirement::Undecided,
        }
    }

    /// The p-value against the bound being kept: small where the estimate is clearly beyond it.
    pub(crate) fn p_value(self, ratio: Estimate) -> f64 {
        let p_value = ratio.p_value(self.log).filter(|_| self.excess(ratio.log) > 0.0);
        p_value.unwrap_or(1.0)
    }
}

/// Judges a family: the chance that any requirement of it is called broken although all are kept is at most `alpha`.
///
/// Only the claim that something is broken is corrected. That all are met needs no correction, since it is wrong only if a
/// single one of its parts is (intersection-union test, Berger 1982).
pub fn rule(family: &[(Estimate, Bound)], alpha: f64) -> Vec<Ruling> {
    let p_values: Vec<f64> = family.iter().map(|(ratio, bound)| bound.p_value(*ratio)).collect();
    let judged = family.iter().zip(holm(&p_values));
    judged
        .map(|((ratio, bound), p_value)| {
            let requirement = match ratio.interval(alpha).map(|interval| bound.judge(interval)) {
                Some(_) if p_value <= alpha => Requirement::Broken,
                Some(Requirement::Met) => Requirement::Met,
                _ => Requirement::Undecided,
            };
            Ruling { requirement, p_value }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Error;
    use proptest::prelude::*;

    fn ratio(percent: f64, standard: f64) -> Estimate {
        let error = Error { standard, freedom: 4.0 };
        Estimate {
            log: (percent / 100.0).ln_1p(),
            error: Some(error),
        }
    }

    #[test]
    fn the_interval_against_the_bound_decides() {
        let upper = Bound::percent(5.0);
        let judge = |ratio: Estimate| rule(&[(ratio, upper)], 0.05)[0].requirement;
        assert_eq!(judge(ratio(10.0, 0.01)), Requirement::Broken);
        assert_eq!(judge(ratio(6.0, 0.01)), Requirement::Undecided);
        assert_eq!(judge(ratio(1.0, 0.01)), Requirement::Met);
        let unknown = Estimate {
            error: None,
            ..ratio(50.0, 0.01)
        };
        assert_eq!(judge(unknown), Requirement::Undecided);
        assert_eq!(
            rule(&[(ratio(-10.0, 0.01), Bound::percent(-5.0))], 0.05)[0].requirement,
            Requirement::Broken
        );
    }

    proptest! {
        #[test]
        fn alone_it_is_the_interval_and_company_breaks_nothing(
            percents in prop::collection::vec(-10.0f64..20.0, 1..6), standard in 0.001f64..0.05, bound in 1.0f64..8.0,
        ) {
            let bound = Bound::percent(bound);
            let family: Vec<_> = percents.iter().map(|percent| (ratio(*percent, standard), bound)).collect();
            for (member, ruled) in family.iter().zip(rule(&family, 0.05)) {
                let interval = member.0.interval(0.05).expect("known");
                let alone = rule(&[*member], 0.05)[0].requirement;
                prop_assert_eq!(alone, bound.judge(interval));
                prop_assert!(ruled.requirement == alone || (alone, ruled.requirement) == (Requirement::Broken, Requirement::Undecided));
            }
        }
    }
}
