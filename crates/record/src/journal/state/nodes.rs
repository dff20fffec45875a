//! The nodes on which runs were measured, and the time that sessions worked.

use super::{Retirement, RunRecord, Session, State};
use crate::journal::machine::Machine;
use crate::journal::rank::Nonce;
use itertools::Itertools;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;
use vsweep_base::units::duration_of;

/// Returns the length of the union of time spans, in seconds.
pub fn covered_s(spans: impl Iterator<Item = (Timestamp, Timestamp)>) -> f64 {
    let merged = spans.sorted_unstable().coalesce(|one, next| match next.0 <= one.1 {
        true => Ok((one.0, one.1.max(next.1))),
        false => Err((one, next)),
    });
    // A span is negative if the clock was set back. It counts as none.
    merged
        .map(|(from, to)| to.duration_since(from).as_secs_f64().max(0.0))
        .sum()
}

impl State {
    /// Returns the machine of a session; `None` if it measured nothing itself.
    pub fn machine_of(&self, session: Nonce) -> Option<Machine> {
        let session = self.sessions.iter().find(|other| other.nonce() == session)?;
        session.machine.as_deref().cloned()
    }

    /// Returns the time of the last line of a session, RFC 3339.
    pub fn last_moment(&self, session: Nonce) -> Option<&str> {
        self.last_lines.get(&session).map(|(_, at)| at.as_str())
    }

    /// Returns the time of the latest line of all sessions.
    pub fn latest_moment(&self) -> Option<Timestamp> {
        let moments = self.last_lines.values().filter_map(|(_, at)| at.parse().ok());
        moments.max()
    }

    /// Returns the time in which at least one session was at work, each from its beginning to its last line. Once a session has retired all
    /// earlier results, the sessions before it do not count.
    pub fn time_of_work(&self) -> Duration {
        self.time_of(|_| true)
    }

    /// Returns the part of the time of work in which a session optimised. Work on an earlier plan without `[optimize]` does not count.
    pub fn time_of_optimization(&self) -> Duration {
        self.time_of(|session| session.optimize.is_some())
    }

    fn time_of(&self, counts: impl Fn(&Session) -> bool) -> Duration {
        let first = self.runs().map(|run| run.rank).min();
        let begins_anew = |session: &Session| {
            let mut retirements = self.retirements.iter();
            retirements.any(|retired| retired.rank.line.journal == session.nonce())
                && first.is_none_or(|first| session.rank < first)
        };
        // The session that begins now will retire everything.
        let is_foreseen = |retired: &Retirement| retired.rank.line.journal == Nonce::IMAGINED;
        if first.is_none() && self.retirements.iter().any(is_foreseen) {
            return Duration::ZERO;
        }
        let since = self.sessions.iter().rposition(begins_anew).unwrap_or(0);
        let span = |session: &Session| -> Option<(Timestamp, Timestamp)> {
            let last = self.last_moment(session.nonce())?;
            Some((session.started_at.parse().ok()?, last.parse().ok()?))
        };
        let sessions = self.sessions[since..].iter().filter(|session| counts(session));
        duration_of(covered_s(sessions.filter_map(span)))
    }

    /// Returns the node on which a run was measured.
    pub fn measured_at(&self, run: &RunRecord) -> Option<Machine> {
        self.machine_of(run.rank.line.journal)
    }

    /// Returns the nodes of the runs in the tables. A node that changed between sessions has several entries.
    pub fn machines(&self) -> BTreeSet<Machine> {
        let sessions: BTreeSet<Nonce> = self.runs().map(|run| run.rank.line.journal).collect();
        sessions
            .into_iter()
            .filter_map(|session| self.machine_of(session))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::rank::LineId;
    use crate::journal::{Entry, Event, PlanContent, Rank, RecordedPlan, RunStarted, SessionStarted};
    use vsweep_base::ids::ServerId;

    /// Applies a session at these times of a day, which may retire earlier results.
    fn work(state: &mut State, from: &str, to: &str, retires: bool) {
        let journal = Nonce::random();
        let begun = SessionStarted {
            // Of an unknown plan, every point counts.
            plan: RecordedPlan {
                content: PlanContent::In(journal),
                ..RecordedPlan::default()
            },
            ..SessionStarted::default()
        };
        let retired = Event::ResultsRetired {
            server: ServerId("s".into()),
            reason: String::new(),
        };
        let ended = Event::SessionEnded {
            reason: "finished".into(),
        };
        let begun = [(from, Event::SessionStarted(Box::new(begun)))].into_iter();
        let lines = begun.chain(retires.then_some((from, retired))).chain([(to, ended)]);
        for (seq, (at, event)) in (0..).zip(lines) {
            let rank = Rank {
                lamport: state.lamport() + 1,
                line: LineId { journal, seq },
            };
            state.apply(Entry {
                rank,
                at: format!("2026-11-20T{at}Z"),
                event,
                prev: journal,
            });
        }
    }

    #[test]
    fn time_of_work_counts_sessions_at_the_same_time_once() {
        let mut state = State::default();
        work(&mut state, "10:00:00", "10:10:00", false);
        work(&mut state, "10:05:00", "10:15:00", false);
        // The clock was set back meanwhile.
        work(&mut state, "11:00:00", "10:59:00", false);
        assert_eq!(state.time_of_work(), Duration::from_secs(15 * 60));
    }

    #[test]
    fn time_of_work_begins_anew_once_nothing_earlier_counts() {
        let mut state = State::default();
        work(&mut state, "10:00:00", "10:10:00", false);
        work(&mut state, "10:20:00", "10:25:00", true);
        state.imagine_run(RunStarted::default(), None);
        work(&mut state, "10:30:00", "10:40:00", false);
        assert_eq!(state.time_of_work(), Duration::from_secs(15 * 60));
        // The run on another server still counts.
        work(&mut state, "10:50:00", "10:55:00", true);
        assert_eq!(state.time_of_work(), Duration::from_secs(20 * 60));
        assert_eq!(state.time_of_optimization(), Duration::ZERO, "no session optimised");
    }

    #[test]
    fn no_time_is_spent_if_the_next_session_retires_everything() {
        let mut state = State::default();
        work(&mut state, "10:00:00", "10:10:00", false);
        let (server, reason) = (ServerId("s".into()), String::new());
        state.apply_hypothetical(Event::ResultsRetired { server, reason });
        assert_eq!(state.time_of_work(), Duration::ZERO);
    }
}
