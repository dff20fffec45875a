//! The limit of a target on one start as a distribution, with which the results of several searches are compared.

use super::boundary::Boundary;
use serde::{Deserialize, Serialize};

/// Number of loads that represent the distribution.
const QUANTILES: usize = 40;
/// Greatest relative error of [`rounded`].
const ROUNDING: f64 = 5e-4;

/// Distribution of the limit, from one search on one start of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitPosterior {
    /// Quantiles of the limit, ascending. The i-th of n has the probability (i + 1/2) / n. All lie within the range that was searched: a
    /// limit above it counts as its highest load, one below it as its lowest.
    pub quantiles: Vec<f64>,
    /// The slope `d ln(figure) / d ln(load)` of the limiting figure at the limit.
    pub slope: f64,
    /// The highest load that the search may try.
    pub ceiling: f64,
}

impl LimitPosterior {
    /// Returns the load in the middle of the quantiles; `None` if there are none.
    pub fn median(&self) -> Option<f64> {
        self.quantiles.get(self.quantiles.len() / 2).copied()
    }

    /// Returns true if a limit is the highest load that the search may try.
    pub fn is_ceiling(&self, limit: f64) -> bool {
        is_ceiling(limit, self.ceiling)
    }

    pub(super) fn of(boundary: &Boundary, lower: f64, upper: f64) -> LimitPosterior {
        let at = |i: usize| match boundary.quantile((i as f64 + 0.5) / QUANTILES as f64) {
            // The ends stay exact, because a limit at the ceiling means one at or above it.
            limit if limit >= upper => upper,
            limit if limit <= lower => lower,
            limit => rounded(limit).clamp(lower, upper),
        };
        LimitPosterior {
            quantiles: (0..QUANTILES).map(at).collect(),
            slope: rounded(boundary.slope),
            ceiling: upper,
        }
    }
}

/// Returns true if a limit is the highest load that a search may try, up to the rounding of limits in a journal.
pub fn is_ceiling(limit: f64, ceiling: f64) -> bool {
    limit >= ceiling * (1.0 - ROUNDING)
}

/// Rounds a number to four significant digits, which are enough for a journal.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::super::boundary::Observation;
    use super::super::seed::Seed;
    use super::*;

    fn posterior(upper: f64, margin: impl Fn(f64) -> f64) -> LimitPosterior {
        posterior_with(upper, 0.0, margin)
    }

    fn posterior_with(upper: f64, slack: f64, margin: impl Fn(f64) -> f64) -> LimitPosterior {
        let loads = [60.0, 70.0, 80.0, 90.0].into_iter().filter(|load| *load <= upper);
        let observations: Vec<Observation> = loads
            .map(|value| Observation {
                value,
                margin: margin(value),
                error: 0.01,
                slack,
                bound: None,
                tail: None,
            })
            .collect();
        LimitPosterior::of(&Boundary::infer(Seed::UNKNOWN, 1.0, upper, &observations), 1.0, upper)
    }

    #[test]
    fn the_limit_and_the_slope_of_a_smooth_curve_are_found() {
        let found = posterior(512.0, |load| 3.0 * (load / 75.0).ln());
        assert_eq!((found.quantiles.len(), found.ceiling), (40, 512.0));
        assert!(
            found.quantiles.is_sorted() && (found.quantiles[20] / 75.0).ln().abs() < 0.02,
            "{found:?}"
        );
        assert!(found.slope > 2.0 && found.slope < 4.5, "{}", found.slope);
        let text = serde_json::to_string(&found).expect("plain numbers");
        assert!(text.len() < 400, "{text}");
        assert_eq!(
            serde_json::from_str::<LimitPosterior>(&text).expect("its own text"),
            found
        );
    }

    #[test]
    fn what_stalls_may_explain_leaves_the_limit_open_between_both_ends() {
        let found = posterior_with(512.0, 0.3, |load| 3.0 * (load / 75.0).ln());
        // If the stalls explain nothing, the limit is 75. If they explain all of the slack, it is 75 e^0.1.
        assert!(found.quantiles[1] < 76.0 && found.quantiles[38] > 82.0, "{found:?}");
        assert!(found.quantiles[0] > 70.0 && found.quantiles[39] < 90.0, "{found:?}");
    }

    #[test]
    fn no_limit_lies_beyond_the_highest_load_allowed() {
        let found = posterior(80.0, |load| 3.0 * (load / 200.0).ln());
        assert!(
            found.quantiles.iter().filter(|load| **load == 80.0).count() > 35,
            "{found:?}"
        );
        assert!(found.quantiles.iter().all(|load| *load <= 80.0), "{found:?}");
    }

    #[test]
    fn a_highest_load_of_many_digits_is_reached() {
        let found = posterior(16384.0, |load| 3.0 * (load / 1e6).ln());
        assert_eq!(found.quantiles.last(), Some(&16384.0), "{found:?}");
        // Earlier versions rounded the limits in the journal.
        assert!(found.is_ceiling(16380.0) && !found.is_ceiling(16000.0));
    }
}
