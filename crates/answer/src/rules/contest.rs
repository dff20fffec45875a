//! The contest among entrants: the winner, its ties, and the probabilities of each entrant to be within the margin of the best and as good
//! as the winner.

use super::super::document::WinReason;
use super::super::fit::SURE;
use vsweep_strategy::stats::Better;

/// An entrant, reduced to the figures by which a contest is decided.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Its figure by its own runs alone (see the module `plain`), or the geometric mean of the loads that its searches report. `None` if
    /// its plain estimates miss the targets.
    pub plain: Option<f64>,
    /// For a search, the median and the upper end of its own posterior. If the search ended early, the load that it reports may lie well
    /// below its median. So nearness to the best search is also decided by the posteriors: the upper end must be within the margin of the
    /// median of every better search.
    pub located: Option<[f64; 2]>,
    /// Its figure in each draw; NaN where it does not meet the targets.
    pub draws: Vec<f64>,
    /// True if its server died, or failed requests.
    pub has_failed: bool,
    /// Number of changes from the defaults.
    pub changes: usize,
    /// For a search, the number of the plan's other targets that it meets.
    pub other_targets: usize,
    /// For a search, its throughput per GPU.
    pub per_gpu: Option<f64>,
    /// The largest absolute difference that does not matter, for all its replicas together: one user for each replica; 0 for rates, and for
    /// metrics of points.
    pub unit: f64,
}

/// The difference that does not matter.
#[derive(Debug, Clone, Copy)]
pub struct Margin {
    /// Relative: 0.01 for 1 %.
    pub part: f64,
    /// The good direction.
    pub better: Better,
}

/// Probability below which an entrant is ruled out.
pub const RULED_OUT: f64 = 0.05;

/// The result of a contest. Entrants are given by their indices.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub winner: Option<(usize, Reason)>,
    pub ties: Vec<usize>,
    /// The probability of each entrant to be within the margin of the best.
    pub probability: Vec<f64>,
    /// The probability of each entrant to be at most the margin worse than the winner.
    pub as_good: Vec<f64>,
}

/// Reason why the winner won over the entrant with the best estimate, which is given by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Best,
    FewerFailures(usize),
    MoreTargets(usize),
    MorePerGpu(usize),
    FewerChanges(usize),
}

impl Margin {
    /// Returns true if a value is worse than the best by no more than the margin, or by no more than a unit.
    pub fn holds(self, value: f64, best: f64, unit: f64) -> bool {
        let slack = 1.0 + 1e-12;
        match self.better {
            Better::Higher => value * (1.0 + self.part) * slack >= best || best - value <= unit * slack,
            Better::Lower => value <= best * (1.0 + self.part) * slack || value - best <= unit * slack,
        }
    }
}

impl Reason {
    /// Converts the reason for the document, with ids instead of indices.
    pub fn chosen(self, id: impl Fn(usize) -> String) -> WinReason {
        match self {
            Reason::Best => WinReason::Best,
            Reason::FewerFailures(best) => WinReason::FewerFailures { best: id(best) },
            Reason::MoreTargets(best) => WinReason::MoreTargets { best: id(best) },
            Reason::MorePerGpu(best) => WinReason::MorePerGpu { best: id(best) },
            Reason::FewerChanges(best) => WinReason::FewerChanges { best: id(best) },
        }
    }
}

/// Decides a contest. Of equal entrants the first one wins, so their order must be fixed. If `is_guarded`, none that is ruled out wins over
/// one that is sure.
pub fn decide(entrants: &[Contender], margin: Margin, is_guarded: bool) -> Found {
    let draws = entrants.first().map_or(0, |entrant| entrant.draws.len());
    let mut within = vec![vec![false; draws]; entrants.len()];
    let mut decided = vec![false; draws];
    for draw in 0..draws {
        let values = entrants
            .iter()
            .map(|entrant| entrant.draws[draw])
            .filter(|value| !value.is_nan());
        let Some(best) = margin.better.best(values) else {
            continue;
        };
        decided[draw] = true;
        for (entrant, within) in entrants.iter().zip(&mut within) {
            let value = entrant.draws[draw];
            within[draw] = !value.is_nan() && margin.holds(value, best, entrant.unit);
        }
    }
    let count = decided.iter().filter(|decided| **decided).count().max(1) as f64;
    let probability = |within: &Vec<bool>| within.iter().filter(|within| **within).count() as f64 / count;
    let probability: Vec<f64> = within.iter().map(probability).collect();
    let is_sure = |at: usize| entrants[at].plain.is_some() && probability[at] >= SURE;
    let has_sure = is_guarded && (0..entrants.len()).any(is_sure);
    let Some((winner, reason)) = winner(entrants, margin, |at| !has_sure || probability[at] >= RULED_OUT) else {
        return Found {
            probability: vec![0.0; entrants.len()],
            as_good: vec![0.0; entrants.len()],
            ..Found::default()
        };
    };
    Found {
        winner: Some((winner, reason)),
        ties: ties(winner, entrants, &within, count, margin.better),
        probability,
        as_good: entrants
            .iter()
            .map(|entrant| as_good(entrant, &entrants[winner], margin))
            .collect(),
    }
}

/// Returns the entrant with the best plain figure, or a preferable one within the margin of that figure: one that never died, meets
/// more of the other targets, has more throughput per GPU, or needs fewer changes. Only those that `may_win` are considered.
fn winner(entrants: &[Contender], margin: Margin, may_win: impl Fn(usize) -> bool) -> Option<(usize, Reason)> {
    // No throughput at all is never the highest.
    let is_nothing = |value: &f64| *value == 0.0 && margin.better == Better::Higher;
    let plain = |at: usize| entrants[at].plain.filter(|value| !is_nothing(value));
    let all = (0..entrants.len()).filter(|at| plain(*at).is_some() && may_win(*at));
    let prefer = |one: usize, other: usize| match (plain(one), plain(other)) {
        (Some(a), Some(b)) if margin.better.prefers(b, a) => other,
        _ => one,
    };
    let best = all.clone().reduce(prefer)?;
    let best_value = plain(best)?;
    // Not only the best search counts. Otherwise one with a lower median could become the best, and something simpler would be near it.
    let may_reach = |at: usize, most: f64| {
        let better = all.clone().filter(|other| prefer(*other, at) == *other);
        let mut middles = better.filter_map(|other| entrants[other].located);
        middles.all(|[middle, _]| margin.holds(most, middle, entrants[at].unit))
    };
    let is_near = |at: &usize| {
        let is_within = |value: f64| margin.holds(value, best_value, entrants[*at].unit);
        let located = entrants[*at].located.filter(|_| *at != best);
        plain(*at).is_some_and(is_within) && located.is_none_or(|[_, most]| may_reach(*at, most))
    };
    let (failed, sound): (Vec<usize>, Vec<usize>) =
        all.clone().filter(is_near).partition(|at| entrants[*at].has_failed);
    let sound = if sound.is_empty() { failed } else { sound };
    let most = sound.iter().map(|at| entrants[*at].other_targets).max()?;
    let meets_most = |at: &usize| entrants[*at].other_targets == most;
    let versatile: Vec<usize> = sound.iter().copied().filter(meets_most).collect();
    let efficient = most_per_gpu(entrants, &versatile, margin);
    let chosen = settled_by_changes(entrants, &efficient, prefer)?;
    let reason = match chosen {
        chosen if chosen == best => Reason::Best,
        _ if !sound.contains(&best) => Reason::FewerFailures(best),
        _ if !versatile.contains(&best) => Reason::MoreTargets(best),
        _ if !efficient.contains(&best) => Reason::MorePerGpu(best),
        // Equal estimates need no reason.
        chosen if entrants[chosen].changes == entrants[best].changes => Reason::Best,
        _ => Reason::FewerChanges(best),
    };
    Some((chosen, reason))
}

/// Returns the entrants whose throughput per GPU is within the margin of the highest, and those for which it is unknown. So an entrant
/// without the figure decides nothing between the others.
fn most_per_gpu(entrants: &[Contender], near: &[usize], margin: Margin) -> Vec<usize> {
    let per_gpu = |at: &usize| entrants[*at].per_gpu;
    let most = near.iter().filter_map(per_gpu).fold(f64::NEG_INFINITY, f64::max);
    let is_kept = |at: &usize| per_gpu(at).is_none_or(|value| value * (1.0 + margin.part) >= most);
    near.iter().copied().filter(is_kept).collect()
}

fn settled_by_changes(entrants: &[Contender], near: &[usize], prefer: impl Fn(usize, usize) -> usize) -> Option<usize> {
    let fewest = near.iter().map(|at| entrants[*at].changes).min()?;
    let least_changed = near.iter().copied().filter(|at| entrants[*at].changes == fewest);
    least_changed.reduce(prefer)
}

/// Returns the ties of the winner. Adds entrants, always the one that raises the probability most, until the winner or one of its ties is
/// within the margin of the best with a probability of 95 %.
fn ties(winner: usize, entrants: &[Contender], within: &[Vec<bool>], count: f64, better: Better) -> Vec<usize> {
    let mut covered = within[winner].clone();
    let mut covered_draws = covered.iter().filter(|covered| **covered).count() as f64;
    let mut ties: Vec<usize> = Vec::new();
    while covered_draws < SURE * count {
        let left = (0..entrants.len()).filter(|at| *at != winner && !ties.contains(at));
        let gains = left.map(|at| {
            let gain = within[at]
                .iter()
                .zip(&covered)
                .filter(|(within, covered)| **within && !**covered);
            (at, gain.count())
        });
        let rank = |(at, gain): &(usize, usize)| {
            (
                *gain,
                entrants[*at]
                    .plain
                    .map(|plain| if better == Better::Higher { plain } else { -plain }),
            )
        };
        let next = gains.reduce(|one, other| if rank(&other) > rank(&one) { other } else { one });
        let Some((next, gain)) = next.filter(|(_, gain)| *gain > 0) else {
            break;
        };
        covered
            .iter_mut()
            .zip(&within[next])
            .for_each(|(covered, within)| *covered |= within);
        covered_draws += gain as f64;
        ties.push(next);
    }
    ties
}

/// Returns the probability that an entrant is at most the margin worse than the winner, among the draws in which either meets the targets.
fn as_good(entrant: &Contender, winner: &Contender, margin: Margin) -> f64 {
    let pairs = entrant.draws.iter().zip(&winner.draws);
    let (mut good, mut all) = (0usize, 0usize);
    for (value, best) in pairs.filter(|(value, best)| !value.is_nan() || !best.is_nan()) {
        all += 1;
        good += usize::from(!value.is_nan() && (best.is_nan() || margin.holds(*value, *best, entrant.unit)));
    }
    good as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_guard_none_that_is_ruled_out_wins_over_one_that_is_sure() {
        let entrant = |plain: f64, draw: f64| Contender {
            plain: Some(plain),
            located: None,
            draws: vec![draw; 100],
            has_failed: false,
            changes: 0,
            other_targets: 0,
            per_gpu: None,
            unit: 0.0,
        };
        let entrants = [entrant(110.0, 90.0), entrant(100.0, 100.0)];
        let margin = Margin {
            part: 0.01,
            better: Better::Higher,
        };
        let winner = |is_guarded: bool| decide(&entrants, margin, is_guarded).winner.map(|(at, _)| at);
        assert_eq!((winner(false), winner(true)), (Some(0), Some(1)));
    }
}
