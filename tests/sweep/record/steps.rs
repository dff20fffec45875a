//! A real run and a played one follow the same rules: given the outcomes of a real sweep, an agenda asks for exactly the steps in its
//! journal. Plans, faults and kills are drawn at random.

use crate::harness::{Harness, journal_files, journal_lines, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use vsweep::agenda::{
    Action, ActionOutcome, Agenda, Hint, Hints, MeasuredRun, ReadyInfo, Run, Schedule, Start, first_point,
};
use vsweep::bench::native::mean_lengths;
use vsweep::cause::{Failure, Outcome};
use vsweep::journal::{
    BenchmarkResult, Entry, Event, LineId, Rank, ReadPositions, RunFinished, ServerExited, ServerReady, Shard, State,
};
use vsweep::matrix::{LoadSearch, Matrix};
use vsweep::plan::{self, Plan};
use vsweep::run::{NoSignals, Stage, Writer, drive};
use vsweep::search::SeedBasis;
use vsweep::validity::Code;

/// Reads the lines of one session.
fn session(path: &Path) -> Vec<Entry> {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let journal = name.parse().expect("a journal is named by its nonce");
    let text = std::fs::read_to_string(path).expect("a readable journal");
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let entry = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| line[key].as_u64().expect("a number");
        let text = |key: &str| line[key].as_str().expect("text").to_owned();
        Entry {
            rank: Rank {
                lamport: number("lamport"),
                line: LineId {
                    journal,
                    seq: number("seq"),
                },
            },
            at: text("at"),
            event: serde_json::from_value(line["event"].clone()).expect("a known event"),
            prev: text("prev").parse().expect("a sum"),
        }
    };
    lines.map(entry).collect()
}

/// Plays a session again.
struct Replay {
    /// Events recorded before.
    before: RefCell<Vec<Entry>>,
    left: RefCell<VecDeque<Entry>>,
    state: RefCell<State>,
    /// Number of loads of the present launch that came without a warm-up. The first always does.
    cold_loads: Cell<u32>,
}

/// The replay ends early, because the session was killed here.
#[derive(Debug)]
struct Killed;

impl Replay {
    fn next_is(&self, test: impl Fn(&Event) -> bool) -> bool {
        self.left.borrow().front().is_some_and(|entry| test(&entry.event))
    }

    /// Facts that the real search had from elsewhere: the lengths of its requests, and the forecast if it started from one.
    fn hint(&self, matrix: &Matrix, search: &LoadSearch) -> Hint {
        let left = self.left.borrow();
        let mut begun = left.iter().filter_map(|entry| match &entry.event {
            Event::SearchStarted(started) if started.search == search.id => Some(started),
            _ => None,
        });
        let foreseen = begun.next().filter(|started| started.seed.basis == SeedBasis::Forecast);
        Hint {
            forecast: foreseen.map(|started| [("alive".to_owned(), started.seed.value)].into()),
            lengths: mean_lengths(&first_point(matrix, search).params),
        }
    }

    /// Outcome of a start, read from the next line.
    fn started(&self) -> Result<ActionOutcome, Killed> {
        match self.left.borrow().front().map(|entry| &entry.event) {
            Some(Event::ServerReady(ready)) => Ok(ActionOutcome::Started(Ok(ReadyInfo {
                recorded: ServerReady {
                    identity: None,
                    ..(**ready).clone()
                },
                kv_tokens: None,
            }))),
            Some(Event::ServerExited(exited)) if exited.cause.is_some() => {
                Ok(ActionOutcome::Started(Err(failure(exited).expect("a cause"))))
            }
            None => Err(Killed),
            other => panic!("a start ends with a ready server or none, and not with {other:?}"),
        }
    }

    fn ran(&self, run: &Run) -> Result<ActionOutcome, Killed> {
        if run.is_warm {
            assert!(self.cold_loads.get() > 0, "the first load of a launch is cold");
        } else {
            self.cold_loads.set(self.cold_loads.get() + 1);
        }
        match self.left.borrow().front().map(|entry| &entry.event) {
            Some(Event::RunFinished(finished)) => Ok(ActionOutcome::Ran {
                seconds: finished.seconds,
                result: self.figures(finished),
            }),
            Some(Event::ServerExited(exited)) if exited.cause.is_some() => Ok(ActionOutcome::Died {
                failure: failure(exited).expect("a cause"),
                seconds: 0.0,
            }),
            None => Err(Killed),
            other => panic!("a run ends with figures, a failure or a death, and not with {other:?}"),
        }
    }

    fn figures(&self, finished: &RunFinished) -> Result<Box<MeasuredRun>, Failure> {
        let failure = finished.failure();
        if let (Some(failure), None) = (&failure, &finished.file) {
            return Err(failure.clone());
        }
        let is_cut = finished.outcome == Outcome::Cut;
        let mut doubts = finished.doubts.clone();
        doubts.retain(|doubt| doubt.code != Code::CachesNotReset);
        Ok(Box::new(MeasuredRun {
            errors: finished
                .errors
                .iter()
                .map(|(name, error)| (name.to_owned(), error))
                .collect(),
            neighbours: finished.neighbours.as_deref().copied(),
            failure,
            doubts,
            cut: is_cut.then(|| finished.detail.clone()),
            warmup_seconds: finished.warmup_seconds,
            learned: finished.learned.clone(),
            measured: None,
        }))
    }

    /// Outcome and duration of a reset, read from the end of the next run.
    fn reset(&self) -> ActionOutcome {
        let seconds = match self.left.borrow().front().map(|entry| &entry.event) {
            Some(Event::RunFinished(finished)) => finished.reset_seconds.unwrap_or_default(),
            _ => 0.0,
        };
        let refused = self.left.borrow().front().and_then(|entry| match &entry.event {
            Event::RunFinished(finished) => {
                let mut doubts = finished.doubts.iter();
                doubts
                    .find(|doubt| doubt.code == Code::CachesNotReset)
                    .map(|doubt| doubt.detail.clone())
            }
            _ => None,
        });
        ActionOutcome::Reset {
            result: refused.map_or(Ok(()), Err),
            seconds,
        }
    }

    /// Time that the server took to end, read from the next line.
    fn stopped(&self) -> ActionOutcome {
        match self.left.borrow().front().map(|entry| &entry.event) {
            Some(Event::ServerExited(exited)) => ActionOutcome::Stopped {
                seconds: exited.seconds.expect("recorded today"),
                held_seconds: exited.held_seconds,
            },
            _ => ActionOutcome::Stopped {
                seconds: 0.0,
                held_seconds: None,
            },
        }
    }
}

/// Reason why a server ended, unless it was stopped.
fn failure(exited: &ServerExited) -> Option<Failure> {
    Some(Failure::new(exited.cause?, &exited.detail))
}

impl Stage for &Replay {
    type Error = Killed;

    async fn act(&mut self, action: Action) -> Result<ActionOutcome, Killed> {
        match action {
            Action::Start(_) => {
                self.cold_loads.set(0);
                self.started()
            }
            Action::Check => Ok(ActionOutcome::Unchanged),
            Action::Reset => Ok(self.reset()),
            Action::Run(run) => self.ran(&run),
            Action::Await => unreachable!("these servers run one after the other"),
            Action::Stop | Action::Kill => Ok(self.stopped()),
        }
    }
}

impl Writer for &Replay {
    type Error = Killed;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(&self.state.borrow())
    }

    async fn write(&self, event: Event, _: Option<BenchmarkResult>) -> Result<Entry, Killed> {
        let real = self.left.borrow_mut().pop_front().ok_or(Killed)?;
        assert_eq!(comparable(event), comparable(real.event.clone()));
        self.before.borrow_mut().push(real.clone());
        *self.state.borrow_mut() = State::of(self.before.borrow().iter().cloned());
        Ok(real)
    }

    fn note(&self, _: &str) -> Result<(), Killed> {
        Ok(())
    }
}

/// Returns an event without the parts that a replay cannot know: fields that the writer adds, the duration of a failed run, and facts that
/// a search had from elsewhere.
fn comparable(mut event: Event) -> Event {
    match &mut event {
        Event::GroupBegun(begun) => begun.seen = ReadPositions::new(),
        Event::ServerStarting { launch, .. } => *launch = 0,
        Event::SearchStarted(started) => {
            started.seed = vsweep::search::Seed::UNKNOWN;
            started.rivals.clear();
        }
        Event::RunFinished(finished) => {
            finished.file = None;
            if finished.outcome == Outcome::Failed {
                finished.seconds = 0.0;
            }
        }
        _ => {}
    }
    event
}

/// Plays every session of a directory again. Returns the number of lines that were compared.
fn replay(plan: &Plan, directory: &Path, retry_failed: &[bool]) -> usize {
    let matrix = Matrix::expand(plan).expect("it expands");
    let mut sessions: Vec<_> = journal_files(directory).iter().map(|path| session(path)).collect();
    sessions.sort_by_key(|entries| entries[0].rank.lamport);
    let mut before: Vec<Entry> = Vec::new();
    let mut lines = 0;
    for (entries, retry) in sessions.into_iter().zip(retry_failed) {
        let (opening, work) = entries.split_at(2.min(entries.len()));
        before.extend_from_slice(opening);
        let schedule = Schedule::new(plan, &matrix, Shard::WHOLE, *retry);
        let replay = Replay {
            state: RefCell::new(State::of(before.iter().cloned())),
            before: RefCell::new(before),
            left: RefCell::new(work.iter().cloned().collect()),
            cold_loads: Cell::new(0),
        };
        let mut starts: VecDeque<Start> = match plan.compare {
            None => schedule.starts().collect(),
            Some(_) => VecDeque::new(),
        };
        let mut tried = Vec::new();
        let mut has_finals = false;
        loop {
            if replay.next_is(|event| matches!(event, Event::SessionEnded { .. })) {
                break;
            }
            if plan.compare.is_some() {
                starts = (&replay)
                    .look(|state| schedule.wanted_starts(state, &tried))
                    .into_iter()
                    .collect();
            }
            let start = match starts.pop_front() {
                Some(start) => start,
                None if std::mem::replace(&mut has_finals, true) => break,
                None => {
                    starts = (&replay).look(|state| schedule.finals(state).collect());
                    continue;
                }
            };
            let Some(group) = (&replay).look(|state| schedule.group(&start, state)) else {
                continue;
            };
            tried.push((start.server.id.clone(), start.slot));
            let hints: Hints = group
                .searches
                .iter()
                .map(|search| (search.id.clone(), replay.hint(&matrix, search)))
                .collect();
            let mut agenda = (&replay).look(|state| Agenda::new(schedule, group, hints, state));
            let driven =
                futures_util::FutureExt::now_or_never(drive(&mut agenda, &mut &replay, &&replay, &mut NoSignals));
            if driven.expect("a replay never waits").is_err() {
                break;
            }
        }
        let ended = replay.left.borrow_mut().pop_front();
        assert!(
            ended.is_none_or(|entry| matches!(entry.event, Event::SessionEnded { .. })),
            "the session did more than the replay asks for"
        );
        assert!(replay.left.borrow().is_empty());
        lines += work.len();
        before = replay.before.into_inner();
        before.extend(
            entries
                .last()
                .filter(|entry| matches!(entry.event, Event::SessionEnded { .. }))
                .cloned(),
        );
    }
    lines
}

#[derive(Debug, Clone)]
struct SweepCase {
    kind: &'static str,
    reset: &'static str,
    faults: Vec<&'static str>,
    on_failure: &'static str,
    starts: u32,
    runs: &'static str,
    /// The number of journal lines after which the first session is killed.
    killed_at: Option<usize>,
    retries: bool,
}

const GRID: &str = "max_concurrency = [1, 2, 3]\nnum_prompts = 6\n";
const SEARCH: &str = "num_prompts = { per = \"max_concurrency\", times = 2 }\n[sla]\nvary = \"max_concurrency\"\nmax = 16\n\
                      tolerance = 0.2\n[[sla.target]]\nname = \"alive\"\nfailed = \"<=0\"\n";
const COMPARISON: &str = "max_concurrency = [1, 2]\nnum_prompts = 6\n[compare]\nmax_starts = 8\n";
const EXPLORATION: &str = "num_prompts = 8\n[explore]\nvary = \"max_concurrency\"\nlevels = 4\nmax_concurrency = 8\n";

fn drawn() -> impl Strategy<Value = SweepCase> {
    let faults = vec![
        "ignore-term",
        "crash-after:5",
        "crash-after:14",
        "crash-after:40",
        "engine-death-after:9",
        "crash-at-start",
        "oom-at-load",
        "port-taken",
        "reset-refused:9",
        "error-rate:0.4",
    ];
    (
        prop::sample::select(vec![GRID, SEARCH, EXPLORATION, COMPARISON]),
        prop::sample::select(vec!["caches", "restart", "none"]),
        prop::sample::subsequence(faults, 2).prop_shuffle(),
        prop::sample::select(vec!["continue", "continue", "stop"]),
        1..4u32,
        prop::sample::select(vec!["1", "2", "{ min = 2, max = 4, until = \"3 %\" }"]),
        prop::option::of(4..30usize),
        any::<bool>(),
    )
        .prop_map(
            |(kind, reset, faults, on_failure, starts, runs, killed_at, retries)| SweepCase {
                kind,
                reset,
                faults,
                on_failure,
                starts,
                runs,
                killed_at,
                retries,
            },
        )
}

impl SweepCase {
    fn plan(&self) -> String {
        let SweepCase {
            kind,
            reset,
            faults,
            on_failure,
            starts,
            runs,
            ..
        } = self;
        let (starts, runs) = if *kind == GRID { (*starts, *runs) } else { (1, "1") };
        let starts = match *kind {
            COMPARISON => String::new(),
            _ => format!("starts = {starts}\n"),
        };
        format!(
            "version = 1\n{starts}runs = {runs}\non_failure = \"{on_failure}\"\n[serve]\ncommand = \"vsweep sim serve tiny-8b --sim-start 10ms \
             --sim-speed 50\"\nstop_grace = \"1s\"\nreset = \"{reset}\"\n[serve.params]\nsim_fault = {faults:?}\n[bench]\ntelemetry = \
             false\n[bench.params]\nrandom_input_len = 8\nrandom_output_len = 4\n{kind}"
        )
    }
}

/// Six plans, always the same, or as many random ones as `NIGHT_STEPS` says.
fn config() -> ProptestConfig {
    let wanted = std::env::var("NIGHT_STEPS").ok().and_then(|many| many.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(6),
        rng_seed: wanted.map_or(RngSeed::Fixed(1), |_| RngSeed::Random),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    #[ignore = "takes minutes; .ci/run runs it"]
    fn what_is_played_asks_for_the_steps_of_the_real_run(drawn in drawn()) {
        let harness = Harness::new();
        let path = harness.write("plan.toml", &drawn.plan());
        let directory = harness.folder.path().join("out");
        let mut retry_failed = Vec::new();
        if let Some(lines) = drawn.killed_at {
            let mut child = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
            wait_for("the lines after which the sweep is killed, or its end", || {
                journal_lines(&directory) >= lines || child.try_wait().expect("a child").is_some()
            });
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            child.wait().expect("a child");
            harness.wait_until_alone();
            retry_failed.push(false);
        }
        let mut args = vec!["run", "plan.toml", "-o", "out", "--quiet"];
        args.extend(drawn.retries.then_some("--retry-failed"));
        let output = harness.run(&args);
        prop_assert!(matches!(output.status.code(), Some(0 | 3)), "{}", said(&output));
        retry_failed.push(drawn.retries);
        let plan = plan::load(&path, &[]).expect("a valid plan");
        prop_assert!(replay(&plan, &directory, &retry_failed) > 0);
    }
}
