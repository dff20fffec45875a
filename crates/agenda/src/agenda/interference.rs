//! Runs that are repeated to learn how much servers that run side by side slow each other down: once alone, while the others wait, and
//! once beside them; and beside the start of another server when there is one. Each pair is of one point on one launch, with the same
//! requests. What follows from them is decided by the record.

use super::step::{Action, Run, Step};
use super::task::Task;
use super::{Agenda, record};
use std::collections::BTreeSet;
use vsweep_plan::ids::PointId;
use vsweep_plan::plan::{Reset, Warmup};
use vsweep_record::journal::{Beside, Company, Entry, Event, InterferenceSample, Launch, StartRecord, State};
use vsweep_strategy::stats::{Interference, Slowdown};

/// A launch repeats one of so many of its runs at most.
const EVERY: usize = 4;
/// So often is tried to measure a point beside others, who may end meanwhile.
const TRIES: usize = 3;

/// A run that is repeated.
#[derive(Debug)]
pub(super) struct Checking {
    task: Task,
    /// The `run_started` of the run.
    started: Entry,
    is_alone: bool,
    is_reset: bool,
}

impl Agenda<'_> {
    /// Whether the run that was measured last is to be repeated.
    pub(super) fn check_after(&mut self, task: Task, started: Entry, state: &State) -> Option<Checking> {
        let launched = self.launched.as_ref()?;
        self.schedule.plan.exec.watched_percent()?;
        let (ready, starting) = others(launched.id, state);
        let samples: Vec<&InterferenceSample> = state.samples_of(launched.id).collect();
        let of_point = samples.iter().filter(|sample| sample.point == task.point.id);
        let of_point: Vec<&&InterferenceSample> = of_point.collect();
        let count = |company: Company| of_point.iter().filter(|sample| sample.is_beside(company)).count();
        let has_failed = samples.iter().any(|sample| sample.latency_ms.is_none());
        let points: BTreeSet<&PointId> = samples.iter().map(|sample| &sample.point).collect();
        let is_full = of_point.is_empty() && points.len() * EVERY >= launched.measured;
        let tried = of_point.iter().filter(|sample| !sample.alone).count();
        if has_failed || is_full || tried >= 2 * TRIES {
            return None;
        }
        let found = state.interference();
        let [alone, beside, beside_start] = [Company::Nobody, Company::Servers, Company::Start].map(count);
        let seeks_starts = found.starts.is_open() && found.servers.slowdown != Slowdown::Slows;
        let seeks_servers = found.servers.is_open();
        let needs_beside = seeks_servers && alone > 0 && beside == 0 && tried < TRIES + beside_start;
        let needs_base = seeks_starts && beside_start > 0 && alone + beside == 0;
        let is_alone = if !starting.is_empty() {
            let is_wanted = seeks_starts && beside_start == 0 && tried < TRIES;
            is_wanted.then_some(false)?
        } else if ready.is_empty() {
            return None;
        } else if seeks_servers && alone == 0 && found.servers.pairs < Interference::MOST_PAIRS {
            true
        } else {
            (needs_beside || needs_base).then_some(false)?
        };
        Some(Checking {
            task,
            started,
            is_alone,
            is_reset: false,
        })
    }

    /// The next step of a run that is repeated.
    pub(super) fn pursue_check(&mut self, mut checking: Checking) -> Step {
        let resets = !matches!(self.schedule.plan.serve.reset, Reset::Nothing | Reset::Restart);
        let action = match resets && !std::mem::replace(&mut checking.is_reset, true) {
            true => Action::Reset,
            false => Action::Check {
                run: Box::new(Run::of(&checking.task, &checking.started, Warmup::Requests(0), true)),
                is_alone: checking.is_alone,
            },
        };
        self.checking = Some(checking);
        Step::Act(action)
    }

    pub(super) fn settle_check(&mut self, latency_ms: Option<f64>, beside: Beside, seconds: f64) {
        let checking = self.checking.take().expect("a run was repeated");
        let launched = self.launched.as_ref().expect("a run was repeated on a ready server");
        self.due
            .push_back(record(Event::InterferenceSampled(Box::new(InterferenceSample {
                server: self.server.id.clone(),
                launch: launched.id.n,
                point: checking.task.point.id.clone(),
                alone: checking.is_alone,
                beside,
                seconds,
                latency_ms,
            }))));
        self.last_measured = Some((checking.task, checking.started));
    }
}

/// The other servers of a session that are up: those that are ready, and those that are starting.
fn others(own: Launch, state: &State) -> (Vec<&StartRecord>, Vec<&StartRecord>) {
    let others = state
        .starts()
        .filter(|start| start.launch.session == own.session && start.launch != own);
    let up = others.filter(|start| start.exited_at.is_none() && !start.started_at.is_empty());
    up.partition(|start| start.ready.is_some())
}
