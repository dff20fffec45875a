//! Combines the run files with the fold: finds lost results, and restores the content of lost lines.

use super::State;
use super::records::RunStatus;
use crate::journal::declared::ServerDescription;
use crate::journal::event::StoredFile;
use crate::journal::rank::{LineId, Rank};
use std::collections::BTreeMap;
use vsweep_base::ids::ServerId;

impl State {
    /// Returns the files of all results, each with the index of its attempt.
    pub(in crate::journal) fn files(&self) -> Vec<(usize, &StoredFile)> {
        let runs = self.attempts.iter().enumerate();
        let done = runs.filter(|(_, run)| run.status == RunStatus::Done);
        done.filter_map(|(at, run)| Some((at, run.file.as_ref()?))).collect()
    }

    /// Marks attempts as lost, because their files are missing or damaged.
    pub(in crate::journal) fn lose(&mut self, attempts: &[usize]) {
        for at in attempts {
            self.attempts[*at].status = RunStatus::Lost;
        }
        if !attempts.is_empty() {
            self.forget_chains();
        }
    }

    /// Returns the files of those lost attempts that no session has replaced.
    pub(in crate::journal) fn missed(&self, lost: &[usize]) -> Vec<String> {
        let missed = lost.iter().filter(|at| !self.is_replaced(**at));
        let files = missed.filter_map(|at| self.attempts[*at].file.as_ref());
        files.map(|file| file.path.to_string()).collect()
    }

    /// Returns true if a session that knew of a lost result has measured its run again, or if the result was retired.
    fn is_replaced(&self, at: usize) -> bool {
        let run = &self.attempts[at];
        if self.retirement_of(run).is_some() {
            return true;
        }
        let search = run.search.as_ref().and_then(|search| self.search(search, run.slot));
        let instead = match search {
            Some(chain) => chain.ended.as_ref().map(|_| chain.tip),
            None => {
                let counting = self
                    .counting(&run.point, run.slot, run.run)
                    .filter(|counting| *counting != at);
                counting.map(|counting| self.attempts[counting].rank.line)
            }
        };
        instead.is_some_and(|instead| self.had_seen(instead, run.known()))
    }

    /// Returns the runs without a result, each with the path of the file that it would have.
    pub(in crate::journal) fn open_runs(&self) -> Vec<(LineId, String)> {
        self.attempts_with(RunStatus::Open)
            .map(|run| (run.rank.line, run.files().json()))
            .collect()
    }

    /// Returns the files of results whose `run_started` line was not read, each with the id of that line.
    pub(in crate::journal) fn orphans(&self) -> Vec<(LineId, StoredFile)> {
        let files = self.orphans.iter();
        files
            .filter_map(|(line, (_, _, finished))| Some((*line, finished.file.clone()?)))
            .collect()
    }

    /// Returns the servers that no line declares, or that no line shows ready, each with the file of a run on it.
    pub(in crate::journal) fn unknown_servers(&self) -> BTreeMap<ServerId, String> {
        let is_known = |server: &ServerId| {
            let record = self.servers.get(server);
            record.is_some_and(|record| record.declared.is_some() && record.was_ready())
        };
        let unknown = self.attempts.iter().filter(|run| !is_known(&run.server));
        unknown
            .filter_map(|run| Some((run.server.clone(), run.file.as_ref()?.path.to_string())))
            .collect()
    }

    /// Restores a server from a run file if its lines are incomplete.
    pub(in crate::journal) fn recover_server(
        &mut self,
        server: &ServerId,
        config: ServerDescription,
        rank: Rank,
        simulated: bool,
    ) {
        let record = self.servers.entry(server.clone()).or_default();
        if record.declared.is_none() {
            record.declared = Some(rank);
            record.config = config;
        }
        record.simulated.get_or_insert(simulated);
    }
}
