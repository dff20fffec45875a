//! A scripted session: it writes its journal and its files as `vsweep run` does, and dies at any moment.

use super::moves::*;
use crate::journal::declared::ServerDescription;
use crate::journal::event::*;
use crate::journal::files::{self, BenchmarkResult, Provenance};
use crate::journal::given_up::{GroupGivenUp, Untried};
use crate::journal::line::Entry;
use crate::journal::rank::{LineId, Nonce, Rank, Sum};
use crate::journal::state::FIRST_SLOT;
use crate::journal::{Directory, Follower, RunFiles};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use vsweep_base::cause::{Cause, Outcome};
use vsweep_base::ids::PointId;
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_plan::{Params, Secrets};
use vsweep_strategy::search::{Answer, Found, Probe, Question, Seed, Vary};

/// A session that shares its directory with the other sessions of a test.
pub(super) struct Actor {
    pub(super) nonce: Nonce,
    pub(super) path: PathBuf,
    pub(super) follower: Follower,
    pub(super) seq: u64,
    pub(super) prev: Sum,
    pub(super) last_seen: ReadPositions,
    pub(super) plan: usize,
    pub(super) group: Option<usize>,
    pub(super) running: Option<Entry>,
    pub(super) launches: u32,
    /// Runs that the session has retired, by the lines that began them.
    pub(super) retired: Vec<LineId>,
}

impl Actor {
    pub(super) fn begin(directory: &Directory, nonce: Nonce, number: usize) -> Actor {
        let follower = Follower::open(directory).expect("readable");
        let mut actor = Actor {
            nonce,
            path: directory.journal_folder().join(format!("{nonce}.jsonl")),
            follower,
            seq: 0,
            prev: nonce,
            last_seen: ReadPositions::new(),
            plan: number,
            group: None,
            running: None,
            launches: 0,
            retired: Vec::new(),
        };
        actor.write(Event::JournalCreated {
            format: "1.0".into(),
            vsweep: "0".into(),
            shard: "1-of-1".into(),
        });
        let plan = actor.follower.state().refer(plan(number));
        let seen = actor.news();
        actor.write(Event::SessionStarted(Box::new(SessionStarted {
            host: "h".into(),
            boot: "b".into(),
            pid: 1,
            started: 1,
            plan,
            servers: SERVERS as u64,
            points: 4,
            starts: 1,
            runs: 4 * u64::from(RUNS),
            searches: 1,
            seen,
            ..SessionStarted::default()
        })));
        actor
    }

    fn news(&mut self) -> ReadPositions {
        let mut seen = self.follower.seen();
        seen.retain(|name, now| self.last_seen.get(name) != Some(now));
        self.last_seen.extend(seen.clone());
        seen
    }

    fn write(&mut self, event: Event) -> Entry {
        let entry = Entry {
            rank: Rank {
                lamport: self.follower.state().lamport() + 1,
                line: LineId {
                    journal: self.nonce,
                    seq: self.seq,
                },
            },
            // Clocks go wrong in every way.
            at: format!(
                "{}-01-01T00:00:00Z",
                1970 + self.nonce.to_string().len() as u64 * self.seq % 90
            ),
            event,
            prev: self.prev,
        };
        let (line, sum) = entry.encode();
        self.append(&line);
        (self.seq, self.prev) = (self.seq + 1, sum);
        self.follower.note_own(entry.clone());
        entry
    }

    fn append(&self, bytes: &[u8]) {
        use std::io::Write;
        let file = fs::OpenOptions::new().append(true).create(true).open(&self.path);
        file.expect("opened").write_all(bytes).expect("written");
    }

    /// Performs an action if it is possible now. Returns true if the session goes on.
    pub(super) fn act(
        &mut self,
        directory: &Directory,
        action: Move,
        results: &mut Vec<(Rank, RunStarted, Result)>,
    ) -> bool {
        match (action, self.group, self.running.clone()) {
            (Move::Die(bytes), ..) => {
                let torn = br#"{"seq":7,"lamport":19,"at":"2026-11-22T00:"#;
                self.append(&torn[..bytes.min(torn.len())]);
                return false;
            }
            (Move::End, _, None) => {
                let reason = "finished".into();
                self.write(Event::SessionEnded { reason });
                return false;
            }
            (Move::TakeGroup(group), _, None) => {
                self.follower.refresh().expect("readable");
                let seen = self.news();
                self.write(Event::GroupBegun(Box::new(GroupBegun {
                    proposed: None,
                    server: server(group),
                    slot: FIRST_SLOT,
                    config: ServerDescription {
                        name: format!("server {group}"),
                        params: params(&[("max_num_seqs", group)]),
                        ..ServerDescription::default()
                    },
                    seen,
                })));
                self.launches += 1;
                let (server, launch) = (server(group), self.launches);
                self.write(Event::ServerStarting {
                    server: server.clone(),
                    slot: FIRST_SLOT,
                    launch,
                    gpus: Vec::new(),
                });
                self.write(Event::ServerReady(Box::new(ServerReady {
                    server,
                    launch,
                    simulated: true,
                    ..ServerReady::default()
                })));
                self.group = Some(group);
            }
            (Move::Run(which, retry), Some(group), None) => {
                let state = self.follower.state();
                let is_open = |(number, run): &(usize, u32)| match state.outcome(&point(*number), FIRST_SLOT, *run) {
                    None => true,
                    Some(outcome) => retry && outcome == Outcome::Failed,
                };
                let of_group = plan_points(self.plan).filter(|number| number % SERVERS == group);
                let runs = of_group.flat_map(|number| (0..RUNS).map(move |run| (number, run)));
                let open: Vec<_> = runs.filter(is_open).collect();
                if let Some((number, run)) = (!open.is_empty()).then(|| *which.get(&open)) {
                    self.begin_run(group, point(number), run, None);
                }
            }
            (Move::Probe, Some(0), None) => {
                if self.follower.state().search(&search(), FIRST_SLOT).is_none() {
                    self.write(Event::SearchStarted(Box::new(begin_search())));
                }
                let record = self.follower.state().search(&search(), FIRST_SLOT).expect("begun");
                if record.ended.is_none() {
                    let link = Link {
                        id: search(),
                        after: record.tip,
                        step: record.steps(),
                        draw: record.steps(),
                    };
                    let at = point(0x100 + record.steps() as usize % 3);
                    let run = self.follower.state().free_run(&at, FIRST_SLOT);
                    self.begin_run(0, at, run, Some(link));
                }
            }
            (Move::Finish(result), _, Some(started)) => {
                self.finish(directory, &started, result, true, results);
                self.running = None;
            }
            (Move::FileOnly, _, Some(started)) => {
                self.finish(directory, &started, Result::Ok, false, results);
                return false;
            }
            (Move::Answer(is_answered), Some(0), None) => {
                let record = self.follower.state().search(&search(), FIRST_SLOT);
                if let Some(record) = record.filter(|record| record.steps() > 1 && record.ended.is_none()) {
                    let after = record.tip;
                    self.write(Event::SearchFinished {
                        search: search(),
                        after,
                        answers: if is_answered { vec![answer()] } else { Vec::new() },
                        cause: (!is_answered).then_some(Cause::BenchFailed),
                        detail: String::new(),
                    });
                }
            }
            (Move::GiveUp, Some(group), None) => {
                let state = self.follower.state();
                let of_group = plan_points(self.plan).filter(|number| number % SERVERS == group);
                let untried = of_group.filter_map(|number| {
                    let runs = (0..RUNS).filter(|run| state.outcome(&point(number), FIRST_SLOT, *run).is_none());
                    let runs: Vec<u32> = runs.collect();
                    (!runs.is_empty()).then(|| Untried {
                        point: point(number),
                        runs,
                        name: format!("point {number}"),
                        params: params(&[("max_concurrency", number), ("len", 8)]),
                        combo: None,
                        search: None,
                    })
                });
                let given_up = GroupGivenUp {
                    server: server(group),
                    slot: FIRST_SLOT,
                    cause: Cause::OomAtLoad,
                    detail: "out of memory".into(),
                    ruled_out: None,
                    blamed: None,
                    common: Params::new(),
                    points: untried.collect(),
                    unlisted: Vec::new(),
                    searches: Vec::new(),
                };
                if !given_up.points.is_empty() {
                    self.write(Event::GroupGivenUp(Box::new(given_up.compact())));
                }
            }
            (Move::Retire, Some(group), None) => {
                let reason = "another server".into();
                let server = server(group);
                self.retired = self.follower.state().begun_on(&server);
                self.write(Event::ResultsRetired { server, reason });
            }
            _ => {}
        }
        true
    }

    fn begin_run(&mut self, group: usize, point: PointId, run: u32, search: Option<Link>) {
        let server = server(group);
        let anew = self.follower.state().retired_by(&server, self.nonce);
        let number = usize::from_str_radix(&point.0, 16).expect("a number");
        let started = RunStarted {
            point,
            server,
            slot: FIRST_SLOT,
            run,
            launch: self.launches,
            name: format!("point {number}"),
            params: params(&[("max_concurrency", number), ("len", 8)]),
            search,
            anew,
            ..RunStarted::default()
        };
        self.running = Some(self.write(Event::RunStarted(Box::new(started))));
    }

    fn finish(
        &mut self,
        directory: &Directory,
        entry: &Entry,
        result: Result,
        with_line: bool,
        results: &mut Vec<(Rank, RunStarted, Result)>,
    ) {
        let Event::RunStarted(started) = &entry.event else {
            unreachable!()
        };
        let (outcome, validity) = match result {
            Result::Ok => (Outcome::Ok, Validity::Valid),
            Result::Suspect => (Outcome::Suspect, Validity::Suspect),
            Result::Invalid => (Outcome::Suspect, Validity::Invalid),
            Result::Cut => (Outcome::Cut, Validity::Valid),
            Result::Failed => (Outcome::Failed, Validity::Valid),
        };
        let doubts = match validity {
            Validity::Valid => Vec::new(),
            _ => vec![Doubt::new(Code::ColdServer, "cold")],
        };
        let mut finished = RunFinished {
            started: entry.rank.line.seq,
            outcome,
            validity,
            doubts,
            cause: (result == Result::Failed).then_some(Cause::BenchFailed),
            seconds: 1.0,
            learned: started.search.as_ref().map(|link| {
                RunEvidence::Probe(Box::new(Probe {
                    question: Question {
                        target: "t".into(),
                        value: f64::from(link.step),
                        requests: 1,
                        confirm: false,
                        draw: link.draw,
                    },
                    stopped: None,
                    readings: BTreeMap::new(),
                    served: None,
                    throughput: None,
                    is_outrun: false,
                    disturbances: Vec::new(),
                }))
            }),
            ..RunFinished::default()
        };
        if result != Result::Failed {
            let provenance = Provenance {
                line: entry.rank.line,
                lamport: entry.rank.lamport,
                at: entry.at.clone(),
                started: (**started).clone(),
                server: self.follower.state().servers[&started.server].config.clone(),
                finished: finished.clone(),
            };
            let figures = Params::from_iter([("value".to_owned(), json!(entry.rank.line.to_string()))]);
            let measured = BenchmarkResult {
                result: figures.into(),
                simulated: true,
            };
            let content = files::encode(&provenance, measured, &Secrets::default());
            let path = RunFiles::of(&started.point, started.slot, started.run, entry.rank.line).json();
            let target = directory.root().join(&path);
            fs::create_dir_all(target.parent().expect("a folder")).expect("created");
            fs::write(&target, &content).expect("written");
            finished.file = Some(StoredFile::of(path, &content));
        }
        results.push((entry.rank, (**started).clone(), result));
        if with_line {
            self.write(Event::RunFinished(Box::new(finished)));
        }
    }
}

pub(super) fn params(values: &[(&str, usize)]) -> Params {
    values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}

pub(super) fn begin_search() -> SearchStarted {
    SearchStarted {
        search: search(),
        server: server(0),
        slot: FIRST_SLOT,
        name: "default".into(),
        params: Params::new(),
        vary: Vary::MaxConcurrency,
        targets: Vec::new(),
        seed: Seed::UNKNOWN,
        rivals: Vec::new(),
    }
}

pub(super) fn answer() -> Answer {
    Answer {
        target: "t".into(),
        found: Found::Met(3.0),
        low: 3.0,
        high: 4.0,
        probes: 2,
        ..Answer::default()
    }
}
