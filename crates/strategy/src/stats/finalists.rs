//! Who may call itself the winner: the configs that cannot be told from the best one, and the choice among equals.

use super::estimate::Estimate;
use super::ratio::{ALPHA, Better};
use serde::{Deserialize, Serialize};

/// A config as far as a winner is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its metric, over starts.
    pub estimate: Estimate,
    /// In how many settings it departs from the defaults.
    pub overrides: usize,
}

/// Who won.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winner {
    /// The config to use: of the equals, the one with the fewest overrides.
    pub index: usize,
    /// All that cannot be told from the best one, it and the winner included, ascending.
    pub equals: Vec<usize>,
}

/// The configs whose 95 % intervals overlap that of the best one, itself included, ascending. A config with one start has no
/// interval and cannot be ruled out.
///
/// The best of many is best partly by luck. So the finalists are measured again, and [`winner`] is asked about the
/// new starts alone.
pub fn finalists(candidates: &[Candidate], better: Better) -> Vec<usize> {
    let all = 0..candidates.len();
    let order = |a: &usize, b: &usize| candidates[*a].cost(better).total_cmp(&candidates[*b].cost(better));
    let Some(best) = all.clone().min_by(order) else {
        return Vec::new();
    };
    let interval = |index: usize| candidates[index].estimate.interval(ALPHA);
    let may_be_best = |index: &usize| match (interval(*index), interval(best)) {
        (Some(own), Some(of_best)) => own.overlaps(of_best),
        _ => true,
    };
    all.filter(may_be_best).collect()
}

/// The winner among finalists by starts that did not make them finalists; None without a candidate.
pub fn winner(candidates: &[Candidate], better: Better) -> Option<Winner> {
    let equals = finalists(candidates, better);
    let index = equals.iter().copied().min_by(|a, b| {
        let (a, b) = (candidates[*a], candidates[*b]);
        let by_overrides = a.overrides.cmp(&b.overrides);
        by_overrides.then(a.cost(better).total_cmp(&b.cost(better)))
    })?;
    Some(Winner { index, equals })
}

impl Candidate {
    /// Its metric, turned so that less is better.
    fn cost(self, better: Better) -> f64 {
        match better {
            Better::Higher => -self.estimate.log,
            Better::Lower => self.estimate.log,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Error;
    use proptest::prelude::*;

    fn candidate(value: f64, standard: f64, overrides: usize) -> Candidate {
        let error = Some(Error { standard, freedom: 4.0 });
        Candidate {
            estimate: Estimate { log: value.ln(), error },
            overrides,
        }
    }

    #[test]
    fn among_equals_the_plainer_config_wins() {
        let candidates = [
            candidate(100.0, 0.01, 5),
            candidate(99.0, 0.01, 2),
            candidate(80.0, 0.01, 0),
        ];
        assert_eq!(
            winner(&candidates, Better::Higher),
            Some(Winner {
                index: 1,
                equals: vec![0, 1]
            })
        );
        assert_eq!(
            winner(&candidates, Better::Lower),
            Some(Winner {
                index: 2,
                equals: vec![2]
            })
        );
        assert_eq!(winner(&[], Better::Higher), None);
    }

    #[test]
    fn a_single_start_cannot_be_ruled_out() {
        let one_start = Candidate {
            estimate: Estimate { log: 0.0, error: None },
            overrides: 0,
        };
        assert_eq!(
            finalists(&[candidate(100.0, 0.01, 0), one_start], Better::Higher),
            [0, 1]
        );
    }

    proptest! {
        #[test]
        fn the_best_is_a_finalist_and_a_worse_config_never_replaces_a_better_plainer_one(
            values in prop::collection::vec((50.0f64..150.0, 0.001f64..0.1, 0usize..4), 1..8),
        ) {
            let candidates: Vec<_> = values.iter().map(|(value, standard, overrides)| candidate(*value, *standard, *overrides)).collect();
            let best = (0..values.len()).max_by(|a, b| values[*a].0.total_cmp(&values[*b].0)).expect("one");
            let found = winner(&candidates, Better::Higher).expect("one");
            prop_assert!(found.equals.contains(&best) && found.equals.contains(&found.index));
            let beaten = |other: &usize| values[*other].2 <= values[found.index].2 && values[*other].0 > values[found.index].0;
            prop_assert!(!found.equals.iter().any(beaten));
        }
    }
}
