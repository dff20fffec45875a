//! The state of an optimisation, a fold over the results of starts, and the choice of the next starts.

use super::chance::Draws;
use super::space::{
    Axis, Candidate, CompiledGraphs, EndReason, Estimate, Exclusion, Incumbent, Outlook, Proposal, Reason, Rules,
    Space, Trial,
};
use super::spread;
use super::view::View;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Minimum and maximum number of starts of the initial design if nothing predicts the values.
const SPREAD: (usize, usize) = (6, 10);
/// Number of starts of the initial design if the twin predicts the values.
const SPREAD_PREDICTED: usize = 6;
/// Maximum number of starts of a candidate, unless [`Rules::best_starts`] asks for more starts of the best one.
const MOST_STARTS: usize = 6;
/// Maximum number of starts of a candidate whose searches end undecided.
const MOST_UNDECIDED: usize = 2;
/// Number of standard deviations between an estimate and its bounds. It is large because the surface itself may be wrong.
const BOUND: f64 = 5.0;
/// Least distance, as a compressed logarithm, between the estimate of a candidate that was never started and its upper bound. If the
/// bottleneck is another resource than predicted, the value may be off by a factor of five: in 800 drawn nodes the best candidate lay up to
/// 1.44 below the highest prediction. Without predictions, settings that are good only together lie up to 1.1 below. Residuals of measured
/// candidates do not show this.
const GUESS_BOUND: f64 = 1.5;
/// Probability of fitting into memory below which a candidate is left out.
const HOPELESS: f64 = 0.002;

/// An optimisation under way.
#[derive(Debug, Clone)]
pub struct Optimized {
    pub(super) candidates: Vec<Candidate>,
    pub(super) space: Space,
    pub(super) rules: Rules,
    pub(super) trials: Vec<(usize, Trial)>,
    /// Number of trials that took nothing from the budget.
    pub(super) free: usize,
    /// Server time of each trial, in seconds.
    pub(super) seconds: Vec<f64>,
    /// Time of work so far, in seconds; 0 if it is not known.
    pub(super) elapsed_s: f64,
    pub(super) compiled: CompiledGraphs,
    pub(super) judged: Option<Incumbent>,
    view: OnceLock<View>,
    second: OnceLock<View>,
    /// See [`Optimized::is_unbeatable`].
    pub(super) unbeatable: OnceLock<bool>,
}

impl Optimized {
    /// Returns an optimisation without results. Each candidate has one level for each axis.
    pub fn new(axes: &[Axis], candidates: Vec<Candidate>, rules: Rules) -> Optimized {
        Optimized {
            space: Space::of(axes, &candidates),
            candidates,
            rules,
            trials: Vec::new(),
            free: 0,
            seconds: Vec::new(),
            elapsed_s: 0.0,
            compiled: CompiledGraphs::default(),
            judged: None,
            view: OnceLock::new(),
            second: OnceLock::new(),
            unbeatable: OnceLock::new(),
        }
    }

    /// Adds the result of a start, and the time for which the server existed, in seconds.
    pub fn add(&mut self, candidate: usize, trial: Trial, seconds: f64) {
        self.compiled.note(&self.candidates[candidate], &trial);
        self.trials.push((candidate, trial));
        self.seconds.push(seconds);
        (self.view, self.second, self.unbeatable) = Default::default();
    }

    /// Adds the result of a start that takes nothing from the budget, such as one that was given up without a launch, because another server
    /// that needs less memory did not fit.
    pub fn add_free(&mut self, candidate: usize, trial: Trial) {
        self.add(candidate, trial, 0.0);
        self.free += 1;
    }

    /// Sets the time of work so far. A budget in seconds of the machine is spent by the larger of this time and the times of all starts,
    /// each divided by the number of such servers that fit on the machine: the machine is not always full.
    pub fn set_elapsed(&mut self, seconds: f64) {
        self.elapsed_s = seconds;
    }

    /// Returns the next starts, most useful first and at most `free`, while the candidates in `under_way` have no result yet. The list is
    /// empty if these must end first. An error is the reason for the end of the optimisation. The starts depend only on the arguments and
    /// the results, so a replay asks for equal ones.
    pub fn ask(&self, free: usize, under_way: &[usize]) -> Result<Vec<Proposal>, EndReason> {
        let mut busy = under_way.to_vec();
        let mut proposals: Vec<Proposal> = Vec::new();
        let mut ended = None;
        while proposals.len() < free && ended.is_none() {
            if self.is_spent(&busy) {
                // If the last start brought certainty, the reason is certainty and not the budget.
                ended = Some(match self.outlook() {
                    Outlook::Certain => EndReason::Certain,
                    _ => EndReason::Budget,
                });
            } else if let Some(proposal) = self.next_initial(&busy) {
                busy.push(proposal.candidate);
                proposals.push(proposal);
            } else {
                match self.promising(&mut busy, free - proposals.len()) {
                    Ok(found) => proposals.extend(found),
                    Err(reason) => ended = Some(reason),
                }
                break;
            }
        }
        match ended {
            Some(ended) if proposals.is_empty() && (under_way.is_empty() || ended == EndReason::Certain) => Err(ended),
            _ => Ok(proposals),
        }
    }

    /// Returns the best candidate so far: the winner by [`Optimized::judge`] or, without a judgement, the one with the best mean over its
    /// own starts. `None` before one was measured.
    pub fn best(&self) -> Option<usize> {
        if let Some(judged) = self.judged {
            return Some(judged.winner);
        }
        let known = self
            .measured()
            .into_iter()
            .filter_map(|at| Some((at, self.measured_mean(at)?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// Returns the estimate of a candidate.
    pub fn estimate(&self, candidate: usize) -> Estimate {
        let view = self.view();
        let (ln_value, sd) = view.overall(candidate);
        let is_excluded = |exclusion: &Exclusion| match exclusion {
            Exclusion::CannotWin => {
                let lower = self.lower_bound();
                self.is_unbeatable() || lower.is_some_and(|lower| ln_value + self.reach(candidate, sd) < lower)
            }
            Exclusion::Memory => view.feasibility[candidate].fits < HOPELESS,
            Exclusion::Failed => self.trials_of(candidate).any(|trial| *trial == Trial::Failed),
            Exclusion::Unmet => self.trials_of(candidate).any(|trial| *trial == Trial::Unmet),
        };
        let all = [
            Exclusion::Unmet,
            Exclusion::Failed,
            Exclusion::Memory,
            Exclusion::CannotWin,
        ];
        let excluded = all
            .into_iter()
            .find(is_excluded)
            .filter(|_| self.measured_mean(candidate).is_none());
        let ln_value = view.uncompressed(ln_value);
        Estimate { ln_value, sd, excluded }
    }

    /// Returns the next start of the initial design: the defaults, then candidates that are spread over all. `None` once it is complete.
    fn next_initial(&self, busy: &[usize]) -> Option<Proposal> {
        let started: Vec<usize> = self
            .trials
            .iter()
            .map(|(at, _)| *at)
            .chain(busy.iter().copied())
            .collect();
        if let Some(defaults) = self.rules.defaults.filter(|at| !started.contains(at)) {
            return Some(Proposal {
                candidate: defaults,
                reason: Reason::Defaults,
            });
        }
        if self.is_unbeatable() {
            return None;
        }
        let wanted = match self.is_predicted() {
            true => SPREAD_PREDICTED,
            false => (self.space.len() + 3).clamp(SPREAD.0, SPREAD.1),
        };
        let useful = self.trials.iter().filter_map(|(_, trial)| trial.ln_value());
        if useful.count() + busy.len() >= wanted || started.len() >= 2 * wanted {
            return None;
        }
        let candidate = spread::next(&self.space, &self.works(), &started)?;
        Some(Proposal {
            candidate,
            reason: Reason::Spread,
        })
    }

    /// Returns true if the twin predicts candidates. It knows of settings that are good only together.
    pub(super) fn is_predicted(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.predicted.is_some())
    }

    /// Returns the probability that each candidate works.
    fn works(&self) -> Vec<f64> {
        let works = super::feasibility::feasibility(&self.space, &self.candidates, &self.trials);
        works.iter().map(|works| works.fits * works.meets).collect()
    }

    /// Returns the most promising starts that the budget allows, or the reason why there are none.
    fn promising(&self, busy: &mut Vec<usize>, most: usize) -> Result<Vec<Proposal>, EndReason> {
        let (mut found, ended) = match self.outlook() {
            Outlook::Certain => (Vec::new(), EndReason::Certain),
            Outlook::Undecidable => (Vec::new(), EndReason::Undecidable),
            Outlook::Spent if (0..self.candidates.len()).any(|at| self.may_start(at)) => {
                (Vec::new(), EndReason::Starts)
            }
            Outlook::Spent => (Vec::new(), EndReason::Exhausted),
            Outlook::Finalists => (
                self.most_promising(busy, most, Some(self.measured())),
                EndReason::Exhausted,
            ),
            Outlook::Open => (self.most_promising(busy, most, None), EndReason::Exhausted),
        };
        if found.is_empty() {
            let candidate = self.best_to_repeat().ok_or(ended)?;
            let reason = Reason::Finalist;
            let is_under_way = busy.contains(&candidate);
            found.extend((!is_under_way).then_some(Proposal { candidate, reason }));
        }
        let within_budget = found.into_iter().take_while(|proposal| {
            let is_within = !self.is_spent(busy);
            busy.push(proposal.candidate);
            is_within
        });
        Ok(within_budget.collect())
    }

    pub(super) fn reason(&self, candidate: usize) -> Reason {
        let view = self.view();
        let (ln_value, sd) = view.overall(candidate);
        match self.trials_of(candidate).next() {
            Some(_) => Reason::Finalist,
            None => Reason::Promising {
                ln_value: view.uncompressed(ln_value),
                ln_upper: view.uncompressed(ln_value + self.reach(candidate, sd)),
                ln_best: view.uncompressed(self.lower_bound().unwrap_or(ln_value)),
            },
        }
    }

    /// Returns the best candidate, while it lacks starts that the rules ask for.
    fn best_to_repeat(&self) -> Option<usize> {
        let wanted = self.rules.best_starts.unwrap_or(1);
        let lacks_some = |at: &usize| self.trials_of(*at).count() < wanted && self.does_work(*at);
        self.best().filter(lacks_some)
    }

    /// Returns false if a candidate was started as often as allowed, a start of it gave no value, or it cannot be better than the best.
    pub(super) fn may_start(&self, candidate: usize) -> bool {
        let undecided = self
            .trials_of(candidate)
            .filter(|trial| matches!(trial, Trial::Undecided { .. }));
        self.does_work(candidate)
            && undecided.count() < MOST_UNDECIDED
            && self.trials_of(candidate).count() < MOST_STARTS
            && !self.is_beaten(candidate)
    }

    fn is_beaten(&self, candidate: usize) -> bool {
        let beaten = self
            .trials_of(candidate)
            .filter(|trial| matches!(trial, Trial::Beaten { .. }));
        let bound = beaten.filter_map(Trial::upper).reduce(f64::min);
        let best = || self.measured_mean(self.best()?);
        self.measured_mean(candidate).is_none() && bound.is_some_and(|bound| best().is_some_and(|best| bound <= best))
    }

    fn does_work(&self, candidate: usize) -> bool {
        let fails = |trial: &Trial| matches!(trial, Trial::DidNotFit | Trial::Failed | Trial::Unmet);
        !self.trials_of(candidate).any(fails)
    }

    pub(super) fn draws(&self, view: &View, winner: usize, most: usize) -> Draws {
        let is_known = |at: usize| self.measured_mean(at).is_some();
        let limit = |at: usize| (self.reached(at), self.candidates[at].most);
        Draws::of(view, &self.space, winner, is_known, |at| self.bound(at), limit, most)
    }

    /// Returns the difference between an estimate and its upper bound.
    fn reach(&self, candidate: usize, sd: f64) -> f64 {
        let is_guess = self.trials_of(candidate).next().is_none();
        (BOUND * sd).max(if is_guess { GUESS_BOUND } else { 0.0 })
    }

    /// Returns the lower bound of the best candidate's value.
    fn lower_bound(&self) -> Option<f64> {
        let (mean, sd) = self.view().overall(self.best()?);
        Some(mean - BOUND * sd)
    }

    pub(super) fn view(&self) -> &View {
        self.view
            .get_or_init(|| View::of(&self.space, &self.candidates, &self.trials))
    }

    /// Returns a second opinion. The first is asked after each start, so the moment at which it suffices is often a lucky draw of shapes.
    pub(super) fn second(&self) -> &View {
        self.second.get_or_init(|| self.view().again(&self.space))
    }

    pub(super) fn trials_of(&self, candidate: usize) -> impl Iterator<Item = &Trial> {
        let trials = self.trials.iter().filter(move |(at, _)| *at == candidate);
        trials.map(|(_, trial)| trial)
    }

    /// Returns the lowest upper bound that starts of a candidate showed; `None` if another start of it was measured.
    pub(super) fn bound(&self, candidate: usize) -> Option<f64> {
        let bounds = self.trials_of(candidate).filter_map(Trial::upper);
        bounds
            .reduce(f64::min)
            .filter(|_| self.measured_mean(candidate).is_none())
            .map(|bound| self.view().compressed(bound))
    }

    /// Returns the candidates that were measured, in order. They are few, so a search for the best needs to look only at them.
    pub(super) fn measured(&self) -> BTreeSet<usize> {
        let measured = self.trials.iter().filter(|(_, trial)| trial.ln_value().is_some());
        measured.map(|(at, _)| *at).collect()
    }

    /// Returns the mean over the starts on which a candidate was measured; `None` if there are none.
    pub(super) fn measured_mean(&self, candidate: usize) -> Option<f64> {
        let values = self.trials_of(candidate).filter_map(Trial::ln_value);
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }
}
