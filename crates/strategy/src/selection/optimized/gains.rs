//! The gains that are expected from further starts, and the most promising of these.

use super::chance::{bounded, gain};
use super::space::Proposal;
use super::spread;
use super::state::Optimized;
use std::collections::BTreeSet;

/// Assumed probability that the first probe of a new candidate shows that it cannot win.
const P_LOST_AT_FIRST_PROBE: f64 = 0.7;
/// Extra weight of a candidate whose pairs of levels were never started together: settings that are good only in combination are found in
/// no other way.
const NOVELTY: f64 = 2.0;
/// Maximum number of candidates from which further proposals of a batch are chosen.
const SHORTLIST: usize = 400;

impl Optimized {
    /// Returns the expected gain in ln(best value) from `seconds` more server time. Once the answer's model has judged the measured
    /// candidates, only unmeasured ones count.
    pub fn expected_gain(&self, seconds: f64) -> f64 {
        let Some(best) = self.best() else { return 0.0 };
        let mut left = seconds;
        let scored = self.scored(&[], None).into_iter().map(|(at, _)| at);
        let scored = scored.filter(|at| self.judged.is_none() || self.measured_mean(*at).is_none());
        let affordable = scored.take_while(|at| {
            left -= self.cost(*at, 0.5);
            left >= 0.0
        });
        let affordable: Vec<usize> = affordable.collect();
        self.draws(self.view(), best, usize::MAX).gain(best, &affordable)
    }

    /// Returns at most `most` starts with the largest expected gain for their cost, of all candidates or only of those in `among`.
    pub(super) fn most_promising(&self, busy: &[usize], most: usize, among: Option<BTreeSet<usize>>) -> Vec<Proposal> {
        let mut busy = busy.to_vec();
        let mut proposals = Vec::new();
        let mut shortlist: Option<Vec<usize>> = among.map(|among| among.into_iter().collect());
        while proposals.len() < most {
            let scored = self.scored(&busy, shortlist.as_deref());
            let Some((candidate, _)) = scored.first().copied() else {
                break;
            };
            proposals.push(Proposal {
                candidate,
                reason: self.reason(candidate),
            });
            busy.push(candidate);
            shortlist.get_or_insert_with(|| scored.iter().take(SHORTLIST).map(|(at, _)| *at).collect());
        }
        proposals
    }

    /// Returns the candidates that may be started, most promising first, each with its expected gain per second of server time.
    fn scored(&self, busy: &[usize], among: Option<&[usize]>) -> Vec<(usize, f64)> {
        let view = self.view();
        let all: Vec<usize> = among.map_or_else(|| (0..self.candidates.len()).collect(), <[usize]>::to_vec);
        let beliefs = match busy.is_empty() {
            true => {
                let of = |beliefs: &Vec<_>| all.iter().map(|at| beliefs[*at]).collect();
                view.beliefs.iter().map(of).collect()
            }
            false => view.after(&self.space, busy, &all),
        };
        let means: Vec<(usize, f64)> = self.measured().into_iter().map(|at| (at, view.overall(at).0)).collect();
        let best_but = |at: usize| {
            let others = means.iter().filter(|(other, _)| *other != at);
            others.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(other, _)| *other)
        };
        let best = best_but(usize::MAX);
        let second = best.and_then(best_but);
        let started = self.trials.iter().map(|(at, _)| *at).chain(busy.iter().copied());
        // The twin knows of settings that are good only together.
        let new_share = (!self.is_predicted()).then(|| spread::new_share(&self.space, started));
        let mut scored = Vec::new();
        for (i, at) in all.iter().enumerate() {
            if busy.contains(at) || !self.may_start(*at) {
                continue;
            }
            let other = if best == Some(*at) { second } else { best };
            let is_known = self.measured_mean(*at).is_some();
            let bound = self.bound(*at);
            let gains = view.surfaces.iter().zip(&beliefs).zip(&view.beliefs);
            let gains = gains.map(|((surface, beliefs), now)| {
                let noise = surface.start_variance() + 1e-4;
                let other = other.map_or(now[*at].mean - 1.0, |other| {
                    self.reached(other).unwrap_or(now[other].mean)
                });
                let belief = bounded(beliefs[i], bound);
                gain(belief, noise, other, is_known, self.candidates[*at].most)
            });
            let gain = gains.sum::<f64>() / view.surfaces.len().max(1) as f64;
            let works = view.feasibility[*at];
            let works = if is_known { 1.0 } else { works.fits * works.meets };
            let lost = if is_known { 0.0 } else { P_LOST_AT_FIRST_PROBE };
            let novelty = NOVELTY * new_share.as_ref().map_or(0.0, |new_share| new_share(*at));
            let gain = gain * (1.0 + novelty * works);
            scored.push((*at, gain * works / self.cost(*at, lost)));
        }
        scored.sort_by(|(a, gain), (b, other)| other.total_cmp(gain).then(a.cmp(b)));
        scored
    }
}
