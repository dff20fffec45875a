//! The limit of a target on one start as a distribution, with which the results of several searches are compared.

use super::boundary::Boundary;
use serde::{Deserialize, Serialize};

/// Number of loads that represent the distribution.
const QUANTILES: usize = 40;

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

    pub(super) fn of(boundary: &Boundary, lower: f64, upper: f64) -> LimitPosterior {
        let at = |i: usize| boundary.quantile((i as f64 + 0.5) / QUANTILES as f64);
        LimitPosterior {
            quantiles: (0..QUANTILES).map(|i| rounded(at(i).clamp(lower, upper))).collect(),
            slope: rounded(boundary.slope),
            ceiling: upper,
        }
    }
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
}
