//! The optimisation as a fold over the results of starts.

use super::ask::{Ask, Ended, Proposal, Reason};
use super::estimate::Estimate;
use super::rules::{Budget, Rules};
use super::space::{Axis, Candidate};
use super::trial::Trial;

/// An optimisation under way.
#[derive(Debug, Clone)]
pub struct Optimized {
    axes: Vec<Axis>,
    candidates: Vec<Candidate>,
    rules: Rules,
    trials: Vec<(usize, Trial, f64)>,
}

impl Optimized {
    /// An optimisation without results. Each candidate has one level for each axis.
    pub fn new(axes: Vec<Axis>, candidates: Vec<Candidate>, rules: Rules) -> Optimized {
        Optimized {
            axes,
            candidates,
            rules,
            trials: Vec::new(),
        }
    }

    /// Takes in the result of a start and the seconds that the server existed.
    pub fn add(&mut self, candidate: usize, trial: Trial, seconds: f64) {
        self.trials.push((candidate, trial, seconds));
    }

    /// Replaces what is predicted of the candidates, for example after the twin was fitted again.
    pub fn predict(&mut self, candidates: Vec<Candidate>) {
        self.candidates = candidates;
    }

    /// Returns the next starts, at most `free`, while the candidates in `under_way` have no result yet. All depends only on the arguments
    /// and the results, so a replay asks for the same.
    pub fn ask(&self, free: usize, under_way: &[usize]) -> Ask {
        if self.is_spent(under_way) {
            return Ask::Ended(Ended::Budget);
        }
        let is_new = |at: &usize| !under_way.contains(at) && self.trials.iter().all(|(of, ..)| of != at);
        let first = self.rules.defaults.into_iter().chain(0..self.candidates.len());
        let proposals: Vec<Proposal> = first
            .filter(is_new)
            .take(free)
            .map(|candidate| Proposal {
                candidate,
                reason: Reason::Spread,
            })
            .collect();
        match proposals.is_empty() && under_way.is_empty() {
            true => Ask::Ended(Ended::Exhausted),
            false => Ask::Start(proposals),
        }
    }

    /// The best candidate as far as is known; None before one was measured. A challenger's first probe is at its load.
    pub fn best(&self) -> Option<usize> {
        let measured = self.trials.iter().filter_map(|(at, trial, _)| match trial {
            Trial::Measured { ln_value, .. } => Some((*at, *ln_value)),
            _ => None,
        });
        measured.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// The estimate of a candidate.
    pub fn estimate(&self, candidate: usize) -> Estimate {
        let _ = (candidate, &self.axes);
        Estimate {
            ln_value: 0.0,
            sd: f64::INFINITY,
            excluded: None,
        }
    }

    /// The probability that the best known candidate lies within the margin of the best of all.
    pub fn chance_of_best(&self) -> f64 {
        0.0
    }

    /// The gain of the logarithm of the best one's value that so many more seconds of servers are expected to bring.
    pub fn expected_gain(&self, seconds: f64) -> f64 {
        let _ = seconds;
        0.0
    }

    fn is_spent(&self, under_way: &[usize]) -> bool {
        let spent = |weight: &dyn Fn(usize) -> f64| -> f64 {
            let done = self.trials.iter().map(|(at, _, seconds)| seconds * weight(*at));
            let expected = under_way.iter().map(|at| self.expected_s(*at) * weight(*at));
            done.sum::<f64>() + expected.sum::<f64>()
        };
        match self.rules.budget {
            None => false,
            Some(Budget::ServerSeconds(most)) => spent(&|_| 1.0) >= most,
            Some(Budget::GpuSeconds(most)) => spent(&|at| f64::from(self.candidates[at].gpus)) >= most,
            Some(Budget::Starts(most)) => self.trials.len() + under_way.len() >= most,
        }
    }

    fn expected_s(&self, at: usize) -> f64 {
        self.candidates[at].start_s + self.candidates[at].measure_s
    }
}
