//! The certainty that the best known candidate is the best of all, and the end when it suffices.

use super::estimate::Judged;
use super::state::Optimized;

/// Starts before which nothing is certain: little is known of the sizes of effects.
const FEWEST_STARTS: usize = 16;
/// Rivals in a first look at the chance of the best one.
const FIRST_LOOK: usize = 16;

impl Optimized {
    /// Takes over the best of the measured candidates from a better informed judge. What was not measured is still estimated here.
    pub fn judge(&mut self, judged: Option<Judged>) {
        self.judged = judged.filter(|judged| self.measured_mean(judged.winner).is_some());
    }

    /// The probability that the best known candidate lies within the margin of the best of all.
    pub fn chance_of_best(&self) -> f64 {
        self.chance(usize::MAX)
    }

    fn chance(&self, rivals: usize) -> f64 {
        let Some(best) = self.best() else { return 0.0 };
        let draws = self.draws(best, rivals);
        match self.judged {
            None => draws.chance(best, self.rules.margin, &|_| true),
            Some(judged) => judged.probability * draws.chance(best, self.rules.margin, &|at| self.is_unknown(at)),
        }
    }

    /// True if the best candidate is known well enough.
    pub(super) fn is_certain(&self) -> bool {
        let is_certain = |rivals| self.chance(rivals) >= self.rules.certainty;
        self.has_enough_starts() && is_certain(FIRST_LOOK) && is_certain(usize::MAX)
    }

    /// True if no candidate that was not measured is likely to be better, so that only more starts of the measured ones can help.
    pub(super) fn is_decided_among_measured(&self) -> bool {
        let is_unbeaten = |best| {
            let chance = self
                .draws(best, usize::MAX)
                .chance(best, self.rules.margin, &|at| self.is_unknown(at));
            chance >= self.rules.certainty
        };
        self.has_enough_starts() && self.judged.is_some_and(|judged| is_unbeaten(judged.winner))
    }

    /// True if only more starts of the measured candidates can help, and these are not expected to suffice.
    pub(super) fn is_undecidable(&self) -> bool {
        self.judged.is_some_and(|judged| !judged.is_decidable) && self.is_decided_among_measured()
    }

    fn has_enough_starts(&self) -> bool {
        self.trials.len() >= FEWEST_STARTS.min(self.candidates.len() * 2 / 3)
    }

    fn is_unknown(&self, candidate: usize) -> bool {
        self.measured_mean(candidate).is_none()
    }
}
