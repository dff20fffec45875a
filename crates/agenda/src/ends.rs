//! Tests that every strategy ends, whatever the outcomes of its actions are. Some of these outcomes are successful runs without results, as
//! in a forecast for an unknown server.

use super::*;
use proptest::prelude::*;
use std::path::Path;
use vsweep_base::cause::Cause;
use vsweep_plan::matrix::Matrix;
use vsweep_plan::{Format, Plan, World, parse};
use vsweep_record::journal::{RecordedPlan, SessionStarted, Shard};

/// Number of steps that no plan below needs.
const MOST_STEPS: usize = 2_000;

/// Parts of plans: top-level keys, then benchmark parameters and tables that choose loads or starts.
const STRATEGIES: [(&str, &str); 9] = [
    ("runs = 2\nstarts = 2", "num_prompts = 9\nmax_concurrency = [1, 2, 3]"),
    (
        "runs = { min = 2, max = 6, metric = \"p99_ttft_ms\", until = \"3 %\" }",
        "num_prompts = 9\nmax_concurrency = [1, 2]",
    ),
    (
        "runs = 1",
        "[sla]\nvary = \"max_concurrency\"\n[[sla.target]]\np99_ttft_ms = \"<=200\"",
    ),
    (
        "runs = 1",
        "[sla]\nvary = \"request_rate\"\nskip_beaten = true\n[[sla.target]]\np99_ttft_ms = \"<=200\"",
    ),
    ("runs = 2", "[explore]\nvary = \"max_concurrency\"\nlevels = 4"),
    ("runs = 1\nstarts = 2", "[explore]\nvary = \"request_rate\"\nlevels = 4"),
    (
        "runs = 2",
        "num_prompts = 9\nmax_concurrency = 4\n[compare]\nmetrics = [\"output_throughput\"]\nmax_starts = 12",
    ),
    (
        "runs = 2",
        "num_prompts = 9\nmax_concurrency = [2, 4]\n[optimize]\nstarts = 12",
    ),
    (
        "runs = 1",
        "[optimize]\n[sla]\nvary = \"max_concurrency\"\nskip_beaten = true\n[[sla.target]]\np99_ttft_ms = \"<=200\"",
    ),
];

fn plan(strategy: usize, servers: &str) -> (Plan, Matrix) {
    let (top, loads) = STRATEGIES[strategy];
    let text = format!(
        "version = 1\n{top}\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = {servers}\n\
         [bench.params]\n{loads}\n"
    );
    let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    (plan, matrix)
}

/// Returns an outcome of an action, chosen by a random number.
fn outcome(action: &Action, drawn: u8) -> ActionOutcome {
    let failure = Failure::new(Cause::BenchFailed, "in this test");
    match action {
        Action::Await => ActionOutcome::Permitted,
        Action::Start(_) if drawn == 0 => ActionOutcome::Started(Err(failure)),
        Action::Start(_) => ActionOutcome::Started(Ok(ReadyInfo::default())),
        Action::Check => ActionOutcome::Unchanged,
        Action::Reset => ActionOutcome::Reset {
            result: Ok(()),
            seconds: 0.0,
        },
        Action::Run(_) if drawn == 1 => ActionOutcome::Died { failure, seconds: 1.0 },
        Action::Run(_) if drawn == 2 => ActionOutcome::Ran {
            result: Err(failure),
            seconds: 1.0,
        },
        Action::Run(_) => ActionOutcome::Ran {
            result: Ok(Box::default()),
            seconds: 1.0,
        },
        Action::Stop | Action::Kill => ActionOutcome::Stopped {
            seconds: 0.0,
            held_seconds: None,
        },
    }
}

/// Performs a plan to its end. Returns false if that takes more steps than any plan needs.
fn ends(plan: &Plan, matrix: &Matrix, drawn: &[u8]) -> bool {
    let schedule = Schedule::new(plan, matrix, Shard::WHOLE, false);
    let mut state = State::default();
    state.apply_hypothetical(Event::SessionStarted(Box::new(SessionStarted {
        plan: RecordedPlan::new("p", String::new(), [], []),
        compare: compared(plan, matrix).map(Box::new),
        optimize: optimization(plan, matrix, None, &Predictions::new(), None).map(Box::new),
        ..SessionStarted::default()
    })));
    let mut drawn = drawn.iter().copied().cycle();
    let mut steps = 0;
    loop {
        let planned: Vec<Start> = match schedule.chooses_starts() {
            true => schedule.wanted_starts(&state, &[]),
            false => schedule.starts().chain(schedule.finals(&state)).collect(),
        };
        let Some(group) = planned.iter().find_map(|start| schedule.group(start, &state)) else {
            return true;
        };
        let mut agenda = Agenda::new(schedule, group, Hints::new(), &state);
        loop {
            steps += 1;
            if steps > MOST_STEPS {
                return false;
            }
            match agenda.next(&state) {
                Step::Record(mut event, _) => {
                    if let Event::ServerStarting { server, launch, .. } = &mut *event {
                        *launch = state.launches_of(server).len() as u32 + 1;
                    }
                    let entry = state.apply_hypothetical(*event);
                    agenda.recorded(&entry, &state);
                }
                Step::Note(_) => {}
                Step::Act(action) => {
                    let outcome = outcome(&action, drawn.next().expect("endless"));
                    agenda.settle(outcome);
                }
                Step::Done(_) => break,
            }
        }
    }
}

#[test]
fn every_strategy_ends_on_a_server_of_which_nothing_is_learned() {
    for (strategy, text) in STRATEGIES.iter().enumerate() {
        let (plan, matrix) = plan(strategy, "[4, 8]");
        assert!(ends(&plan, &matrix, &[9]), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_strategy_ends_whatever_happens(
        strategy in 0..STRATEGIES.len(),
        drawn in prop::collection::vec(0u8..12, 1..40),
    ) {
        let (plan, matrix) = plan(strategy, "[4, 8]");
        prop_assert!(ends(&plan, &matrix, &drawn), "{:?}", STRATEGIES[strategy]);
    }
}
