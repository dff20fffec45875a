//! The starts of plans that choose them by the results so far: of a comparison, and of an optimisation.

use super::comparison::compared;
use super::optimization::{Predictions, optimization};
use super::schedule::{Schedule, Start};
use vsweep_base::ids::ServerId;
use vsweep_record::evidence::{Next, NextProposal, OptimizationProgress};
use vsweep_record::journal::{ComparisonProgress, NextStart, State};

impl Schedule<'_> {
    /// True if the plan chooses its starts one after another by their results: a comparison, or an optimisation.
    pub fn is_chosen(self) -> bool {
        self.plan.compare.is_some() || self.plan.optimize.is_some()
    }

    /// The starts that a comparison or an optimisation wants next, after those that were `tried` by this session already: they are not
    /// retried again.
    pub fn wanted_starts(self, state: &State, tried: &[(ServerId, u32)]) -> Vec<Start> {
        let retries = |server: &ServerId, slot: u32| {
            let is_tried = tried.iter().any(|(other, at)| other == server && *at == slot);
            self.retry_failed && !is_tried
        };
        match self.plan.optimize {
            Some(_) => self.promising_starts(state, tried, &retries),
            None => self.paired_starts(state, &retries),
        }
    }

    /// A start of a server on which everything is measured.
    pub fn start_of(self, server: &ServerId, slot: u32) -> Option<Start> {
        let server = self.matrix.servers().find(|own| own.id == *server)?;
        Some(Start::of(server, slot))
    }

    /// The starts that a comparison wants next.
    fn paired_starts(self, state: &State, retries: &dyn Fn(&ServerId, u32) -> bool) -> Vec<Start> {
        let Some(compared) = compared(self.plan, self.matrix) else {
            return Vec::new();
        };
        let ComparisonProgress::Starts(next) = compared.progress(state, retries) else {
            return Vec::new();
        };
        let start = |next: NextStart| {
            Some(Start {
                set: next.set,
                ..self.start_of(&compared.entrants[next.entrant].server, next.slot)?
            })
        };
        next.into_iter().filter_map(start).collect()
    }

    /// The starts that an optimisation wants next.
    fn promising_starts(
        self,
        state: &State,
        tried: &[(ServerId, u32)],
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> Vec<Start> {
        let Some(optimization) = optimization(self.plan, self.matrix, state.optimization(), &Predictions::new()) else {
            return Vec::new();
        };
        let progress = OptimizationProgress::of(&optimization, state, &self.plan.report.requirements, retries);
        let Next::Starts(next) = progress.next(self.at_once, tried) else {
            return Vec::new();
        };
        let start = |next: NextProposal| {
            Some(Start {
                proposed: next.reason,
                ..self.start_of(&optimization.contestants[next.contestant].server, next.slot)?
            })
        };
        next.into_iter().filter_map(start).collect()
    }
}
