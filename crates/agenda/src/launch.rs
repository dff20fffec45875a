//! The server of a group: launched when a run needs it, stopped when the group ends.

use super::step::{Action, Ending, ReadyInfo, Signal, Step};
use super::{Agenda, AgendaPhase, record};
use vsweep_base::cause::Failure;
use vsweep_plan::{Parallel, Params, number_or_text, spelling};
use vsweep_record::journal::{Entry, Event, Launch, LaunchRecord, ServerExited, ServerReady, State};
use vsweep_record::table::is_of_load;
use vsweep_strategy::checks::AnswerCheck;

/// A launch of the server.
#[derive(Debug, Default)]
pub(super) struct LaunchState {
    pub id: Launch,
    pub is_ready: bool,
    /// Size of its KV cache in tokens, if it reported that.
    pub kv_tokens: Option<u64>,
    /// True if a run used it, so that its caches are not empty.
    pub is_used: bool,
    /// The loads that it has served.
    pub served: Vec<ServedLoad>,
    /// Reason why it failed to start, or died; `None` if it did neither.
    pub exit: Option<Failure>,
}

impl Agenda<'_> {
    /// Returns the first step of a start. If servers run at the same time, the step is to wait until the activities of the others allow the
    /// start.
    pub(super) fn start(&self) -> Step {
        match self.schedule.plan.exec.parallel {
            Parallel::No => self.announcement(),
            _ => Step::Act(Action::Await),
        }
    }

    /// Returns the step that announces a start. Once that is recorded, the server is started.
    pub(super) fn announcement(&self) -> Step {
        record(Event::ServerStarting {
            server: self.server.id.clone(),
            slot: self.slot,
            // The recorder sets the number.
            launch: 0,
            gpus: self.gpus.clone(),
        })
    }

    pub(super) fn launch_recorded(&mut self, entry: &Entry, launch: u32) {
        let id = Launch {
            session: entry.rank.line.journal,
            n: launch,
        };
        self.launched = Some(LaunchState {
            id,
            ..LaunchState::default()
        });
        self.due.push_back(Step::Act(Action::Start(id)));
    }

    pub(super) fn settle_start(&mut self, started: Result<ReadyInfo, Failure>) {
        let launched = self.launched.as_mut().expect("a start was recorded");
        launched.is_ready = started.is_ok();
        match started {
            // Offline benchmarks have no server, so there is nothing to record.
            Ok(_) if self.schedule.plan.bench.runner.offline().is_some() => {}
            Ok(facts) => {
                launched.kv_tokens = facts.kv_tokens;
                self.due.push_back(record(Event::ServerReady(Box::new(ServerReady {
                    server: self.server.id.clone(),
                    launch: launched.id.n,
                    ..facts.recorded
                }))));
            }
            Err(failure) => {
                launched.exit = Some(failure.clone());
                self.start_failure = Some(failure);
                self.due.push_back(Step::Act(Action::Stop));
            }
        }
    }

    /// Returns a note for the user about the answers to the fixed questions at the last launch: that its runs will be invalid because of
    /// them, or that the answers cannot be compared. The latter is noted once for each reason.
    pub(super) fn note_of_answers(&self, state: &State) -> Option<String> {
        let id = self.launched.as_ref()?.id;
        let name = self.schedule.plan.secrets.redact(&self.server.name);
        if let Some(doubt) = state.doubted_for_answers(id) {
            return Some(format!("the runs of {name} will be invalid: {doubt}"));
        }
        let starts = || state.launches();
        let refused = |start: &LaunchRecord| match start.answers() {
            Some(AnswerCheck::Refused(why)) => Some(why.clone()),
            _ => None,
        };
        let why = starts().find(|start| start.launch == id).and_then(refused)?;
        let is_known = starts().any(|start| start.launch != id && refused(start).as_ref() == Some(&why));
        (!is_known).then(|| format!("answers are not compared: {why} (answer_check = false in [serve] turns this off)"))
    }

    /// Records the end of the server. `held_seconds` is the time from the announcement of its launch to its end, in
    /// which it held its GPUs.
    pub(super) fn settle_stop(&mut self, seconds: f64, held_seconds: Option<f64>) {
        let launched = self.launched.take().expect("only a server that was started is stopped");
        let (cause, detail) = launched.exit.map(|failure| (failure.cause, failure.detail)).unzip();
        self.due.push_back(record(Event::ServerExited(Box::new(ServerExited {
            server: self.server.id.clone(),
            launch: launched.id.n,
            cause,
            detail: detail.unwrap_or_default(),
            seconds: Some(seconds),
            held_seconds,
        }))));
    }

    /// Returns the step that ends the server, at once if the user asked for that.
    pub(super) fn end_server(&self) -> Step {
        Step::Act(match self.signal {
            Some(Signal::Kill) => Action::Kill,
            _ => Action::Stop,
        })
    }

    /// Retires the earlier measurements after a changed server answered at the same address, so that all of them are made anew.
    pub(super) fn retire(&mut self, reason: String) -> Option<Step> {
        if self.launched.is_some() {
            self.phase = AgendaPhase::Retiring(reason);
            return Some(self.end_server());
        }
        self.leave(Ending::Finished);
        Some(record(Event::ResultsRetired {
            server: self.server.id.clone(),
            reason,
        }))
    }
}

/// A load that a launch has served. The launch is warm for a load if it has served the same workload with limits at least as high. For a
/// load without limits, it must also have served at least as many requests at once.
#[derive(Debug)]
pub(super) struct ServedLoad {
    /// Bench parameters of the workload.
    workload: Params,
    /// Largest number of requests at once, and of requests per second; infinite without a limit.
    limits: (f64, f64),
    /// Number of requests; infinite if it is not known.
    requests: f64,
}

impl ServedLoad {
    fn of(params: &Params) -> ServedLoad {
        let limit = |name: &str| {
            let given = spelling::find(params, name).and_then(number_or_text);
            // 0 requests stand for every row of a file.
            given.filter(|limit| *limit > 0.0).unwrap_or(f64::INFINITY)
        };
        let workload = params.iter().filter(|(name, _)| !is_of_load(name));
        ServedLoad {
            workload: workload.map(|(name, value)| (name.clone(), value.clone())).collect(),
            limits: (limit("max_concurrency"), limit("request_rate")),
            requests: limit("num_prompts"),
        }
    }

    /// Returns true if a server that has served this load is warm for the other.
    fn covers(&self, other: &ServedLoad) -> bool {
        // Without limits all requests come at once, so their number is the load.
        let is_at_once = other.limits == (f64::INFINITY, f64::INFINITY);
        self.workload == other.workload
            && self.limits.0 >= other.limits.0
            && self.limits.1 >= other.limits.1
            // An unknown number covers only an unknown one.
            && (!is_at_once || self.requests == other.requests || (self.requests.is_finite() && self.requests >= other.requests))
    }
}

impl LaunchState {
    /// Returns true if a load with these bench parameters needs no further warm-up.
    pub fn is_warm_for(&self, params: &Params) -> bool {
        let wanted = ServedLoad::of(params);
        self.served.iter().any(|served| served.covers(&wanted))
    }

    /// Notes a load that the server has served.
    pub fn note_served(&mut self, params: &Params) {
        let served = ServedLoad::of(params);
        self.served.retain(|known| !served.covers(known));
        self.served.push(served);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_warm(served: Value, wanted: Value) -> bool {
        let params = |value: Value| value.as_object().expect("an object").clone();
        let mut launched = LaunchState::default();
        launched.note_served(&params(served));
        launched.is_warm_for(&params(wanted))
    }

    #[test]
    fn a_higher_load_of_the_same_workload_warms() {
        let load =
            |slots: u32, input: u32| json!({"max-concurrency": slots, "random_input_len": input, "num_prompts": 9});
        assert!(is_warm(load(8, 5), load(8, 5)) && is_warm(load(8, 5), load(2, 5)));
        assert!(!is_warm(load(8, 5), load(9, 5)), "it was never that high");
        assert!(!is_warm(load(8, 5), load(2, 6)), "another workload");
    }

    #[test]
    fn rates_and_floods_are_limits_too() {
        assert!(is_warm(
            json!({"request_rate": "inf", "num_prompts": 50}),
            json!({"request_rate": 4})
        ));
        assert!(!is_warm(
            json!({"request_rate": 4, "num_prompts": 50}),
            json!({"max_concurrency": 4})
        ));
        assert!(!is_warm(json!({"num_prompts": 50}), json!({"num_prompts": 60})));
        assert!(!is_warm(json!({"num_prompts": 0}), json!({"num_prompts": 60})));
        assert!(
            !is_warm(json!({"num_prompts": 50}), json!({"num_prompts": 0})),
            "every row"
        );
        assert!(!is_warm(json!({"max_concurrency": "8"}), json!({"max_concurrency": 9})));
        assert!(is_warm(
            json!({"num_prompts": 60, "max_concurrency": 64}),
            json!({"num_prompts": 99, "max_concurrency": 4})
        ));
    }
}
