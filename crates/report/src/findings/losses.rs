//! Requests and runs that the new side of a comparison loses and the base does not. The figures of the rest are then those of a smaller load.

use vsweep_base::units::show_many;
use vsweep_record::table::{Point, Points};
use vsweep_strategy::stats::RequirementVerdict::{self, Broken, Undecided};

/// A point, with the points of its side.
type PointOf<'p, 't> = (&'p Points<'t>, &'p Point);

/// Growth of the share of failed requests that does not matter.
const NEGLIGIBLE: f64 = 0.01;
/// Number of standard errors beyond which a difference of shares is not due to chance.
const BEYOND_CHANCE: f64 = 3.0;

/// Reason for a limit that lost requests break.
pub const LOST_REQUESTS: &str = "new loses requests that base answers";

/// Number of failed requests, and of all requests, in the judged runs of some points.
pub fn requests(points: &Points<'_>, of: &[&Point]) -> (f64, f64) {
    let rows = || of.iter().flat_map(|point| &point.used);
    let sum = |name: &str| -> f64 { rows().filter_map(|row| points.runs.cell(name, *row).number()).sum() };
    let failed = sum("failed");
    (failed, failed + sum("completed"))
}

/// Returns true if the share of failed requests is larger on the new side than on the base, by more than a hundredth and by more than
/// chance (z-test of two shares).
pub fn loses_requests((base, in_base): PointOf<'_, '_>, (new, in_new): PointOf<'_, '_>) -> bool {
    let (base, of_base) = requests(base, &[in_base]);
    let (new, of_new) = requests(new, &[in_new]);
    let share = (base + new) / (of_base + of_new).max(1.0);
    let error = (share * (1.0 - share) * (1.0 / of_base.max(1.0) + 1.0 / of_new.max(1.0))).sqrt();
    let growth = new / of_new.max(1.0) - base / of_base.max(1.0);
    growth > NEGLIGIBLE && growth > BEYOND_CHANCE * error
}

/// The best result that a limit can have at a point where the new side loses requests, or runs that fail or are invalid, with the reason:
/// broken by lost requests or half of the runs, else undecided. `None` if it loses neither.
pub fn loss(base: PointOf<'_, '_>, new: PointOf<'_, '_>) -> Option<(RequirementVerdict, String)> {
    if loses_requests(base, new) {
        return Some((Broken, LOST_REQUESTS.to_owned()));
    }
    let runs = |point: &Point| {
        let all = point.ok + point.suspect + point.failed;
        (point.failed + point.invalid.len(), all)
    };
    let ((in_base, of_base), (in_new, of_new)) = (runs(base.1), runs(new.1));
    let verdict = match 2 * in_new >= of_new {
        true => Broken,
        false => Undecided,
    };
    (in_new * of_base > in_base * of_new).then(|| {
        let all = show_many(of_new as u64, "run");
        (verdict, format!("{in_new} of {all} in new gave no valid result"))
    })
}
