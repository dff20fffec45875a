//! What each event adds to what is known: the step of the fold.

use super::{
    Attempt, FIRST_SLOT, Launch, Retirement, RunRecord, Sealed, SearchEnd, Session, Standing, StartRecord, State,
};
use crate::journal::event::{Event, RunFinished, RunStarted, Seen, SessionStarted};
use crate::journal::given_up::GroupGivenUp;
use crate::journal::line::Entry;
use crate::journal::place::{LineId, Place};
use itertools::Itertools;
use std::sync::{Arc, OnceLock};
use vsweep_plan::cause::Outcome;
use vsweep_plan::fingerprint::Fingerprint;
use vsweep_plan::ids::{SearchId, ServerId};
use vsweep_plan::plan::Params;

impl State {
    /// Takes one more line into account.
    pub fn apply(&mut self, entry: Entry) {
        let Entry { place, at, event, .. } = entry;
        self.lamport = self.lamport.max(place.lamport);
        self.counted = OnceLock::new();
        let last = self.last_lines.entry(place.line.journal).or_default();
        if place.line.seq >= last.0 {
            *last = (place.line.seq, at.clone());
        }
        let launched = |n: u32| Launch {
            session: place.line.journal,
            n,
        };
        match event {
            Event::JournalCreated { .. } => {}
            Event::SessionStarted(started) => self.begin_session(place, at, *started),
            Event::GroupBegun(begun) => {
                self.note_seen(place, begun.seen);
                let record = self.servers.entry(begun.server).or_default();
                if record.declared.is_none_or(|declared| declared < place) {
                    record.declared = Some(place);
                    record.config = begun.config;
                    self.judge_answers();
                }
            }
            Event::SearchStarted(started) => {
                let facts = self.searches.entry((started.search.clone(), started.slot)).or_default();
                facts.roots.push((place, *started));
                facts.counts = OnceLock::new();
            }
            Event::SearchFinished {
                search,
                after,
                answers,
                cause,
                detail,
            } => {
                let end = match cause {
                    None => SearchEnd::Answered(answers),
                    Some(cause) => SearchEnd::GivenUp(cause, detail),
                };
                self.end_search(search, place, after, end);
            }
            Event::ServerStarting {
                server,
                slot,
                launch,
                gpus,
            } => {
                let start = self.start(&server, launched(launch), place);
                start.slot = slot;
                start.gpus = gpus;
                start.started_at = at;
            }
            Event::ServerReady {
                server,
                launch,
                seconds,
                model,
                version,
                simulated,
                identity,
                answers,
            } => {
                let start = self.start(&server, launched(launch), place);
                start.ready_seconds = Some(seconds);
                let told = Fingerprint {
                    model: Some(model.clone()).filter(|model| !model.is_empty()),
                    version: version.clone(),
                    ..Fingerprint::default()
                };
                start.identity = identity.map_or(told, |identity| *identity);
                start.model = model;
                start.version = version;
                start.simulated = simulated;
                if answers.is_some() {
                    start.answers = answers;
                    self.judge_answers();
                }
            }
            Event::ServerExited {
                server,
                launch,
                cause,
                detail,
                seconds,
                held_seconds,
            } => {
                let start = self.start(&server, launched(launch), place);
                start.exited_at = Some(at);
                start.stop_seconds = seconds;
                start.held_seconds = held_seconds;
                start.cause = cause;
                start.detail = detail;
            }
            Event::RunStarted(started) => self.begin_run(place, *started),
            Event::RunFinished(finished) => {
                let line = LineId {
                    journal: place.line.journal,
                    seq: finished.started,
                };
                self.finish_run(line, Some(place.line), at, *finished);
            }
            Event::InterferenceSampled(sample) => self.note_sample(place, *sample),
            Event::GroupGivenUp(given_up) => self.give_up(place, at, *given_up),
            Event::ResultsRetired { server, reason } => {
                self.retirements.push(Retirement { server, place, reason });
                // Which of several tells the reason does not depend on what was read first.
                self.retirements.sort_by_key(|retired| retired.place);
                self.judge_answers();
                self.forget_chains();
            }
            Event::SessionEnded { reason } => {
                let journal = place.line.journal;
                let is_its = |session: &&mut Session| session.place.line.journal == journal;
                if let Some(session) = self.sessions.iter_mut().find(is_its) {
                    session.ended = Some(reason.clone());
                }
                self.endings.insert(journal, reason);
            }
        }
    }

    /// Takes what vsweep 1.x left into account.
    pub fn seal(&mut self, mut sealed: Sealed) {
        for entry in std::mem::take(&mut sealed.entries) {
            self.apply(entry);
        }
        self.sessions.append(&mut sealed.sessions);
        self.sessions.sort_by_key(|session| session.place);
        self.damage.append(&mut sealed.damage);
        self.sealed = Some(sealed);
    }

    fn begin_session(&mut self, place: Place, at: String, mut started: SessionStarted) {
        self.note_seen(place, std::mem::take(&mut started.seen));
        let session = Session {
            started_at: at,
            ended: self.endings.get(&place.line.journal).cloned(),
            place,
            said: started,
        };
        let at = self.sessions.partition_point(|other| other.place < place);
        self.sessions.insert(at, session);
        self.judge_interference();
    }

    fn note_seen(&mut self, place: Place, seen: Seen) {
        if !seen.is_empty() {
            self.seen
                .entry(place.line.journal)
                .or_default()
                .push((place.line.seq, seen));
            if !self.retirements.is_empty() {
                // What a retirement covers depends on what its session had seen.
                self.forget_chains();
            }
        }
    }

    /// Ends a search, or notes that it was given up.
    fn end_search(&mut self, search: SearchId, place: Place, after: LineId, end: SearchEnd) {
        let facts = self.searches.entry((search.clone(), FIRST_SLOT)).or_default();
        facts.ends.push((place, after, end));
        let of_search = (search.clone(), FIRST_SLOT)..=(search, u32::MAX);
        let slots = self.searches.range_mut(of_search);
        slots.for_each(|(_, facts)| facts.counts = OnceLock::new());
    }

    /// Chains are to be chosen anew.
    pub(super) fn forget_chains(&mut self) {
        self.counted = OnceLock::new();
        self.searches
            .values_mut()
            .for_each(|facts| facts.counts = OnceLock::new());
    }

    /// The record of a launch, made where the line that began it was not read.
    fn start(&mut self, server: &ServerId, launch: Launch, place: Place) -> &mut StartRecord {
        let starts = &mut self.servers.entry(server.clone()).or_default().starts;
        let at = match starts.iter().rposition(|start| start.launch == launch) {
            Some(at) => at,
            None => {
                let at = starts.partition_point(|other| other.place < place);
                let start = StartRecord {
                    launch,
                    place,
                    ..StartRecord::default()
                };
                starts.insert(at, start);
                at
            }
        };
        &mut starts[at]
    }

    /// A run begins, by its line or by what its file says of that.
    pub(in crate::journal) fn begin_run(&mut self, place: Place, started: RunStarted) {
        let line = place.line;
        if self.by_line.contains_key(&line) {
            return;
        }
        let params = self.shared(&started);
        let after = started.search.as_ref().map(|link| (link.after, link.step));
        let record = RunRecord {
            point: started.point,
            server: started.server,
            slot: started.slot,
            run: started.run,
            launch: (started.launch > 0).then_some(Launch {
                session: line.journal,
                n: started.launch,
            }),
            name: started.name,
            params,
            combo: started.combo,
            tried: true,
            search: started.search.map(|link| link.id),
            started: line,
            finished_at: String::new(),
            result: RunFinished {
                outcome: Outcome::Failed,
                ..RunFinished::default()
            },
        };
        let attempt = Attempt {
            after,
            anew: started.anew,
            ..Attempt::of(record, place, Standing::Open)
        };
        let at = self.add(attempt);
        self.by_line.insert(line, at);
        if let Some((by, at, finished)) = self.orphans.remove(&line) {
            self.finish_run(line, by, at, finished);
        }
    }

    /// The parameters of a run, kept once for all repetitions of its point.
    fn shared(&self, started: &RunStarted) -> Arc<Params> {
        let known = self.by_point.get(&started.point).and_then(|attempts| attempts.first());
        match known.map(|at| &self.attempts[*at].record.params) {
            Some(params) if **params == started.params => Arc::clone(params),
            _ => Arc::new(started.params.clone()),
        }
    }

    fn add(&mut self, attempt: Attempt) -> usize {
        let at = self.attempts.len();
        let record = &attempt.record;
        self.by_point.entry(record.point.clone()).or_default().push(at);
        if let (Some(search), Some(_)) = (&record.search, attempt.after) {
            let facts = self.searches.entry((search.clone(), record.slot)).or_default();
            facts.asked.push(at);
            facts.counts = OnceLock::new();
        }
        self.attempts.push(attempt);
        at
    }

    /// The run that a line began has a result: by the line `by`, or by its file alone.
    pub(in crate::journal) fn finish_run(
        &mut self,
        line: LineId,
        by: Option<LineId>,
        at: String,
        finished: RunFinished,
    ) {
        self.counted = OnceLock::new();
        let Some(place) = self.by_line.get(&line).copied() else {
            self.orphans.insert(line, (by, at, finished));
            return;
        };
        let attempt = &mut self.attempts[place];
        attempt.standing = Standing::Done;
        attempt.finished = by;
        attempt.as_recorded = (finished.outcome, finished.validity);
        let record = &mut attempt.record;
        (record.finished_at, record.result) = (at, finished);
        if let Some(search) = &record.search {
            let key = (search.clone(), record.slot);
            self.searches.entry(key).or_default().counts = OnceLock::new();
        }
        attempt.hold(&self.answers_doubted, &self.interference);
    }

    fn give_up(&mut self, place: Place, at: String, given_up: GroupGivenUp) {
        let GroupGivenUp { points, cause, .. } = given_up;
        for (search, after) in given_up.searches {
            self.end_search(search, place, after, SearchEnd::GivenUp(cause, given_up.detail.clone()));
        }
        let records = points.into_iter().flat_map(|untried| {
            let record = RunRecord {
                params: Arc::new(untried.params_with(&given_up.common)),
                point: untried.point,
                server: given_up.server.clone(),
                slot: given_up.slot,
                run: 0,
                launch: None,
                name: untried.name,
                combo: untried.combo,
                tried: false,
                search: untried.search,
                started: place.line,
                finished_at: at.clone(),
                result: RunFinished {
                    outcome: Outcome::Failed,
                    cause: Some(cause),
                    detail: given_up.detail.clone(),
                    ..RunFinished::default()
                },
            };
            let of_run = move |run| RunRecord { run, ..record.clone() };
            untried.runs.into_iter().map(of_run)
        });
        // Repetitions go round.
        let records = records.sorted_by_key(|record| record.run);
        for (index, mut record) in records.enumerate() {
            // The server was tried for the first one.
            record.tried = index == 0 && given_up.blamed.is_none();
            self.add(Attempt {
                index: index as u32,
                finished: Some(place.line),
                is_given_up: true,
                ..Attempt::of(record, place, Standing::Done)
            });
        }
    }
}
