//! What is left of an experiment by the plan and the journals in its directory: for whoever looks at a sweep from outside.

use super::experiment::read_plan;
use super::forecast::{options, seconds_left};
use super::rehearse::Machine;
use super::run::keep_defaults;
use crate::agenda::Schedule;
use crate::journal::{Directory, Shard, State};
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::rehearse::Options;

/// What an experiment's plan still lacks, predicted again and again from its directory.
pub struct Remaining {
    plan: Plan,
    matrix: Matrix,
    options: Options,
    sha256: String,
}

impl Remaining {
    /// Of the plan that counts in a directory; nothing if it cannot be read here.
    pub fn of(directory: &Directory, state: &State) -> Option<Remaining> {
        let sha256 = state.plan_that_counts()?.1.to_owned();
        let read = read_plan(directory, state, |plan| keep_defaults(plan, directory));
        let (plan, matrix) = read.ok()?.ok()?;
        Some(Remaining {
            options: options(&Machine::default(), &plan, &matrix),
            sha256,
            plan,
            matrix,
        })
    }

    /// The time that it will likely take, in seconds; `at_work` says whether a session is at it.
    pub fn seconds_left(&mut self, state: &State, at_work: bool) -> Option<f64> {
        self.options.at_work = at_work;
        let is_meant = state.plan_that_counts()?.1 == self.sha256;
        let schedule = Schedule::new(&self.plan, &self.matrix, Shard::WHOLE, false);
        seconds_left(schedule, state, &self.options).filter(|_| is_meant)
    }
}
