//! The cost of starts, and the end of a budget.

use super::space::Budget;
use super::state::Optimized;

/// Share of a full measurement that a candidate takes whose first probe is lost, before any was.
const LOST_SHARE: f64 = 0.3;

impl Optimized {
    /// Expected seconds of a start whose first probe is lost with such a probability.
    pub(super) fn cost(&self, candidate: usize, lost: f64) -> f64 {
        let of = &self.candidates[candidate];
        (self.compiled.start_s(of) + of.measure_s * (1.0 - lost * (1.0 - LOST_SHARE))).max(1.0)
    }

    /// The cost of the cheapest start.
    fn least(&self, weight: &dyn Fn(usize) -> f64) -> f64 {
        let costs = (0..self.candidates.len()).map(|at| self.cost(at, 0.0) * weight(at));
        costs.fold(f64::INFINITY, f64::min)
    }

    /// Returns true if what is left of the budget does not suffice for a start, after those under way.
    pub(super) fn is_spent(&self, under_way: &[usize]) -> bool {
        let spent = |weight: &dyn Fn(usize) -> f64| -> f64 {
            let done = self.trials.iter().zip(&self.seconds);
            let done = done.map(|((at, _), seconds)| seconds * weight(*at));
            let expected = under_way.iter().map(|at| self.cost(*at, 0.5) * weight(*at));
            done.sum::<f64>() + expected.sum::<f64>()
        };
        match self.rules.budget {
            None => false,
            Some(Budget::ServerSeconds(most)) => spent(&|_| 1.0) + self.least(&|_| 1.0) > most,
            Some(Budget::GpuSeconds(most)) => {
                let gpus = |at: usize| f64::from(self.candidates[at].gpus);
                spent(&gpus) + self.least(&gpus) > most
            }
            Some(Budget::Starts(most)) => self.trials.len() + under_way.len() >= most,
        }
    }
}
