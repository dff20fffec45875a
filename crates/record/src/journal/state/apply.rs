//! What each event adds to what is known: the step of the fold.

use super::{Planned, SearchEnd, SearchRecord, Session, StartRecord, State, Unfinished};
use crate::journal::event::{Entry, Event};
use vsweep_plan::ids::ServerId;

impl State {
    /// Takes one more event into account.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            Event::JournalCreated { .. } => {}
            Event::SessionStarted {
                pid,
                plan_sha256,
                servers,
                points,
                runs,
                searches,
                ..
            } => {
                self.planned = Some(Planned {
                    servers: *servers,
                    points: *points,
                    runs: *runs,
                    searches: *searches,
                });
                self.sessions.push(Session {
                    started_at: entry.at.clone(),
                    pid: *pid,
                    plan_sha256: plan_sha256.clone(),
                    ended: None,
                });
            }
            Event::PointsDropped { points } => self.dropped.extend(points.iter().cloned()),
            Event::PointsRestored { points } => self.dropped.retain(|point| !points.contains(point)),
            Event::SearchesPlanned { searches } => self.planned_searches = searches.iter().cloned().collect(),
            Event::SearchStarted(started) => self.searches.push(SearchRecord {
                started: (**started).clone(),
                ended: None,
            }),
            Event::SearchFinished {
                search,
                answers,
                cause,
                detail,
            } => {
                if let Some(record) = self.searches.iter_mut().find(|record| record.started.search == *search) {
                    record.ended = Some(match cause {
                        None => SearchEnd::Answered(answers.clone()),
                        Some(cause) => SearchEnd::GivenUp(*cause, detail.clone()),
                    });
                }
            }
            Event::ServerDeclared {
                server,
                name,
                argv,
                env,
                params,
                combo,
            } => {
                let record = self.servers.entry(server.clone()).or_default();
                record.name.clone_from(name);
                record.argv.clone_from(argv);
                record.env.clone_from(env);
                record.params.clone_from(params);
                record.combo.clone_from(combo);
            }
            Event::ServerStarting { server, start } => {
                self.servers
                    .entry(server.clone())
                    .or_default()
                    .starts
                    .push(StartRecord {
                        start: *start,
                        started_at: entry.at.clone(),
                        ..StartRecord::default()
                    });
            }
            Event::ServerReady {
                server,
                start,
                seconds,
                model,
                version,
                simulated,
            } => {
                if let Some(record) = self.start(server, *start) {
                    record.ready_seconds = Some(*seconds);
                    record.model.clone_from(model);
                    record.version.clone_from(version);
                    record.simulated = *simulated;
                }
            }
            Event::ServerExited {
                server, start, cause, ..
            } => {
                if let Some(record) = self.start(server, *start) {
                    record.exited_at = Some(entry.at.clone());
                    record.cause = *cause;
                }
            }
            Event::RunStarted { point, run, .. } => {
                self.unfinished.retain(|open| (&open.point, open.run) != (point, *run));
                self.unfinished.push(Unfinished {
                    point: point.clone(),
                    run: *run,
                    seq: entry.seq,
                    at: entry.at.clone(),
                });
            }
            Event::RunFinished(finished) => {
                self.unfinished
                    .retain(|open| (&open.point, open.run) != (&finished.point, finished.run));
                let key = (finished.point.clone(), finished.run);
                self.disowned.remove(&key);
                match self.positions.get(&key) {
                    Some(at) => {
                        self.recorded[*at] = (**finished).clone();
                        self.finished_at[*at].clone_from(&entry.at);
                    }
                    None => {
                        self.positions.insert(key, self.recorded.len());
                        self.recorded.push((**finished).clone());
                        self.finished_at.push(entry.at.clone());
                    }
                }
            }
            Event::SessionEnded { reason } => {
                if let Some(session) = self.sessions.last_mut() {
                    session.ended = Some(reason.clone());
                }
            }
        }
    }

    fn start(&mut self, server: &ServerId, start: u32) -> Option<&mut StartRecord> {
        let starts = &mut self.servers.get_mut(server)?.starts;
        starts.iter_mut().rfind(|record| record.start == start)
    }
}
