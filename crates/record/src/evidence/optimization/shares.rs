//! The value of a start for all workloads of a plan together: its smallest share of each workload's best, as the answer joins them. With
//! a single workload it is the start's own value.

use std::collections::BTreeMap;
use vsweep_strategy::selection::optimized::Trial;

/// The result of one start for each workload, by its name.
pub type Results = BTreeMap<String, Trial>;

/// The best value of each workload so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// Its logarithm; none where no start has one.
    best: BTreeMap<String, Option<f64>>,
}

impl Shares {
    /// Finds the best values in the results of all starts.
    pub fn of<'r>(starts: impl IntoIterator<Item = &'r Results>) -> Shares {
        let mut best: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for (workload, trial) in starts.into_iter().flatten() {
            let best = best.entry(workload.clone()).or_default();
            if let Trial::Measured { ln_value, .. } = trial {
                *best = Some(best.map_or(*ln_value, |best| best.max(*ln_value)));
            }
        }
        Shares { best }
    }

    /// True if values are shares of several workloads' best.
    pub fn are_of_several(&self) -> bool {
        self.best.len() > 1
    }

    /// Joins the results of a start; none if it has no result. One that failed or met no target for one workload has no value at all.
    pub fn join(&self, results: &Results) -> Option<Trial> {
        let joined = results.iter().map(|(workload, trial)| self.share(workload, *trial));
        joined.reduce(|one, other| match (one, other) {
            (Trial::Measured { ln_value: a, .. }, Trial::Measured { ln_value: b, .. }) => {
                if b < a {
                    other
                } else {
                    one
                }
            }
            (Trial::Beaten { ln_below: a }, Trial::Beaten { ln_below: b }) => Trial::Beaten { ln_below: a.min(b) },
            (Trial::Measured { ln_value, .. }, Trial::Beaten { ln_below })
            | (Trial::Beaten { ln_below }, Trial::Measured { ln_value, .. }) => Trial::Beaten {
                ln_below: ln_below.min(ln_value),
            },
            (Trial::Measured { .. } | Trial::Beaten { .. }, _) => other,
            _ => one,
        })
    }

    fn share(&self, workload: &str, trial: Trial) -> Trial {
        let best = match self.are_of_several() {
            true => self.best.get(workload).copied().flatten().unwrap_or(0.0),
            false => 0.0,
        };
        match trial {
            Trial::Measured { ln_value, sd } => Trial::Measured {
                ln_value: ln_value - best,
                sd,
            },
            Trial::Beaten { ln_below } => Trial::Beaten {
                ln_below: ln_below - best,
            },
            none => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(values: &[(&str, f64)]) -> Results {
        let of = |(workload, value): &(&str, f64)| {
            let trial = Trial::Measured {
                ln_value: value.ln(),
                sd: 0.01,
            };
            ((*workload).to_owned(), trial)
        };
        values.iter().map(of).collect()
    }

    fn value(shares: &Shares, results: &Results) -> f64 {
        match shares.join(results) {
            Some(Trial::Measured { ln_value, .. }) => (ln_value.exp() * 1000.0).round() / 1000.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_start_is_worth_its_smallest_share_of_each_workloads_best() {
        let starts = [
            results(&[("chat", 100.0), ("code", 10.0)]),
            results(&[("chat", 50.0), ("code", 40.0)]),
            results(&[("chat", 80.0), ("code", 30.0)]),
        ];
        let shares = Shares::of(&starts);
        let values = starts.iter().map(|own| value(&shares, own));
        assert_eq!(values.collect::<Vec<f64>>(), [0.25, 0.5, 0.75]);
    }

    #[test]
    fn a_single_workload_keeps_its_values() {
        let starts = [results(&[("", 100.0)]), results(&[("", 50.0)])];
        let shares = Shares::of(&starts);
        assert_eq!((value(&shares, &starts[0]), value(&shares, &starts[1])), (100.0, 50.0));
    }

    #[test]
    fn a_start_without_a_value_for_one_workload_has_none() {
        let mut own = results(&[("chat", 100.0), ("code", 10.0)]);
        let shares = Shares::of([&own]);
        own.insert("code".into(), Trial::Unmet);
        assert_eq!(shares.join(&own), Some(Trial::Unmet));
        own.insert("chat".into(), Trial::DidNotFit);
        assert_eq!(shares.join(&own), Some(Trial::DidNotFit));
    }
}
