//! Chooses the load to measure while a target is open: first where its limit is expected, then at the ends of the answer's interval. The
//! search decides whether a target is still open.

use super::{RISK_BELOW, Settings, View};
use crate::search::probe::Question;

/// Number of standard errors that the probability [`RISK_BELOW`] amounts to.
const SAFETY: f64 = 2.58;
/// Number of standard errors that the probability `RISK_ABOVE` amounts to.
const CERTAINTY: f64 = 1.17;
/// Largest factor between a new load and the measured ones. Far below the knee, a curve does not show where it is.
const LARGEST_STEP: f64 = 4.0;
/// Largest width of the answer's interval, in multiples of the tolerance, at which runs are made at its expected ends.
const NARROW: f64 = 3.0;
/// A load that has already passed is preferred if its clearance (see `hoped`) is at least this share of the best load's.
const NEARLY: f64 = 0.8;
/// Number of steps into which the tolerance is divided to compare loads.
const STEPS: i32 = 24;

impl View<'_> {
    /// Returns the next question. While little is known, it is about the load at which the boundary most likely lies. Later it is about the
    /// load that is hoped to be the answer, until this load is safe. Then it is about the lowest load that must fail for the answer to be
    /// near enough.
    pub(super) fn next_question(&self) -> Question {
        if self.levels.is_empty() {
            return self.question(self.search.seed.value, false);
        }
        let vary = self.search.settings.vary;
        let hoped = self.hoped();
        let width = (self.upper_end() / self.boundary.quantile(RISK_BELOW)).ln();
        let is_narrow = width <= NARROW * (self.tolerance_end(hoped) / hoped).ln()
            || 2.0 * self.runs_so_far() as f64 >= self.patience();
        if is_narrow {
            let best = self.best().map_or(0.0, |best| best.value);
            return match best >= hoped {
                true => self.question(vary.floor(self.tolerance_end(best)), false),
                false => self.question(hoped, true),
            };
        }
        let values = || self.levels.iter().map(|level| level.value);
        let lowest = values().fold(f64::INFINITY, f64::min) / LARGEST_STEP;
        let highest = values().fold(0.0, f64::max) * LARGEST_STEP;
        self.question(self.boundary.quantile(0.5).clamp(lowest, highest), false)
    }

    /// Returns the load that will be the answer if the boundary lies where it most likely is. The load lies below the boundary by the
    /// distance that best balances the risk of being too high against the tolerance. If the remaining runs cannot make the boundary certain
    /// enough for both, the load lies as far below as the risk demands. A load that was measured as passing is preferred if it fits nearly
    /// as well.
    fn hoped(&self) -> f64 {
        let Settings { vary, lower, upper, .. } = self.search.settings;
        let quantile = |p: f64| self.boundary.quantile(p);
        let likely = quantile(0.5);
        let at = |below: f64| vary.floor((likely * (-below).exp()).clamp(lower, upper));
        // The largest standard error of the boundary with which the value is both safe and near enough.
        let clearance =
            |value: f64| ((likely / value).ln() / SAFETY).min((self.tolerance_end(value) / likely).ln() / CERTAINTY);
        let best =
            |values: &mut dyn Iterator<Item = f64>| values.max_by(|a, b| clearance(*a).total_cmp(&clearance(*b)));
        let widest = (self.tolerance_end(likely) / likely).ln();
        let placed = best(&mut (0..=STEPS).map(|i| at(widest * f64::from(i) / f64::from(STEPS)))).unwrap_or(likely);
        let spread = (quantile(0.84) / quantile(0.16)).ln() / 2.0;
        let left = spread * (self.runs_so_far() as f64 / self.patience()).sqrt();
        if left > clearance(placed) {
            return at(SAFETY * left);
        }
        let passed = self
            .levels
            .iter()
            .filter(|level| level.margin <= 0.0)
            .map(|level| level.value);
        best(&mut passed.into_iter())
            .filter(|known| clearance(*known) >= NEARLY * clearance(placed))
            .unwrap_or(placed)
    }
}
