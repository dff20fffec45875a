//! Marks runs of launches whose answers to the fixed questions differ. This is a pure fold: if a launch that is read later becomes the
//! baseline, the marks of runs that were read before change.

use super::{Launch, LaunchRecord, RunRecord, State};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_base::cause::Outcome;
use vsweep_base::ids::ServerId;
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_strategy::checks::{AnswerCheck, AnsweredStart, judge};

impl State {
    /// Returns the doubt about the runs of a launch because of its answers.
    pub fn doubted_for_answers(&self, launch: Launch) -> Option<&Doubt> {
        self.answers_doubted.get(&launch)
    }

    /// Returns the doubt about a server, which is the first doubt about one of its launches.
    pub fn doubted_server(&self, server: &ServerId) -> Option<&Doubt> {
        let mut launches = self.launches_of(server).iter();
        launches.find_map(|launched| self.doubted_for_answers(launched.launch))
    }

    /// Compares the answers of all launches of the plan with each other, and marks the runs of launches whose answers differ.
    pub(in crate::journal) fn judge_answers(&mut self) {
        if std::mem::replace(&mut self.are_answers_judged, true) {
            return;
        }
        let doubted = self.differing_launches();
        if doubted != self.answers_doubted {
            self.answers_doubted = doubted;
            let answers = &self.answers_doubted;
            self.attempts.iter_mut().for_each(|run| run.mark(answers));
            self.forget_chains();
        }
    }

    /// Returns the launches of the plan whose answers differ from those of its baseline.
    fn differing_launches(&self) -> BTreeMap<Launch, Doubt> {
        let began = self.planning_session().map(|session| session.rank);
        // A launch before the session whose plan counts is of this plan if one of its runs is at a point that the plan measures. No search
        // asks for the run that measures its load alone.
        let measured: LazyCell<BTreeSet<Launch>, _> = LazyCell::new(|| {
            let is_planned = self.is_planned();
            let planned = self.attempts.iter().filter(|run| is_planned(run));
            let points: BTreeSet<_> = planned.map(|run| &run.point).collect();
            let planned = self.attempts.iter().filter(|run| points.contains(&run.point));
            planned.filter_map(|run| run.launch).collect()
        });
        let is_of_plan = |launched: &LaunchRecord| {
            began.is_none_or(|began| began < launched.rank) || measured.contains(&launched.launch)
        };
        let launches = self.servers.iter().flat_map(|(id, server)| {
            let counting = server
                .launches
                .iter()
                .filter(|launched| self.retired_from(id, launched.rank.line).is_none());
            counting.filter_map(move |launched| match launched.answers() {
                Some(AnswerCheck::Answered(answers)) if is_of_plan(launched) => {
                    let asked = AnsweredStart {
                        server: &id.0,
                        name: &server.name,
                        settings: server.params.len(),
                        answers,
                    };
                    Some((launched.rank, launched.launch, asked))
                }
                _ => None,
            })
        });
        let mut launches: Vec<_> = launches.collect();
        launches.sort_by_key(|(rank, ..)| *rank);
        let asked: Vec<AnsweredStart<'_>> = launches.iter().map(|(_, _, asked)| *asked).collect();
        let judged = launches.iter().zip(judge(&asked));
        judged
            .filter_map(|((_, launch, _), difference)| Some((*launch, Doubt::new(Code::AnswersDiffer, difference?))))
            .collect()
    }
}

impl RunRecord {
    /// Restores the recorded outcome and validity, and applies the doubt about the answers of the run's launch. A failed run stays as it
    /// is.
    pub(super) fn mark(&mut self, answers: &BTreeMap<Launch, Doubt>) {
        let result = &mut self.result;
        result.doubts.retain(|doubt| doubt.code != Code::AnswersDiffer);
        (result.outcome, result.validity) = self.as_recorded;
        if result.outcome == Outcome::Failed {
            return;
        }
        let of_start = self.launch.and_then(|launch| answers.get(&launch)).cloned();
        result.doubts.extend(of_start);
        let found = Validity::of(result.doubts.iter().map(|doubt| doubt.code));
        result.validity = result.validity.max(found);
        if result.outcome == Outcome::Ok && result.validity != Validity::Valid {
            result.outcome = Outcome::Suspect;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::declared::RecordedPlan;
    use crate::journal::{
        Event, Figures, GroupBegun, LineId, Link, RunEvidence, RunStarted, ServerDescription, ServerReady,
        SessionStarted,
    };
    use vsweep_base::ids::{PointId, SearchId};
    use vsweep_strategy::checks::{Answers, Reply, Token};

    /// The lines of a server with this number of parameters. Its answers begin with `token`.
    fn lines(server: &str, params: usize, token: &str) -> Vec<Event> {
        let top = ["a", "b", "c", "d", "e"]
            .map(|text| (format!("{token}{text}"), -2.0))
            .into_iter();
        let reply = Reply {
            tokens: vec![Token {
                text: token.into(),
                logprob: Some(-0.1),
                top: top.collect(),
            }],
            asked: 1,
            ..Reply::default()
        };
        let answers = Answers {
            model: "m".into(),
            alone: vec![reply],
            together: Vec::new(),
            long: None,
        };
        let id = ServerId(server.into());
        let config = ServerDescription {
            name: server.into(),
            params: (0..params).map(|n| (n.to_string(), n.into())).collect(),
            ..ServerDescription::default()
        };
        vec![
            Event::GroupBegun(Box::new(GroupBegun {
                proposed: None,
                server: id.clone(),
                slot: 0,
                config,
                seen: BTreeMap::new(),
            })),
            Event::ServerReady(Box::new(ServerReady {
                server: id,
                launch: server.len() as u32,
                answers: Some(Box::new(AnswerCheck::Answered(answers))),
                ..ServerReady::default()
            })),
        ]
    }

    #[test]
    fn a_plainer_config_that_comes_later_becomes_the_baseline() {
        let mut state = State::default();
        let mut history = Vec::new();
        for event in [lines("a", 2, "x"), lines("bb", 2, "y"), lines("ccc", 1, "y")].concat() {
            state.apply_hypothetical(event);
            let doubted = ["a", "bb", "ccc"].map(|server| state.doubted_server(&ServerId(server.into())).is_some());
            history.push(doubted);
        }
        assert_eq!(history[3], [false, true, false], "the first is the baseline");
        assert_eq!(history[5], [true, false, false], "until a plainer one answers");
    }

    #[test]
    fn a_server_that_the_plan_no_longer_has_is_not_the_baseline() {
        let mut state = State::default();
        let point = |number: u32| PointId(format!("{number:016}").into());
        let begin = |state: &mut State, points: &[u32]| {
            let points: Vec<PointId> = points.iter().map(|number| point(*number)).collect();
            let plan = RecordedPlan::new("plan", String::new(), &points, &[]);
            let session = SessionStarted {
                plan,
                ..SessionStarted::default()
            };
            state.apply_hypothetical(Event::SessionStarted(Box::new(session)));
        };
        let measure = |state: &mut State, server: &str, token: &str, number: u32| {
            let events = lines(server, 2, token).into_iter();
            events.for_each(|event| _ = state.apply_hypothetical(event));
            let run = RunStarted {
                server: ServerId(server.into()),
                point: point(number),
                launch: server.len() as u32,
                ..RunStarted::default()
            };
            state.imagine_run(run, Some(RunEvidence::Figures(Figures::default())));
        };
        let doubted =
            |state: &State| ["a", "bb", "ccc"].map(|server| state.doubted_server(&ServerId(server.into())).is_some());
        begin(&mut state, &[1, 2]);
        measure(&mut state, "a", "x", 1);
        measure(&mut state, "bb", "y", 2);
        assert_eq!(doubted(&state), [false, true, false]);
        begin(&mut state, &[2, 3]);
        measure(&mut state, "ccc", "y", 3);
        assert_eq!(doubted(&state), [false; 3]);
        begin(&mut state, &[1, 2, 3]);
        assert_eq!(doubted(&state), [false, true, true], "the first is in the plan again");
    }

    #[test]
    fn the_start_that_measures_a_found_load_alone_is_of_the_plan_in_every_session() {
        let mut state = State::default();
        let search = SearchId("00000000000000aa".into());
        let begin = |state: &mut State| {
            let session = SessionStarted {
                plan: RecordedPlan::new("plan", String::new(), [], [&search]),
                ..SessionStarted::default()
            };
            state.apply_hypothetical(Event::SessionStarted(Box::new(session)));
        };
        begin(&mut state);
        let link = Link {
            id: search.clone(),
            after: LineId::default(),
            step: 0,
            draw: 0,
        };
        for (server, token, search) in [("a", "x", Some(link)), ("bb", "y", None)] {
            let events = lines(server, 2, token).into_iter();
            events.for_each(|event| _ = state.apply_hypothetical(event));
            let run = RunStarted {
                server: ServerId(server.into()),
                point: PointId("p".into()),
                launch: server.len() as u32,
                search,
                ..RunStarted::default()
            };
            state.imagine_run(run, Some(RunEvidence::Figures(Figures::default())));
        }
        begin(&mut state);
        let doubted = ["a", "bb"].map(|server| state.doubted_server(&ServerId(server.into())).is_some());
        assert_eq!(doubted, [false, true]);
    }

    #[test]
    fn what_was_measured_before_is_doubted_and_believed_again() {
        let mut state = State::default();
        let events = [lines("a", 2, "x"), lines("bb", 2, "y")].concat();
        events.into_iter().for_each(|event| _ = state.apply_hypothetical(event));
        let point = PointId("p".into());
        let run = RunStarted {
            server: ServerId("bb".into()),
            point: point.clone(),
            launch: 2,
            ..RunStarted::default()
        };
        state.imagine_run(run, Some(RunEvidence::Figures(Figures::default())));
        let seen = |state: &State| {
            let run = state.run(&point, 0, 0).expect("a run");
            (run.outcome, run.validity, run.doubts.len())
        };
        assert_eq!(seen(&state), (Outcome::Suspect, Validity::Invalid, 1));
        lines("ccc", 1, "y")
            .into_iter()
            .for_each(|event| _ = state.apply_hypothetical(event));
        assert_eq!(seen(&state), (Outcome::Ok, Validity::Valid, 0));
    }
}
