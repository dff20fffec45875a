//! The step of the fold: the effect of each event on the state.

use super::chains::SearchLines;
use super::records::RunStatus;
use super::{FIRST_SLOT, Launch, LaunchRecord, Retirement, RunRecord, SearchEnd, Session, State, UnlistedRuns};
use crate::journal::declared::ProposedStart;
use crate::journal::event::{Event, ReadPositions, RunFinished, RunStarted, SessionStarted};
use crate::journal::given_up::GroupGivenUp;
use crate::journal::line::Entry;
use crate::journal::rank::{LineId, Nonce, Rank};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use vsweep_base::cause::Failure;
use vsweep_base::fingerprint::Fingerprint;
use vsweep_base::ids::{SearchId, ServerId};
use vsweep_strategy::selection::optimized::Reason;

impl State {
    /// Applies one line.
    pub fn apply(&mut self, entry: Entry) {
        self.take(entry);
        self.judge_answers();
    }

    /// Applies one of several lines. [`State::judge_answers`] must follow the last one.
    pub(in crate::journal) fn take(&mut self, entry: Entry) {
        let Entry { rank, at, event, .. } = entry;
        self.lamport = self.lamport.max(rank.lamport);
        self.counted = OnceLock::new();
        let last = self.last_lines.entry(rank.line.journal).or_default();
        if rank.line.seq >= last.0 {
            *last = (rank.line.seq, at.clone());
        }
        let launched = |n: u32| Launch {
            session: rank.line.journal,
            n,
        };
        match event {
            Event::JournalCreated { .. } => {}
            Event::SessionStarted(started) => self.begin_session(rank, at, *started),
            Event::GroupBegun(begun) => {
                self.note_seen(rank, begun.seen);
                if let Some(reason) = begun.proposed {
                    self.propose(rank, &begun.server, begun.slot, reason);
                }
                let record = self.servers.entry(begun.server).or_default();
                if record.declared.is_none_or(|declared| declared < rank) {
                    record.declared = Some(rank);
                    record.config = begun.config;
                    self.are_answers_judged = false;
                }
            }
            Event::SearchStarted(mut started) => {
                self.names.apply_to_search(&mut started);
                let facts = self.search_lines(&started.search, started.slot);
                facts.roots.push((rank, *started));
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
                    Some(cause) => SearchEnd::GivenUp(Failure::new(cause, detail)),
                };
                self.end_search(search, rank, after, end);
            }
            Event::ServerStarting {
                server,
                slot,
                launch,
                gpus,
            } => {
                let record = self.launch_record(&server, launched(launch), rank);
                record.slot = slot;
                record.gpus = gpus;
                record.started_at = at;
            }
            Event::ServerReady(mut ready) => {
                let record = self.launch_record(&ready.server, launched(ready.launch), rank);
                // Of a server that vsweep launched, no other properties are recorded or needed.
                ready.identity.get_or_insert_with(|| {
                    Box::new(Fingerprint {
                        model: Some(ready.model.clone()).filter(|model| !model.is_empty()),
                        version: ready.version.clone(),
                        ..Fingerprint::default()
                    })
                });
                let is_answered = ready.answers.is_some();
                (record.ready, record.ready_at) = (Some(ready), Some(at));
                if is_answered {
                    self.are_answers_judged = false;
                }
            }
            Event::ServerExited(exited) => {
                let record = self.launch_record(&exited.server, launched(exited.launch), rank);
                record.exited_at = Some(at);
                record.exit = *exited;
            }
            Event::RunStarted(started) => self.begin_run(rank, *started),
            Event::RunFinished(finished) => {
                let line = LineId {
                    journal: rank.line.journal,
                    seq: finished.started,
                };
                self.finish_run(line, Some(rank.line), at, *finished);
            }
            Event::GroupGivenUp(given_up) => self.give_up(rank, at, *given_up),
            Event::ResultsRetired { server, reason } => {
                self.retirements.push(Retirement { server, rank, reason });
                // The reason that is shown for a retired result must not depend on the order of reading.
                self.retirements.sort_by_key(|retired| retired.rank);
                self.are_answers_judged = false;
                self.forget_chains();
            }
            Event::SessionEnded { reason } => {
                let endings = self.endings.entry(rank.line.journal).or_default();
                endings.insert(rank.line.seq, reason);
                let of_journal = self
                    .sessions
                    .iter_mut()
                    .filter(|session| session.rank.line.journal == rank.line.journal);
                for session in of_journal {
                    session.ended = ending_after(endings, session.rank.line.seq);
                }
            }
        }
    }

    fn begin_session(&mut self, rank: Rank, at: String, mut started: SessionStarted) {
        self.note_seen(rank, std::mem::take(&mut started.seen));
        self.rename(rank, std::mem::take(&mut started.renamed));
        let session = Session {
            started_at: at,
            ended: self
                .endings
                .get(&rank.line.journal)
                .and_then(|endings| ending_after(endings, rank.line.seq)),
            rank,
            beginning: started,
        };
        self.unlisted_counts = OnceLock::new();
        self.are_answers_judged = false;
        let at = self.sessions.partition_point(|other| other.rank < rank);
        self.sessions.insert(at, session);
    }

    /// Notes a start that an optimisation asked for. A start that begins again keeps its first position.
    fn propose(&mut self, rank: Rank, server: &ServerId, slot: u32, reason: Reason) {
        let known = self
            .proposals
            .iter()
            .position(|own| own.server == *server && own.slot == slot);
        match known {
            Some(at) if self.proposals[at].rank < rank => return,
            Some(at) => drop(self.proposals.remove(at)),
            None => {}
        }
        let at = self.proposals.partition_point(|other| other.rank < rank);
        let server = server.clone();
        let proposed = ProposedStart {
            server,
            slot,
            reason,
            rank,
        };
        self.proposals.insert(at, proposed);
    }

    fn note_seen(&mut self, rank: Rank, seen: ReadPositions) {
        if !seen.is_empty() {
            self.seen
                .entry(rank.line.journal)
                .or_default()
                .push((rank.line.seq, seen));
            if !self.retirements.is_empty() || self.searches.values().any(|facts| facts.roots.len() > 1) {
                // A retirement and a search that begins anew cover the lines that their session had seen.
                self.forget_chains();
            }
        }
    }

    /// Ends a search, or notes that it was given up. The entry of the first slot keeps the ends of all slots.
    fn end_search(&mut self, search: SearchId, rank: Rank, after: LineId, end: SearchEnd) {
        self.search_lines(&search, FIRST_SLOT).ends.push((rank, after, end));
        let of_search = (search.clone(), FIRST_SLOT)..=(search, u32::MAX);
        let slots = self.searches.range_mut(of_search);
        slots.for_each(|(_, facts)| facts.chosen = OnceLock::new());
    }

    /// Returns the lines of a search on a start slot, to be changed. The chain that counts will be chosen anew.
    fn search_lines(&mut self, search: &SearchId, slot: u32) -> &mut SearchLines {
        let facts = self.searches.entry((search.clone(), slot)).or_default();
        facts.chosen = OnceLock::new();
        facts
    }

    /// Discards the chosen chains and the counts, so that they are computed anew.
    pub(super) fn forget_chains(&mut self) {
        (self.counted, self.unlisted_counts) = (OnceLock::new(), OnceLock::new());
        self.searches
            .values_mut()
            .for_each(|facts| facts.chosen = OnceLock::new());
    }

    /// Returns the record of a launch, and makes one if there is none yet.
    fn launch_record(&mut self, server: &ServerId, launch: Launch, rank: Rank) -> &mut LaunchRecord {
        let launches = &mut self.servers.entry(server.clone()).or_default().launches;
        let at = match launches.iter().rposition(|record| record.launch == launch) {
            Some(at) => at,
            None => {
                let at = launches.partition_point(|other| other.rank < rank);
                let record = LaunchRecord {
                    launch,
                    rank,
                    ..LaunchRecord::default()
                };
                launches.insert(at, record);
                at
            }
        };
        &mut launches[at]
    }

    /// Begins a run, by its line or by the copy of that line in the run's file.
    pub(in crate::journal) fn begin_run(&mut self, rank: Rank, started: RunStarted) {
        let line = rank.line;
        if self.by_line.contains_key(&line) {
            return;
        }
        let (session, n) = (line.journal, started.launch);
        let launches = self.launches_of(&started.server);
        let own = launches.iter().find(|own| own.launch == Launch { session, n });
        let is_of_plan =
            |planning: &Session| planning.nonce() == session || own.is_some_and(|own| planning.rank < own.rank);
        // A search may reach a point at which older launches measured.
        let is_shared = started.search.is_some() && self.by_point.contains_key(&started.point);
        let is_other = || self.planning_session().is_some_and(|planning| !is_of_plan(planning));
        if session != Nonce::IMAGINED && (is_shared || is_other()) {
            // This may be the first run of the plan on a launch that is older than the plan.
            self.are_answers_judged = false;
        }
        let at = self.add(RunRecord::begun(rank, started));
        self.by_line.insert(line, at);
        if let Some((by, at, finished)) = self.orphans.remove(&line) {
            self.finish_run(line, by, at, finished);
        }
    }

    fn add(&mut self, mut run: RunRecord) -> usize {
        let at = self.attempts.len();
        self.names.apply_to_run(&mut run);
        let of_point = self.by_point.get(&run.point).and_then(|attempts| attempts.first());
        if let Some(like) = of_point.copied().or(at.checked_sub(1)) {
            run.share(&self.attempts[like]);
        }
        self.by_point.entry(run.point.clone()).or_default().push(at);
        if let (Some(search), Some(_)) = (&run.search, run.after) {
            self.search_lines(search, run.slot).asked.push(at);
        }
        self.attempts.push(run);
        at
    }

    /// Gives a result to the run that `line` began. `by` is the line of the result; `None` if only the run's file has it.
    pub(in crate::journal) fn finish_run(
        &mut self,
        line: LineId,
        by: Option<LineId>,
        at: String,
        mut finished: RunFinished,
    ) {
        self.counted = OnceLock::new();
        let Some(index) = self.by_line.get(&line).copied() else {
            self.orphans.insert(line, (by, at, finished));
            return;
        };
        let begun = &self.attempts[index];
        if self.unlisted_at(&begun.point, begun.slot, begun.run).is_some() {
            self.unlisted_counts = OnceLock::new();
        }
        if let Some(before) = index.checked_sub(1) {
            finished.share(&self.attempts[before].result);
        }
        let run = &mut self.attempts[index];
        run.status = RunStatus::Done;
        run.finished = by;
        run.as_recorded = (finished.outcome, finished.validity);
        (run.finished_at, *run.result) = (at, finished);
        run.mark(&self.answers_doubted);
        let slot = run.slot;
        if let Some(search) = run.search.clone() {
            self.search_lines(&search, slot);
        }
    }

    fn give_up(&mut self, rank: Rank, at: String, given_up: GroupGivenUp) {
        let failure = given_up.failure();
        let ruled_out = failure.ruled_out.clone().map(Arc::from);
        for own in given_up.unlisted {
            let unlisted = UnlistedRuns {
                server: given_up.server.clone(),
                cause: failure.cause,
                detail: failure.detail.clone(),
                ruled_out: ruled_out.clone(),
                slot: given_up.slot,
                rank,
                runs: own.runs,
                points: Arc::new(own.points),
            };
            self.give_up_unlisted(unlisted);
        }
        for (search, after) in given_up.searches {
            self.end_search(search, rank, after, SearchEnd::GivenUp(failure.clone()));
        }
        let records = given_up.points.into_iter().flat_map(|untried| {
            let params = untried.params_with(&given_up.common);
            let started = RunStarted {
                point: untried.point,
                server: given_up.server.clone(),
                slot: given_up.slot,
                name: untried.name,
                params,
                combo: untried.combo,
                ..RunStarted::default()
            };
            let mut record = RunRecord {
                search: untried.search,
                ruled_out: ruled_out.clone(),
                finished_at: at.clone(),
                status: RunStatus::Done,
                finished: Some(rank.line),
                ..RunRecord::begun(rank, started)
            };
            record.result.cause = Some(failure.cause);
            record.result.detail.clone_from(&failure.detail);
            let of_run = move |run| RunRecord { run, ..record.clone() };
            untried.runs.into_iter().map(of_run)
        });
        // In the order of a sweep, which measures every point once before any is measured twice.
        let records = records.sorted_by_key(|record| record.run);
        for (index, record) in (0..).zip(records) {
            self.add(RunRecord {
                index,
                // If the server did not start, its start was tried for the first of these runs.
                tried: index == 0 && given_up.blamed.is_none(),
                ..record
            });
        }
    }
}

/// Events that no session has written: those of rehearsals, forecasts and tests.
impl State {
    /// Returns an event as the line that would be written next. Does not apply it.
    pub fn next_entry(&self, event: Event) -> Entry {
        Entry {
            rank: Rank {
                lamport: self.lamport + 1,
                line: LineId {
                    journal: Nonce::IMAGINED,
                    seq: self.lamport + 1,
                },
            },
            at: String::new(),
            event,
            prev: Nonce::IMAGINED,
        }
    }

    /// Applies an event as if it were written next: for rehearsals, forecasts and tests.
    pub fn apply_hypothetical(&mut self, event: Event) -> Entry {
        let entry = self.next_entry(event);
        self.apply(entry.clone());
        entry
    }
}

/// Returns the ending of a session that began with this line. Its journal may hold further sessions of the same process.
fn ending_after(endings: &BTreeMap<u64, String>, began: u64) -> Option<String> {
    let (_, reason) = endings.range(began..).next()?;
    Some(reason.clone())
}

#[cfg(test)]
impl State {
    /// Applies the beginning and the good result of a run that took one second.
    pub(in crate::journal) fn imagine_run(
        &mut self,
        started: crate::journal::RunStarted,
        learned: Option<crate::journal::RunEvidence>,
    ) {
        let started = self.apply_hypothetical(Event::RunStarted(Box::new(started)));
        self.apply_hypothetical(Event::RunFinished(Box::new(crate::journal::RunFinished {
            started: started.rank.line.seq,
            seconds: 1.0,
            learned,
            ..crate::journal::RunFinished::default()
        })));
    }
}
