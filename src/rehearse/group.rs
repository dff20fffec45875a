//! One server group in virtual time: the runs that the schedule lists and those that its searches ask for, in the order of
//! the real run, by the same rules. What a search learns goes into a state in memory, as the journal would hold it.

mod explore;

use super::disk;
use super::learn::PAUSE_S;
use super::load::{Driver, Play, Played, Stage};
use super::server::StandIn;
use super::spread::Total;
use super::threads::Company;
use super::{Forecast, Loss, Unknown};
use crate::bench::{Measurement, params_of};
use crate::cause::{Cause, Failure, Outcome};
use crate::journal::{Event, FIRST_SLOT, Learned, Link, RunFinished, RunStarted, State};
use crate::matrix::{LoadSearch, Point};
use crate::plan::{BenchRunner, Params, Reset, Warmup};
use crate::run::{Asked, Group, Warmth, replay, search_started, wants_forecast};
use crate::search::{Next, Probe};
use crate::validity::Validity;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

/// Work on one group.
pub struct Rehearsed<'a> {
    company: &'a Company<'a>,
    group: &'a Group,
    stand_in: &'a StandIn,
    state: &'a mut State,
    forecast: Forecast,
    stage: Stage<'a>,
    is_up: bool,
    /// Points that were played.
    played: HashMap<crate::ids::PointId, Timing>,
    /// The loads that this start of the server has held.
    warmth: Warmth,
}

/// What one point takes.
#[derive(Debug, Clone, Copy)]
struct Timing {
    seconds: f64,
    /// What a warm-up before it takes, where it was played.
    warmup_s: f64,
    requests: u64,
}

/// What came of one try at a run.
enum Outcomes {
    Measured(Box<Measurement>),
    Failed(Failure),
}

impl<'a> Rehearsed<'a> {
    /// Prepares; nothing is played yet.
    pub fn new(company: &'a Company<'a>, group: &'a Group, stand_in: &'a StandIn, state: &'a mut State) -> Self {
        let plan = company.plan;
        let criteria = plan
            .sla
            .iter()
            .flat_map(|sla| &sla.targets)
            .flat_map(|target| &target.criteria);
        let reads_gaps = criteria.map(ToString::to_string).any(|text| text.contains("itl"));
        let server = &group.server;
        Rehearsed {
            stage: Stage::new(stand_in, plan.serve.reset == Reset::Nothing, reads_gaps),
            forecast: Forecast::new(server.id.clone(), plan.secrets.redact(&server.name)),
            company,
            group,
            stand_in,
            state,
            is_up: false,
            played: HashMap::new(),
            warmth: Warmth::default(),
        }
    }

    /// Plays the group. `Err` says why it cannot be.
    pub fn perform(mut self) -> Result<Forecast, Unknown> {
        if let Some(failure) = &self.stand_in.failure {
            self.forecast.failure = Some(failure.clone());
            self.start();
            let finders = self.group.searches.len() + self.group.explorations.len();
            self.forecast.runs = (self.group.tasks.len() + finders) as u64;
            return Ok(self.forecast);
        }
        for task in &self.group.tasks {
            self.ensure_up();
            self.task(&task.point, task.run)?;
        }
        for search in &self.group.searches {
            self.search(search)?;
        }
        for exploration in &self.group.explorations {
            self.explore(exploration)?;
        }
        Ok(self.forecast)
    }

    fn start(&mut self) {
        let StandIn { stop_s, failure, .. } = self.stand_in;
        let is_late = failure
            .as_ref()
            .is_some_and(|failure| failure.cause == Cause::ReadyTimeout);
        let start_s = match is_late {
            true => self.company.plan.serve.ready_timeout.as_secs_f64(),
            false => self.stand_in.start_s,
        };
        self.forecast.starts += 1;
        self.forecast.total.starts += self.company.lessons.start.time(start_s + stop_s);
        self.forecast.disk_bytes += disk::of_start(self.stand_in.kind);
        self.is_up = true;
        self.warmth = Warmth::default();
    }

    /// Starts the server for the first run, and for every run if the plan wants that.
    fn ensure_up(&mut self) {
        if !self.is_up || (self.company.plan.serve.reset == Reset::Restart && self.forecast.runs > 0) {
            self.start();
        }
    }

    /// A run of the plan. Repetitions are alike but for their random choices, so one of them is played for all.
    fn task(&mut self, point: &Point, run: u32) -> Result<(), Unknown> {
        if let Some(seconds) = self.company.lessons.measured(&point.id) {
            self.count(point, 0);
            self.forecast.total.runs += self.company.lessons.repeated.time(seconds);
            self.forecast.total.runs += self.company.lessons.pause.time(PAUSE_S);
            return Ok(());
        }
        if let Some(timing) = self.played.get(&point.id).copied() {
            let warmup_s = match self.warmth.covers(&point.params) {
                true => 0.0,
                false => timing.warmup_s,
            };
            self.warmth.note(&point.params);
            self.count(point, timing.requests);
            self.add(point, warmup_s + timing.seconds);
            return Ok(());
        }
        let Some(played) = self.play(point, run, None)? else {
            self.count(point, 0);
            return Ok(());
        };
        let seconds = self.limited(point, played.seconds);
        self.note(point, seconds, &played);
        if seconds < played.seconds {
            let limit = self.company.plan.bench.timeout.as_secs();
            let detail = format!(
                "it likely takes {:.0} s, and bench.timeout is {limit} s",
                played.seconds
            );
            self.lose(point, Failure::new(Cause::BenchTimeout, detail));
        } else {
            match judge(played.measurement) {
                Outcomes::Failed(failure) => self.lose(point, failure),
                Outcomes::Measured(_) => {}
            }
        }
        Ok(())
    }

    /// Counts a played run, which takes so long without its warm-up.
    fn note(&mut self, point: &Point, seconds: f64, played: &Played) {
        let timing = Timing {
            seconds,
            warmup_s: played.warmup_s,
            requests: played.requests,
        };
        self.played.insert(point.id.clone(), timing);
        self.count(point, timing.requests);
        self.add(point, played.warmup_s + seconds);
    }

    fn count(&mut self, point: &Point, requests: u64) {
        self.forecast.runs += 1;
        let saves = point.params.get("save_detailed").is_some_and(|value| value != false);
        self.forecast.disk_bytes += self
            .company
            .lessons
            .run_bytes
            .unwrap_or_else(|| disk::of_run(requests, saves));
    }

    fn add(&mut self, point: &Point, seconds: f64) {
        self.forecast.total.runs += self.company.lessons.run.time(seconds);
        let overhead = Driver::of(point.argv.as_deref()).overhead_s();
        self.forecast.total.runs += self.company.lessons.overhead.time(overhead);
        self.forecast.total.runs += self.company.lessons.pause.time(PAUSE_S);
    }

    fn limited(&self, point: &Point, seconds: f64) -> f64 {
        let overhead = Driver::of(point.argv.as_deref()).overhead_s();
        seconds.min((self.company.plan.bench.timeout.as_secs_f64() - overhead).max(0.0))
    }

    fn lose(&mut self, point: &Point, failure: Failure) {
        let name = self.company.plan.secrets.redact(&point.name);
        self.forecast.losses.push(Loss { point: name, failure });
    }

    /// Plays one run; `None` for a benchmark of which nothing is known.
    fn play(&mut self, point: &Point, run: u32, asked: Option<&Asked>) -> Result<Option<Played>, Unknown> {
        if let BenchRunner::Iterations | BenchRunner::Phases = self.company.plan.bench.runner {
            self.forecast.unknown_runs += 1;
            return Ok(None);
        }
        let params = match &point.argv {
            Some(argv) => params_of(argv),
            None => Some(point.params.clone()),
        };
        let Some(mut params) = params else {
            self.forecast.unknown_runs += 1;
            return Ok(None);
        };
        if point.argv.is_none() {
            let seed = params.get("seed").and_then(Value::as_u64).unwrap_or(0);
            let draw = asked.and_then(Asked::draw).unwrap_or(run);
            params.insert("seed".to_owned(), seed.wrapping_add(u64::from(draw)).into());
        }
        let play = Play {
            params: &params,
            warmup: match self.warmth.covers(&point.params) {
                true => Warmup::Requests(0),
                false => self.company.plan.bench.warmup,
            },
            // An external benchmark cannot be ended early.
            watch: asked
                .filter(|_| point.argv.is_none())
                .and_then(|asked| asked.watch.clone()),
            budget: self.company.budget,
        };
        self.company.options.played.fetch_add(1, Ordering::Relaxed);
        let played = self.stage.play(play)?;
        self.warmth.note(&point.params);
        Ok(Some(played))
    }

    /// What a search will likely find, by target, played to its end on a state of its own.
    pub fn foresee(&mut self, planned: &LoadSearch) -> Result<BTreeMap<String, f64>, Unknown> {
        let mut state = self.state.clone();
        let mut beside = Rehearsed::new(self.company, self.group, self.stand_in, &mut state);
        beside.begin(planned, None);
        beside.play_search(planned)?;
        let answers = beside.forecast.answers.into_iter();
        Ok(answers.filter_map(|(target, load)| Some((target, load?))).collect())
    }

    fn begin(&mut self, planned: &LoadSearch, forecast: Option<&BTreeMap<String, f64>>) {
        let started = search_started(planned, self.company.plan, self.state, forecast);
        self.record(Event::SearchStarted(Box::new(started)));
    }

    /// A search, from where the real one starts: it has a forecast too.
    fn search(&mut self, planned: &LoadSearch) -> Result<(), Unknown> {
        if self.state.search(&planned.id).is_none() {
            let forecast = match wants_forecast(planned, self.company.plan, self.state) {
                true => Some(self.foresee(planned)?),
                false => None,
            };
            self.begin(planned, forecast.as_ref());
        }
        self.play_search(planned)
    }

    fn play_search(&mut self, planned: &LoadSearch) -> Result<(), Unknown> {
        loop {
            let search = replay(planned, self.state);
            let question = match search.ask() {
                Next::Probe(question) => question,
                Next::Done(answers) => {
                    let found = answers
                        .iter()
                        .map(|answer| (answer.target.clone(), answer.found.value()));
                    self.forecast.answers.extend(found);
                    let record = self.state.search(&planned.id).expect("a search begins before it asks");
                    let (search, after) = (planned.id.clone(), record.tip);
                    let (cause, detail) = (None, String::new());
                    self.record(Event::SearchFinished {
                        search,
                        after,
                        answers,
                        cause,
                        detail,
                    });
                    return Ok(());
                }
            };
            let point = self.company.matrix.point_for(planned, &question);
            let run = self.state.free_run(&point.id);
            let asked = Asked::by(planned, &search, question);
            self.ensure_up();
            let Some(played) = self.play(&point, run, Some(&asked))? else {
                return Ok(());
            };
            let seconds = self.limited(&point, played.seconds);
            self.note(&point, seconds, &played);
            let outcome = match seconds < played.seconds {
                true => Outcomes::Failed(Failure::new(
                    Cause::BenchTimeout,
                    "it likely takes longer than bench.timeout",
                )),
                false => judge(played.measurement),
            };
            let probe = match &outcome {
                Outcomes::Measured(measurement) => asked.probe_of(measurement),
                Outcomes::Failed(failure) => asked.probe_of_failure(failure),
            };
            let says_all = probe
                .as_ref()
                .is_some_and(|probe| probe.stopped.is_some() || answers_all(planned, probe));
            self.note_probe(&point, run, &asked, probe);
            if !says_all {
                let detail = "the search would be given up: its runs do not say what the targets ask for";
                self.lose(&point, Failure::new(Cause::BenchFailed, detail));
                return Ok(());
            }
        }
    }

    fn note_probe(&mut self, point: &Point, run: u32, asked: &Asked, probe: Option<Probe>) {
        let search = self
            .state
            .search(&asked.search)
            .expect("a search begins before it asks");
        let started = RunStarted {
            point: point.id.clone(),
            server: point.server.clone(),
            slot: FIRST_SLOT,
            run,
            launch: 0,
            name: point.name.clone(),
            params: Params::new(),
            combo: None,
            search: Some(Link {
                id: asked.search.clone(),
                after: search.tip,
                step: search.steps,
                draw: 0,
            }),
            anew: None,
        };
        let started = self.state.imagine(Event::RunStarted(Box::new(started)));
        let finished = RunFinished {
            started: started.place.line.seq,
            outcome: Outcome::Ok,
            validity: Validity::Valid,
            doubts: Vec::new(),
            cause: None,
            detail: String::new(),
            seconds: 0.0,
            file: None,
            learned: probe.map(Learned::Probe),
        };
        self.record(Event::RunFinished(Box::new(finished)));
    }

    fn record(&mut self, event: Event) {
        self.state.imagine(event);
    }
}

fn answers_all(planned: &LoadSearch, probe: &Probe) -> bool {
    let criteria = planned.settings.targets.iter().flat_map(|target| &target.criteria);
    criteria
        .map(ToString::to_string)
        .all(|text| probe.readings.contains_key(&text))
}

fn judge(measurement: Option<Measurement>) -> Outcomes {
    match measurement {
        None => Outcomes::Failed(Failure::new(
            Cause::RequestErrors,
            "every request would be refused: prompt and output are longer than max_model_len",
        )),
        Some(measurement) => match &measurement.failure {
            Some(failure) => Outcomes::Failed(failure.clone()),
            None => Outcomes::Measured(Box::new(measurement)),
        },
    }
}

impl Forecast {
    fn new(server: crate::ids::ServerId, name: String) -> Forecast {
        Forecast {
            server,
            name,
            starts: 0,
            runs: 0,
            unknown_runs: 0,
            answers: Vec::new(),
            failure: None,
            losses: Vec::new(),
            disk_bytes: 0,
            total: Total::default(),
        }
    }
}
