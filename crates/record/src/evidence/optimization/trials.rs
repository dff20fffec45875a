//! The result of each start of an optimisation: its value with its error, or the reason why it has none; and the time that it took.

use crate::evidence::Recorded;
use crate::journal::{Objective, Optimization, RunRecord, SearchEnd, SearchRecord, ServerRecord, StartRecord, State};
use crate::table::used_gpus;
use std::collections::{BTreeMap, HashMap};
use vsweep_answer::{Answer, Better, Experiment, Goal, SURE, Standing, answer, standings};
use vsweep_base::cause::{Cause, Outcome};
use vsweep_base::ids::ServerId;
use vsweep_plan::{Params, Requirement};
use vsweep_strategy::search::Found;
use vsweep_strategy::selection::optimized::{Judged, Trial};

/// Relative error of a load whose search says nothing of its certainty.
const UNKNOWN_LOAD: f64 = 0.03;
/// Least relative error of a load that a search found.
const LEAST_LOAD: f64 = 0.005;

/// The results of the starts of an optimisation.
pub(super) struct Trials<'a> {
    record: &'a Optimization,
    /// The settings of all servers, and the GPUs of each.
    servers: BTreeMap<ServerId, (Params, f64)>,
    /// Worth of each server on each start, by its slot.
    standings: BTreeMap<u32, BTreeMap<String, Standing>>,
    /// Seconds of runs, and the cause of the last failure, by server and slot.
    tallies: HashMap<(ServerId, u32), Tally>,
    /// The good direction of the figure.
    pub better: Better,
    /// The name of the question.
    pub question: String,
}

#[derive(Debug, Default)]
struct Tally {
    seconds: f64,
    cause: Option<Cause>,
}

impl<'a> Trials<'a> {
    pub fn of(record: &'a Optimization, state: &State, requirements: &[Requirement]) -> Trials<'a> {
        let mut tallies: HashMap<(ServerId, u32), Tally> = HashMap::new();
        for run in state.measured() {
            let tally = tallies.entry((run.server.clone(), run.slot)).or_default();
            let beside = run.warmup_seconds.unwrap_or(0.0) + run.reset_seconds.unwrap_or(0.0);
            tally.seconds += run.seconds + beside;
            if run.outcome == Outcome::Failed {
                tally.cause = run.cause.or(tally.cause);
            }
        }
        let mut trials = Trials {
            record,
            servers: servers(state),
            standings: BTreeMap::new(),
            tallies,
            better: Better::Higher,
            question: match &record.objective {
                Some(Objective::Load(target)) => format!("Target {target}"),
                _ => String::new(),
            },
        };
        if !matches!(record.objective, Some(Objective::Load(_))) {
            trials.judge(state, requirements);
        }
        trials
    }

    /// Ranks the servers by the first question, start by start.
    fn judge(&mut self, state: &State, requirements: &[Requirement]) {
        let mut slots: Vec<u32> = self.tallies.keys().map(|(_, slot)| *slot).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let recorded = self.recorded(state, requirements);
            let experiment = recorded.experiment(|run: &RunRecord| run.slot == slot);
            let found = self.rank(&experiment);
            self.standings.insert(slot, found);
        }
    }

    /// The winner of the first question among the servers that were measured, as the answer finds it.
    pub fn winner(&self, state: &State, requirements: &[Requirement]) -> Option<Judged> {
        let mut experiment = self.recorded(state, requirements).experiment(|_| true);
        experiment.questions.truncate(1);
        experiment.frontiers.clear();
        judged(self.record, &answer(experiment))
    }

    fn recorded<'s>(&'s self, state: &'s State, requirements: &'s [Requirement]) -> Recorded<'s> {
        Recorded {
            state,
            servers: &self.servers,
            starts: u32::MAX,
            requirements,
            margin: self.record.rules.margin.exp_m1(),
            gpus: self.record.gpus,
            objective: self.record.objective.as_ref(),
        }
    }

    fn rank(&mut self, experiment: &Experiment) -> BTreeMap<String, Standing> {
        let Some(question) = experiment.questions.first() else {
            return BTreeMap::new();
        };
        let Goal::Metric { name, adds_up } = &question.goal else {
            return BTreeMap::new();
        };
        if let Some(metric) = experiment.metrics.iter().find(|metric| metric.name == *name) {
            self.better = metric.better;
        }
        self.question.clone_from(&question.name);
        standings(experiment, question, name, *adds_up)
    }

    /// The result of a start that has all its results, and the seconds that its server took.
    pub fn result(&self, contestant: usize, slot: u32, state: &State) -> (Trial, f64) {
        let server = &self.record.contestants[contestant].server;
        let trial = match &self.record.objective {
            Some(Objective::Load(target)) => self.load(contestant, slot, target, state),
            _ => self.figure(server, slot),
        };
        (trial, self.seconds(server, slot, state))
    }

    fn figure(&self, server: &ServerId, slot: u32) -> Trial {
        let standing = self.standings.get(&slot).and_then(|own| own.get(&server.0));
        match standing {
            Some(Standing::Valued { value, error }) => Trial::Measured {
                ln_value: sign(self.better) * value.ln(),
                sd: *error,
            },
            Some(Standing::Unmet) => Trial::Unmet,
            None => self.failed(server, slot),
        }
    }

    fn failed(&self, server: &ServerId, slot: u32) -> Trial {
        let tally = self.tallies.get(&(server.clone(), slot));
        of_cause(tally.and_then(|tally| tally.cause))
    }

    /// The load that a search found, of all replicas.
    fn load(&self, contestant: usize, slot: u32, target: &str, state: &State) -> Trial {
        let own = &self.record.contestants[contestant];
        let replicas = match (self.record.gpus, own.candidate.gpus) {
            (Some(gpus), own) if own > 0 => f64::from(gpus / own).max(1.0),
            _ => 1.0,
        };
        let records = own.searches.iter().filter_map(|search| state.search(search, slot));
        let Some(record) = records.into_iter().next() else {
            return self.failed(&own.server, slot);
        };
        if let Some(SearchEnd::GivenUp(failure)) = &record.ended {
            return of_cause(Some(failure.cause));
        }
        let Some(answer) = record.answer(target) else {
            return self.failed(&own.server, slot);
        };
        match answer.found {
            Found::Met(load) | Found::Beyond(load) => Trial::Measured {
                ln_value: (load * replicas).ln(),
                sd: error_of_load(record, target),
            },
            Found::None | Found::Undecided => Trial::Unmet,
            Found::Skipped => match record.started.rivals.iter().find(|rival| rival.target == target) {
                Some(rival) => Trial::Beaten {
                    ln_below: (rival.load * replicas).ln(),
                },
                None => Trial::Unmet,
            },
        }
    }

    /// Seconds of a server's launches for a start: of each until it ended, or as far as it is known.
    fn seconds(&self, server: &ServerId, slot: u32, state: &State) -> f64 {
        let launches = || state.starts_of(server).iter().filter(move |start| start.slot == slot);
        let held: f64 = launches().filter_map(|start| start.exit.held_seconds).sum();
        let ready: f64 = launches().filter_map(StartRecord::ready_seconds).sum();
        let runs = self
            .tallies
            .get(&(server.clone(), slot))
            .map_or(0.0, |tally| tally.seconds);
        held.max(ready + runs)
    }
}

/// The winner of the first question of an answer, which is that of the optimisation. A budget is spent as long as more starts are expected
/// to bring anything; without one, only as long as certainty is expected of them.
pub(super) fn judged(record: &Optimization, answer: &Answer) -> Option<Judged> {
    let answered = answer.questions.first()?;
    let winner = answered.winner.as_ref()?;
    let certainty = record.rules.certainty.min(SURE);
    Some(Judged {
        winner: record.position(&ServerId(winner.config.clone()))?,
        probability: winner.probability,
        is_decidable: match &answered.advice {
            Some(advice) => record.rules.budget.is_some() || advice.expected >= certainty,
            None => winner.probability >= certainty,
        },
    })
}

/// The settings of all servers, and the GPUs of each.
fn servers(state: &State) -> BTreeMap<ServerId, (Params, f64)> {
    let of = |(id, server): (&ServerId, &ServerRecord)| {
        let gpus = used_gpus(&server.params, &server.argv, &server.starts);
        (id.clone(), (server.params.clone(), gpus))
    };
    state.servers.iter().map(of).collect()
}

/// The sign that makes higher better.
pub(super) fn sign(better: Better) -> f64 {
    match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
    }
}

fn of_cause(cause: Option<Cause>) -> Trial {
    match cause {
        Some(Cause::OomAtLoad | Cause::KvCacheTooSmall | Cause::OomUnderLoad) => Trial::DidNotFit,
        _ => Trial::Failed,
    }
}

/// Relative error of a load, by the middle two thirds of the search's posterior.
fn error_of_load(record: &SearchRecord, target: &str) -> f64 {
    let answer = record.answer(target);
    let Some(posterior) = answer.and_then(|answer| answer.posterior.as_ref()) else {
        return UNKNOWN_LOAD;
    };
    let quantiles = &posterior.quantiles;
    let at = |part: f64| quantiles.get((part * quantiles.len() as f64) as usize);
    match (at(0.16), at(0.84)) {
        (Some(low), Some(high)) if *low > 0.0 => ((high / low).ln() / 2.0).max(LEAST_LOAD),
        _ => UNKNOWN_LOAD,
    }
}
