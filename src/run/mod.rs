//! The one loop that owns processes: server groups in order, each server started once, every run recorded before the
//! next begins. What was done is in the journal; this room only decides what comes next and sees it through.
//!
//! Knows nothing of displays: it tells an observer what was recorded and how a run is getting on.

mod behind;
mod changes;
mod drive;
mod facts;
mod gate;
mod interrupt;
mod live;
mod place;
mod sampler;
mod writer;

pub use changes::Changes;
pub use drive::{Signals, Stage, Unattended, Writer, drive};
pub use interrupt::Interrupt;
pub(crate) use live::reduce;

use crate::agenda::{Agenda, Ending, Group, Hint, Hints, Schedule, Scope, Start, compared, first_point};
use crate::bench::{self, Counters};
use crate::error::Result;
use crate::ids::{SearchId, ServerId};
use crate::journal::{Entry, Event, Recorder, Seen, SessionStarted, Shard};
use crate::matrix::{LoadSearch, Matrix};
use crate::plan::{BenchRunner, Plan};
use crate::server::settle;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use place::{Place, ThisHost};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use writer::SessionWriter;

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
        Schedule::new(self.plan, self.wanted, self.shard, self.retry_failed)
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
            starts: self.plan.starts,
            runs: counts.runs,
            searches: counts.searches,
            compare: compared(self.plan, self.whole).map(Box::new),
            seen: Seen::new(),
        };
        record(recorder, observer, Event::SessionStarted(Box::new(started))).map(drop)
    }

    /// Works on what is left: first the planned starts, then the fresh ones of the finalists, which are known only then.
    async fn work(
        &self,
        recorder: &mut Recorder,
        interrupt: &mut Interrupt,
        observer: &mut Observer<'_>,
    ) -> Result<Ending> {
        let place = ThisHost::now().await;
        let writer = &SessionWriter::new(recorder, observer);
        if self.plan.compare.is_some() {
            return self.compare(&place, writer, interrupt).await;
        }
        match self
            .work_on(self.schedule().starts(), &place, writer, interrupt)
            .await?
        {
            Ending::Finished => {}
            ending => return Ok(ending),
        }
        let finals = || writer.look(|state| self.schedule().finals(state));
        let open = |start: Start| {
            writer
                .look(|state| self.schedule().group(&start, state))
                .map(|group| group.server)
        };
        let finalists: BTreeMap<ServerId, String> = finals()
            .filter_map(open)
            .map(|server| (server.id, server.name))
            .collect();
        if !finalists.is_empty() {
            let names: Vec<String> = finalists.into_values().collect();
            let note = format!(
                "the best cannot be told apart yet, so they are measured on {} fresh starts each: {}",
                self.plan.starts,
                names.join("; ")
            );
            Writer::note(writer, &note)?;
        }
        let finals = finals();
        self.work_on(finals, &place, writer, interrupt).await
    }

    /// Works on the starts that a comparison asks for, one after the other.
    async fn compare(
        &self,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let mut tried = Vec::new();
        while let Some(start) = writer.look(|state| self.schedule().next(state, &tried)) {
            tried.push((start.server.id.clone(), start.slot));
            match self.perform_group(start, place, writer, interrupt.clone()).await? {
                Ending::Finished => {}
                ending => return Ok(ending),
            }
        }
        Ok(Ending::Finished)
    }

    /// Works on the groups of some starts, as many at once as there is room for.
    async fn work_on(
        &self,
        mut starts: impl Iterator<Item = Start>,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let mut under_way = FuturesUnordered::new();
        let mut early = None;
        loop {
            while early.is_none() && place.has_room(under_way.len()) {
                let Some(start) = starts.next() else { break };
                under_way.push(self.perform_group(start, place, writer, interrupt.clone()));
            }
            match under_way.next().await {
                None => return early.unwrap_or(Ok(Ending::Finished)),
                Some(Ok(Ending::Finished)) => {}
                // Nothing new begins; what is under way is finished.
                Some(ended) => early = early.filter(Result::is_err).or(Some(ended)),
            }
        }
    }

    /// Works on a start of a server: once, and again whenever another one has taken the place of the one that was measured.
    async fn perform_group(
        &self,
        start: Start,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        mut interrupt: Interrupt,
    ) -> Result<Ending> {
        let retired = || writer.with(|recorder| recorder.state().retired_by(&start.server.id, recorder.nonce()));
        loop {
            writer.with(Recorder::refresh)?;
            if writer.with(|recorder| recorder.is_superseded()) {
                return Ok(Ending::Superseded);
            }
            let Some(group) = writer.look(|state| self.schedule().group(&start, state)) else {
                return Ok(Ending::Finished);
            };
            let before = retired();
            let ending = self.drive_group(group, place, writer, &mut interrupt).await?;
            if ending != Ending::Finished || retired() == before {
                return Ok(ending);
            }
        }
    }

    async fn drive_group(
        &self,
        group: Group,
        place: &impl Place,
        writer: &SessionWriter<'_>,
        interrupt: &mut Interrupt,
    ) -> Result<Ending> {
        let scope = Scope {
            plan: self.plan,
            matrix: self.wanted,
        };
        let hints = group.searches.iter();
        let hints: Hints = hints.map(|search| (search.id.clone(), self.hint(search))).collect();
        let mut stage = place.stage(self.plan, group.server.clone(), writer);
        let mut agenda = writer.look(|state| Agenda::new(scope, group, hints, state));
        let ending = drive(&mut agenda, &mut stage, writer, interrupt).await;
        stage.clear(interrupt).await;
        ending
    }

    /// What is known of a search from outside.
    fn hint(&self, search: &LoadSearch) -> Hint {
        let point = first_point(self.wanted, search);
        let params = match (&self.plan.bench.runner, &point.argv) {
            (BenchRunner::Native, _) => Some(point.params),
            (BenchRunner::Command(_), Some(argv)) => bench::params_of(argv),
            _ => None,
        };
        Hint {
            forecast: self.forecasts.get(&search.id).cloned(),
            lengths: params.and_then(|params| bench::native::mean_lengths(&params)),
        }
    }
}

/// Records an event and tells the observer.
fn record(recorder: &mut Recorder, observer: &mut Observer<'_>, event: Event) -> Result<Entry> {
    let entry = recorder.record(event)?;
    observer(Update::Recorded(&entry), recorder)?;
    Ok(entry)
}
