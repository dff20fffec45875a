//! The certainty that the best known candidate is the best of all, and the end of an optimisation when that suffices or the budget is
//! spent.

use super::space::{Budget, Incumbent, Outlook, Trial};
use super::state::Optimized;
use super::view::View;
use std::collections::BTreeSet;

/// Minimum number of starts before anything is certain, because the sizes of effects are hardly known until then.
const FEWEST_STARTS: usize = 16;
/// Number of rivals in a cheaper check of the probability of the best candidate.
const FIRST_LOOK: usize = 16;
/// Error by rounding of a logarithm.
const ROUNDING: f64 = 1e-9;

impl Optimized {
    /// Sets the best of the measured candidates, as judged by a better informed model; `None`, or a winner that was not measured, removes
    /// the judgement. Candidates that were not measured are still estimated here.
    pub fn judge(&mut self, judged: Option<Incumbent>) {
        self.judged = judged.filter(|judged| self.measured_mean(judged.winner).is_some());
        self.unbeatable = Default::default();
    }

    /// Returns the probability that the best known candidate lies within the margin of the best of all.
    pub fn chance_of_best(&self) -> f64 {
        let among_measured = self.judged.map_or(1.0, |judged| judged.probability);
        self.best().map_or(0.0, |best| among_measured * self.confirmed(best))
    }

    pub(super) fn outlook(&self) -> Outlook {
        // Without a budget, there are at most as many starts as candidates, or `FEWEST_STARTS` if that is more.
        if self.rules.budget.is_none() && self.charged() >= self.candidates.len().max(FEWEST_STARTS) {
            return match self.chance_of_best() >= self.rules.certainty {
                true => Outlook::Certain,
                false => Outlook::Spent,
            };
        }
        let fewest = FEWEST_STARTS.min(self.candidates.len() * 2 / 3);
        let has_enough_starts = self.is_unbeatable() || self.trials.len() >= fewest;
        let Some(best) = self.best().filter(|_| has_enough_starts) else {
            return Outlook::Open;
        };
        let certainty = self.rules.certainty;
        let Some(judged) = self.judged else {
            let is_certain = |rivals| self.chance(best, rivals) >= certainty;
            return match is_certain(FIRST_LOOK) && is_certain(usize::MAX) && self.confirmed(best) >= certainty {
                true => Outlook::Certain,
                false => Outlook::Open,
            };
        };
        let first = self.chance(best, usize::MAX);
        let unbeaten = match first < certainty {
            true => first,
            false => first.min(self.confirmed(best)),
        };
        let is_certain = |unbeaten: f64| judged.probability * unbeaten >= certainty;
        if unbeaten < certainty {
            Outlook::Open
        } else if is_certain(unbeaten) && is_certain(self.chance(best, FIRST_LOOK)) {
            Outlook::Certain
        } else if judged.is_decidable {
            Outlook::Finalists
        } else {
            Outlook::Undecidable
        }
    }

    /// Returns the probability that a candidate lies within the margin of the best of at most `rivals` rivals.
    fn chance(&self, best: usize, rivals: usize) -> f64 {
        self.chance_in(self.view(), best, rivals)
    }

    /// Returns that probability among all rivals, by a second opinion, whose shapes are independent of the first.
    fn confirmed(&self, best: usize) -> f64 {
        self.chance_in(self.second(), best, usize::MAX)
    }

    /// If the measured candidates were judged by another model, only those that it does not know are rivals.
    fn chance_in(&self, view: &View, best: usize, rivals: usize) -> f64 {
        let is_undecided = |at: usize| self.trials_of(at).any(|trial| matches!(trial, Trial::Undecided { .. }));
        let is_rival = |at: usize| self.judged.is_none() || (self.measured_mean(at).is_none() && !is_undecided(at));
        let chance = self
            .draws(view, best, rivals)
            .chance(best, self.rules.margin, &is_rival);
        chance * (1.0 - self.surprise(best))
    }

    /// Returns the probability that the best is a candidate that no surface knows of, such as two settings that are good only together and
    /// were never started together. It is Jeffreys' estimate for an event that no start has shown.
    fn surprise(&self, best: usize) -> f64 {
        if self.is_predicted() {
            return 0.0;
        }
        let started: BTreeSet<usize> = self.trials.iter().map(|(at, _)| *at).collect();
        let reached = self.reached(best).map(|value| value + self.rules.margin);
        let can_win = |at: &usize| match (self.candidates[*at].most, reached) {
            (Some(most), Some(reached)) => most > reached,
            _ => true,
        };
        let all = self.candidates.len();
        let unknown = (0..all).filter(|at| !started.contains(at) && can_win(at)).count();
        0.5 / (self.trials.len() as f64 + 1.0) * unknown as f64 / all as f64
    }

    /// Returns the largest value that the plan allows a candidate, if its starts reached it.
    pub(super) fn reached(&self, candidate: usize) -> Option<f64> {
        let most = self.candidates[candidate].most?;
        self.measured_mean(candidate)
            .filter(|mean| *mean >= most - ROUNDING)
            .map(|_| most)
    }

    /// Returns true if no unmeasured candidate can win: even at the largest value that the plan allows it, it would neither exceed the best
    /// by more than the margin, nor come within the margin on fewer GPUs.
    pub(super) fn is_unbeatable(&self) -> bool {
        *self.unbeatable.get_or_init(|| self.finds_no_challenger())
    }

    fn finds_no_challenger(&self) -> bool {
        let best = self.best().and_then(|best| Some((best, self.reached(best)?)));
        let Some((best, value)) = best else { return false };
        let can_win = |at: usize| {
            let Some(most) = self.candidates[at].most else {
                return true;
            };
            let is_smaller = self.candidates[at].gpus < self.candidates[best].gpus;
            most > value + self.rules.margin || (is_smaller && most >= value - self.rules.margin)
        };
        let mut others = (0..self.candidates.len()).filter(|at| *at != best && self.measured_mean(*at).is_none());
        !others.any(|at| self.may_start(at) && can_win(at))
    }
}

/// Assumed share of a full measurement that is needed for a candidate whose first probe shows that it cannot win.
const LOST_SHARE: f64 = 0.3;

impl Optimized {
    /// Returns the expected seconds of a start, if its first probe shows with probability `lost` that the candidate cannot win.
    pub(super) fn cost(&self, candidate: usize, lost: f64) -> f64 {
        let of = &self.candidates[candidate];
        (self.compiled.start_s(of) + of.measure_s * (1.0 - lost * (1.0 - LOST_SHARE))).max(1.0)
    }

    /// Returns the share of the machine that a start of a candidate takes, or its GPUs if the budget counts these.
    fn share(&self, candidate: usize) -> f64 {
        let candidate = &self.candidates[candidate];
        match self.rules.budget {
            Some(Budget::GpuSeconds(_)) => f64::from(candidate.gpus),
            _ => 1.0 / f64::from(candidate.at_once.max(1)),
        }
    }

    /// Returns the cost of the cheapest start, in seconds of the machine, or of GPUs if the budget counts these.
    fn least_cost(&self) -> f64 {
        let costs = (0..self.candidates.len()).map(|at| self.cost(at, 0.0) * self.share(at));
        costs.fold(f64::INFINITY, f64::min)
    }

    /// Returns true if the budget does not suffice for a further start after those under way.
    pub(super) fn is_spent(&self, under_way: &[usize]) -> bool {
        let (most, elapsed) = match self.rules.budget {
            None => return false,
            Some(Budget::Starts(most)) => return self.charged() + under_way.len() >= most,
            Some(Budget::MachineSeconds(most)) => (most, self.elapsed_s),
            Some(Budget::GpuSeconds(most)) => (most, 0.0),
        };
        let done = self.trials.iter().zip(&self.seconds);
        let done = elapsed.max(done.map(|((at, _), seconds)| seconds * self.share(*at)).sum());
        let expected = under_way.iter().map(|at| self.cost(*at, 0.5) * self.share(*at));
        done + expected.sum::<f64>() + self.least_cost() > most
    }

    /// Returns the number of starts that the budget pays for.
    fn charged(&self) -> usize {
        self.trials.len() - self.free
    }
}
