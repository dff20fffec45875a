//! Decides which result of a run counts, and which runs are in the tables.

use super::records::RunStatus;
use super::{Retirement, RunRecord, Session, State};
use crate::journal::declared::{PlanContent, RecordedPlan};
use crate::journal::rank::{Launch, LineId, Nonce, Rank};
use itertools::Itertools;
use std::collections::HashSet;
use std::fmt;
use vsweep_answer::MetricNoise;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::{Ids, PointId, SearchId, ServerId};
use vsweep_base::validity::Validity;

/// Quality of a result, best first. The best result of a run counts, whatever the order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Ok,
    Suspect,
    Invalid,
    Lost,
    Failed,
    GivenUp,
    Cut,
}

/// A result that does not count, of a point in the plan.
#[derive(Debug, Clone)]
pub struct Duplicate<'s> {
    /// The result.
    pub run: &'s RunRecord,
    /// The result that counts; `None` if the run has none.
    pub counts: Option<&'s RunRecord>,
    /// Reason why it does not count.
    pub why: DuplicateReason,
}

/// Reason why a result does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DuplicateReason {
    /// Its server was replaced or is measured anew, for this reason.
    Retired(String),
    /// It is a probe of a chain that does not count.
    OtherChain,
    /// Its file is lost.
    Lost,
    /// It failed, and its run was tried again.
    TriedAgain,
    /// Its run was measured twice.
    MeasuredTwice,
}

impl fmt::Display for DuplicateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DuplicateReason::Retired(reason) => write!(f, "retired: {reason}"),
            DuplicateReason::OtherChain => f.write_str("of a chain that does not count"),
            DuplicateReason::Lost => f.write_str("its file is lost"),
            DuplicateReason::TriedAgain => f.write_str("tried again"),
            DuplicateReason::MeasuredTwice => f.write_str("measured twice"),
        }
    }
}

impl State {
    /// Returns the attempts that count, of points in the plan, in the order in which their runs were first begun.
    pub(super) fn counted(&self) -> &[usize] {
        self.counted.get_or_init(|| {
            let planned = self.planned_points();
            let mut counted: Vec<((Rank, u32), usize)> = Vec::new();
            for (point, attempts) in &self.by_point {
                if !planned.contains(point) {
                    continue;
                }
                let by_run = attempts.iter().map(|at| (self.key(*at), *at)).into_group_map();
                for attempts in by_run.into_values() {
                    if let Some(best) = self.best(attempts.iter().copied()) {
                        let candidates = attempts.into_iter().filter(|at| self.class(*at).is_some());
                        let first = candidates.map(|at| self.attempts[at].order()).min();
                        let first = first.expect("the best attempt is a candidate");
                        counted.push((first, best));
                    }
                }
            }
            counted.sort_unstable();
            // Borrowed, because `into_iter` would keep the memory of the larger list.
            counted.iter().map(|(_, at)| *at).collect()
        })
    }

    /// Returns the attempt that counts for a run, in the plan or not.
    pub(super) fn counting(&self, point: &PointId, slot: u32, run: u32) -> Option<usize> {
        let attempts = self.by_point.get(point)?;
        self.best(attempts.iter().copied().filter(|at| self.key(*at) == (slot, run)))
    }

    /// Returns the start slot and the repetition of an attempt.
    fn key(&self, at: usize) -> (u32, u32) {
        (self.attempts[at].slot, self.attempts[at].run)
    }

    /// Returns the best of several attempts at one run. Of equally good results the first counts, so that nobody can measure until a run
    /// looks good. Of failed ones the last counts, because it has the latest cause. A lost result does not count once its run was tried
    /// again. Otherwise a failure of that try would not count, and the run would be tried without end.
    fn best(&self, attempts: impl Iterator<Item = usize>) -> Option<usize> {
        let all: Vec<(Class, usize)> = attempts.filter_map(|at| Some((self.class(at)?, at))).collect();
        let is_retried = |lost: usize| {
            let known = self.attempts[lost].known();
            let mut others = all.iter().filter(|(_, other)| *other != lost);
            others.any(|(_, other)| self.had_seen(self.attempts[*other].rank.line, known))
        };
        let ranked = all
            .iter()
            .copied()
            .filter(|(class, at)| *class != Class::Lost || !is_retried(*at));
        let best = ranked.min_by(|(class, one), (other_class, other)| {
            let order = self.attempts[*one].order().cmp(&self.attempts[*other].order());
            let order = match class {
                Class::Failed | Class::GivenUp => order.reverse(),
                _ => order,
            };
            class.cmp(other_class).then(order)
        });
        best.map(|(_, at)| at)
    }

    /// Returns the quality of an attempt; `None` if it cannot count.
    fn class(&self, at: usize) -> Option<Class> {
        let run = &self.attempts[at];
        if run.status == RunStatus::Open || self.retirement_of(run).is_some() || self.is_off_chain(at) {
            return None;
        }
        Some(match (run.outcome, run.validity) {
            _ if run.is_lost() => Class::Lost,
            (Outcome::Ok, _) => Class::Ok,
            (Outcome::Suspect, Validity::Invalid) => Class::Invalid,
            (Outcome::Suspect, _) => Class::Suspect,
            (Outcome::Cut, _) => Class::Cut,
            (Outcome::Failed, _) if run.is_given_up() => Class::GivenUp,
            (Outcome::Failed, _) => Class::Failed,
        })
    }

    /// Returns the retirement of an attempt, if it was measured on a server that was replaced.
    pub(super) fn retirement_of(&self, run: &RunRecord) -> Option<&Retirement> {
        self.retired_from(&run.server, run.rank.line)
    }

    /// Returns the retirement of a line about a server, if a session that had read the line retired the earlier results of that server.
    pub(super) fn retired_from(&self, server: &ServerId, line: LineId) -> Option<&Retirement> {
        let mut of_server = self.retirements.iter().filter(|retired| retired.server == *server);
        of_server.find(|retired| self.had_seen(retired.rank.line, line))
    }

    /// Returns true if the session of the line `of` had read the line `other` before it wrote `of`.
    pub(super) fn had_seen(&self, of: LineId, other: LineId) -> bool {
        if of.journal == other.journal {
            return other.seq < of.seq;
        }
        if of.journal == Nonce::IMAGINED {
            // A rehearsal or a forecast has read all lines.
            return true;
        }
        let seen = self.seen.get(&of.journal).into_iter().flatten();
        let mut seen = seen.filter(|(by, _)| *by <= of.seq);
        seen.any(|(_, seen)| seen.get(&other.journal).is_some_and(|seen| other.seq < seen.lines))
    }

    /// Returns the points and the searches of the plan that counts; `None` if that plan is lost.
    pub(super) fn plan(&self) -> Option<(&Ids, &Ids)> {
        self.planning_session().and_then(|session| self.plan_of(session))
    }

    pub(super) fn plan_of(&self, session: &Session) -> Option<(&Ids, &Ids)> {
        let (_, _, points, searches) = self.written_plan(&session.plan)?;
        Some((points, searches))
    }

    /// Returns the first session that wrote out a plan, and the plan's text, points and searches.
    fn written_plan(&self, plan: &RecordedPlan) -> Option<(Nonce, &str, &Ids, &Ids)> {
        let mut same = self.sessions.iter().filter(|other| other.plan.sha256 == plan.sha256);
        same.find_map(|session| match &session.plan.content {
            PlanContent::Here { text, points, searches } => Some((session.nonce(), text.as_str(), points, searches)),
            PlanContent::In(_) => None,
        })
    }

    /// Returns true if a search is in the plan.
    pub(super) fn is_planned_search(&self, search: &SearchId) -> bool {
        self.plan().is_none_or(|(_, searches)| searches.contains(&search.0))
    }

    /// Returns the number of planned runs without a result, or of searches that have not ended, if the plan has searches. It is 0 for a
    /// comparison or an optimisation, which decide on their starts themselves.
    pub fn open_work(&self) -> u64 {
        self.open_after(self.measured())
    }

    /// Returns the open work if these runs have results, and no others.
    pub(super) fn open_after<'s>(&'s self, runs: impl Iterator<Item = &'s RunRecord>) -> u64 {
        let planned = self.planning_session();
        let planned = planned.filter(|planned| planned.compare.is_none() && planned.optimize.is_none());
        planned.map_or(0, |planned| match planned.searches {
            0 => planned.runs.saturating_sub(self.planned_results(planned, runs)),
            _ => self.searches_left(),
        })
    }

    /// Returns the number of planned runs among those that have a result. Repetitions beyond the planned ones and additional starts are not
    /// counted, so that many results of one point do not hide the lack of another's. Neither are runs that a search cut.
    fn planned_results<'s>(&'s self, planned: &Session, runs: impl Iterator<Item = &'s RunRecord>) -> u64 {
        let measurements = u64::from(planned.starts.max(1)).saturating_mul(planned.points);
        let of_each = planned.runs / measurements.max(1);
        // The first points of servers may have one more run each.
        let repeated = planned.runs.saturating_sub(of_each.saturating_mul(measurements));
        let on_planned_start = |slot: u32| slot < planned.starts.max(1);
        let of_runs = runs.filter(|run| on_planned_start(run.slot) && run.outcome != Outcome::Cut);
        let counts = of_runs
            .map(|run| ((&run.point, run.slot), &run.server))
            .into_group_map();
        let servers_with_more = counts
            .iter()
            .filter(|(_, of_point)| of_point.len() as u64 > of_each)
            .map(|((_, slot), of_point)| (of_point[0], slot));
        let more = servers_with_more.unique().count() as u64;
        let listed: u64 = counts.values().map(|of_point| of_each.min(of_point.len() as u64)).sum();
        let unlisted = self.unlisted().filter(|(own, _)| on_planned_start(own.slot));
        listed + more.min(repeated) + unlisted.map(|(_, runs)| runs).sum::<u64>()
    }

    /// Returns the noise that other experiments measured on the machine before this one began; empty if none did.
    pub fn known_noise(&self) -> &[MetricNoise] {
        self.sessions.first().map_or(&[], |session| &session.noise)
    }

    /// Returns a function that returns true for runs at a point of the plan, or asked for by one of its searches. If the plan is unknown,
    /// every run counts.
    pub(super) fn is_planned(&self) -> impl Fn(&RunRecord) -> bool {
        let plan = self.plan();
        move |run| {
            plan.is_none_or(|(points, searches)| {
                let search = run.search.as_ref();
                points.contains(&run.point.0) || search.is_some_and(|search| searches.contains(&search.0))
            })
        }
    }

    /// Returns every point whose results are in the tables: those of the plan, or asked for by one of its searches. If the plan is unknown,
    /// every point with a result counts.
    pub fn planned_points(&self) -> HashSet<&PointId> {
        let is_planned = self.is_planned();
        let is_counted = |at: &usize| self.attempts[*at].status != RunStatus::Open && is_planned(&self.attempts[*at]);
        let points = self
            .by_point
            .iter()
            .filter(|(_, attempts)| attempts.iter().any(is_counted));
        points.map(|(point, _)| point).collect()
    }

    /// Returns the launches on which only runs began whose points are no longer in the plan.
    pub fn dropped_launches(&self) -> HashSet<Launch> {
        let (is_planned, points) = (self.is_planned(), self.planned_points());
        let is_of_plan = |run: &RunRecord| points.contains(&run.point) || is_planned(run);
        let launched = |is_kept: bool| {
            let runs = self.attempts.iter().filter(|run| is_of_plan(run) == is_kept);
            runs.filter_map(|run| run.launch).collect::<HashSet<Launch>>()
        };
        &launched(false) - &launched(true)
    }

    /// Returns the name, the hash and the text of the plan that counts, if it is not lost.
    pub fn plan_that_counts(&self) -> Option<(&str, &str, &str)> {
        let plan = &self.planning_session()?.plan;
        let (_, text, ..) = self.written_plan(plan)?;
        Some((&plan.name, &plan.sha256, text))
    }

    /// Returns the plan, with a reference for its content if a session has already written out the same plan.
    pub fn refer(&self, plan: RecordedPlan) -> RecordedPlan {
        match self.written_plan(&plan) {
            Some((journal, ..)) => RecordedPlan {
                content: PlanContent::In(journal),
                ..plan
            },
            None => plan,
        }
    }

    /// Returns every result that does not count although its point is in the plan, in the total order. Such a result was measured twice,
    /// tried again after a failure, lost or retired, or belongs to a chain that does not count.
    pub fn duplicates(&self) -> Vec<Duplicate<'_>> {
        let counted: HashSet<usize> = self.counted().iter().copied().collect();
        let planned = self.planned_points();
        let is_spare = |at: &usize| {
            let run = &self.attempts[*at];
            run.is_result() && !counted.contains(at) && planned.contains(&run.point)
        };
        let mut spare: Vec<usize> = (0..self.attempts.len()).filter(is_spare).collect();
        spare.sort_by_key(|at| self.attempts[*at].order());
        let describe = |at: usize| {
            let run = &self.attempts[at];
            let counts = self.run(&run.point, run.slot, run.run);
            let why = match (self.retirement_of(run), self.class(at)) {
                (Some(retired), _) => DuplicateReason::Retired(retired.reason.clone()),
                (None, None) => DuplicateReason::OtherChain,
                (None, Some(Class::Lost)) => DuplicateReason::Lost,
                (None, Some(Class::Failed)) => DuplicateReason::TriedAgain,
                (None, Some(_)) => DuplicateReason::MeasuredTwice,
            };
            Duplicate { run, counts, why }
        };
        spare.into_iter().map(describe).collect()
    }
}

#[cfg(test)]
impl State {
    /// Returns true if the result that a line began is retired.
    pub(in crate::journal) fn is_retired(&self, line: LineId) -> bool {
        let run = self.by_line.get(&line).map(|at| &self.attempts[*at]);
        run.is_some_and(|run| self.retirement_of(run).is_some())
    }

    /// Returns the lines that began runs on a server.
    pub(in crate::journal) fn begun_on(&self, server: &ServerId) -> Vec<LineId> {
        let of_server = self.attempts.iter().filter(|run| run.server == *server);
        of_server.map(|run| run.rank.line).collect()
    }

    pub(in crate::journal) fn has_retired(&self) -> bool {
        !self.retirements.is_empty()
    }

    pub(in crate::journal) fn is_of_chain(&self, line: LineId) -> bool {
        self.by_line.get(&line).is_some_and(|at| !self.is_off_chain(*at))
    }

    /// Returns the lines that began the results whose files are sound.
    pub(in crate::journal) fn sound_results(&self) -> std::collections::BTreeSet<LineId> {
        let sound = self.attempts_with(RunStatus::Done).filter(|run| run.file.is_some());
        sound.map(|run| run.rank.line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, RunFinished, RunStarted, SessionStarted};

    const P: &str = "0000000000000001";

    /// Applies a session with this plan and the results of some runs: the server, the point, the start slot and the repetition.
    fn state(planned: SessionStarted, runs: &[(&str, &str, u32, u32)]) -> State {
        let mut state = State::default();
        let ids: Vec<PointId> = runs.iter().map(|(_, point, ..)| PointId((*point).into())).collect();
        let plan = RecordedPlan::new("plan", String::new(), &ids, &[]);
        state.apply_hypothetical(Event::SessionStarted(Box::new(SessionStarted { plan, ..planned })));
        for run in runs {
            measure(&mut state, *run, Outcome::Ok);
        }
        state
    }

    fn measure(state: &mut State, (server, point, slot, run): (&str, &str, u32, u32), outcome: Outcome) {
        let started = state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
            server: ServerId(server.into()),
            point: PointId(point.into()),
            slot,
            run,
            launch: 1,
            ..RunStarted::default()
        })));
        state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
            started: started.rank.line.seq,
            outcome,
            ..RunFinished::default()
        })));
    }

    #[test]
    fn many_results_of_one_point_do_not_hide_the_lack_of_another() {
        let planned = SessionStarted {
            servers: 3,
            points: 3,
            runs: 6,
            starts: 1,
            ..SessionStarted::default()
        };
        let first: Vec<_> = (0..6).map(|run| ("s", P, 0, run)).collect();
        let state = state(planned, &first);
        assert_eq!((state.open_work(), state.planned_runs()), (4, 10));
    }

    #[test]
    fn additional_starts_are_not_planned_and_repeated_first_points_are() {
        let planned = |runs: u64| SessionStarted {
            servers: 1,
            points: 2,
            runs,
            starts: 1,
            ..SessionStarted::default()
        };
        let runs = [("s", P, 0, 0), ("s", P, 1, 0), ("s", P, 0, 1)];
        assert_eq!(state(planned(2), &runs).open_work(), 1);
        assert_eq!(
            state(planned(3), &runs).open_work(),
            1,
            "one point more, and the repeated first"
        );
        assert_eq!(state(planned(3), &runs[..2]).open_work(), 2);
    }

    #[test]
    fn a_run_that_a_search_cut_is_open_until_it_is_measured_or_fails() {
        let planned = SessionStarted {
            servers: 1,
            points: 1,
            runs: 1,
            starts: 1,
            ..SessionStarted::default()
        };
        let run = ("s", P, 0, 0);
        // Of another start, so that the plan has the point.
        let mut state = state(planned, &[("s", P, 1, 0)]);
        let point = PointId(P.into());
        measure(&mut state, run, Outcome::Cut);
        assert_eq!((state.open_work(), state.outcome(&point, 0, 0)), (1, None));
        assert_eq!(state.free_run(&point, 0), 1, "a search has measured it");
        measure(&mut state, run, Outcome::Failed);
        assert_eq!(
            (state.open_work(), state.outcome(&point, 0, 0)),
            (0, Some(Outcome::Failed))
        );
    }

    #[test]
    fn a_run_whose_file_is_lost_is_open() {
        let planned = SessionStarted {
            servers: 1,
            points: 1,
            runs: 2,
            starts: 1,
            ..SessionStarted::default()
        };
        let mut state = state(planned, &[("s", P, 0, 0), ("s", P, 0, 1), ("s", P, 1, 0)]);
        assert_eq!((state.open_work(), state.planned_runs()), (0, 3));
        state.lose(&[0]);
        assert_eq!((state.open_work(), state.planned_runs()), (1, 3));
    }
}
