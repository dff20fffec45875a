//! Facts that a continuing session needs about earlier ones: tries that are used up, runs that were lost in a row, and missing records
//! without which the experiment cannot be evaluated.

use super::records::RunStatus;
use super::{RunRecord, Session, State};
use crate::journal::declared::{PlanContent, ServerDescription};
use crate::journal::rank::{LineId, Nonce};
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use vsweep_base::cause::{Failure, Outcome, RuledOut};
use vsweep_base::ids::{PointId, ServerId};
use vsweep_plan::needs_as_much;

/// A missing record without which the tables would silently show an earlier state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRecord {
    /// The missing record and a remedy, as a sentence.
    pub text: String,
    /// True if `vsweep run` repairs it, by recording the plan or beginning the search anew.
    pub is_repaired_by_run: bool,
}

impl State {
    /// Returns a failure for each attempt at a run in which the server died, since the run's last result. Such an attempt is used up, even
    /// if its session was killed.
    pub fn deaths(&self, point: &PointId, slot: u32, run: u32) -> Vec<Failure> {
        let of_point = self.by_point.get(point).into_iter().flatten();
        let mut tries: Vec<&RunRecord> = of_point
            .map(|at| &self.attempts[*at])
            .filter(|other| (other.slot, other.run) == (slot, run) && self.retirement_of(other).is_none())
            .collect();
        tries.sort_by_key(|run| run.rank);
        let after = tries.iter().rposition(|run| run.status != RunStatus::Open);
        let since = tries.into_iter().skip(after.map_or(0, |at| at + 1));
        since.filter_map(|run| self.death_under(run)).collect()
    }

    /// Returns the failure of the server if it died under this run. The last run that was begun on a launch is the one under which it died.
    fn death_under(&self, run: &RunRecord) -> Option<Failure> {
        let launched = self.launched(run)?;
        let cause = launched.exit.cause.filter(|_| launched.ready.is_some())?;
        let on_launch = self.attempts.iter().filter(|other| other.launch == run.launch);
        let is_last = on_launch.map(|other| other.rank).max() == Some(run.rank);
        is_last.then(|| Failure::new(cause, launched.exit.detail.clone()))
    }

    /// Returns how many of the latest runs on a planned start of a server config were lost in a row because the server died. Only runs
    /// since the end of the last session that finished or stopped count: a killed or interrupted session passes this number on to the next
    /// one.
    pub fn lost_in_a_row(&self, server: &ServerId, slot: u32) -> u32 {
        let is_over = |ending: &str| matches!(ending, "finished" | "stopped");
        let last_over = self
            .sessions
            .iter()
            .rfind(|session| session.ended.as_deref().is_some_and(is_over));
        let since = last_over.map(|session| session.rank);
        let is_of_ended = |run: &RunRecord| {
            let endings = self.endings.get(&run.rank.line.journal).into_iter().flatten();
            let mut later = endings.filter(|(seq, _)| **seq > run.rank.line.seq);
            later.any(|(_, ending)| is_over(ending))
        };
        let tried = self.attempts_with(RunStatus::Done).filter(|run| {
            (&run.server, run.slot, run.after, run.tried) == (server, slot, None, true)
                && self.retirement_of(run).is_none()
                && since.is_none_or(|since| run.rank > since)
                && !is_of_ended(run)
        });
        let latest_first = tried.sorted_by_key(|run| Reverse(run.rank));
        let lost = latest_first.take_while(|run| run.outcome == Outcome::Failed && self.death_under(run).is_some());
        lost.count() as u32
    }

    /// Returns the failure because of which a server config is not started for a slot. Its last launch for an earlier slot failed for a
    /// permanent cause, and none of its launches ever became ready. If this slot itself failed after that launch, it is retried, so the
    /// result is `None`.
    pub fn never_starts(&self, server: &ServerId, slot: u32) -> Option<Failure> {
        let record = self.servers.get(server).filter(|record| !record.was_ready())?;
        let last = record.launches.iter().rfind(|launched| launched.slot < slot)?;
        let in_slot = |run: &&RunRecord| (&run.server, run.slot) == (server, slot) && run.status == RunStatus::Done;
        let failed = self.attempts.iter().filter(in_slot).map(|run| run.rank).max();
        if failed > Some(last.rank) || !self.has_one_kind_of_gpus() {
            return None;
        }
        let last = &last.exit;
        let cause = last.cause.filter(|cause| !cause.is_transient())?;
        Some(Failure::new(cause, last.detail.clone()))
    }

    /// Returns the failure because of which a server config is never started: the last launch of another config that needs no more memory
    /// ran out of memory, and no launch of that config ever became ready.
    pub fn lacks_memory(&self, config: &ServerDescription) -> Option<Failure> {
        if !self.has_one_kind_of_gpus() {
            return None;
        }
        let others = self.servers.values().filter(|record| record.config.env == config.env);
        for failed in others {
            let Some(last) = failed.launches.last().filter(|_| !failed.was_ready()) else {
                continue;
            };
            let Some(cause) = last.exit.cause else { continue };
            if let Some(settings) = needs_as_much(&config.argv, &failed.config.argv, cause) {
                let ruled_out = RuledOut {
                    settings,
                    by: failed.config.name.clone(),
                    why: last.exit.detail.clone(),
                };
                return Some(Failure::of_ruled_out(cause, ruled_out));
            }
        }
        None
    }

    /// Returns true if all sessions ran on the same kinds of GPUs. If not, a failure on some says nothing about the others.
    fn has_one_kind_of_gpus(&self) -> bool {
        let names = |session: &Session| -> Option<BTreeSet<String>> {
            let machine = session.machine.as_deref()?;
            Some(machine.gpus.iter().map(|kind| kind.name.clone()).collect())
        };
        self.sessions.iter().filter_map(names).all_equal()
    }

    /// Returns how many of the latest launches for a slot failed in a row, all in one session; 0 if the end of that session is recorded.
    pub fn failed_starts(&self, server: &ServerId, slot: u32) -> u32 {
        let launches = self.launches_of(server);
        let Some(last) = launches.iter().rfind(|launched| launched.slot == slot) else {
            return 0;
        };
        let session = self
            .sessions
            .iter()
            .rfind(|session| session.rank.line.journal == last.launch.session && session.rank < last.rank);
        if session.is_none_or(|session| session.ended.is_some()) {
            return 0;
        }
        let launches = launches.iter().rev().filter(|launched| launched.slot == slot);
        let of_session = launches.take_while(|launched| launched.launch.session == last.launch.session);
        let failed = of_session.take_while(|launched| launched.ready.is_none() && launched.exited_at.is_some());
        failed.filter(|launched| launched.exit.cause.is_some()).count() as u32
    }

    /// Returns the sequence number of the last line of a journal that retires earlier results on a server.
    pub fn retired_by(&self, server: &ServerId, journal: Nonce) -> Option<u64> {
        let own = self
            .retirements
            .iter()
            .filter(|retired| retired.server == *server && retired.rank.line.journal == journal);
        own.map(|retired| retired.rank.line.seq).max()
    }

    /// Returns the missing records without which the experiment cannot be evaluated.
    pub fn gaps(&self) -> Vec<MissingRecord> {
        let mut gaps = Vec::new();
        gaps.extend(self.lost_plan());
        gaps.extend(self.lost_searches());
        gaps.extend(self.lost_retirements());
        gaps
    }

    fn lost_plan(&self) -> Option<MissingRecord> {
        let planning = self.planning_session()?;
        // A session that joined may refer to a later plan, whose own session is lost.
        let later = self.sessions.iter().filter(|session| session.rank >= planning.rank);
        let mut lost = later.filter(|session| self.plan_of(session).is_none());
        let PlanContent::In(journal) = lost.next()?.plan.content else {
            return None;
        };
        Some(MissingRecord {
            text: format!(
                "the plan is in journal/{journal}.jsonl, which is missing or damaged; restore that file from a copy, or run the \
                 plan again: that records it anew, and keeps all results that are left"
            ),
            is_repaired_by_run: true,
        })
    }

    fn lost_searches(&self) -> Vec<MissingRecord> {
        let planned = self
            .searches
            .iter()
            .filter(|((search, _), _)| self.is_planned_search(search));
        let rootless = planned.filter(|(_, facts)| facts.roots.is_empty());
        let gaps = rootless.filter_map(|((search, _), facts)| {
            let asked = facts.asked.first().map(|at| self.attempts[*at].rank.line);
            let line = asked.or(facts.ends.first().map(|(rank, ..)| rank.line))?;
            Some(MissingRecord {
                text: format!(
                    "the line that begins search {search}, which journal/{}.jsonl goes on with, is missing or damaged; restore \
                     that file from a copy, or run the plan again: that searches anew",
                    line.journal
                ),
                is_repaired_by_run: true,
            })
        });
        gaps.collect()
    }

    fn lost_retirements(&self) -> Vec<MissingRecord> {
        let is_there = |line: LineId| self.retirements.iter().any(|retired| retired.rank.line == line);
        let anew = self.attempts.iter().filter_map(|run| {
            let (journal, seq) = (run.rank.line.journal, run.anew?);
            Some(LineId { journal, seq })
        });
        let lost: BTreeSet<LineId> = anew.filter(|line| !is_there(*line)).collect();
        let gap = |line: LineId| MissingRecord {
            text: format!(
                "journal/{}.jsonl: the line that retires earlier results (seq {}) is missing or damaged; restore the file from a \
                 copy, or start over with `vsweep run --fresh`",
                line.journal, line.seq
            ),
            is_repaired_by_run: false,
        };
        lost.into_iter().map(gap).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, Machine, RunFinished, RunStarted, ServerExited, ServerReady, SessionStarted};
    use vsweep_base::cause::Cause;

    fn apply(state: &mut State, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| _ = state.apply_hypothetical(event));
    }

    fn begun(pid: u32, gpu: &str) -> Event {
        let kind = crate::journal::GpuKind {
            name: gpu.to_owned(),
            ..Default::default()
        };
        let machine = Machine {
            gpus: [kind].into(),
            ..Machine::default()
        };
        Event::SessionStarted(Box::new(SessionStarted {
            pid,
            machine: Some(Box::new(machine)),
            ..SessionStarted::default()
        }))
    }

    /// A launch that ran out of memory.
    fn launch(slot: u32, launch: u32) -> [Event; 2] {
        let server = ServerId("a".into());
        let exited = ServerExited {
            server: server.clone(),
            launch,
            cause: Some(Cause::OomAtLoad),
            ..ServerExited::default()
        };
        [
            Event::ServerStarting {
                server,
                slot,
                launch,
                gpus: Vec::new(),
            },
            Event::ServerExited(Box::new(exited)),
        ]
    }

    /// Loses a run: its server becomes ready, and dies under it.
    fn lose_run(state: &mut State, number: u32) {
        let server = ServerId("a".into());
        let [starting, exited] = launch(0, number);
        let ready = ServerReady {
            server: server.clone(),
            launch: number,
            ..ServerReady::default()
        };
        apply(state, [starting, Event::ServerReady(Box::new(ready))]);
        let run = RunStarted {
            server,
            run: number,
            launch: number,
            ..RunStarted::default()
        };
        let started = state.apply_hypothetical(Event::RunStarted(Box::new(run)));
        let finished = RunFinished {
            started: started.rank.line.seq,
            outcome: Outcome::Failed,
            ..RunFinished::default()
        };
        apply(state, [exited, Event::RunFinished(Box::new(finished))]);
    }

    #[test]
    fn runs_lost_in_a_session_that_ended_do_not_count() {
        let mut state = State::default();
        let lost = |state: &State| state.lost_in_a_row(&ServerId("a".into()), 0);
        let ended = |reason: &str| Event::SessionEnded { reason: reason.into() };
        apply(&mut state, [begun(1, "H100")]);
        lose_run(&mut state, 1);
        lose_run(&mut state, 2);
        apply(&mut state, [ended("interrupted"), begun(2, "H100")]);
        assert_eq!(lost(&state), 2, "an interrupted session passes them on");
        lose_run(&mut state, 3);
        assert_eq!(lost(&state), 3);
        apply(&mut state, [ended("finished"), begun(3, "H100")]);
        assert_eq!(lost(&state), 0, "also after the server was given up");
        lose_run(&mut state, 4);
        assert_eq!(lost(&state), 1);
    }

    #[test]
    fn a_session_does_not_end_by_an_earlier_end_of_its_process() {
        let mut state = State::default();
        let ended = Event::SessionEnded {
            reason: "finished".into(),
        };
        apply(&mut state, [begun(7, "H100"), ended.clone(), begun(7, "H100")]);
        let open = |state: &State| {
            state
                .sessions()
                .iter()
                .filter(|session| session.ended.is_none())
                .count()
        };
        assert_eq!(open(&state), 1);
        apply(&mut state, launch(0, 1));
        assert_eq!(state.failed_starts(&ServerId("a".into()), 0), 1);
        apply(&mut state, [ended]);
        assert_eq!(open(&state), 0);
        assert_eq!(state.processes(), [(7, 0), (7, 0)], "either may have left a tree");
    }

    #[test]
    fn a_later_start_is_tried_if_it_is_to_be_retried_or_is_on_other_gpus() {
        let mut state = State::default();
        let never = |state: &State| state.never_starts(&ServerId("a".into()), 1).is_some();
        apply(&mut state, [begun(1, "H100")]);
        apply(&mut state, launch(0, 1));
        assert!(never(&state));
        let run = RunStarted {
            server: ServerId("a".into()),
            slot: 1,
            ..RunStarted::default()
        };
        state.imagine_run(run, None);
        assert!(
            !never(&state),
            "the start itself was given up since, and is to be retried"
        );
        apply(&mut state, launch(0, 2));
        assert!(never(&state), "it failed once more since");
        apply(&mut state, [begun(2, "H200")]);
        assert!(!never(&state), "other GPUs may have more memory");
    }
}
