//! Searches an ordered axis (versions, commits, flags) for the entry at which a metric changed.
//!
//! Probabilistic bisection (Waeber, Frazier and Henderson 2013): both ends are measured first, then the entry that divides the probability
//! of the change into halves, and an end again now and then. Later starts can correct a step that noise misled, so the search may go back.
//! [`Posterior`] infers the change from the starts. [`Bisection`] decides which entry is next, and when the answer is good enough.

use crate::stats::{Cholesky, Estimate, dot, student_two_sided};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Position of the change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BisectionResult {
    /// Between two entries that start.
    Between(Bracket),
    /// The two ends do not differ by more than noise explains. The value is the logarithm of their ratio, new over old.
    Unchanged(Estimate),
    /// Fewer than two entries start, or the starts were spent before both ends were measured.
    Unstartable,
}

/// A stretch of the axis that contains the change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// The last entry that is known to be before the change.
    pub old: usize,
    /// The first entry that is known to be after the change.
    pub new: usize,
    /// True if no entry that may start lies between the two, so that the answer is as narrow as possible.
    pub is_exact: bool,
    /// The probability, by the model, that the change lies here.
    pub probability: f64,
    /// The logarithm of the ratio, new over old.
    pub change: Estimate,
    /// Twice the probability, by the model, that the change has the other sign. Above 0.05 there may be no change to find.
    pub doubt: f64,
}

/// The probability at which an exact answer is good enough. The model's noise has wide tails, so about one such answer in a hundred is
/// wrong.
const SURE: f64 = 0.93;
/// The probability of the stretch that is reported when the starts are spent.
const SURE_WHEN_SPENT: f64 = 0.98;
/// Largest doubt with which the ends count as different. It is lenient: a false difference costs starts, but the answer states the doubt.
const DOUBT: f64 = 0.1;
/// Minimum number of measured starts of each end before anything is concluded.
const FEWEST_AT_END: usize = 2;
/// Number of measured starts of each end after which ends that still do not differ count as equal.
const MOST_AT_END: usize = 10;
/// Number of failures of an end that never started, after which the next entry becomes the end.
const END_FAILURES: usize = 2;
/// Number of starts in a row between the ends after which an end is measured again, so that drift of the node is not taken for a change.
const AWAY: usize = 4;

/// A bisection under way.
#[derive(Debug, Clone)]
pub struct Bisection {
    /// Number of entries of the axis; the first is the old end.
    entries: usize,
    max_starts: usize,
    /// Each start's entry, and the mean logarithm of its runs ([`crate::stats::Start::mean`]); `None` if it failed.
    results: Vec<(usize, Option<f64>)>,
}

impl Bisection {
    /// Returns a bisection of `entries` entries, at least two, without measurements. It asks for at most `max_starts` starts, failed ones
    /// included.
    pub fn new(entries: usize, max_starts: usize) -> Bisection {
        Bisection {
            entries,
            max_starts,
            results: Vec::new(),
        }
    }

    /// Adds the mean logarithm of a start's runs; `None` if it did not start, or died before it was measured.
    pub fn add(&mut self, entry: usize, log: Option<f64>) {
        self.results.push((entry, log));
    }

    /// Returns the position of the change, or the entry that must be started next to find it.
    pub fn ask(&self) -> Result<BisectionResult, usize> {
        let Some(ends) = self.ends() else {
            return Ok(BisectionResult::Unstartable);
        };
        let is_spent = self.results.len() >= self.max_starts;
        let [old, new] = ends.map(|end| self.starts(end));
        let is_searching = self
            .results
            .iter()
            .any(|(entry, _)| ends[0] < *entry && *entry < ends[1]);
        if old.min(new) == 0 && is_spent {
            return Ok(BisectionResult::Unstartable);
        }
        if old.min(new) < FEWEST_AT_END && !is_spent {
            return Err(self.next_end(ends));
        }
        let posterior = self.posterior(ends);
        if !is_searching && posterior.doubt > DOUBT {
            return match old < MOST_AT_END && !is_spent {
                true => Err(self.next_end(ends)),
                false => Ok(BisectionResult::Unchanged(posterior.change)),
            };
        }
        match self.bracket(ends, &posterior, SURE) {
            bracket if bracket.is_exact => Ok(BisectionResult::Between(bracket)),
            _ if is_spent => Ok(BisectionResult::Between(self.bracket(
                ends,
                &posterior,
                SURE_WHEN_SPENT,
            ))),
            _ if self.away_from(ends) >= AWAY => Err(self.next_end(ends)),
            _ => Err(self.divider(ends, &posterior)),
        }
    }

    /// Returns the answer if no further start is allowed; `None` before both ends were measured.
    pub fn stopped(mut self) -> Option<BisectionResult> {
        self.max_starts = self.results.len();
        self.ask()
            .ok()
            .filter(|located| *located != BisectionResult::Unstartable)
    }

    /// Returns the outermost entries that are not known to fail; `None` if there are fewer than two.
    fn ends(&self) -> Option<[usize; 2]> {
        let is_end = |entry: &usize| self.starts(*entry) > 0 || self.failures(*entry) < END_FAILURES;
        let old = (0..self.entries).find(is_end)?;
        let new = (0..self.entries).rev().find(is_end)?;
        (old < new).then_some([old, new])
    }

    /// Returns the end to measure next, in the order ABBA.
    fn next_end(&self, [old, new]: [usize; 2]) -> usize {
        match self.starts(old).cmp(&self.starts(new)) {
            Ordering::Less => old,
            Ordering::Greater => new,
            Ordering::Equal if self.starts(old).is_multiple_of(2) => old,
            Ordering::Equal => new,
        }
    }

    /// Number of starts since an end was last started.
    fn away_from(&self, ends: [usize; 2]) -> usize {
        self.results
            .iter()
            .rev()
            .take_while(|(entry, _)| !ends.contains(entry))
            .count()
    }

    fn posterior(&self, [old, new]: [usize; 2]) -> Posterior {
        let measured = self
            .results
            .iter()
            .enumerate()
            .filter(|(_, (entry, _))| (old..=new).contains(entry))
            .filter_map(|(start, (entry, log))| {
                Some(StartObservation {
                    entry: entry - old,
                    log: (*log)?,
                    start,
                })
            });
        Posterior::of(new - old + 1, &measured.collect::<Vec<_>>())
    }

    /// Returns the shortest stretch, by the number of entries that may start, that contains the change with probability `sure`.
    fn bracket(&self, [old, new]: [usize; 2], posterior: &Posterior, sure: f64) -> Bracket {
        let alive: Vec<usize> = (old..=new).filter(|entry| self.may_start(*entry)).collect();
        let probability = |(first, last): (usize, usize)| posterior.after[first - old..last - old].iter().sum::<f64>();
        let stretches = |gaps: usize| alive.iter().copied().zip(alive[gaps..].iter().copied());
        let likeliest = |gaps: usize| stretches(gaps).max_by(|a, b| probability(*a).total_cmp(&probability(*b)));
        let found = (1..alive.len())
            .find_map(|gaps| Some((gaps, likeliest(gaps).filter(|found| probability(*found) >= sure)?)));
        let (gaps, (first, last)) = found.unwrap_or((alive.len() - 1, (old, new)));
        Bracket {
            old: first,
            new: last,
            is_exact: gaps == 1,
            probability: probability((first, last)),
            change: posterior.change,
            doubt: posterior.doubt,
        }
    }

    /// Returns the entry between the ends that halves the probability best; among equals the one with the fewest starts.
    fn divider(&self, [old, new]: [usize; 2], posterior: &Posterior) -> usize {
        let imbalance = |entry: usize| {
            let before = posterior.after[..entry - old].iter().sum::<f64>();
            // Rounded, so that rounding errors of the sum do not decide.
            ((before - 0.5).abs() * 1e9).round() as u64
        };
        let between = (old + 1..new).filter(|entry| self.may_start(*entry));
        between
            .min_by_key(|entry| (imbalance(*entry), self.starts(*entry)))
            .unwrap_or(old)
    }

    /// Number of measured starts of an entry.
    fn starts(&self, entry: usize) -> usize {
        self.results_of(entry).flatten().count()
    }

    fn failures(&self, entry: usize) -> usize {
        self.results_of(entry).filter(Option::is_none).count()
    }

    fn results_of(&self, entry: usize) -> impl Iterator<Item = Option<f64>> {
        let of_entry = self.results.iter().filter(move |(other, _)| *other == entry);
        of_entry.map(|(_, log)| *log)
    }

    /// Returns true if an entry may be started. A failure without any success rules it out, because a neighbour serves as well.
    fn may_start(&self, entry: usize) -> bool {
        self.starts(entry) > 0 || self.failures(entry) == 0
    }
}

// Finds the position and size of a metric's change along an axis, given noisy measurements at some entries.
//
// The model: one level up to the change and another after it, a random walk of the node from start to start, and normal noise of unknown
// size. There is one Bayesian linear regression with a normal-inverse-gamma prior (Gelman et al., Bayesian Data Analysis, 3rd edition,
// sections 14.7 and 14.8) for each position of the change. All positions are equally likely beforehand.

/// One start of one entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StartObservation {
    pub entry: usize,
    /// The mean logarithm of its runs.
    pub log: f64,
    /// Its index among all starts, failed ones included.
    pub start: usize,
}

/// Prior noise of one start, runs included, as a standard deviation of the logarithm.
const NOISE: f64 = 0.02;
/// Number of starts that this prior is worth.
const BELIEF: f64 = 4.0;
/// Prior standard deviation of the change, in units of the noise. It is so wide that the data decide.
const CHANGE: f64 = 10.0;
/// Standard deviation of the node's drift from one start to the next, in units of the noise.
const STEP: f64 = 0.2;

/// Position and size of the change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    /// For each entry but the last, the probability that the change comes right after it.
    pub after: Vec<f64>,
    /// The change of the logarithm.
    pub change: Estimate,
    /// Twice the probability that the change has the other sign; small if there certainly is a change.
    pub doubt: f64,
}

impl Posterior {
    /// Infers the posterior over `entries` entries, at least two, from at least one observation. The observations are in the order of their
    /// starts.
    pub fn of(entries: usize, observations: &[StartObservation]) -> Posterior {
        let data = RegressionData::of(observations);
        let is_observed = |entry: usize| observations.iter().any(|observation| observation.entry == entry);
        let mut fits: Vec<Fit> = Vec::with_capacity(entries - 1);
        for after in 0..entries - 1 {
            // Positions between the same observations cannot be distinguished.
            let like_before = fits.last().copied().filter(|_| !is_observed(after));
            fits.push(like_before.unwrap_or_else(|| data.fit(|entry| entry > after)));
        }
        let best = fits.iter().map(|fit| fit.log_weight).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = fits.iter().map(|fit| (fit.log_weight - best).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let after: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let mean = |value: &dyn Fn(&Fit) -> f64| fits.iter().zip(&after).map(|(fit, p)| p * value(fit)).sum::<f64>();
        let log = mean(&|fit| fit.change);
        let standard = mean(&|fit| fit.variance + (fit.change - log).powi(2)).sqrt();
        let below_zero = mean(&|fit| {
            let half = student_two_sided(fit.change / fit.variance.sqrt(), data.freedom) / 2.0;
            if fit.change > 0.0 { half } else { 1.0 - half }
        });
        Posterior {
            after,
            change: Estimate::new(log, standard, data.freedom),
            doubt: 2.0 * below_zero.min(1.0 - below_zero),
        }
    }
}

/// The regression for one position of the change.
#[derive(Debug, Clone, Copy)]
struct Fit {
    log_weight: f64,
    change: f64,
    variance: f64,
}

/// The observations, transformed so that their noise is independent, with the unknown level removed.
struct RegressionData {
    entries: Vec<usize>,
    /// Factor of the noise's covariance, in units of its variance.
    factor: Cholesky,
    /// The transformed constant, scaled to length 1.
    level: Vec<f64>,
    logs: Vec<f64>,
    freedom: f64,
}

impl RegressionData {
    fn of(observations: &[StartObservation]) -> RegressionData {
        let covariance = |i: usize, j: usize| {
            let shared = observations[i].start.min(observations[j].start) as f64;
            STEP * STEP * shared + f64::from(u8::from(i == j))
        };
        let mut data = RegressionData {
            entries: observations.iter().map(|observation| observation.entry).collect(),
            factor: Cholesky::of(observations.len(), covariance).expect("each has noise of its own"),
            level: Vec::new(),
            logs: Vec::new(),
            freedom: BELIEF + observations.len() as f64 - 1.0,
        };
        let level = data.factor.solve(|_| 1.0);
        let length = dot(&level, &level).sqrt();
        data.level = level.into_iter().map(|value| value / length).collect();
        // The first value is subtracted beforehand, because a large level would cost precision.
        data.logs = data.without_level(data.factor.solve(|i| observations[i].log - observations[0].log));
        data
    }

    fn without_level(&self, values: Vec<f64>) -> Vec<f64> {
        let share = dot(&self.level, &values);
        values
            .iter()
            .zip(&self.level)
            .map(|(value, level)| value - share * level)
            .collect()
    }

    fn fit(&self, is_after: impl Fn(usize) -> bool) -> Fit {
        let side = self.without_level(self.factor.solve(|i| f64::from(u8::from(is_after(self.entries[i])))));
        let precision = dot(&side, &side) + CHANGE.powi(-2);
        let product = dot(&side, &self.logs);
        let change = product / precision;
        let squares = BELIEF * NOISE * NOISE + (dot(&self.logs, &self.logs) - change * product).max(0.0);
        Fit {
            log_weight: -0.5 * precision.ln() - 0.5 * self.freedom * squares.ln(),
            change,
            variance: squares / self.freedom / precision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bisects an axis without noise; entries in `broken` do not start.
    fn run(
        (entries, max_starts): (usize, usize),
        broken: &[usize],
        log: impl Fn(usize) -> f64,
    ) -> (BisectionResult, Vec<usize>) {
        let mut bisected = Bisection::new(entries, max_starts);
        let mut started = Vec::new();
        loop {
            match bisected.ask() {
                Ok(found) => return (found, started),
                Err(entry) => {
                    started.push(entry);
                    bisected.add(entry, (!broken.contains(&entry)).then(|| log(entry)));
                }
            }
        }
    }

    #[test]
    fn the_ends_come_first() {
        let (_, started) = run((128, 40), &[], |entry| if entry > 70 { 0.9f64.ln() } else { 0.0 });
        assert_eq!(started[..4], [0, 127, 127, 0]);
        assert_eq!(started[4], 63);
    }

    #[test]
    fn nothing_changed_is_an_answer() {
        let (found, started) = run((128, 40), &[], |_| 5.0);
        assert!(matches!(found, BisectionResult::Unchanged(change) if change.log == 0.0));
        assert_eq!(started.len(), 20);
    }

    #[test]
    fn an_end_that_does_not_start_gives_way_to_the_next() {
        let broken = [0, 1, 7];
        let (found, started) = run((8, 30), &broken, |entry| if entry > 4 { -0.2 } else { 0.0 });
        assert!(
            matches!(
                found,
                BisectionResult::Between(Bracket {
                    old: 4,
                    new: 5,
                    is_exact: true,
                    ..
                })
            ),
            "{found:?}"
        );
        assert_eq!(started[..5], [0, 0, 1, 1, 2]);
        assert_eq!(run((3, 30), &[0, 1, 2], |_| 0.0).0, BisectionResult::Unstartable);
        assert_eq!(run((3, 3), &[0, 2], |_| 0.0).0, BisectionResult::Unstartable);
    }

    proptest! {
        #[test]
        fn without_noise_it_is_exact_whatever_is_broken(
            entries in 2usize..100, place in 0.0f64..1.0, broken in prop::collection::vec(0.0f64..1.0, 0..12), drop in 0.05f64..0.5,
        ) {
            let at = |share: f64, of: usize| (share * of as f64) as usize;
            let after = at(place, entries - 1);
            // The first and the last entry start, so that there is an answer.
            let broken: Vec<usize> = broken.iter().map(|share| 1 + at(*share, entries)).filter(|entry| entry + 1 < entries).collect();
            let (found, started) = run((entries, 60), &broken, |entry| if entry > after { -drop } else { 0.0 });
            let old = (0..=after).rev().find(|entry| !broken.contains(entry));
            let new = (after + 1..entries).find(|entry| !broken.contains(entry));
            let BisectionResult::Between(bracket) = found else { panic!("{found:?}") };
            prop_assert_eq!((Some(bracket.old), Some(bracket.new), bracket.is_exact), (old, new, true));
            prop_assert!(started.len() <= 60);
            prop_assert!(bracket.change.interval(0.05).expect("known").contains(-drop));
        }

        #[test]
        fn any_answers_end_it_within_the_starts(seen in prop::collection::vec(prop::option::of(-0.1f64..0.1), 30), entries in 1usize..40) {
            let mut bisected = Bisection::new(entries, 30);
            for log in seen.into_iter().chain([None]) {
                match bisected.ask() {
                    Err(entry) => {
                        prop_assert!(entry < entries && bisected.results.len() < 30);
                        bisected.add(entry, log);
                    }
                    Ok(_) => return Ok(()),
                }
            }
            prop_assert!(false, "still asking");
        }
    }
}

#[cfg(test)]
mod changepoint_tests {
    use super::*;
    use proptest::prelude::*;

    fn observations(all: &[(usize, f64, usize)]) -> Vec<StartObservation> {
        all.iter()
            .map(|(entry, log, start)| StartObservation {
                entry: *entry,
                log: *log,
                start: *start,
            })
            .collect()
    }

    #[test]
    fn as_a_multivariate_t_weighs_them() {
        // scipy 1.17.1: multivariate_t.logpdf of the differences of neighbours, which do not depend on the level, with BELIEF degrees of
        // freedom and the shape NOISE^2 D (covariance + CHANGE^2 s s') D'; the change's mean and variance by numpy's linear algebra.
        let data = [
            (0, 7.010, 0),
            (5, 6.951, 1),
            (5, 6.963, 2),
            (0, 7.002, 3),
            (2, 6.998, 4),
            (3, 6.961, 6),
        ];
        let found = Posterior::of(6, &observations(&data));
        let expected = [
            0.08454644114918443,
            0.08454644114918443,
            0.6877970925267876,
            0.07155501258742185,
            0.07155501258742185,
        ];
        for (found, expected) in found.after.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert!(
            (found.change.log - -0.042429892760766794).abs() < 1e-6,
            "{}",
            found.change.log
        );
        let standard = found.change.error.expect("known").standard;
        assert!((standard - 0.013508680685588715).abs() < 1e-6, "{standard}");
        assert!((found.doubt - 0.016088642723513846).abs() < 1e-6, "{}", found.doubt);
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_a_new_scale_changes_nothing(
            data in prop::collection::vec((0usize..10, -0.1f64..0.1), 1..15), shift in -20.0f64..20.0,
        ) {
            let all: Vec<_> = data.iter().enumerate().map(|(start, (entry, log))| (*entry, *log, start)).collect();
            let moved: Vec<_> = all.iter().map(|(entry, log, start)| (*entry, log + shift, *start)).collect();
            let (found, moved) = (Posterior::of(10, &observations(&all)), Posterior::of(10, &observations(&moved)));
            prop_assert!((found.after.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (a, b) in found.after.iter().zip(&moved.after) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            prop_assert!((0.0..=1.0).contains(&found.doubt));
        }
    }
}
