//! The explorations of a group: like searches, they ask for one run at a time, and what they ask next depends on nothing
//! but the recorded runs.

use super::search::Ended;
use super::{Attempt, GroupSession, Lost};
use crate::bench::Measurement;
use crate::cause::{Cause, Failure, Outcome};
use crate::error::Result;
use crate::journal::{Event, FIRST_SLOT, Learned, SearchStarted, State};
use crate::matrix::LoadExploration;
use crate::plan::OnFailure;
use crate::run::schedule::Asked;
use crate::run::{Ending, Task, record};
use crate::search::{Exploration, Figures, Level, Load, Question, Seed};
use crate::validity::Validity;
use serde_json::Value;

impl GroupSession<'_, '_> {
    pub(super) async fn explore_all(&mut self) -> Result<Ending> {
        let explorations = &self.group.explorations;
        for (position, planned) in explorations.iter().enumerate() {
            self.begin_exploration(planned)?;
            match self.explore(planned).await? {
                Ended::Done => {}
                Ended::ServerLost(lost) => {
                    let left = position + usize::from(lost.under.is_some());
                    self.give_up_explorations(&explorations[left..], &lost)?;
                    return Ok(self.after(Some(&lost.failure)));
                }
                Ended::Early(ending) => return Ok(ending),
            }
        }
        Ok(self.after(None))
    }

    /// Records explorations that cannot be done because their server is lost, each with the run that it would ask for.
    fn give_up_explorations(&mut self, explorations: &[LoadExploration], lost: &Lost) -> Result<()> {
        let (mut tasks, mut ended) = (Vec::new(), Vec::new());
        for planned in explorations {
            self.begin_exploration(planned)?;
            let load = replay(planned, self.recorder.state()).ask();
            tasks.extend(load.map(|load| self.task_at(planned, load)));
            ended.push((planned.id.clone(), self.tip(&planned.id)));
        }
        self.give_up(tasks.iter(), ended, &lost.failure, lost.under.as_ref())
    }

    async fn explore(&mut self, planned: &LoadExploration) -> Result<Ended> {
        loop {
            if self.interrupt.is_requested() {
                return Ok(Ended::Early(Ending::Interrupted));
            }
            let exploration = replay(planned, self.recorder.state());
            let Some(load) = exploration.ask() else {
                let failure = (!exploration.has_anchors()).then(|| {
                    let detail = "it needs one request at a time and some load above it, and one of the two was never measured; \
                                  see the causes of its runs";
                    Failure::new(Cause::BenchFailed, detail)
                });
                self.end_search(&planned.id, Vec::new(), failure.as_ref())?;
                return Ok(Ended::Done);
            };
            let task = self.task_at(planned, load);
            let outcome = match self.attempt(&task).await? {
                Attempt::Recorded(outcome) => outcome,
                Attempt::PointLost(..) => Outcome::Failed,
                Attempt::ServerLost(lost) => {
                    if let Some(started) = &lost.under {
                        self.record_failed(&task, started, &lost.failure, 0.0)?;
                        self.end_search(&planned.id, Vec::new(), Some(&lost.failure))?;
                    }
                    return Ok(Ended::ServerLost(lost));
                }
                Attempt::Replaced => return Ok(Ended::Early(Ending::Finished)),
                Attempt::Interrupted => return Ok(Ended::Early(Ending::Interrupted)),
            };
            if outcome == Outcome::Failed && self.plan.on_failure == OnFailure::Stop {
                return Ok(Ended::Early(Ending::StoppedOnFailure));
            }
        }
    }

    fn begin_exploration(&mut self, planned: &LoadExploration) -> Result<()> {
        if self.recorder.state().search(&planned.id).is_some() {
            return Ok(());
        }
        let started = SearchStarted {
            search: planned.id.clone(),
            server: planned.server.clone(),
            slot: FIRST_SLOT,
            name: planned.name.clone(),
            params: self.plan.secrets.redact_params(&planned.params),
            vary: planned.settings.vary,
            targets: Vec::new(),
            seed: Seed::UNKNOWN,
            rivals: Vec::new(),
        };
        let event = Event::SearchStarted(Box::new(started));
        record(self.recorder, self.observer, event).map(drop)
    }

    fn task_at(&self, planned: &LoadExploration, load: Load) -> Task {
        let point = self.matrix.point_at(planned, &load);
        let question = Question {
            target: String::new(),
            value: 0.0,
            requests: load.requests,
            confirm: false,
            draw: 0,
        };
        Task {
            run: self.recorder.state().free_run(&point.id),
            point,
            asked: Some(Asked {
                search: planned.id.clone(),
                question,
                targets: Vec::new().into(),
                vary: planned.settings.vary,
                watch: None,
                load: Some(load),
                endured: 0.0,
            }),
        }
    }
}

/// The exploration as far as it got.
fn replay(planned: &LoadExploration, state: &State) -> Exploration {
    let mut exploration = Exploration::new(planned.settings.clone());
    state.levels(&planned.id).for_each(|level| exploration.tell(level));
    exploration
}

impl Asked {
    /// What a measured run says to whoever asked for it.
    pub(super) fn learn(&self, measurement: &Measurement) -> Option<Learned> {
        Some(match self.load {
            None => Learned::Probe(self.probe_of(measurement)?),
            Some(load) => Learned::Level(Level {
                load,
                figures: figures(&load, measurement),
            }),
        })
    }

    /// The same of a run without figures.
    pub(super) fn learn_of_failure(&self, failure: &Failure) -> Option<Learned> {
        match self.load {
            None => self.probe_of_failure(failure).map(Learned::Probe),
            Some(load) => Some(Learned::Level(Level { load, figures: None })),
        }
    }
}

/// Where a run lies on the curve; None if it does not say. A benchmark that reports no latency has one by Little's law.
pub(crate) fn figures(load: &Load, measurement: &Measurement) -> Option<Figures> {
    if measurement.failure.is_some() || measurement.validity() == Validity::Invalid {
        return None;
    }
    let metric = |key: &str| measurement.result.get(key).and_then(Value::as_f64);
    let throughput = metric("request_throughput").filter(|rate| *rate > 0.0)?;
    let done = measurement.requests.iter().map(|request| request.e2el_ms);
    let done: Vec<f64> = done.filter(|latency| latency.is_finite()).collect();
    let measured = (!done.is_empty()).then(|| done.iter().sum::<f64>() / done.len() as f64);
    let of_slots = load.max_concurrency.map(|slots| 1000.0 * slots as f64 / throughput);
    let latency_ms = measured.or_else(|| metric("mean_e2el_ms")).or(of_slots)?;
    Some(Figures { throughput, latency_ms })
}
