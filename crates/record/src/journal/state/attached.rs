//! Recognises the server behind an address: compares its properties with the record of each launch that still counts.

use super::records::RunStatus;
use super::{Launch, LaunchRecord, RunRecord, State};
use crate::journal::event::ServerReady;
use crate::journal::rank::{LineId, Nonce};
use itertools::Itertools;
use vsweep_base::fingerprint::{Differences, Fingerprint};
use vsweep_base::ids::ServerId;

/// Result of comparing a server with its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMatch {
    /// No difference was found, so its results may continue.
    Same,
    /// Another server was measured here before.
    Replaced(Differences),
    /// Different servers answer in turn.
    InTurn(Differences),
}

impl State {
    /// Compares the properties that a server reports now, in which secrets are masked, to those of the launches of its config whose results
    /// count. Servers answer in turn if, within one session, a server comes back after another one has answered, or a server that replaced
    /// another is itself replaced before anything was measured on it.
    pub fn recognise(&self, server: &ServerId, session: Nonce, now: &Fingerprint) -> ServerMatch {
        let launches = self.launches_of(server);
        let ready = launches
            .iter()
            .filter_map(|launched| Some((launched, launched.identity()?)));
        let ready: Vec<(&LaunchRecord, &Fingerprint)> = ready.collect();
        let counting = ready.iter().rev();
        let mut counting = counting.filter(|(launched, _)| self.retired_from(server, launched.rank.line).is_none());
        let Some(differences) = counting.find_map(|(_, before)| now.differences_from(before)) else {
            return ServerMatch::Same;
        };
        let own: Vec<_> = ready
            .into_iter()
            .filter(|(launched, _)| launched.launch.session == session)
            .collect();
        let is_in_turn = own.split_last().is_some_and(|((last, its), earlier)| {
            let replaced = earlier
                .iter()
                .filter(|(_, before)| its.differences_from(before).is_some());
            let mut replaced = replaced.map(|(_, before)| before);
            let mut done = self.attempts_with(RunStatus::Done);
            let is_measured = done.any(|run| run.launch == Some(last.launch));
            replaced.any(|before| now.differences_from(before).is_none() || !is_measured)
        });
        match is_in_turn {
            true => ServerMatch::InTurn(differences),
            false => ServerMatch::Replaced(differences),
        }
    }

    /// Returns the launch on which a run was measured, for intervals over launches. Each connection to a server behind a URL is recorded as
    /// a launch. All connections to one process, in any session, count as the first of them.
    pub fn launch_of(&self, run: &RunRecord) -> Option<Launch> {
        let launch = run.launch?;
        let own = self.launched(run).and_then(LaunchRecord::identity);
        let is_same_process = |launched: &&LaunchRecord| {
            let both = own.zip(launched.identity());
            both.is_some_and(|(own, other)| other.is_same_start(own))
        };
        let first = self.launches_of(&run.server).iter().find(is_same_process);
        Some(first.map_or(launch, |first| first.launch))
    }

    /// Returns the servers of [`State::runs`], each with the event of every launch that measured one of them and became ready.
    pub fn ready_of_runs(&self) -> impl Iterator<Item = (&ServerId, &ServerReady)> {
        let launches = self.runs().filter_map(|run| Some((&run.server, run.launch?)));
        launches.unique().filter_map(|(server, launch)| {
            let mut launches = self.launches_of(server).iter();
            let own = launches.find(|launched| launched.launch == launch)?;
            Some((server, own.ready.as_deref()?))
        })
    }

    /// Returns true if any result of a server config counts, in the plan or not.
    pub fn has_results(&self, server: &ServerId) -> bool {
        self.recorded()
            .any(|run| run.server == *server && self.retirement_of(run).is_none())
    }

    /// Returns the reasons for which results of points in the plan were retired, oldest first, each with the number of these results.
    pub fn retired(&self) -> Vec<(&str, usize)> {
        let planned = self.planned_points();
        let mut counts = vec![0; self.retirements.len()];
        for run in self.attempts.iter().filter(|run| run.is_result()) {
            if let Some(retired) = self.retirement_of(run).filter(|_| planned.contains(&run.point)) {
                let at = self.retirements.iter().position(|other| other.rank == retired.rank);
                counts[at.expect("the retirement of a run is in the list")] += 1;
            }
        }
        let active = self.retirements.iter().zip(counts).filter(|(_, runs)| *runs > 0);
        active.map(|(retired, runs)| (retired.reason.as_str(), runs)).collect()
    }

    /// Returns the results of points in the plan that a line retired, one for each run.
    pub fn retired_at(&self, line: LineId) -> Vec<&RunRecord> {
        let planned = self.planned_points();
        let is_retired_by_line = |run: &&RunRecord| {
            let retired = self.retirement_of(run).filter(|_| planned.contains(&run.point));
            retired.is_some_and(|retired| retired.rank.line == line)
        };
        let of_line = self.recorded().filter(is_retired_by_line);
        of_line.unique_by(|run| (&run.point, run.slot, run.run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::{Event, RunStarted, SearchStarted};
    use serde_json::Map;
    use vsweep_base::cause::Cause;
    use vsweep_base::ids::{PointId, SearchId};
    use vsweep_strategy::search::{Seed, Vary};

    fn id() -> ServerId {
        ServerId("s".into())
    }

    fn serving(seqs: u32) -> Fingerprint {
        Fingerprint {
            settings: [("max_num_seqs".to_owned(), seqs.to_string())].into(),
            ..Fingerprint::default()
        }
    }

    fn connect(state: &mut State, launch: u32, now: Fingerprint) {
        state.apply_hypothetical(Event::ServerReady(Box::new(ServerReady {
            server: id(),
            launch,
            identity: Some(Box::new(now)),
            ..ServerReady::default()
        })));
    }

    fn measure(state: &mut State, launch: u32) {
        let run = RunStarted {
            server: id(),
            point: PointId("p".into()),
            launch,
            ..RunStarted::default()
        };
        state.imagine_run(run, None);
    }

    fn retire(state: &mut State) {
        let (server, reason) = (id(), "another one".into());
        state.apply_hypothetical(Event::ResultsRetired { server, reason });
    }

    fn word(state: &State, seqs: u32) -> &'static str {
        match state.recognise(&id(), Nonce::IMAGINED, &serving(seqs)) {
            ServerMatch::Same => "same",
            ServerMatch::Replaced(_) => "replaced",
            ServerMatch::InTurn(_) => "in turn",
        }
    }

    #[test]
    fn servers_that_come_back_answer_in_turn() {
        let mut state = State::default();
        assert_eq!(word(&state, 1), "same", "nobody was measured before");
        connect(&mut state, 1, serving(1));
        measure(&mut state, 1);
        assert_eq!((word(&state, 1), word(&state, 2)), ("same", "replaced"));
        retire(&mut state);
        connect(&mut state, 2, serving(2));
        assert_eq!((word(&state, 2), word(&state, 1)), ("same", "in turn"));
        assert_eq!(word(&state, 3), "in turn", "nothing was measured between two changes");
        measure(&mut state, 2);
        assert_eq!(word(&state, 3), "replaced");
        assert_eq!(state.runs().count(), 1, "that of the server that answers");
    }

    #[test]
    fn connections_to_one_process_are_one_launch() {
        let mut state = State::default();
        for (launch, started) in [(1, 10.0), (2, 10.01), (3, 99.0)] {
            let started = Some(started);
            connect(&mut state, launch, Fingerprint { started, ..serving(1) });
        }
        let starts = [1, 2, 3].map(|launch| {
            measure(&mut state, launch);
            let session = Nonce::IMAGINED;
            let run = RunRecord {
                launch: Some(Launch { session, n: launch }),
                ..state.runs().next().expect("measured").clone()
            };
            state.launch_of(&run).map(|start| start.n)
        });
        assert_eq!(starts, [Some(1), Some(1), Some(3)]);
    }

    /// Begins a search. Returns the last line of its chain.
    fn search(state: &mut State, search: &SearchId) -> LineId {
        let started = SearchStarted {
            search: search.clone(),
            server: id(),
            slot: 0,
            name: String::new(),
            params: Map::new(),
            vary: Vary::MaxConcurrency,
            targets: Vec::new(),
            seed: Seed::UNKNOWN,
            rivals: Vec::new(),
        };
        state.apply_hypothetical(Event::SearchStarted(Box::new(started)));
        state.search(search, 0).expect("begun").tip
    }

    /// Ends a search before its first probe.
    fn end(state: &mut State, search: &SearchId, after: LineId, cause: Option<Cause>) {
        state.apply_hypothetical(Event::SearchFinished {
            search: search.clone(),
            after,
            answers: Vec::new(),
            cause,
            detail: String::new(),
        });
    }

    #[test]
    fn a_search_on_another_server_begins_anew() {
        let mut state = State::default();
        let id = SearchId("q".into());
        let after = search(&mut state, &id);
        end(&mut state, &id, after, Some(Cause::ReadyTimeout));
        retire(&mut state);
        assert_eq!(state.search(&id, 0), None);
    }

    #[test]
    fn an_answer_that_is_read_later_counts_although_its_search_began_anew() {
        let mut state = State::default();
        let id = SearchId("q".into());
        let first = search(&mut state, &id);
        end(&mut state, &id, first, Some(Cause::ReadyTimeout));
        let second = search(&mut state, &id);
        assert_ne!(first, second);
        end(&mut state, &id, first, None);
        assert_eq!(state.search(&id, 0).expect("begun").tip, first);
    }
}
