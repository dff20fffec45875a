//! The one loop that owns processes: server groups in order, each server started once, every run recorded before the
//! next begins. What was done is in the journal; this room only decides what comes next and sees it through.
//!
//! Knows nothing of displays: it tells an observer what was recorded and how a run is getting on.

mod behind;
mod changes;
mod facts;
mod gate;
mod group;
mod interrupt;
mod sampler;
mod schedule;
mod warmth;

pub use changes::Changes;
pub(crate) use group::{figures, replay, search_started, wants_forecast};
pub use interrupt::Interrupt;
pub use schedule::{Asked, Group, Schedule, Task};
pub(crate) use warmth::Warmth;

use crate::bench::Counters;
use crate::cause::Outcome;
use crate::error::Result;
use crate::ids::SearchId;
use crate::journal::{Entry, Event, Recorder, SessionStarted, Shard};
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::server::settle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the guards of a killed vsweep may need beyond the grace period.
const ORPHANS_MARGIN: Duration = Duration::from_secs(5);

/// What a sweep tells its observer.
#[derive(Debug)]
pub enum Update<'a> {
    /// An event is on disk.
    Recorded(&'a Entry),
    /// A benchmark begins; its counters move on their own from now on.
    Running(&'a Arc<Counters>),
    /// Something the user should read once.
    Note(&'a str),
}

/// Receives updates; an error ends the sweep in order (a report that cannot be written is no reason to lose results).
pub type Observer<'a> = dyn FnMut(Update<'_>, &Recorder) -> Result<()> + 'a;

/// What searches will likely find, by search and by the name of the target; of what is not listed nothing is predicted.
pub type Forecasts = BTreeMap<SearchId, BTreeMap<String, f64>>;

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was recorded before; nothing was started.
    NothingLeft,
    /// Nothing is left to do.
    Finished,
    /// The user asked to stop; the rest is still to do.
    Interrupted,
    /// A run failed and the plan says to stop then.
    StoppedOnFailure,
    /// Another session began with another plan, which counts from then on.
    Superseded,
}

impl Ending {
    fn reason(self) -> &'static str {
        match self {
            Ending::NothingLeft | Ending::Finished => "finished",
            Ending::Interrupted => "interrupted",
            Ending::StoppedOnFailure => "stopped",
            Ending::Superseded => "superseded",
        }
    }
}

/// One session of work on an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Sweep<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Everything the plan expands to; decides which recorded points still count.
    pub whole: &'a Matrix,
    /// The part of it to work on now (the whole, unless `--only` was given).
    pub wanted: &'a Matrix,
    /// Which share of the server groups is ours.
    pub shard: Shard,
    /// Measure failed runs again.
    pub retry_failed: bool,
    /// First guesses for searches.
    pub forecasts: &'a Forecasts,
}

impl Sweep<'_> {
    /// Performs what the journal lacks. Whatever happens, no server of the sweep is left when this returns.
    pub async fn perform(
        self,
        changes: Changes,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        for note in changes.notes() {
            observer(Update::Note(&note), recorder)?;
        }
        for sentence in recorder.damage() {
            observer(Update::Note(&sentence), recorder)?;
        }
        let is_new = recorder.state().sessions().is_empty();
        let outdated = self.outdated(recorder.state(), recorder.nonce(), interrupt).await?;
        let Some(outdated) = outdated else {
            return Ok(Ending::Interrupted);
        };
        let has_work = !outdated.is_empty() || self.schedule().has_work(recorder.state());
        if let Some(ending) = self.clear_away(has_work, recorder, interrupt, observer).await? {
            return Ok(ending);
        }
        if !is_new && !has_work && !changes.is_any() && recorder.gaps().is_empty() {
            return Ok(Ending::NothingLeft);
        }
        facts::collect(self.plan).await.write(recorder.directory())?;
        self.begin(changes, recorder, observer)?;
        for (server, reason) in outdated {
            record(recorder, observer, Event::ResultsRetired { server, reason })?;
        }
        let ending = match has_work {
            true => self.work(recorder, interrupt, observer).await?,
            false => Ending::NothingLeft,
        };
        let reason = ending.reason().into();
        record(recorder, observer, Event::SessionEnded { reason })?;
        Ok(ending)
    }

    /// Ends what killed vsweeps left behind, and, if there is work to do, waits for what their guards are still ending; an
    /// ending if the user asked to stop meanwhile.
    async fn clear_away(
        &self,
        has_work: bool,
        recorder: &Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Ending>> {
        let limit = match has_work {
            true => self.plan.serve.stop_grace + ORPHANS_MARGIN,
            false => Duration::ZERO,
        };
        let killed = recorder.state().killed_sessions();
        let cleared = tokio::select! {
            cleared = settle::clear_away(&killed, limit) => cleared,
            () = interrupt.requested() => return Ok(Some(Ending::Interrupted)),
        };
        if let Some(note) = cleared.describe() {
            observer(Update::Note(&note), recorder)?;
        }
        Ok(None)
    }

    /// What there is to do.
    pub fn schedule(&self) -> Schedule<'_> {
        Schedule::new(self.wanted, self.plan.runs, self.shard, self.retry_failed)
    }

    /// Notes the session and its plan.
    fn begin(&self, changes: Changes, recorder: &mut Recorder, observer: &mut Observer<'_>) -> Result<()> {
        let counts = self.whole.counts();
        let process = facts::process();
        let started = SessionStarted {
            host: process.host,
            boot: process.boot,
            pid: process.pid,
            started: process.started,
            plan: recorder.state().refer(changes.plan),
            servers: counts.servers,
            points: counts.points,
            runs: counts.runs,
            searches: counts.searches,
            seen: recorder.news(),
        };
        record(recorder, observer, Event::SessionStarted(Box::new(started))).map(drop)
    }

    async fn work(
        &self,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        let gate = gate::Gate::now().await;
        for server in self.schedule().servers() {
            // Once, and again whenever another server has taken the place of the one that was measured.
            loop {
                recorder.refresh()?;
                if recorder.is_superseded() {
                    return Ok(Ending::Superseded);
                }
                let Some(group) = self.schedule().group(&server, recorder.state()) else {
                    break;
                };
                let retired = recorder.state().retired_by(&server.id, recorder.nonce());
                let mut session = group::GroupSession::new(self, &group, recorder, interrupt, observer, &gate);
                match session.perform().await? {
                    Ending::Finished => {}
                    early => return Ok(early),
                }
                if recorder.state().retired_by(&server.id, recorder.nonce()) == retired {
                    break;
                }
            }
        }
        Ok(Ending::Finished)
    }
}

/// Records an event and tells the observer.
fn record(recorder: &mut Recorder, observer: &mut Observer<'_>, event: Event) -> Result<Entry> {
    let entry = recorder.record(event)?;
    observer(Update::Recorded(&entry), recorder)?;
    Ok(entry)
}

/// Whether an outcome means that a run need not be measured again.
fn is_settled(outcome: Option<Outcome>, retry_failed: bool) -> bool {
    match outcome {
        None => false,
        Some(Outcome::Failed) => !retry_failed,
        Some(Outcome::Ok | Outcome::Suspect | Outcome::Cut) => true,
    }
}
