//! Turns the lines of vsweep 1.x, in their order, into those of today.

use super::cold::Cold;
use super::lines::*;
use crate::journal::directory::Directory;
use crate::journal::event::{Event, GroupBegun, Learned, Link, RunFinished, RunStarted, SessionStarted, StoredFile};
use crate::journal::given_up::{GroupGivenUp, Untried};
use crate::journal::line::Entry;
use crate::journal::place::{LineId, Nonce, Place};
use crate::journal::recorded_plan::RecordedPlan;
use crate::journal::state::{FIRST_SLOT, Sealed, Session};
use std::collections::{BTreeMap, HashMap};
use vsweep_plan::cause::{Cause, NOT_TRIED, Outcome};
use vsweep_plan::ids::{PointId, SearchId};
use vsweep_plan::plan::Params;
use vsweep_plan::validity::{Code, Doubt, Validity};

/// What was read so far.
pub(super) struct Fold<'d> {
    pub(super) sealed: Sealed,
    directory: &'d Directory,
    /// Names of the journals.
    pub(super) shards: Vec<String>,
    /// Runs that were begun and have no result, by shard: where, when, on which start.
    open: BTreeMap<(usize, PointId, u32), (u64, String, u32)>,
    /// Where the run of a point that has a file stands among the entries: one that was measured again wrote over it.
    runs: HashMap<(PointId, u32), usize>,
    /// What the next probe of each search follows, and how many are before it.
    chains: HashMap<SearchId, (LineId, u32)>,
    cold: Cold,
}

impl<'d> Fold<'d> {
    pub(super) fn new(directory: &'d Directory) -> Fold<'d> {
        Fold {
            sealed: Sealed::default(),
            directory,
            shards: Vec::new(),
            open: BTreeMap::new(),
            runs: HashMap::new(),
            chains: HashMap::new(),
            cold: Cold::of(directory),
        }
    }

    fn place(&self) -> Place {
        let (journal, seq) = (Nonce::SEALED, self.sealed.entries.len() as u64);
        Place {
            lamport: seq,
            line: LineId { journal, seq },
        }
    }

    fn push(&mut self, at: &str, event: Event) -> LineId {
        let place = self.place();
        let (at, prev) = (at.to_owned(), Nonce::SEALED);
        self.sealed.entries.push(Entry { place, at, event, prev });
        place.line
    }

    pub(super) fn apply(&mut self, shard: usize, line: OldLine<OldEvent>) {
        let OldLine { seq, at, event } = line;
        match event {
            OldEvent::JournalCreated { .. } => {}
            OldEvent::SessionStarted {
                pid,
                plan_sha256,
                servers,
                points,
                runs,
                searches,
            } => {
                let said = SessionStarted {
                    // A shard works in one session at a time.
                    host: self.shards[shard].clone(),
                    pid,
                    plan: RecordedPlan {
                        sha256: plan_sha256,
                        ..RecordedPlan::default()
                    },
                    servers,
                    points,
                    starts: 1,
                    runs,
                    searches,
                    ..SessionStarted::default()
                };
                let place = self.place();
                self.sealed.sessions.push(Session {
                    started_at: at,
                    said,
                    ended: None,
                    place,
                });
            }
            OldEvent::PointsDropped { points } => self.sealed.dropped.extend(points),
            OldEvent::PointsRestored { points } => {
                points.iter().for_each(|point| _ = self.sealed.dropped.remove(point))
            }
            OldEvent::SearchesPlanned { searches } => self.sealed.searches = searches.into_iter().collect(),
            OldEvent::Same(Event::SessionEnded { reason }) => {
                let shard = &self.shards[shard];
                let session = self.sealed.sessions.iter_mut().rfind(|session| session.host == *shard);
                if let Some(session) = session {
                    session.ended = Some(reason);
                }
            }
            OldEvent::Same(event) => {
                let search = match &event {
                    Event::SearchStarted(started) => Some(started.search.clone()),
                    _ => None,
                };
                let line = self.push(&at, event);
                if let Some(search) = search {
                    self.chains.entry(search).or_insert((line, 0));
                }
            }
            OldEvent::SearchFinished {
                search,
                answers,
                cause,
                detail,
            } => {
                if let Some((after, _)) = self.chains.get(&search).copied() {
                    let finished = Event::SearchFinished {
                        search,
                        after,
                        answers,
                        cause,
                        detail,
                    };
                    self.push(&at, finished);
                }
            }
            OldEvent::ServerDeclared { server, config } => {
                let begun = GroupBegun {
                    server,
                    config,
                    ..GroupBegun::default()
                };
                self.push(&at, Event::GroupBegun(Box::new(begun)));
            }
            OldEvent::RunStarted { point, run, start } => {
                self.open.insert((shard, point, run), (seq, at, start));
            }
            OldEvent::RunFinished(run) => {
                let open = self.open.remove(&(shard, run.point.clone(), run.run));
                let start = open.map_or(0, |(_, _, start)| start);
                self.run(&at, *run, start);
            }
        }
    }

    fn run(&mut self, at: &str, run: OldRun, start: u32) {
        let key = (run.point.clone(), run.run);
        let is_cold = self.cold.is_first(&run, start);
        let replaced = self.runs.get(&key).copied().filter(|_| run.file.is_some());
        let link = run.search.as_ref().and_then(|OldSearched { id, probe, .. }| {
            let (after, step) = match replaced.map(|at| &self.sealed.entries[at].event) {
                // Measured again in its place.
                Some(Event::RunStarted(before)) if before.search.as_ref().is_some_and(|link| link.id == *id) => {
                    let link = before.search.as_ref()?;
                    (link.after, link.step)
                }
                _ => *self.chains.get(id)?,
            };
            let draw = probe.as_ref().map_or(0, |probe| probe.question.draw);
            let id = id.clone();
            Some(Link { id, after, step, draw })
        });
        let learned = run
            .search
            .and_then(|OldSearched { probe, level, .. }| probe.map(Learned::Probe).or(level.map(Learned::Level)));
        let known = |name: &str| Cause::ALL.into_iter().find(|cause| cause.name() == name);
        let cause = run.cause.as_deref().and_then(known);
        let mut doubts = Vec::new();
        if let (Outcome::Suspect, Some(name)) = (run.outcome, &run.cause) {
            // What was a cause for doubt then is a doubt today.
            doubts.push(Doubt::new(Code::named(name), &run.detail));
        }
        if is_cold && run.outcome != Outcome::Failed {
            doubts.push(Cold::doubt());
        }
        let outcome = match run.outcome {
            Outcome::Ok if !doubts.is_empty() => Outcome::Suspect,
            outcome => outcome,
        };
        let validity = match outcome == Outcome::Suspect || !doubts.is_empty() {
            true => Validity::Suspect,
            false => Validity::Valid,
        };
        if let (Some(detail), Some(cause)) = (run.detail.strip_prefix(NOT_TRIED), cause) {
            let untried = Untried {
                point: run.point,
                runs: vec![run.run],
                name: run.name,
                params: run.params,
                combo: run.combo,
                search: link.map(|link| link.id),
            };
            let given_up = GroupGivenUp {
                server: run.server,
                slot: FIRST_SLOT,
                cause,
                detail: detail.to_owned(),
                blamed: Some(0),
                common: Params::new(),
                points: vec![untried],
                searches: Vec::new(),
            };
            self.push(at, Event::GroupGivenUp(Box::new(given_up)));
            return;
        }
        let started = RunStarted {
            point: run.point,
            server: run.server,
            run: run.run,
            launch: start,
            name: run.name,
            params: run.params,
            combo: run.combo,
            search: link.clone(),
            ..RunStarted::default()
        };
        let has_file = run.file.is_some();
        let finished = |started: u64| RunFinished {
            started,
            outcome,
            validity,
            doubts,
            cause,
            detail: run.detail,
            seconds: run.seconds,
            file: run.file,
            learned,
            ..RunFinished::default()
        };
        if let Some(at_entry) = replaced {
            // The same line number keeps its place in tables and chains; its file was written over.
            let line = self.sealed.entries[at_entry].place.line;
            self.sealed.entries[at_entry].event = Event::RunStarted(Box::new(started));
            self.sealed.entries[at_entry + 1].event = Event::RunFinished(Box::new(finished(line.seq)));
            self.sealed.entries[at_entry + 1].at = at.to_owned();
            return;
        }
        if has_file {
            self.runs.insert(key, self.sealed.entries.len());
        }
        let line = self.push(at, Event::RunStarted(Box::new(started)));
        self.push(at, Event::RunFinished(Box::new(finished(line.seq))));
        if let Some(Link { id, step, .. }) = link {
            self.chains.insert(id, (line, step + 1));
        }
    }

    /// Adopts runs whose file is complete and whose line is missing, as 1.x did when it went on.
    pub(super) fn finish(mut self) -> Sealed {
        for ((shard, point, run), (seq, at, start)) in std::mem::take(&mut self.open) {
            let path = format!("runs/{point}/{run}.json");
            let Ok(content) = std::fs::read(self.directory.root().join(&path)) else {
                continue;
            };
            let provenance = serde_json::from_slice::<Params>(&content)
                .ok()
                .and_then(|mut file| file.remove(crate::journal::run_file::PROVENANCE))
                .and_then(|value| serde_json::from_value::<OldProvenance>(value).ok());
            let Some(provenance) = provenance else { continue };
            let is_of = (&provenance.shard, provenance.started_seq, &provenance.started_at);
            if is_of == (&self.shards[shard], seq, &at) {
                let mut finished = provenance.finished;
                finished.file = Some(StoredFile::of(path, &content));
                self.run(&at, finished, start);
            }
        }
        self.sealed
    }
}
