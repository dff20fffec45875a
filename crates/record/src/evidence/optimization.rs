//! State of an optimisation: a fold over the starts that have all their results. The value of a server on a start is the plain estimate by
//! which the answer ranks servers, from the figures in the journal alone. So the sweep, its report and a resumed sweep agree about the next
//! start.

mod found;
mod trials;

use crate::journal::{ALONE_SLOT, Contestant, FIRST_SLOT, Optimization, RunRecord, State};
use std::collections::{BTreeMap, BTreeSet};
use trials::Trials;
use vsweep_answer::Better;
use vsweep_base::cause::Outcome;
use vsweep_base::ids::ServerId;
use vsweep_plan::Requirement;
use vsweep_strategy::selection::optimized::{CompiledGraphs, EndReason, Optimized, Reason, Trial};

/// An optimisation with the results of its starts so far.
#[derive(Debug, Clone)]
pub struct OptimizationProgress<'a> {
    record: &'a Optimization,
    optimized: Optimized,
    begun: Vec<BegunStart>,
    /// The positions of servers with an interrupted start: it has only some of its results, and the optimisation did not ask for it.
    interrupted: Vec<usize>,
    /// The direction in which the figure gets better.
    better: Better,
    /// The logarithm that stands for a figure of 0, if there is one.
    ln_of_zero: Option<f64>,
    /// The name of the question that ranks the servers.
    question: String,
}

/// A start that has begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BegunStart {
    /// The position of the server among the contestants.
    pub contestant: usize,
    /// The number of the start.
    pub slot: u32,
    /// The reason for it; `None` if the optimisation did not ask for it.
    pub reason: Option<Reason>,
    /// True if the server was launched for this start. A start that was given up untried has no launch.
    pub is_launched: bool,
    /// The result, and the duration of the start in seconds; `None` while results are missing.
    pub result: Option<(Trial, f64)>,
    /// True if it was measured for an earlier plan, without a figure that this plan needs. Its server then counts as not measured.
    pub lacks_figures: bool,
}

impl BegunStart {
    /// Returns true if the start counts towards no limit: the optimisation did not ask for it, or it was given up without a launch.
    fn is_free(&self) -> bool {
        self.reason.is_none() || self.is_ruled_out()
    }

    /// Returns true if the start was given up without a launch.
    fn is_ruled_out(&self) -> bool {
        !self.is_launched
            && matches!(
                self.result,
                Some((Trial::DidNotFit | Trial::Failed | Trial::Beaten { .. }, _))
            )
    }
}

/// A start to measure next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextProposal {
    /// The position of the server among the contestants.
    pub contestant: usize,
    /// The number of the start.
    pub slot: u32,
    /// The reason for it; `None` if it was begun without one.
    pub reason: Option<Reason>,
}

impl<'a> OptimizationProgress<'a> {
    /// Folds the starts of a record. A failed start for which `retries` returns true counts as not measured.
    pub fn of(
        record: &'a Optimization,
        state: &'a State,
        requirements: &[Requirement],
        retries: &dyn Fn(&ServerId, u32) -> bool,
    ) -> OptimizationProgress<'a> {
        let trials = Trials::of(record, state, requirements);
        let (mut begun, mut interrupted) = (Vec::new(), Vec::new());
        for (contestant, slot, reason) in starts(record, state) {
            let own = &record.contestants[contestant];
            let has_all = is_complete(own, slot, record.runs, state);
            let is_retried = has_all && retries(&own.server, slot) && has_failed(own, slot, record.runs, state);
            let is_complete = has_all && !is_retried;
            // A start that the optimisation did not ask for counts once it is complete, and so does one that an earlier plan asked for.
            let is_current_run = |run: &RunRecord| {
                own.points.contains(&run.point)
                    || run.search.as_ref().is_some_and(|search| own.searches.contains(search))
            };
            let is_launched = state.launches_of(&own.server).iter().any(|start| start.slot == slot);
            if !is_complete {
                let is_current_start = || !state.is_of_earlier_plan(&own.server, slot, is_current_run);
                match reason {
                    Some(_) if is_current_start() => {}
                    None if is_launched && is_current_start() => {
                        interrupted.push(contestant);
                        continue;
                    }
                    _ => continue,
                }
            }
            let result = is_complete.then(|| trials.result(contestant, slot));
            let lacks_figures = is_complete && trials.lacks_figures(&own.server, slot);
            begun.push(BegunStart {
                contestant,
                slot,
                reason: reason.filter(|_| !lacks_figures),
                is_launched,
                result,
                lacks_figures,
            });
        }
        let mut optimized = record.begin(duration_factor(record, &begun));
        for start in &begun {
            match start.result {
                _ if start.lacks_figures => {}
                Some((trial, _)) if start.is_free() => optimized.add_free(start.contestant, trial),
                Some((trial, seconds)) => optimized.add(start.contestant, trial, seconds),
                None => {}
            }
        }
        optimized.set_elapsed(state.time_of_optimization().as_secs_f64());
        let (better, question) = (trials.better, trials.question.clone());
        let ln_of_zero = trials.ln_of_zero();
        optimized.judge(trials.winner());
        OptimizationProgress {
            record,
            optimized,
            begun,
            interrupted,
            better,
            ln_of_zero,
            question,
        }
    }

    /// Returns the starts that have begun, in order.
    pub fn begun(&self) -> &[BegunStart] {
        &self.begun
    }

    /// Returns the next starts, if at most `at_once` servers run at the same time. The starts in `taken` are under way or have ended.
    /// Starts that an earlier session left open come first. The list is empty if a start under way must end first.
    ///
    /// # Errors
    ///
    /// The reason for the end of the optimisation, if it is over.
    pub fn next(&self, at_once: usize, taken: &[(ServerId, u32)]) -> Result<Vec<NextProposal>, EndReason> {
        let is_taken = |contestant: usize, slot: u32| {
            let server = &self.record.contestants[contestant].server;
            taken.iter().any(|(other, at)| other == server && *at == slot)
        };
        let open = self.begun.iter().filter(|start| start.result.is_none());
        let (under_way, mut left): (Vec<&BegunStart>, Vec<&BegunStart>) =
            open.partition(|start| is_taken(start.contestant, start.slot));
        // A start that was just taken may not be in the record yet.
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
        let ended = self.begun.iter().filter(|start| start.result.is_some());
        let counted = ended.filter(|start| !start.is_free()).count();
        let spare = |under_way: usize| match self.record.max_starts {
            Some(most) => most.saturating_sub(counted + under_way),
            None => usize::MAX,
        };
        // An edited plan may allow fewer starts than an earlier one began.
        left.truncate(spare(under_way.len()));
        let resumed = left.iter().take(room).map(|start| NextProposal {
            contestant: start.contestant,
            slot: start.slot,
            reason: start.reason,
        });
        let mut next: Vec<NextProposal> = resumed.collect();
        under_way.extend(left.iter().map(|start| (start.contestant, start.slot)));
        let spare = spare(under_way.len());
        let room = room.saturating_sub(next.len()).min(spare);
        let is_over = spare == 0 && under_way.is_empty();
        if is_over {
            // If the last start brought certainty, the reason is certainty and not the budget.
            return Err(self.optimized.ask(1, &[]).err().unwrap_or(EndReason::Budget));
        }
        if room == 0 {
            return Ok(next);
        }
        let fresh_slot = |contestant: usize, under_way: &BTreeSet<(usize, u32)>| {
            let is_used = |slot: u32| is_begun(contestant, slot) || under_way.contains(&(contestant, slot));
            let slot = (FIRST_SLOT..).find(|slot| !is_used(*slot));
            slot.expect("a server has fewer than four billion starts")
        };
        // The default settings are measured first, even if the budget does not suffice.
        let is_first = self.begun.iter().all(|start| start.lacks_figures) && under_way.is_empty();
        if let (Some(contestant), true) = (self.record.rules.defaults, is_first) {
            let reason = Some(Reason::Defaults);
            let slot = fresh_slot(contestant, &under_way);
            return Ok(vec![NextProposal {
                contestant,
                slot,
                reason,
            }]);
        }
        let pending: Vec<usize> = under_way.iter().map(|(contestant, _)| *contestant).collect();
        match self.optimized.ask(room, &pending) {
            Err(ended) if under_way.is_empty() => return Err(ended),
            Err(_) => {}
            Ok(proposals) => {
                for proposal in proposals {
                    let contestant = proposal.candidate;
                    let slot = fresh_slot(contestant, &under_way);
                    under_way.insert((contestant, slot));
                    next.push(NextProposal {
                        contestant,
                        slot,
                        reason: Some(proposal.reason),
                    });
                }
            }
        }
        Ok(next)
    }

    /// Returns the reason for the end of the optimisation; `None` while it goes on.
    pub fn ended(&self) -> Option<EndReason> {
        self.next(1, &[]).err()
    }
}

/// Returns the results of a server's first start; `None` if the server is not one of the contestants, or if a figure is 0, whose logarithm
/// predicts nothing.
pub fn first_results(
    record: &Optimization,
    server: &ServerId,
    state: &State,
    requirements: &[Requirement],
) -> Option<Results> {
    let contestant = record.position(server)?;
    let trials = Trials::of(record, state, requirements);
    (!trials.has_zero(server, FIRST_SLOT)).then(|| trials.results(contestant, FIRST_SLOT))
}

/// Returns the starts of the record: first those that the optimisation did not ask for, such as the starts of an earlier plan or of a
/// confirmation; then the starts that it asked for.
fn starts(record: &Optimization, state: &State) -> Vec<(usize, u32, Option<Reason>)> {
    let proposals = state.proposals().iter();
    let asked = proposals.filter_map(|start| Some((record.position(&start.server)?, start.slot, Some(start.reason))));
    let asked: Vec<(usize, u32, Option<Reason>)> = asked.collect();
    let is_asked =
        |contestant: usize, slot: u32| asked.iter().any(|(other, at, _)| (*other, *at) == (contestant, slot));
    let recorded = record.contestants.iter().enumerate();
    let recorded = recorded.filter(|(_, contestant)| state.servers.contains_key(&contestant.server));
    let unasked = recorded.flat_map(|(at, contestant)| {
        let launches = state.launches_of(&contestant.server).iter().map(|launch| launch.slot);
        let slots: BTreeSet<u32> = launches.filter(|slot| *slot < ALONE_SLOT).chain([FIRST_SLOT]).collect();
        slots.into_iter().map(move |slot| (at, slot))
    });
    let unasked = unasked.filter(|(at, slot)| !is_asked(*at, *slot));
    let unasked = unasked.map(|(at, slot)| (at, slot, None));
    unasked.chain(asked.iter().copied()).collect()
}

/// Returns the durations of the measured starts as a multiple of their predictions. Before the first result this is 1 for predicted
/// durations, and 0 for durations that were only assumed.
fn duration_factor(record: &Optimization, begun: &[BegunStart]) -> f64 {
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

/// Returns true if a start has all its results.
fn is_complete(contestant: &Contestant, slot: u32, runs: u32, state: &State) -> bool {
    let mut points = contestant.points.iter();
    let mut searches = contestant.searches.iter();
    let is_ended = |search: &_| state.search(search, slot).is_some_and(|record| record.ended.is_some());
    points.all(|point| (0..runs).all(|run| state.outcome(point, slot, run).is_some())) && searches.all(is_ended)
}

/// Returns true if a start has a run that failed, or a search that was given up.
fn has_failed(contestant: &Contestant, slot: u32, runs: u32, state: &State) -> bool {
    let is_failed = |point| (0..runs).any(|run| state.outcome(point, slot, run) == Some(Outcome::Failed));
    let is_given_up = |search| {
        let record = state.search(search, slot);
        record.is_some_and(|record| record.ended.is_some() && record.answers().is_empty())
    };
    contestant.points.iter().any(is_failed) || contestant.searches.iter().any(is_given_up)
}

// The value of a start for all workloads of a plan together. For each workload the start has a share of the best value, and its joint value
// is the smallest share, as in the answer. With a single workload, the start keeps its own value.

/// The result of one start for each workload, by its name.
pub type Results = BTreeMap<String, Trial>;

/// The best value of each workload so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// Logarithm of the best value, by workload; `None` if no start has a value.
    best: BTreeMap<String, Option<f64>>,
}

impl Shares {
    /// Finds the best values in the results of all starts.
    pub fn of<'r>(starts: impl IntoIterator<Item = &'r Results>) -> Shares {
        let mut best: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for (workload, trial) in starts.into_iter().flatten() {
            let best = best.entry(workload.clone()).or_default();
            *best = best.iter().copied().chain(trial.ln_value()).reduce(f64::max);
        }
        Shares { best }
    }

    /// Returns true if values are shares of the best values of several workloads.
    pub fn has_several_workloads(&self) -> bool {
        self.best.len() > 1
    }

    /// Joins the results of a start over all workloads: the smallest share, or the first result without a value. A start that failed or
    /// missed the targets for one workload has no value at all. A share that is only known to be below a bound bounds the smallest share,
    /// too. If a share is undecided, so is the smallest share. `None` if the start has no results.
    pub fn join(&self, results: &Results) -> Option<Trial> {
        let joined = results.iter().map(|(workload, trial)| self.share(workload, *trial));
        joined.reduce(|one, other| match (one, other) {
            (Trial::Measured { ln_value: a, .. }, Trial::Measured { ln_value: b, .. }) => {
                if b < a {
                    other
                } else {
                    one
                }
            }
            (Trial::DidNotFit | Trial::Failed | Trial::Unmet, _) => one,
            (_, Trial::DidNotFit | Trial::Failed | Trial::Unmet) => other,
            _ => {
                let ln_below = [one, other].iter().filter_map(Trial::upper).reduce(f64::min);
                let is_undecided = [one, other]
                    .iter()
                    .any(|trial| matches!(trial, Trial::Undecided { .. }));
                match ln_below.filter(|_| !is_undecided) {
                    Some(ln_below) => Trial::Beaten { ln_below },
                    None => Trial::Undecided { ln_below },
                }
            }
        })
    }

    fn share(&self, workload: &str, trial: Trial) -> Trial {
        let best = match self.has_several_workloads() {
            true => self.best.get(workload).copied().flatten().unwrap_or(0.0),
            false => 0.0,
        };
        match trial {
            Trial::Measured { ln_value, sd } => Trial::Measured {
                ln_value: ln_value - best,
                sd,
            },
            Trial::Beaten { ln_below } => Trial::Beaten {
                ln_below: ln_below - best,
            },
            Trial::Undecided { ln_below } => Trial::Undecided {
                ln_below: ln_below.map(|ln_below| ln_below - best),
            },
            none => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(values: &[(&str, f64)]) -> Results {
        let of = |(workload, value): &(&str, f64)| {
            let trial = Trial::Measured {
                ln_value: value.ln(),
                sd: 0.01,
            };
            ((*workload).to_owned(), trial)
        };
        values.iter().map(of).collect()
    }

    fn value(shares: &Shares, results: &Results) -> f64 {
        match shares.join(results) {
            Some(Trial::Measured { ln_value, .. }) => (ln_value.exp() * 1000.0).round() / 1000.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_start_is_worth_its_smallest_share_of_each_workloads_best() {
        let starts = [
            results(&[("chat", 100.0), ("code", 10.0)]),
            results(&[("chat", 50.0), ("code", 40.0)]),
            results(&[("chat", 80.0), ("code", 30.0)]),
        ];
        let shares = Shares::of(&starts);
        let values = starts.iter().map(|own| value(&shares, own));
        assert_eq!(values.collect::<Vec<f64>>(), [0.25, 0.5, 0.75]);
    }

    #[test]
    fn a_single_workload_keeps_its_values() {
        let starts = [results(&[("", 100.0)]), results(&[("", 50.0)])];
        let shares = Shares::of(&starts);
        assert_eq!((value(&shares, &starts[0]), value(&shares, &starts[1])), (100.0, 50.0));
    }

    #[test]
    fn a_start_without_a_value_for_one_workload_has_none() {
        let mut own = results(&[("chat", 100.0), ("code", 10.0)]);
        let shares = Shares::of([&own]);
        let undecided = Trial::Undecided { ln_below: Some(0.0) };
        own.insert("code".into(), undecided);
        let ln_below = Some(-(10f64.ln()));
        assert_eq!(shares.join(&own), Some(Trial::Undecided { ln_below }));
        own.insert("code".into(), Trial::Unmet);
        assert_eq!(shares.join(&own), Some(Trial::Unmet));
        own.insert("chat".into(), Trial::DidNotFit);
        assert_eq!(shares.join(&own), Some(Trial::DidNotFit));
    }
}
