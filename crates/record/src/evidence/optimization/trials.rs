//! The results of the starts of an optimisation, for each workload and for all together: a value with its error, or the reason why the
//! start has none. Also the durations of the starts.

use super::{Results, Shares};
use crate::evidence::JournalSources;
use crate::journal::{Objective, Optimization, RunRecord, SearchEnd, SearchRecord, ServerRecord, State};
use crate::table::{used_gpus, whole_gpus};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vsweep_answer::{Advice, Answer, Better, Experiment, Goal, SURE, Standing, answer, replicas_on, standings};
use vsweep_base::cause::{Cause, Outcome};
use vsweep_base::ids::ServerId;
use vsweep_base::validity::Validity;
use vsweep_plan::{Params, Requirement};
use vsweep_strategy::search::Found;
use vsweep_strategy::selection::optimized::{Incumbent, Trial};

/// Assumed relative error of a load that a search found without a posterior.
const ASSUMED_LOAD_ERROR: f64 = 0.03;
/// Smallest relative error of a load that a search found.
const LEAST_LOAD_ERROR: f64 = 0.005;

/// The results of the starts of an optimisation.
pub(super) struct Trials<'a> {
    record: &'a Optimization,
    state: &'a State,
    /// The experiment with all starts, and with the question that ranks the servers, once for each workload.
    experiment: Experiment,
    /// Standings of the servers, by slot, workload and server id.
    standings: BTreeMap<u32, BTreeMap<String, BTreeMap<String, Standing>>>,
    /// The runs of each start, by server and slot.
    tallies: HashMap<(ServerId, u32), Tally>,
    /// The best value of each workload.
    shares: Shares,
    /// The direction in which the figure of one workload gets better.
    better_figure: Better,
    /// The direction in which the joint value of a start gets better. The value is its figure or, with several workloads, its smallest
    /// share of the best figures.
    pub better: Better,
    /// The name of the question.
    pub question: String,
}

/// The runs of one start together.
#[derive(Debug, Default)]
struct Tally {
    /// Seconds of the runs and their preparation.
    seconds: f64,
    /// Cause of the last failure.
    cause: Option<Cause>,
}

impl<'a> Trials<'a> {
    pub fn of(record: &'a Optimization, state: &'a State, requirements: &[Requirement]) -> Trials<'a> {
        let mut tallies: HashMap<(ServerId, u32), Tally> = HashMap::new();
        for run in state.measured() {
            let tally = tallies.entry((run.server.clone(), run.slot)).or_default();
            tally.seconds += run.seconds_with_preparation();
            if run.outcome == Outcome::Failed {
                tally.cause = run.cause.or(tally.cause);
            }
        }
        let servers = servers(state);
        let recorded = JournalSources {
            state,
            servers: &servers,
            starts: u32::MAX,
            requirements,
            margin: record.rules.margin.exp_m1(),
            gpus: record.gpus,
            objective: record.objective.as_ref(),
        };
        let mut experiment = recorded.experiment(|_| true);
        let question = experiment.questions.first().map(|question| question.name.clone());
        let question = question.unwrap_or_default();
        experiment.questions.retain(|other| other.name == question);
        experiment.frontiers.clear();
        let mut trials = Trials {
            record,
            state,
            experiment,
            standings: BTreeMap::new(),
            tallies,
            shares: Shares::default(),
            better_figure: Better::Higher,
            better: Better::Higher,
            question,
        };
        match &record.objective {
            Some(Objective::Load(target)) => trials.question = format!("Target {target}"),
            _ => trials.rank(recorded),
        }
        let starts: Vec<Results> = trials.measured().map(|(at, slot)| trials.results(at, slot)).collect();
        trials.shares = Shares::of(&starts);
        if trials.shares.has_several_workloads() {
            trials.better = Better::Higher;
        }
        trials
    }

    /// Ranks the servers by the question, start by start and for each workload.
    fn rank(&mut self, recorded: JournalSources<'_>) {
        let slots: BTreeSet<u32> = self.tallies.keys().map(|(_, slot)| *slot).collect();
        // As for all starts together, although each alone may have other servers.
        let recorded = JournalSources {
            gpus: self.experiment.gpus,
            ..recorded
        };
        for slot in slots {
            let experiment = recorded.experiment(|run: &RunRecord| run.slot == slot);
            let ranked = self.experiment.questions.iter().filter_map(|question| {
                let Goal::Metric { name, adds_up } = &question.goal else {
                    return None;
                };
                Some((
                    question.workload.clone(),
                    standings(&experiment, question, name, *adds_up),
                ))
            });
            let ranked = ranked.collect();
            self.standings.insert(slot, ranked);
        }
        let goal = self.experiment.questions.first().map(|question| &question.goal);
        if let Some(Goal::Metric { name, .. }) = goal
            && let Some(metric) = self.experiment.metrics.iter().find(|metric| metric.name == *name)
        {
            (self.better_figure, self.better) = (metric.better, metric.better);
        }
    }

    /// Returns the winner of the question among the servers that were measured, as the answer finds it.
    pub fn winner(self) -> Option<Incumbent> {
        judged(self.record, &answer(self.experiment))
    }

    /// Returns the starts with runs, each as the position of its server and its slot.
    fn measured(&self) -> impl Iterator<Item = (usize, u32)> {
        let starts = self.tallies.keys();
        starts.filter_map(|(server, slot)| Some((self.record.position(server)?, *slot)))
    }

    /// Returns the result of a start that is complete, joined over all workloads, and its duration in seconds.
    pub fn result(&self, contestant: usize, slot: u32) -> (Trial, f64) {
        let server = &self.record.contestants[contestant].server;
        let trial = self.shares.join(&self.results(contestant, slot));
        let trial = trial.unwrap_or_else(|| self.trial_of_failure(server, slot));
        let runs = self
            .tallies
            .get(&(server.clone(), slot))
            .map_or(0.0, |tally| tally.seconds);
        (trial, self.state.seconds_of_start(server, slot, runs))
    }

    /// Returns the results of a start, one for each workload.
    pub fn results(&self, contestant: usize, slot: u32) -> Results {
        let own = &self.record.contestants[contestant];
        match &self.record.objective {
            Some(Objective::Load(target)) => {
                let searches = own.searches.iter();
                let records = searches.filter_map(|search| self.state.search(search, slot));
                let load = |record: &SearchRecord| {
                    let workload = record.started.workload().to_owned();
                    (workload, self.trial_of_load(&own.server, slot, target, record))
                };
                records.map(load).collect()
            }
            _ => {
                let questions = self.experiment.questions.iter();
                let workloads = questions.map(|question| question.workload.clone());
                let figure = |workload: String| {
                    let figure = self.trial_of_figure(&own.server, slot, &workload);
                    (workload, figure)
                };
                workloads.map(figure).collect()
            }
        }
    }

    fn trial_of_figure(&self, server: &ServerId, slot: u32, workload: &str) -> Trial {
        let standing = self
            .standings
            .get(&slot)
            .and_then(|values| values.get(workload)?.get(&*server.0));
        match standing {
            Some(Standing::Valued { value, error }) => Trial::Measured {
                ln_value: sign(self.better_figure) * self.logarithm(*value, workload),
                sd: *error,
            },
            Some(Standing::Unmet) => Trial::Unmet,
            Some(Standing::Unknown) if self.lacks_figures(server, slot) => Trial::Undecided { ln_below: None },
            // The plan's own runs do not find the figure.
            Some(Standing::Unknown) | None => self.trial_of_failure(server, slot),
        }
    }

    /// Returns the logarithm of a figure. A figure of 0, which is the best if lower is better, counts as half the smallest other figure of
    /// the workload.
    fn logarithm(&self, value: f64, workload: &str) -> f64 {
        if value > 0.0 {
            value.ln()
        } else {
            self.half_smallest(workload).ln()
        }
    }

    /// Returns the logarithm as which a figure of 0 counts. `None` if there are several workloads, or if no start has a figure of 0.
    pub fn ln_of_zero(&self) -> Option<f64> {
        let [question] = self.experiment.questions.as_slice() else {
            return None;
        };
        let workload = &*question.workload;
        let mut own = self.standings_of(workload);
        own.any(is_zero).then(|| self.half_smallest(workload).ln())
    }

    /// Returns true if a figure of a start is 0.
    pub fn has_zero(&self, server: &ServerId, slot: u32) -> bool {
        let workloads = self.standings.get(&slot).into_iter().flat_map(BTreeMap::values);
        let mut own = workloads.filter_map(|values| values.get(&*server.0));
        own.any(is_zero)
    }

    /// Returns half the smallest figure above 0 of a workload on any start; 1 if there is none.
    fn half_smallest(&self, workload: &str) -> f64 {
        let figures = self.standings_of(workload).filter_map(|standing| match standing {
            Standing::Valued { value, .. } if *value > 0.0 => Some(*value),
            _ => None,
        });
        figures.reduce(f64::min).map_or(1.0, |smallest| smallest / 2.0)
    }

    /// Returns the standings of all starts under a workload.
    fn standings_of(&self, workload: &str) -> impl Iterator<Item = &Standing> {
        let of_slots = self.standings.values();
        of_slots
            .filter_map(move |values| values.get(workload))
            .flat_map(BTreeMap::values)
    }

    /// Returns true if a start was measured for an earlier plan, and its record lacks a figure that this plan needs.
    pub fn lacks_figures(&self, server: &ServerId, slot: u32) -> bool {
        let is_unknown = |values: &BTreeMap<String, Standing>| values.get(&*server.0) == Some(&Standing::Unknown);
        let ranked = self.standings.get(&slot);
        let is_earlier = |run: &RunRecord| {
            let is_valid = run.outcome != Outcome::Failed && run.validity != Validity::Invalid;
            (&run.server, run.slot) == (server, slot) && is_valid && self.state.is_before_plan(run)
        };
        // Nothing is asked if no run has the figure of a question.
        ranked.is_some_and(|ranked| ranked.is_empty() || ranked.values().any(is_unknown))
            && self.state.measured().any(is_earlier)
    }

    fn trial_of_failure(&self, server: &ServerId, slot: u32) -> Trial {
        let tally = self.tallies.get(&(server.clone(), slot));
        trial_of_cause(tally.and_then(|tally| tally.cause))
    }

    /// Returns the result of a search: the load that it found, multiplied by the number of replicas that fit on the user's GPUs, or the
    /// reason why there is none. A server whose answers are in doubt has failed, because none of its measurements counts.
    fn trial_of_load(&self, server: &ServerId, slot: u32, target: &str, record: &SearchRecord) -> Trial {
        if self.state.doubted_server(server).is_some() {
            return Trial::Failed;
        }
        let known = self.state.servers.get(server);
        let gpus = known.and_then(|known| used_gpus(&known.params, &known.argv, &known.launches));
        let replicas = f64::from(replicas_on(self.experiment.gpus, whole_gpus(gpus)).max(1));
        if let Some(SearchEnd::GivenUp(failure)) = &record.ended {
            return trial_of_cause(Some(failure.cause));
        }
        let Some(answer) = record.answer(target) else {
            return self.trial_of_failure(server, slot);
        };
        match answer.found {
            Found::Met(load) | Found::Beyond(load) => Trial::Measured {
                ln_value: (load * replicas).ln(),
                sd: error_of_load(record, target),
            },
            Found::None => Trial::Unmet,
            Found::Undecided => {
                // The load may well be above its interval, so the upper bound is the end of the whole distribution.
                let posterior = answer.posterior.as_ref().filter(|_| answer.high.is_finite());
                let end = posterior.and_then(|own| own.quantiles.last().copied().filter(|end| !own.is_ceiling(*end)));
                let end = end.map_or(f64::INFINITY, |end| end.max(answer.high));
                Trial::Undecided {
                    ln_below: Some((end * replicas).ln()).filter(|bound| bound.is_finite()),
                }
            }
            Found::Skipped => match record.started.rivals.iter().find(|rival| rival.target == target) {
                Some(rival) => Trial::Beaten {
                    ln_below: (rival.load * replicas).ln(),
                },
                None => Trial::Unmet,
            },
        }
    }
}

/// Returns the winner of the first question of an answer, which is the question of the optimisation. If the question is asked for several
/// workloads, the winner is the one for all together. The choice is decidable if the winner is sure, or if more starts are worthwhile. With
/// a budget, they are worthwhile whenever the answer advises any; without one, only if they are expected to make the winner sure.
pub(super) fn judged(record: &Optimization, answer: &Answer) -> Option<Incumbent> {
    let first = answer.questions.first()?;
    let (config, probability) = match answer.together.iter().find(|other| other.question == first.question) {
        Some(together) => (together.config.as_ref()?, together.probability),
        None => first
            .winner
            .as_ref()
            .map(|winner| (&winner.config, winner.probability))?,
    };
    let certainty = record.rules.certainty.min(SURE);
    let asked = answer.questions.iter().filter(|other| other.question == first.question);
    let mut advice = asked.filter_map(|answered| answered.advice.as_ref());
    let is_worthwhile = |advice: &Advice| record.rules.budget.is_some() || advice.expected >= certainty;
    Some(Incumbent {
        winner: record.position(&ServerId(config.as_str().into()))?,
        probability,
        is_decidable: probability >= certainty || advice.any(is_worthwhile),
    })
}

/// Returns the settings of all servers, and the number of GPUs of each, if it is known.
fn servers(state: &State) -> BTreeMap<ServerId, (Params, Option<f64>)> {
    let of = |(id, server): (&ServerId, &ServerRecord)| {
        let gpus = used_gpus(&server.params, &server.argv, &server.launches);
        (id.clone(), (server.params.clone(), gpus))
    };
    state.servers.iter().map(of).collect()
}

/// Returns the factor, 1 or -1, that turns figures into values of which higher ones are better.
pub(super) fn sign(better: Better) -> f64 {
    match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
    }
}

fn is_zero(standing: &Standing) -> bool {
    matches!(standing, Standing::Valued { value, .. } if *value == 0.0)
}

/// Returns the result of a start without a value, by the cause of its failure.
fn trial_of_cause(cause: Option<Cause>) -> Trial {
    match cause {
        Some(Cause::OomAtLoad | Cause::KvCacheTooSmall | Cause::OomUnderLoad) => Trial::DidNotFit,
        _ => Trial::Failed,
    }
}

/// Returns the relative error of a load: half the logarithmic width of the middle 68 % of the search's posterior.
fn error_of_load(record: &SearchRecord, target: &str) -> f64 {
    let answer = record.answer(target);
    let Some(posterior) = answer.and_then(|answer| answer.posterior.as_ref()) else {
        return ASSUMED_LOAD_ERROR;
    };
    let quantiles = &posterior.quantiles;
    let at = |part: f64| quantiles.get((part * quantiles.len() as f64) as usize);
    match (at(0.16), at(0.84)) {
        (Some(low), Some(high)) if *low > 0.0 => ((high / low).ln() / 2.0).max(LEAST_LOAD_ERROR),
        _ => ASSUMED_LOAD_ERROR,
    }
}
