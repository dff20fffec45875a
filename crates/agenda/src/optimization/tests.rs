//! Tests optimisations on servers with known figures: the starts that they ask for, and their results.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use vsweep_answer::{CandidateState, OptimizationState};
use vsweep_base::cause::{Cause, Outcome};
use vsweep_plan::{Format, World, parse};
use vsweep_record::evidence::{OptimizationProgress, Results};
use vsweep_record::journal::{
    Event, GroupBegun, RecordedPlan, RunEvidence, RunFinished, RunStarted, SearchStarted, SessionStarted, Shard, State,
};
use vsweep_strategy::search::{Answer, Found, Rival, Seed};
use vsweep_strategy::selection::optimized::{EndReason, Reason};

use crate::finals::judge;
use crate::{Schedule, Start};

mod figures;
mod loads;
mod plans;

const PLAN: &str = "version = 1\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [16, 32, 64, 128, 256, \
                    512]\nmax_num_batched_tokens = [1024, 2048, 4096, 8192]\n[bench.params]\nnum_prompts = 9\n";

struct Played {
    plan: Plan,
    matrix: Matrix,
    state: State,
}

impl Played {
    fn new(optimize: &str) -> Played {
        Played::of(&format!("{PLAN}[optimize]\n{optimize}\n"))
    }

    fn of(text: &str) -> Played {
        Played::planned(text, State::default())
    }

    /// Begins a session with a plan, after everything in `state`.
    fn planned(text: &str, mut state: State) -> Played {
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        state.apply_hypothetical(session(&plan, &matrix, &Predictions::new()));
        Played { plan, matrix, state }
    }

    fn wanted(&self, at_once: usize, taken: &[(ServerId, u32)]) -> Vec<Start> {
        let schedule = Schedule::new(&self.plan, &self.matrix, Shard::WHOLE, false).with_at_once(at_once);
        schedule.wanted_starts(&self.state, taken)
    }

    fn begin(&mut self, start: &Start) {
        self.state.apply_hypothetical(Event::GroupBegun(Box::new(GroupBegun {
            server: start.server.id.clone(),
            slot: start.slot,
            config: vsweep_record::journal::ServerDescription::of(&start.server, &self.plan.secrets),
            proposed: start.proposed,
            ..GroupBegun::default()
        })));
    }

    /// Launches the server of a start that has begun, on these GPUs. Returns the number of the launch.
    fn launch(&mut self, start: &Start, gpus: Vec<u32>) -> u32 {
        let launch = self.state.launches_of(&start.server.id).len() as u32 + 1;
        self.state.apply_hypothetical(Event::ServerStarting {
            server: start.server.id.clone(),
            slot: start.slot,
            launch,
            gpus,
        });
        launch
    }

    /// Measures a start that has begun. Without a figure, the run runs out of memory.
    fn measure(&mut self, start: &Start, figure: Option<f64>) {
        let is_slow = value_of(start, "max_num_seqs", 0.0) >= 256.0;
        let latency = if is_slow { 300.0 } else { 100.0 };
        let launch = self.launch(start, Vec::new());
        let figures = figure.map(|figure| [("output_throughput", figure), ("p99_ttft_ms", latency)]);
        self.end_run(start, launch, figures);
    }

    /// Records the run of a start. Without figures, it ran out of memory.
    fn end_run(&mut self, start: &Start, launch: u32, figures: Option<[(&str, f64); 2]>) {
        let point = self.matrix.points_of(&start.server).next().expect("a point");
        let started = RunStarted {
            point: point.id,
            server: start.server.id.clone(),
            slot: start.slot,
            launch,
            params: point.params,
            ..RunStarted::default()
        };
        let started = self.state.apply_hypothetical(Event::RunStarted(Box::new(started)));
        self.state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
            started: started.rank.line.seq,
            seconds: 30.0,
            outcome: if figures.is_some() {
                Outcome::Ok
            } else {
                Outcome::Failed
            },
            cause: figures.is_none().then_some(Cause::OomAtLoad),
            learned: figures.map(|named| {
                let named = named.map(|(name, value)| (name.to_owned(), value));
                RunEvidence::Figures(named.into_iter().collect())
            }),
            ..RunFinished::default()
        })));
    }

    /// Follows the optimisation to its end. Returns the starts in their order.
    fn follow(&mut self, figure: impl Fn(&Start) -> Option<f64>) -> Vec<Start> {
        let mut starts = Vec::new();
        while let Some(start) = self.wanted(1, &[]).into_iter().next() {
            self.begin(&start);
            let again = self.wanted(1, &[]);
            assert_eq!(
                (&again[0].server.id, again[0].slot, again[0].proposed),
                (&start.server.id, start.slot, start.proposed),
                "a start that was left open comes first"
            );
            self.measure(&start, figure(&start));
            starts.push(start);
            assert!(starts.len() < 100, "it ends");
        }
        starts
    }

    fn has_work(&self) -> bool {
        Schedule::new(&self.plan, &self.matrix, Shard::WHOLE, false).has_work(&self.state)
    }

    fn found(&self) -> OptimizationState {
        let optimization = self.state.optimization().expect("declared");
        let requirements = &self.plan.report.requirements;
        let progress = OptimizationProgress::of(optimization, &self.state, requirements, &|_, _| false);
        progress.found(&judge(&self.plan, &self.matrix, &self.state, u32::MAX))
    }

    fn ended(&self) -> Option<EndReason> {
        self.found().ended
    }

    /// The name of the best server so far.
    fn best(&self) -> String {
        let best = self.found().best.expect("measured");
        let mut servers = self.matrix.servers();
        servers.find(|server| *server.id.0 == *best).expect("known").name
    }
}

/// The beginning of a session with a plan and these predictions.
fn session(plan: &Plan, matrix: &Matrix, predictions: &Predictions) -> Event {
    Event::SessionStarted(Box::new(SessionStarted {
        plan: RecordedPlan::new(
            "p",
            plan.text.clone(),
            matrix.points().map(|point| point.id).collect::<Vec<_>>().iter(),
            [],
        ),
        optimize: optimization(plan, matrix, None, predictions, None).map(Box::new),
        ..SessionStarted::default()
    }))
}

fn value_of(start: &Start, name: &str, default: f64) -> f64 {
    start.server.params.get(name).and_then(number).unwrap_or(default)
}

/// A smooth surface with its best server at 128 sequences and 4,096 tokens; the defaults are worse.
fn surface(start: &Start) -> Option<f64> {
    let seqs = (value_of(start, "max_num_seqs", 16.0) / 128.0).ln();
    let tokens = (value_of(start, "max_num_batched_tokens", 1024.0) / 4096.0).ln();
    Some(1000.0 * (-0.08 * seqs * seqs - 0.1 * tokens * tokens).exp())
}

#[test]
fn the_best_is_found_with_half_of_the_starts_and_the_defaults_come_first() {
    let mut played = Played::new("starts = 12");
    assert_eq!(played.matrix.servers().count(), 25, "the default settings are one more");
    let starts = played.follow(surface);
    assert_eq!(starts[0].server.name, "default");
    assert_eq!(starts[0].proposed, Some(Reason::Defaults));
    assert!(starts.len() <= 12, "{} starts", starts.len());
    let has_best = |start: &Start| start.server.name == "max_num_seqs=128, max_num_batched_tokens=4096";
    assert!(starts.iter().any(has_best));
    assert!(played.best().contains("max_num_seqs=128"), "{}", played.best());
}

#[test]
fn starts_and_time_end_it() {
    let mut played = Played::new("starts = 4\nbudget = \"1h\"");
    assert!(played.has_work());
    assert_eq!(played.follow(surface).len(), 4);
    assert!(!played.has_work(), "the others are not to be started");
    assert_eq!(played.ended(), Some(EndReason::Budget));
    let mut played = Played::new("budget = \"100s\"");
    let starts = played.follow(surface).len();
    assert!((2..=4).contains(&starts), "runs of 30 s each: {starts}");
    assert_eq!(played.ended(), Some(EndReason::Budget));
}

#[test]
fn starts_that_it_did_not_ask_for_take_nothing_from_its_limits() {
    for limit in ["starts = 4", "budget = \"300s\""] {
        let mut played = Played::new(limit);
        let default = played.wanted(1, &[]).remove(0);
        for slot in 0..4 {
            let unasked = Start::of(default.server.clone(), slot);
            played.begin(&unasked);
            played.measure(&unasked, surface(&unasked));
        }
        let asked = played.follow(surface).len();
        let found = played.found();
        assert!(asked >= 4 && found.starts == asked, "{limit}: {asked}, {found:?}");
        assert!((found.seconds / 30.0 - asked as f64).abs() < 0.01, "{limit}: {found:?}");
    }
}

#[test]
fn a_further_start_keeps_the_reason_of_the_first() {
    let mut played = Played::new("starts = 1");
    let asked = played.follow(surface).remove(0);
    let again = Start::of(asked.server.clone(), 1);
    played.begin(&again);
    played.measure(&again, surface(&again));
    let found = played.found();
    let own = found.candidates.iter().find(|own| *own.config == *asked.server.id.0);
    let own = own.expect("it was started");
    assert_eq!((own.starts, own.reason), (2, asked.proposed));
}

#[test]
fn a_server_of_an_interrupted_earlier_start_was_started() {
    let mut played = Played::new("starts = 1");
    let server = played.matrix.servers().next().expect("a server");
    let interrupted = Start::of(server, 0);
    played.begin(&interrupted);
    played.launch(&interrupted, Vec::new());
    played.follow(surface);
    let found = played.found();
    assert_eq!((found.starts, found.started()), (1, 2), "{found:?}");
    assert_eq!(found.candidates[0].state, CandidateState::UnderWay);
}

#[test]
fn several_at_once_are_distinct_and_take_the_place_of_those_that_end() {
    let mut played = Played::new("");
    let name = |start: &Start| (start.server.id.clone(), start.slot);
    // Nothing is known before the default settings begin.
    let mut batch = played.wanted(3, &[]);
    assert_eq!(batch.len(), 1);
    batch.extend(played.wanted(3, &[name(&batch[0])]));
    let mut taken: Vec<(ServerId, u32)> = batch.iter().map(name).collect();
    assert_eq!(batch.len(), 3);
    assert!(batch.iter().map(|start| &start.server.id).all_unique());
    assert!(played.wanted(3, &taken).is_empty(), "all places are taken");
    for start in &batch {
        played.begin(start);
    }
    assert!(played.wanted(3, &taken).is_empty());
    // If this session reports no starts of its own, all of them are left over from a killed session.
    assert_eq!(played.wanted(3, &[]).len(), 3);
    played.measure(&batch[1], surface(&batch[1]));
    let next = played.wanted(3, &taken);
    assert_eq!(next.len(), 1, "one place is free");
    taken.push((next[0].server.id.clone(), next[0].slot));
    assert!(played.wanted(3, &taken).is_empty());
}

#[test]
fn what_does_not_fit_is_no_value_and_ends_nothing() {
    let mut played = Played::new("starts = 14");
    let fits = |start: &Start| value_of(start, "max_num_seqs", 0.0) < 200.0;
    let starts = played.follow(|start| surface(start).filter(|_| fits(start)));
    assert!(starts.iter().filter(|start| fits(start)).count() > 3);
    assert!(played.best().contains("max_num_seqs=128"), "{}", played.best());
}

#[test]
fn what_is_foreseen_of_first_starts_predicts_figures() {
    let plan = |more: &str| {
        let text = format!("{PLAN}[optimize]\n{more}");
        parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan")
    };
    let measured = |value: f64| {
        let trial = Trial::Measured {
            ln_value: value.ln(),
            sd: 0.0,
        };
        Some(Results::from([(String::new(), trial)]))
    };
    let ended = |trial: Trial| Some(Results::from([(String::new(), trial)]));
    let foreseen = [
        measured(40.0),
        measured(30.0),
        ended(Trial::Unmet),
        ended(Trial::Failed),
        None,
    ];
    let foreseen: Vec<(Option<&Results>, f64)> = foreseen.iter().map(|own| (own.as_ref(), 0.1)).collect();
    let predicted = |more: &str| predicted_values(&plan(more), &foreseen);
    let values: Vec<Option<f64>> = predicted("")
        .iter()
        .map(|own| Some(own.as_ref()?.ln_value.exp().round()))
        .collect();
    assert_eq!(values, [Some(40.0), Some(30.0), Some(15.0), None, None]);
    let sd = |more: &str| predicted(more)[0].expect("measured").sd;
    // A load that is limited by a latency is predicted with less certainty than the latency.
    assert!(
        sd("[sla]\nvary = \"max_concurrency\"\n[[sla.target]]\nname = \"a\"\np99_ttft_ms = \"<=9\"\n") > 1.5 * sd("")
    );
}

#[test]
fn settings_become_levels() {
    let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\ntensor_parallel_size = [2, 4]\nmax_num_seqs = [64, \
                256]\nkv_cache_dtype = [\"auto\", \"fp8\"]\nseed = 1\n[bench.params]\nnum_prompts = 9\n[optimize]\n";
    let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let found = optimization(&plan, &matrix, None, &Predictions::new(), None).expect("asked for");
    assert_eq!(found.contestants.len(), 9);
    let is_ordered: Vec<bool> = found.axes.iter().map(|axis| axis.is_ordered).collect();
    assert_eq!(is_ordered, [true, true, false]);
    let defaults = &found.contestants[found.rules.defaults.expect("default settings")];
    // The plan asks for at least two GPUs, so its model may not fit on one.
    assert_eq!(defaults.name, "tensor_parallel_size=2");
    let levels = [Level::Number(2f64.ln()), Level::Choice(0), Level::Choice(0)];
    assert_eq!(
        (defaults.candidate.levels.as_slice(), defaults.candidate.changes),
        (&levels[..], 1)
    );
    assert_eq!(defaults.candidate.gpus, 2);
    let first = &found.contestants[0].candidate;
    assert_eq!(
        first.levels,
        [Level::Number(2f64.ln()), Level::Number(64f64.ln()), Level::Choice(1)]
    );
}

#[test]
fn levels_can_be_recorded() {
    for values in ["[0]", "[0, 8]", "[-1, 0]", "[8, \"inf\"]"] {
        let text = format!(
            "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nlong_prefill_token_threshold = {values}\n\
             max_num_seqs = [8, 16]\n[bench.params]\nnum_prompts = 9\n[optimize]\n"
        );
        let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let found = optimization(&plan, &matrix, None, &Predictions::new(), None).expect("asked for");
        for contestant in &found.contestants {
            let levels = &contestant.candidate.levels;
            let is_finite = |level: &Level| !matches!(level, Level::Number(number) if !number.is_finite());
            assert!(levels.iter().all(is_finite), "{values}: {levels:?}");
        }
    }
}

#[test]
fn the_best_meets_what_the_plan_asks() {
    let assert = "[[assert]]\np99_ttft_ms = \"<=200\"\n";
    let mut played = Played::of(&format!("{PLAN}[optimize]\nstarts = 14\n{assert}"));
    // More sequences give more throughput, and from 256 on too slow a first token.
    let starts = played.follow(|start| Some(100.0 * value_of(start, "max_num_seqs", 8.0).powf(0.3)));
    assert!(played.best().contains("max_num_seqs=128"), "{}", played.best());
    let unmet = played.found().count(CandidateState::Unmet);
    assert!(unmet > 0 && unmet < starts.len(), "{unmet} of {}", starts.len());
}

#[test]
fn no_start_is_asked_for_that_was_measured_before() {
    let mut played = Played::new("starts = 60");
    for server in played.matrix.servers().collect::<Vec<_>>() {
        for slot in 0..2 {
            let start = Start::of(server.clone(), slot);
            played.begin(&start);
            played.measure(
                &start,
                surface(&start).map(|figure| figure * (1.0 + 0.02 * f64::from(slot))),
            );
        }
    }
    let schedule = Schedule::new(&played.plan, &played.matrix, Shard::WHOLE, false);
    for start in played.wanted(4, &[]) {
        assert!(
            schedule.has_group(&start, &played.state),
            "start {} has no work",
            start.slot
        );
    }
}
