//! Agendas on a scripted server: what they ask for after deaths, failed starts and signals.

use super::task::MADE;
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use vsweep_base::cause::Cause;
use vsweep_plan::matrix::Matrix;
use vsweep_plan::{Format, Plan, World, parse};
use vsweep_record::journal::{MOST_LISTED, Shard};

const PLAN: &str = "version = 1\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\nmax_concurrency = [1, 2, 3, 4, 5]\n\
                    num_prompts = 9\n";

/// Performs the next action on a scripted server.
pub(super) type Script<'s> = &'s mut dyn FnMut(&mut Agenda<'_>, &Action) -> ActionOutcome;

pub(super) fn plan(text: &str) -> (Plan, Matrix) {
    let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    (plan, matrix)
}

/// Performs a plan on its first server. Returns one word for each action and each event that ends something, and the ending.
fn perform(text: &str, script: Script<'_>) -> (String, Ending) {
    let (plan, matrix) = plan(text);
    perform_next(&plan, &matrix, &mut State::default(), false, script)
}

/// Like `perform`, on the first server with remaining work.
pub(super) fn perform_next(
    plan: &Plan,
    matrix: &Matrix,
    state: &mut State,
    retry_failed: bool,
    script: Script<'_>,
) -> (String, Ending) {
    let schedule = Schedule::new(plan, matrix, Shard::WHOLE, retry_failed);
    let group = schedule
        .starts()
        .find_map(|start| schedule.group(&start, state))
        .expect("work");
    let mut agenda = Agenda::new(schedule, group, Hints::new(), state);
    let mut words: Vec<String> = Vec::new();
    loop {
        let mut event = match agenda.next(state) {
            Step::Record(event, _) => *event,
            Step::Note(note) if agenda.signal.is_some() && note.contains("trying again") => panic!("{note}"),
            Step::Note(_) => continue,
            Step::Act(action) => {
                let outcome = script(&mut agenda, &action);
                let word = match action {
                    Action::Start(_) => "start".to_owned(),
                    Action::Check => "check".to_owned(),
                    Action::Reset => "reset".to_owned(),
                    Action::Run(run) => format!("run{}", run.task.point.params["max_concurrency"]),
                    Action::Await => "await".to_owned(),
                    Action::Stop => "stop".to_owned(),
                    Action::Kill => "kill".to_owned(),
                };
                words.push(word);
                agenda.settle(outcome);
                continue;
            }
            Step::Done(ending) => return (words.join(" "), ending),
        };
        match &mut event {
            // The number of the launch, as the recorder would count it.
            Event::ServerStarting { server, launch, .. } => *launch = state.launches_of(server).len() as u32 + 1,
            Event::RunFinished(finished) => words.push(finished.outcome.to_string()),
            Event::GroupGivenUp(given_up) => words.push(format!("lost{}", given_up.points.len())),
            _ => {}
        }
        let entry = state.apply_hypothetical(event);
        agenda.recorded(&entry, state);
    }
}

pub(super) fn succeed(action: &Action) -> ActionOutcome {
    match action {
        Action::Start(_) => ActionOutcome::Started(Ok(ReadyInfo::default())),
        Action::Check => ActionOutcome::Unchanged,
        Action::Reset => ActionOutcome::Reset {
            result: Ok(()),
            seconds: 0.0,
        },
        Action::Run(_) => ActionOutcome::Ran {
            result: Ok(Box::default()),
            seconds: 1.0,
        },
        Action::Await => ActionOutcome::Permitted,
        Action::Stop | Action::Kill => ActionOutcome::Stopped {
            seconds: 0.0,
            held_seconds: None,
        },
    }
}

fn died(cause: Cause) -> ActionOutcome {
    ActionOutcome::Died {
        failure: Failure::new(cause, "in this test"),
        seconds: 1.0,
    }
}

fn is_run(action: &Action, load: u64) -> bool {
    matches!(action, Action::Run(run) if run.task.point.params["max_concurrency"] == load)
}

#[test]
fn a_server_is_started_once_and_stopped_at_the_end() {
    let performed = perform(PLAN, &mut |_, action| succeed(action));
    let steps = "start run1 ok reset run2 ok reset run3 ok reset run4 ok reset run5 ok stop";
    assert_eq!(performed, (steps.to_owned(), Ending::Finished));
}

#[test]
fn caches_that_others_may_have_filled_are_reset_before_the_first_run() {
    let attached = PLAN.replace("command = \"vllm serve m\"", "url = \"http://localhost:1\"");
    let (steps, _) = perform(&attached, &mut |_, action| succeed(action));
    assert!(steps.starts_with("start reset run1 ok check reset run2 ok"), "{steps}");

    let kept = attached.replace("[bench.params]", "reset = \"none\"\n[bench.params]");
    let (steps, _) = perform(&kept, &mut |_, action| succeed(action));
    assert!(steps.starts_with("start run1 ok check run2 ok"), "{steps}");
}

#[test]
fn a_cause_that_may_pass_is_tried_once_more_and_others_are_not() {
    let mut deaths = 0;
    let (steps, _) = perform(PLAN, &mut |_, action| match action {
        action if is_run(action, 2) && deaths < 1 => {
            deaths += 1;
            died(Cause::CrashedUnderLoad)
        }
        action if is_run(action, 4) => died(Cause::OomUnderLoad),
        action => succeed(action),
    });
    let expected =
        "start run1 ok reset run2 stop start run2 ok reset run3 ok reset run4 stop failed start run5 ok stop";
    assert_eq!(steps, expected);
}

#[test]
fn after_three_lost_points_the_config_is_given_up() {
    let (steps, ending) = perform(PLAN, &mut |_, action| match action {
        Action::Run(_) => died(Cause::OomUnderLoad),
        action => succeed(action),
    });
    let lost = "run1 stop failed start run2 stop failed start run3 stop failed lost2";
    assert_eq!((steps, ending), (format!("start {lost}"), Ending::Finished));
}

/// Returns the actions of a session. The session before it was killed when it was about to start the server for the `kill_at`-th time.
fn killed(kill_at: u32, script: Script<'_>) -> String {
    let (plan, matrix) = plan(PLAN);
    let (mut state, mut starts) = (State::default(), 0);
    let until_killed = catch_unwind(AssertUnwindSafe(|| {
        perform_next(&plan, &matrix, &mut state, false, &mut |agenda, action| {
            starts += u32::from(matches!(action, Action::Start(_)));
            assert!(starts < kill_at, "the session is killed");
            script(agenda, action)
        })
    }));
    assert!(until_killed.is_err(), "{until_killed:?}");
    perform_next(&plan, &matrix, &mut state, false, script).0
}

#[test]
fn what_a_killed_session_used_up_is_not_granted_again() {
    let steps = killed(2, &mut |_, action| match action {
        action if is_run(action, 1) => died(Cause::CrashedUnderLoad),
        action => succeed(action),
    });
    let rest = "start run2 ok reset run3 ok reset run4 ok reset run5 ok stop";
    assert_eq!(steps, format!("start run1 stop failed {rest}"), "one try more, not two");
    let steps = killed(3, &mut |_, action| match action {
        Action::Run(_) => died(Cause::OomUnderLoad),
        action => succeed(action),
    });
    assert_eq!(steps, "start run3 stop failed lost2", "the third point in a row");
}

#[test]
fn a_server_that_does_not_start_loses_everything() {
    let failed = || ActionOutcome::Started(Err(Failure::new(Cause::OomAtLoad, "in this test")));
    let (steps, ending) = perform(
        &format!("on_failure = \"stop\"\n{PLAN}"),
        &mut |_, action| match action {
            Action::Start(_) => failed(),
            action => succeed(action),
        },
    );
    assert_eq!((steps.as_str(), ending), ("start stop lost5", Ending::StoppedOnFailure));
}

#[test]
fn a_drain_finishes_the_run_an_interrupt_gives_it_up_and_a_kill_does_not_wait() {
    let signalled = |signals: &'static [Signal]| {
        perform(PLAN, &mut |agenda, action| {
            let is_stop = matches!(action, Action::Stop);
            let signal = match signals {
                [first, ..] if is_run(action, 2) => Some(*first),
                [_, second] if is_stop => Some(*second),
                _ => None,
            };
            match signal.is_some_and(|signal| agenda.signal(signal)) {
                true => ActionOutcome::Abandoned,
                false => succeed(action),
            }
        })
    };
    let steps = |signals| signalled(signals).0;
    assert_eq!(steps(&[Signal::Drain]), "start run1 ok reset run2 ok stop");
    assert_eq!(steps(&[Signal::Interrupt]), "start run1 ok reset run2 stop");
    assert_eq!(
        steps(&[Signal::Interrupt, Signal::Kill]),
        "start run1 ok reset run2 stop kill"
    );
    assert_eq!(signalled(&[Signal::Drain]).1, Ending::Interrupted);
}

#[test]
fn a_server_that_needs_as_much_memory_as_one_that_did_not_start_is_not_started() {
    let text = "version = 1\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_model_len = [4096, 8192, 2048]\n\
                seed = 1\n[bench.params]\nmax_concurrency = 1\n";
    let (plan, matrix) = plan(text);
    let mut state = State::default();
    let too_long: Script<'_> = &mut |_, action| match action {
        Action::Start(_) => ActionOutcome::Started(Err(Failure::new(Cause::KvCacheTooSmall, "4096 tokens do not fit"))),
        action => succeed(action),
    };
    let mut performed: Vec<String> = Vec::new();
    for script in [too_long, &mut |_, action| succeed(action), &mut |_, action| {
        succeed(action)
    }] {
        performed.push(perform_next(&plan, &matrix, &mut state, false, script).0);
    }
    assert_eq!(performed, ["start stop lost1", "lost1", "start run1 ok stop"]);
    let point = matrix.points().nth(1).expect("three points").id;
    let run = state.run(&point, 0, 0).expect("it was given up");
    assert_eq!(run.cause, Some(Cause::KvCacheTooSmall));
    let said = "not started: it needs at least the memory of max_model_len=4096, which was too much (max_model_len 8192 > 4096): \
                4096 tokens do not fit";
    assert_eq!(run.detail, said);
    // A config that is asked for again is tried, whatever happened to the others.
    let (mut first, mut second) = (String::new(), String::new());
    for steps in [&mut first, &mut second] {
        let mut start = state.clone();
        *steps = perform_next(&plan, &matrix, &mut start, true, &mut |_, action| succeed(action)).0;
        state = start;
    }
    assert_eq!((&*first, &*second), ("start run1 ok stop", "start run1 ok stop"));
}

const SIDE_BY_SIDE: &str = "version = 1\nruns = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [1, 2]\n\
                            [exec]\nparallel = 2\n[bench.params]\nmax_concurrency = [1, 2]\nnum_prompts = 9\n";

#[test]
fn side_by_side_every_start_is_waited_for_and_only_then_recorded() {
    let mut deaths = 0;
    let (words, _) = perform(SIDE_BY_SIDE, &mut |_, action| match action {
        action if is_run(action, 2) && deaths < 1 => {
            deaths += 1;
            died(Cause::CrashedUnderLoad)
        }
        action => succeed(action),
    });
    let again = "stop await start run2 ok stop";
    assert_eq!(words, format!("await start run1 ok reset run2 {again}"));
}

#[test]
fn a_refused_reset_concerns_no_run_on_a_fresh_server() {
    let (plan, matrix) = plan(SIDE_BY_SIDE);
    let mut state = State::default();
    let mut deaths = 0;
    perform_next(&plan, &matrix, &mut state, false, &mut |_, action| match action {
        Action::Reset => ActionOutcome::Reset {
            result: Err("it has no such route".to_owned()),
            seconds: 0.0,
        },
        action if is_run(action, 2) && deaths < 1 => {
            deaths += 1;
            died(Cause::CrashedUnderLoad)
        }
        action => succeed(action),
    });
    assert_eq!(state.runs().map(|run| run.doubts.len()).sum::<usize>(), 0);
}

#[test]
fn who_is_asked_to_end_while_it_waits_starts_nothing() {
    for signal in [Signal::Drain, Signal::Interrupt] {
        let (words, ending) = perform(SIDE_BY_SIDE, &mut |agenda, _| {
            assert!(agenda.signal(signal));
            ActionOutcome::Abandoned
        });
        assert_eq!((&*words, ending), ("await", Ending::Interrupted));
    }
}

#[test]
fn a_drain_records_a_lost_run_and_starts_no_server_again() {
    for (cause, rest) in [(Cause::OomUnderLoad, " failed"), (Cause::CrashedUnderLoad, "")] {
        let (words, ending) = perform(PLAN, &mut |agenda, action| match action {
            Action::Run(_) if !agenda.signal(Signal::Drain) => died(cause),
            action => succeed(action),
        });
        assert_eq!((words, ending), (format!("start run1 stop{rest}"), Ending::Interrupted));
    }
}

#[test]
fn runs_that_are_left_for_sure_are_counted_without_their_points() {
    let loads = "starts = 2\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [8, 16]\n[bench.params]\n\
                 num_prompts = 9\nmax_concurrency = [1, 2, 3]\n[[exclude]]\n\"serve.max_num_seqs\" = 8\n\"bench.max_concurrency\" = 3\n";
    let until = "{ min = 2, max = 5, metric = \"p99_ttft_ms\", until = \"5 %\" }";
    for (runs, least) in [("1", 1), ("3", 3), (until, 2)] {
        for repeat_first in [false, true] {
            let (plan, matrix) = plan(&format!("runs = {runs}\nrepeat_first = {repeat_first}\n{loads}"));
            let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
            let state = State::default();
            for start in schedule.starts() {
                let group = schedule.sure_group(&start, &state).expect("nothing is done");
                let grid = group.grid.expect("points");
                let left: usize = grid.left(schedule, &state).map(|(.., runs)| runs.len()).sum();
                let sure = matrix.count_of(&start.server) * least + u64::from(repeat_first);
                assert_eq!(left as u64, sure, "{runs} {repeat_first}");
                assert_eq!(schedule.sure_runs(&start, &state), sure, "{runs} {repeat_first}");
            }
        }
    }
}

#[test]
fn each_run_is_made_when_it_is_asked_for() {
    let many = PLAN.replace("[1, 2, 3, 4, 5]", "{ from = 1, to = 1000, step = 1 }");
    let before = MADE.get();
    let mut runs = 0;
    perform(&many.replace("runs = 1", "runs = 2"), &mut |agenda, action| {
        if let Action::Run(_) = action {
            runs += 1;
            assert_eq!(MADE.get() - before, runs, "one task for each run so far");
        }
        if runs == 3 {
            agenda.signal(Signal::Drain);
        }
        succeed(action)
    });
    assert_eq!(runs, 3);
}

#[test]
fn of_a_server_with_very_many_loads_that_does_not_start_the_first_are_described_and_all_have_failed() {
    let many = 12_000;
    let loads = format!("{{ from = 1, to = {many}, step = 1 }}");
    let (plan, matrix) = plan(&PLAN.replace("[1, 2, 3, 4, 5]", &loads));
    let mut state = State::default();
    let perform = |state: &mut State, is_dead: bool| {
        let (words, _) = perform_next(&plan, &matrix, state, !is_dead, &mut |_, action| match action {
            Action::Start(_) if is_dead => ActionOutcome::Started(Err(Failure::new(Cause::OomAtLoad, "in this test"))),
            action => succeed(action),
        });
        words
    };
    assert_eq!(perform(&mut state, true), format!("start stop lost{MOST_LISTED}"));
    let counts = |state: &State| (state.runs().count(), state.recorded_runs(), state.failures());
    assert_eq!(counts(&state), (MOST_LISTED, many, many));
    let has_work = |state: &State, again| Schedule::new(&plan, &matrix, Shard::WHOLE, again).has_work(state);
    assert!(!has_work(&state, false) && has_work(&state, true));
    perform(&mut state, false);
    assert_eq!(counts(&state), (many as usize, many, 0));
}

#[test]
fn a_start_continues_with_the_first_run_that_is_left() {
    let (plan, matrix) = plan(&PLAN.replace("runs = 1", "runs = 2\nrepeat_first = true"));
    let (mut state, mut all) = (State::default(), Vec::new());
    // Each session is asked to end after its first run.
    loop {
        let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
        if !schedule.has_work(&state) {
            break;
        }
        let (words, _) = perform_next(&plan, &matrix, &mut state, false, &mut |agenda, action| {
            agenda.signal(Signal::Drain);
            succeed(action)
        });
        all.extend(
            words
                .split(' ')
                .filter_map(|word| word.strip_prefix("run"))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(all.concat(), "12345123451");
}
