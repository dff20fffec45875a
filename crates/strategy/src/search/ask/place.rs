//! Chooses the load to measure while a target is open: first where its limit is expected, then at the ends of the answer's interval. The
//! search decides whether a target is still open.

use super::{RISK, Settings, View};
use crate::search::probe::Question;

/// Standard errors that [`RISK`] and `DOUBT` amount to.
const SAFETY: f64 = 2.58;
const CERTAINTY: f64 = 1.17;
/// The largest step beyond what was measured: a curve's knee is not seen from far below.
const LARGEST_STEP: f64 = 4.0;
/// Once the interval is so many times as wide as the tolerance, runs are at what will be its ends.
const NARROW: f64 = 3.0;
/// A load that was measured already is preferred if it is placed at least this well relative to the best one.
const NEARLY: f64 = 0.8;
/// Loads that are compared to find the best placed one.
const PLACES: i32 = 24;

impl View<'_> {
    /// While little is known, the load at which the boundary most likely lies; then the load that is hoped to be the answer,
    /// until that is safe, and from then on the lowest one that must fail for it to be near enough.
    pub(super) fn next_question(&self) -> Question {
        if self.levels.is_empty() {
            return self.question(self.search.seed.value, false);
        }
        let vary = self.search.settings.vary;
        let hoped = self.hoped();
        let width = (self.highest() / self.boundary.quantile(RISK)).ln();
        let is_narrow =
            width <= NARROW * (self.end(hoped) / hoped).ln() || 2.0 * self.runs_so_far() as f64 >= self.patience();
        if is_narrow {
            let best = self.best().map_or(0.0, |best| best.value);
            return match best >= hoped {
                true => self.question(vary.floor(self.end(best)), false),
                false => self.question(hoped, true),
            };
        }
        let values = || self.levels.iter().map(|level| level.value);
        let lowest = values().fold(f64::INFINITY, f64::min) / LARGEST_STEP;
        let highest = values().fold(0.0, f64::max) * LARGEST_STEP;
        self.question(self.boundary.quantile(0.5).clamp(lowest, highest), false)
    }

    /// The load that will be the answer if the boundary lies where it most likely is: the one best placed between the risk that
    /// it is too high and what the tolerance allows, or, where the runs left cannot narrow the boundary down to that, as far
    /// below it as the risk asks for. A load that was measured as passing does as well if it is placed nearly as well.
    fn hoped(&self) -> f64 {
        let Settings { vary, lower, upper, .. } = self.search.settings;
        let quantile = |p: f64| self.boundary.quantile(p);
        let likely = quantile(0.5);
        let at = |below: f64| vary.floor((likely * (-below).exp()).clamp(lower, upper));
        // In standard errors, as many as the boundary may have.
        let room = |value: f64| ((likely / value).ln() / SAFETY).min((self.end(value) / likely).ln() / CERTAINTY);
        let best = |values: &mut dyn Iterator<Item = f64>| values.max_by(|a, b| room(*a).total_cmp(&room(*b)));
        let widest = (self.end(likely) / likely).ln();
        let placed = best(&mut (0..=PLACES).map(|i| at(widest * f64::from(i) / f64::from(PLACES)))).unwrap_or(likely);
        let spread = (quantile(0.84) / quantile(0.16)).ln() / 2.0;
        let left = spread * (self.runs_so_far() as f64 / self.patience()).sqrt();
        if left > room(placed) {
            return at(SAFETY * left);
        }
        let passed = self
            .levels
            .iter()
            .filter(|level| level.margin <= 0.0)
            .map(|level| level.value);
        best(&mut passed.into_iter())
            .filter(|known| room(*known) >= NEARLY * room(placed))
            .unwrap_or(placed)
    }
}
