//! The part of the answer's document about an optimisation.

use super::trials::{judged, sign};
use super::{BegunStart, OptimizationProgress};
use vsweep_answer::{Answer, CandidateState, CandidateSummary, CompletedStart, Estimate, OptimizationState};
use vsweep_metrics::median;
use vsweep_strategy::selection::optimized::{self, Exclusion, Predicted, Trial};

/// Standard deviations from the mean to the ends of the 95 % interval of a normal distribution.
const Z_95: f64 = 1.96;
const HOUR_S: f64 = 3600.0;
/// An estimate is given only if the ends of its interval lie within this factor of it.
const WIDEST: f64 = 20.0;
/// Largest rounding error of a logarithm.
const ROUNDING: f64 = 1e-9;

impl OptimizationProgress<'_> {
    /// Returns the state of the optimisation as data, with the winner of `answer`.
    pub fn found(&self, answer: &Answer) -> OptimizationState {
        let mut optimized = self.optimized.clone();
        optimized.judge(judged(self.record, answer));
        let best = optimized.best();
        let defaults = self.record.rules.defaults;
        let asked = || self.begun.iter().filter(|start| start.reason.is_some());
        let first_figure = |at: Option<usize>| answer.first_figure(&self.id(at?));
        OptimizationState {
            question: self.question.clone(),
            ended: self.ended(),
            certainty: self.record.rules.certainty,
            best: best.map(|at| self.id(at)),
            probability: optimized.chance_of_best(),
            starts: asked().filter(|start| start.is_launched).count(),
            more_starts: 0,
            seconds: asked().filter_map(|start| Some(start.result?.1)).sum(),
            grid_seconds: self.record.is_predicted.then(|| self.grid_seconds()),
            hour_gain: (sign(self.better) * optimized.expected_gain(HOUR_S)).exp_m1(),
            defaults: defaults.map(|at| self.id(at)),
            over_defaults: first_figure(best)
                .zip(first_figure(defaults))
                .map(|(best, other)| best / other)
                .filter(|ratio| ratio.is_finite()),
            prediction_error: self.prediction_error(),
            candidates: (0..self.record.contestants.len())
                .map(|at| self.candidate(at, answer))
                .collect(),
            history: self.measured().filter_map(|start| self.ended_start(start)).collect(),
        }
    }

    /// Returns a start as data, if it has all its results.
    fn ended_start(&self, start: &BegunStart) -> Option<CompletedStart> {
        let (trial, seconds) = start.result?;
        let value = match trial {
            Trial::Measured { ln_value, sd } => Some(self.figure(ln_value, sd)),
            _ => None,
        };
        let config = self.id(start.contestant);
        Some(CompletedStart { config, seconds, value })
    }

    /// Returns the seconds that one start of every server would take. A server that was started counts with the duration of its first
    /// start. Another one counts with its prediction, times the ratio of measured to predicted durations so far.
    fn grid_seconds(&self) -> f64 {
        let predicted = |at: usize| {
            let candidate = &self.record.contestants[at].candidate;
            candidate.start_s + candidate.measure_s
        };
        let taken = self.begun.iter().filter_map(|start| match start.result? {
            (Trial::Measured { .. }, seconds) => Some((seconds, predicted(start.contestant))),
            _ => None,
        });
        let (seconds, expected) = taken.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let ratio = if seconds > 0.0 && expected > 0.0 {
            seconds / expected
        } else {
            1.0
        };
        let taken = |at: usize| {
            let mut launched = self
                .begun
                .iter()
                .filter(|start| start.contestant == at && start.is_launched);
            launched.find_map(|start| Some(start.result?.1))
        };
        let each = (0..self.record.contestants.len()).map(|at| taken(at).unwrap_or_else(|| predicted(at) * ratio));
        each.sum()
    }

    fn id(&self, at: usize) -> String {
        self.record.contestants[at].server.to_string()
    }

    /// Returns the starts that count, without those of an earlier plan that lack a figure.
    fn measured(&self) -> impl Iterator<Item = &BegunStart> {
        self.begun.iter().filter(|start| !start.lacks_figures)
    }

    fn begun_of(&self, at: usize) -> Vec<&BegunStart> {
        self.measured().filter(|start| start.contestant == at).collect()
    }

    fn candidate(&self, at: usize, answer: &Answer) -> CandidateSummary {
        let begun = self.begun_of(at);
        let state = self.state(at, &begun);
        let value = || {
            let measured = answer.first_estimate(&self.id(at));
            measured.or_else(|| self.value(self.optimized.estimate(at)).filter(|_| self.is_informed()))
        };
        let is_worthless = matches!(
            state,
            CandidateState::Failed
                | CandidateState::Unmet
                | CandidateState::DidNotFit
                | CandidateState::RuledOutByMemory
        );
        CandidateSummary {
            config: self.id(at),
            name: self.record.contestants[at].name.clone(),
            state,
            starts: begun.iter().filter(|start| start.is_launched).count()
                + self.interrupted.iter().filter(|other| **other == at).count(),
            reason: begun.iter().find_map(|start| start.reason),
            value: if is_worthless { None } else { value() },
            predicted: self.predicted(at).map(|value| self.figure(value.ln_value, value.sd)),
        }
    }

    /// Returns true if the figure of some server was measured or predicted. Otherwise the estimates say nothing.
    fn is_informed(&self) -> bool {
        let is_measured = |start: &BegunStart| matches!(start.result, Some((Trial::Measured { .. }, _)));
        let is_predicted = |at: usize| self.predicted(at).is_some();
        self.begun.iter().any(is_measured) || (0..self.record.contestants.len()).any(is_predicted)
    }

    fn predicted(&self, at: usize) -> Option<Predicted> {
        self.record.contestants[at].candidate.predicted
    }

    /// Returns the median relative error of the predictions. Each prediction is compared with the geometric mean of the values that were
    /// measured on the server's starts.
    fn prediction_error(&self) -> Option<f64> {
        let errors = (0..self.record.contestants.len()).filter_map(|at| {
            let begun = self.begun_of(at).into_iter();
            let measured = begun.filter_map(|start| start.result?.0.ln_value());
            let measured: Vec<f64> = measured.collect();
            let mean = measured.iter().sum::<f64>() / measured.len() as f64;
            Some((mean - self.predicted(at)?.ln_value).abs()).filter(|error| error.is_finite())
        });
        median(errors).map(f64::exp_m1)
    }

    /// Returns the figure with its 95 % interval; `None` if the interval is too wide, or if the figure may be 0.
    fn value(&self, estimate: optimized::Estimate) -> Option<Estimate> {
        let is_known = estimate.ln_value.is_finite() && estimate.sd * Z_95 < WIDEST.ln();
        (is_known && !self.is_zero(estimate.ln_value)).then(|| self.figure(estimate.ln_value, estimate.sd))
    }

    /// Returns true if the logarithm of a value means a figure of 0.
    fn is_zero(&self, ln_value: f64) -> bool {
        let ln_figure = sign(self.better) * ln_value;
        self.ln_of_zero
            .is_some_and(|ln_of_zero| ln_figure <= ln_of_zero + ROUNDING)
    }

    /// Converts the logarithm of a value to its figure, with the 95 % interval.
    fn figure(&self, ln_value: f64, sd: f64) -> Estimate {
        if self.is_zero(ln_value) {
            let (value, low, high) = (0.0, 0.0, 0.0);
            return Estimate { value, low, high };
        }
        let sign = sign(self.better);
        let at = |deviations: f64| (sign * (ln_value + sign * deviations * sd)).exp();
        Estimate {
            value: at(0.0),
            low: at(-Z_95),
            high: at(Z_95),
        }
    }

    fn state(&self, at: usize, begun: &[&BegunStart]) -> CandidateState {
        let results = || begun.iter().filter_map(|start| start.result.map(|(trial, _)| trial));
        let has = |wanted: fn(&Trial) -> bool| results().any(|trial| wanted(&trial));
        if has(|trial| matches!(trial, Trial::Measured { .. })) {
            return CandidateState::Measured;
        }
        if begun.iter().any(|start| start.result.is_none()) {
            return CandidateState::UnderWay;
        }
        match results().next_back() {
            Some(Trial::Beaten { .. }) => CandidateState::Beaten,
            Some(Trial::Undecided { .. }) => CandidateState::Undecided,
            Some(Trial::Unmet) => CandidateState::Unmet,
            Some(Trial::DidNotFit) if begun.iter().all(|start| start.is_ruled_out()) => {
                CandidateState::RuledOutByMemory
            }
            Some(Trial::DidNotFit) => CandidateState::DidNotFit,
            Some(Trial::Failed) => CandidateState::Failed,
            Some(Trial::Measured { .. }) => CandidateState::Measured,
            None if self.interrupted.contains(&at) => CandidateState::UnderWay,
            None => match self.optimized.estimate(at).excluded {
                Some(Exclusion::CannotWin) => CandidateState::CannotWin,
                Some(Exclusion::Memory) => CandidateState::RuledOutByMemory,
                Some(Exclusion::Failed | Exclusion::Unmet) | None => CandidateState::Open,
            },
        }
    }
}
