//! The runs of a plan's points on one start, in order: all points once, then all points again. If the plan repeats until an interval is
//! narrow, unnecessary repetitions are left out. If the first point is measured once more at the end, that run comes after the greatest
//! possible number of repetitions.

use super::task::Task;
use std::collections::VecDeque;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::PointId;
use vsweep_base::validity::Validity;
use vsweep_plan::{Plan, Runs};
use vsweep_record::journal::{RunRecord, State};
use vsweep_strategy::stats::Repeats;

/// The runs that may be left.
#[derive(Debug)]
pub(super) struct Grid {
    pub tasks: VecDeque<Task>,
    runs: Runs,
}

impl Grid {
    pub fn of(tasks: Vec<Task>, plan: &Plan) -> Grid {
        Grid {
            tasks: tasks.into(),
            runs: plan.runs.clone(),
        }
    }

    /// Leaves out what is not needed before the next run that is.
    pub fn skip(&mut self, state: &State) {
        let is_needless = |task: &Task| !is_wanted(&self.runs, &task.point.id, task.slot, task.run, state);
        while self.tasks.front().is_some_and(is_needless) {
            self.tasks.pop_front();
        }
    }

    /// Takes out all that is left of a point. Returns the runs that it owes in any case.
    pub fn drop_point(&mut self, point: &PointId) -> Vec<Task> {
        let (lost, rest) = self.tasks.drain(..).partition(|task| task.point.id == *point);
        self.tasks = rest;
        let lost: VecDeque<Task> = lost;
        lost.into_iter().filter(|task| self.is_owed(task)).collect()
    }

    /// The runs that are left in any case.
    pub fn owed(&self) -> Vec<Task> {
        let owed = self.tasks.iter().filter(|task| self.is_owed(task));
        owed.cloned().collect()
    }

    fn is_owed(&self, task: &Task) -> bool {
        task.run < self.runs.least() || task.run >= self.runs.most()
    }
}

/// Returns true if a repetition may still be needed, after those before it.
pub(super) fn is_wanted(runs: &Runs, point: &PointId, slot: u32, run: u32, state: &State) -> bool {
    match runs {
        _ if run >= runs.most() => true,
        Runs::Exactly(_) => true,
        Runs::Until { .. } if run < runs.least() => true,
        Runs::Until { metric, rule } => {
            let before = (0..run).map_while(|run| state.run(point, slot, run).filter(|run| !run.is_lost()));
            let before: Vec<&RunRecord> = before.collect();
            let has_failed = before.iter().any(|run| run.outcome == Outcome::Failed);
            let is_narrow = |count| is_enough(*rule, metric, &before[..count]);
            !has_failed && !(rule.min..=before.len()).any(is_narrow)
        }
    }
}

/// True if the interval of some runs is narrow enough. Disturbed ones count where there are no others.
fn is_enough(rule: Repeats, metric: &str, runs: &[&RunRecord]) -> bool {
    let values = |is_disturbed: bool| -> Vec<f64> {
        let such = runs
            .iter()
            .filter(|run| run.validity != Validity::Invalid && run.is_disturbed() == is_disturbed);
        such.filter_map(|run| run.figures().get(metric)).collect()
    };
    let undisturbed = values(false);
    let values = match undisturbed.is_empty() {
        true => values(true),
        false => undisturbed,
    };
    rule.is_enough(&values)
}
