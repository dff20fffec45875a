//! The searches of a group: each asks for one run at a time, and what it asks next depends on nothing but the recorded
//! runs, so a search that was interrupted goes on where it was.

use super::{Attempt, GroupSession, Lost};
use crate::bench::Measurement;
use crate::cause::{Cause, Failure};
use crate::error::Result;
use crate::ids::SearchId;
use crate::journal::{Event, LineId, RunRecord, State};
use crate::matrix::LoadSearch;
use crate::plan::OnFailure;
use crate::run::schedule::Asked;
use crate::run::{Ending, Task, record};
use crate::search::{Answer, Next, Probe, Question, Search};
use crate::validity::Validity;
use serde_json::Value;

/// How a search of this session ended.
pub(super) enum Ended {
    Done,
    ServerLost(Lost),
    Early(Ending),
}

impl GroupSession<'_, '_> {
    pub(super) async fn search_all(&mut self) -> Result<Ending> {
        let searches = &self.group.searches;
        for (position, search) in searches.iter().enumerate() {
            match self.search(search).await? {
                Ended::Done => {}
                Ended::ServerLost(lost) => {
                    let left = position + usize::from(lost.under.is_some());
                    self.give_up_searches(&searches[left..], &lost)?;
                    return Ok(self.after(Some(&lost.failure)));
                }
                Ended::Early(ending) => return Ok(ending),
            }
        }
        Ok(self.after(None))
    }

    async fn search(&mut self, planned: &LoadSearch) -> Result<Ended> {
        if let Some(ending) = self.begin_search(planned).await? {
            return Ok(Ended::Early(ending));
        }
        loop {
            if self.interrupt.is_requested() {
                return Ok(Ended::Early(Ending::Interrupted));
            }
            let search = replay(planned, self.recorder.state());
            let question = match search.ask() {
                Next::Probe(question) => question,
                Next::Done(_) if self.has_measured_nothing(planned) => {
                    let detail = "every run of the search failed, so its load is not to blame; see their causes";
                    return self.give_up_search(planned, &Failure::new(Cause::BenchFailed, detail.to_owned()));
                }
                Next::Done(answers) => {
                    self.end_search(&planned.id, planned.with_remark(answers), None)?;
                    return Ok(Ended::Done);
                }
            };
            let task = self.task(planned, &search, question);
            match self.attempt(&task).await? {
                Attempt::Recorded(_) | Attempt::PointLost(..) => {}
                Attempt::ServerLost(lost) => {
                    if let Some(started) = &lost.under {
                        self.record_failed(&task, started, &lost.failure, 0.0)?;
                        self.end_search(&planned.id, Vec::new(), Some(&lost.failure))?;
                    }
                    return Ok(Ended::ServerLost(lost));
                }
                Attempt::Replaced => return Ok(Ended::Early(Ending::Finished)),
                Attempt::Interrupted => return Ok(Ended::Early(Ending::Interrupted)),
            }
            if let Some(failure) = self.objection(planned, &task) {
                return self.give_up_search(planned, &failure);
            }
        }
    }

    fn give_up_search(&mut self, planned: &LoadSearch, failure: &Failure) -> Result<Ended> {
        self.end_search(&planned.id, Vec::new(), Some(failure))?;
        Ok(match self.plan.on_failure {
            OnFailure::Continue => Ended::Done,
            OnFailure::Stop => Ended::Early(Ending::StoppedOnFailure),
        })
    }

    /// Records searches that cannot be done because their server is lost, each with the run that it would ask for.
    fn give_up_searches(&mut self, searches: &[LoadSearch], lost: &Lost) -> Result<()> {
        let (mut tasks, mut ended) = (Vec::new(), Vec::new());
        for planned in searches {
            self.note_search(planned)?;
            let search = replay(planned, self.recorder.state());
            if let Next::Probe(question) = search.ask() {
                tasks.push(self.task(planned, &search, question));
            }
            ended.push((planned.id.clone(), self.tip(&planned.id)));
        }
        self.give_up(tasks.iter(), ended, &lost.failure, lost.under.as_ref())
    }

    /// What the next line of a search follows.
    pub(super) fn tip(&self, search: &SearchId) -> LineId {
        let record = self.recorder.state().search(search);
        record.expect("a search begins before it asks").tip
    }

    pub(super) fn end_search(
        &mut self,
        search: &SearchId,
        answers: Vec<Answer>,
        failure: Option<&Failure>,
    ) -> Result<()> {
        let finished = Event::SearchFinished {
            search: search.clone(),
            after: self.tip(search),
            answers,
            cause: failure.map(|failure| failure.cause),
            detail: failure.map_or_else(String::new, |failure| failure.detail.clone()),
        };
        record(self.recorder, self.observer, finished).map(drop)
    }

    /// The run that answers a question: the first repetition of its point that has no outcome.
    fn task(&self, planned: &LoadSearch, search: &Search, question: Question) -> Task {
        let point = self.matrix.point_for(planned, &question);
        Task {
            run: self.recorder.state().free_run(&point.id),
            point,
            asked: Some(Asked::by(planned, search, question)),
        }
    }

    /// Whether not a single run gave figures.
    fn has_measured_nothing(&self, planned: &LoadSearch) -> bool {
        let mut probes = self.recorder.state().probes(&planned.id).peekable();
        probes.peek().is_some() && probes.all(|probe| probe.readings.is_empty())
    }

    /// A run that did not measure what it claims is no answer: the question is asked again. Two of them in a row end the search.
    fn invalid_again(&self, task: &Task, run: &RunRecord) -> Option<Failure> {
        let before = self.recorder.state().run(&task.point.id, task.run.checked_sub(1)?)?;
        let told = run
            .doubts
            .iter()
            .find(|doubt| doubt.code.severity() == Validity::Invalid)?;
        (before.validity == Validity::Invalid).then(|| {
            let detail = format!("two runs in a row did not measure what they should: {told}");
            Failure::new(Cause::BenchFailed, detail)
        })
    }

    /// Why the search cannot learn from its runs, after the latest one.
    fn objection(&self, planned: &LoadSearch, task: &Task) -> Option<Failure> {
        let run = self.recorder.state().run(&task.point.id, task.run)?;
        let probe = run.search.as_ref().and_then(|searched| searched.probe());
        if run.validity == Validity::Invalid && probe.is_none() {
            return self.invalid_again(task, run);
        }
        let Some(probe) = probe else {
            let cause = run.cause.unwrap_or(Cause::BenchFailed);
            let detail = match cause {
                Cause::BenchTimeout => format!(
                    "{}; a higher load ended in time, so this one is not too high",
                    run.detail
                ),
                _ => run.detail.clone(),
            };
            return Some(Failure::new(cause, detail));
        };
        let criteria = planned.settings.targets.iter().flat_map(|target| &target.criteria);
        let mut texts = criteria.map(ToString::to_string);
        let missing = texts.find(|text| !probe.readings.contains_key(text));
        missing.filter(|_| probe.stopped.is_none()).map(|text| {
            let detail = format!(
                "the result says nothing about `{text}`; let the benchmark report it (metric_percentiles, percentile_metrics, goodput), or bound something else"
            );
            Failure::new(Cause::BenchFailed, detail)
        })
    }
}

/// The search as far as it got.
pub(crate) fn replay(planned: &LoadSearch, state: &State) -> Search {
    let record = state.search(&planned.id).expect("a search begins before it asks");
    let mut search = Search::new(planned.settings.clone(), record.started.seed).against(&record.started.rivals);
    state.probes(&planned.id).for_each(|probe| search.tell(probe));
    search
}

impl Asked {
    /// What a search asks for, and what it knows.
    pub(crate) fn by(planned: &LoadSearch, search: &Search, question: Question) -> Asked {
        let probes = search.probes().iter();
        let whole = probes.filter(|probe| probe.stopped.is_none() && !probe.readings.is_empty());
        Asked {
            search: planned.id.clone(),
            watch: Some(search.watch(&question)),
            targets: planned.settings.targets.clone().into(),
            vary: planned.settings.vary,
            load: None,
            endured: whole.map(|probe| probe.question.value).fold(0.0, f64::max),
            question,
        }
    }

    /// What a measured run says. Where too many requests failed, the load is too high, whatever the rest measured. A run that
    /// did not measure what it claims says nothing.
    pub(crate) fn probe_of(&self, measurement: &Measurement) -> Option<Probe> {
        if measurement.failure.is_some() {
            return Some(Probe::fallen(self.question.clone()));
        }
        if measurement.validity() == Validity::Invalid {
            return None;
        }
        let metric = |key: &str| measurement.result.get(key).and_then(Value::as_f64);
        let (question, cut) = (self.question.clone(), measurement.cut.as_ref());
        Some(Probe::read(
            question,
            &self.targets,
            self.vary,
            metric,
            &measurement.requests,
            cut,
        ))
    }

    /// What a run without figures says: that the load is too high, if that is what its cause may come from. Few requests
    /// in flight, or a low rate, take long by themselves: where a higher load ended in time, slowness is no sign of load.
    pub(crate) fn probe_of_failure(&self, failure: &Failure) -> Option<Probe> {
        let is_of_load = match failure.cause {
            Cause::OomUnderLoad | Cause::CrashedUnderLoad | Cause::Hung | Cause::RequestErrors => true,
            Cause::BenchTimeout => self.question.value >= self.endured,
            _ => false,
        };
        is_of_load.then(|| Probe::fallen(self.question.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Vary;

    #[test]
    fn a_low_load_that_takes_long_is_not_too_high() {
        let asked = |value: f64| Asked {
            search: SearchId("one".into()),
            question: Question {
                target: "chat".into(),
                value,
                requests: 40,
                confirm: false,
                draw: 0,
            },
            targets: Vec::new().into(),
            vary: Vary::MaxConcurrency,
            watch: None,
            load: None,
            endured: 5.0,
        };
        let told = |value: f64, cause: Cause| asked(value).probe_of_failure(&Failure::new(cause, "in this test"));
        assert_eq!(told(0.1, Cause::BenchTimeout), None);
        assert!(told(8.0, Cause::BenchTimeout).is_some());
        assert!(told(0.1, Cause::CrashedUnderLoad).is_some());
        assert_eq!(told(8.0, Cause::BenchFailed), None);
    }
}
