//! State of an optimisation: a fold over the starts that have all their results. The value of a server is the plain estimate by which the
//! answer ranks it, start by start, from the figures in the journal. So the sweep, its report and a resumed sweep agree about what comes
//! next.

mod found;
mod shares;
mod trials;

pub use shares::{Results, Shares};

use crate::journal::{Contestant, FIRST_SLOT, Optimization, State};
use std::collections::BTreeSet;
use trials::Trials;
use vsweep_answer::Better;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::ServerId;
use vsweep_plan::Requirement;
use vsweep_strategy::selection::optimized::{Ask, CompiledGraphs, Ended, Optimized, Reason, Trial};

/// An optimisation with what is known of it.
#[derive(Debug, Clone)]
pub struct OptimizationProgress<'a> {
    record: &'a Optimization,
    optimized: Optimized,
    begun: Vec<BegunStart>,
    /// The good direction of the figure.
    better: Better,
    /// The name of the question that ranks the servers.
    question: String,
}

/// A start that has begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BegunStart {
    /// The position of its server.
    pub contestant: usize,
    /// The number of the start.
    pub slot: u32,
    /// The reason for it; none if the optimisation did not ask for it.
    pub reason: Option<Reason>,
    /// True unless its server was ruled out before it was launched.
    pub is_launched: bool,
    /// The result, and the seconds that the server took; none while results are missing.
    pub result: Option<(Trial, f64)>,
}

/// The next step of an optimisation.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// These starts begin, as far as there is room. None if those under way must end first.
    Starts(Vec<NextProposal>),
    /// It has ended.
    Ended(Ended),
}

/// A start to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextProposal {
    /// The position of its server.
    pub contestant: usize,
    /// The number of the start.
    pub slot: u32,
    /// The reason for it; none if it was begun without one.
    pub reason: Option<Reason>,
}

impl<'a> OptimizationProgress<'a> {
    /// The state of an optimisation. A failed start for which `retries` returns true is measured again.
    pub fn of(
        record: &'a Optimization,
        state: &'a State,
        requirements: &[Requirement],
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> OptimizationProgress<'a> {
        let trials = Trials::of(record, state, requirements);
        let mut begun = Vec::new();
        for (contestant, slot, reason) in starts(record, state) {
            let own = &record.contestants[contestant];
            let is_complete = is_complete(own, slot, record.runs, state)
                && !(retries(&own.server, slot) && has_failed(own, slot, record.runs, state));
            // What nobody asked for counts once it is there.
            if reason.is_none() && !is_complete {
                continue;
            }
            let result = is_complete.then(|| trials.result(contestant, slot));
            begun.push(BegunStart {
                contestant,
                slot,
                reason,
                is_launched: state.starts_of(&own.server).iter().any(|start| start.slot == slot),
                result,
            });
        }
        let mut optimized = record.begin(costs(record, &begun));
        for start in &begun {
            if let Some((trial, seconds)) = start.result {
                optimized.add(start.contestant, trial, seconds);
            }
        }
        let (better, question) = (trials.better, trials.question.clone());
        optimized.judge(trials.winner());
        OptimizationProgress {
            record,
            optimized,
            begun,
            better,
            question,
        }
    }

    /// The starts that have begun, in their order.
    pub fn begun(&self) -> &[BegunStart] {
        &self.begun
    }

    /// The next starts, if so many servers run at once. Those of `taken` are under way, or were; what an earlier session left open comes
    /// first.
    pub fn next(&self, at_once: usize, taken: &[(ServerId, u32)]) -> Next {
        let is_taken = |contestant: usize, slot: u32| {
            let server = &self.record.contestants[contestant].server;
            taken.iter().any(|(own, at)| own == server && *at == slot)
        };
        let open = self.begun.iter().filter(|start| start.result.is_none());
        let (under_way, left): (Vec<&BegunStart>, Vec<&BegunStart>) =
            open.partition(|start| is_taken(start.contestant, start.slot));
        // A start that was taken a moment ago has not begun in the record.
        let is_begun = |contestant: usize, slot: u32| {
            let mut begun = self.begun.iter();
            begun.any(|start| start.contestant == contestant && start.slot == slot)
        };
        let fresh = taken.iter().filter_map(|(server, slot)| {
            let contestant = self.record.position(server)?;
            (!is_begun(contestant, *slot)).then_some((contestant, *slot))
        });
        let mut under_way: BTreeSet<(usize, u32)> = under_way
            .iter()
            .map(|start| (start.contestant, start.slot))
            .chain(fresh)
            .collect();
        let room = at_once.saturating_sub(under_way.len());
        let resumed = left.iter().take(room).map(|start| NextProposal {
            contestant: start.contestant,
            slot: start.slot,
            reason: start.reason,
        });
        let mut next: Vec<NextProposal> = resumed.collect();
        under_way.extend(left.iter().map(|start| (start.contestant, start.slot)));
        let asked = self.begun.len() + under_way.iter().filter(|(own, slot)| !is_begun(*own, *slot)).count();
        let spare = self
            .record
            .max_starts
            .map_or(usize::MAX, |most| most.saturating_sub(asked));
        let room = room.saturating_sub(next.len()).min(spare);
        let is_over = spare == 0 && under_way.is_empty();
        if is_over {
            return Next::Ended(self.ended_by_starts());
        }
        if room == 0 {
            return Next::Starts(next);
        }
        // The default settings are measured whatever the budget.
        if let (Some(contestant), true) = (
            self.record.rules.defaults,
            self.begun.is_empty() && under_way.is_empty(),
        ) {
            let reason = Some(Reason::Defaults);
            let slot = FIRST_SLOT;
            return Next::Starts(vec![NextProposal {
                contestant,
                slot,
                reason,
            }]);
        }
        let pending: Vec<usize> = under_way.iter().map(|(contestant, _)| *contestant).collect();
        match self.optimized.ask(room, &pending) {
            Ask::Ended(ended) if under_way.is_empty() => return Next::Ended(ended),
            Ask::Ended(_) => {}
            Ask::Start(proposals) => {
                for proposal in proposals {
                    let contestant = proposal.candidate;
                    let slot = (FIRST_SLOT..)
                        .find(|slot| !is_begun(contestant, *slot) && !under_way.contains(&(contestant, *slot)));
                    let slot = slot.expect("nobody starts a server four billion times");
                    under_way.insert((contestant, slot));
                    next.push(NextProposal {
                        contestant,
                        slot,
                        reason: Some(proposal.reason),
                    });
                }
            }
        }
        Next::Starts(next)
    }

    /// The reason for an end at which no start is left: certainty, if it came with the last one.
    fn ended_by_starts(&self) -> Ended {
        match self.optimized.ask(1, &[]) {
            Ask::Ended(ended) => ended,
            Ask::Start(_) => Ended::Budget,
        }
    }

    /// The reason for its end; none while it goes on.
    pub fn ended(&self) -> Option<Ended> {
        match self.next(1, &[]) {
            Next::Ended(ended) => Some(ended),
            Next::Starts(_) => None,
        }
    }
}

/// The results of a server's first start by what a state says of it; none of a server that is not chosen from.
pub fn first_results(
    record: &Optimization,
    server: &ServerId,
    state: &State,
    requirements: &[Requirement],
) -> Option<Results> {
    let contestant = record.position(server)?;
    let trials = Trials::of(record, state, requirements);
    Some(trials.results(contestant, FIRST_SLOT))
}

/// The starts that were asked for, after those of servers that were measured before anybody asked.
fn starts(record: &Optimization, state: &State) -> Vec<(usize, u32, Option<Reason>)> {
    let proposals = state.proposals().iter();
    let asked = proposals.filter_map(|own| Some((record.position(&own.server)?, own.slot, Some(own.reason))));
    let asked: Vec<(usize, u32, Option<Reason>)> = asked.collect();
    let is_asked = |contestant: &usize| {
        asked
            .iter()
            .any(|(own, slot, _)| own == contestant && *slot == FIRST_SLOT)
    };
    let measured = record.contestants.iter().enumerate();
    let measured = measured.filter(|(_, own)| state.servers.contains_key(&own.server));
    let others = measured.map(|(at, _)| at).filter(|at| !is_asked(at));
    let others: Vec<usize> = others.collect();
    let others = others.into_iter().map(|at| (at, FIRST_SLOT, None));
    others.chain(asked.iter().copied()).collect()
}

/// The costs of the starts so far as a multiple of what was predicted of them. Costs that were only assumed count for nothing before the
/// first start has ended.
fn costs(record: &Optimization, begun: &[BegunStart]) -> f64 {
    let (mut took, mut predicted) = (0.0, 0.0);
    let mut compiled = CompiledGraphs::default();
    for start in begun {
        let Some((trial, seconds)) = start.result else { continue };
        let candidate = &record.contestants[start.contestant].candidate;
        if let Trial::Measured { .. } = trial {
            took += seconds;
            predicted += compiled.start_s(candidate) + candidate.measure_s;
        }
        compiled.note(candidate, &trial);
    }
    match (took > 0.0 && predicted > 0.0, record.is_predicted) {
        (true, _) => took / predicted,
        (false, true) => 1.0,
        (false, false) => 0.0,
    }
}

/// True if a start has all its results.
fn is_complete(contestant: &Contestant, slot: u32, runs: u32, state: &State) -> bool {
    let mut points = contestant.points.iter();
    let mut searches = contestant.searches.iter();
    let is_ended = |search: &_| state.search(search, slot).is_some_and(|record| record.ended.is_some());
    points.all(|point| (0..runs).all(|run| state.outcome(point, slot, run).is_some())) && searches.all(is_ended)
}

/// True if a start has a run that failed, or a search that was given up.
fn has_failed(contestant: &Contestant, slot: u32, runs: u32, state: &State) -> bool {
    let is_failed = |point| (0..runs).any(|run| state.outcome(point, slot, run) == Some(Outcome::Failed));
    let is_given_up = |search| {
        let record = state.search(search, slot);
        record.is_some_and(|record| record.ended.is_some() && record.answers().is_empty())
    };
    contestant.points.iter().any(is_failed) || contestant.searches.iter().any(is_given_up)
}
