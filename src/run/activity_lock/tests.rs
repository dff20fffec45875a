//! Groups side by side in virtual time, by the agendas of a real sweep: starts that fail, servers that die, some that run alone, and a
//! user who interrupts.

mod clock;

use super::*;
use crate::agenda::{Action, ActionOutcome, Agenda, Ending, Group, Hints, MeasuredRun, ReadyInfo, Schedule, Signal};
use crate::cause::{Cause, Failure};
use crate::journal::{BenchmarkResult, Entry, Event, Shard, State};
use crate::matrix::Matrix;
use crate::plan::{Format, Plan, World, parse};
use crate::rng::NumpyLegacy;
use crate::run::drive::{SignalSource, Stage, Writer, drive};
use clock::Clock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::convert::Infallible;
use std::path::Path;

/// Twenty-four servers with three loads each, eight at a time; the last three run alone.
const PLAN: &str = "version = 1\nruns = 2\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = { from = 1, to = 24, step = 1 }\n\
                    [exec]\nparallel = 8\nexclusive = { max_num_seqs = \">=22\" }\n[bench.params]\nmax_concurrency = [1, 2, 4]\n\
                    num_prompts = 9\n";
const PLACES: usize = 8;
const SWEEPS: u32 = 40;

/// An activity with its beginning and end.
type Span = (Duration, Duration, Activity);

/// A server whose starts take about two minutes and whose runs take about one.
struct Virtual<'f> {
    activity_lock: &'f ActivityLock,
    clock: &'f Clock,
    draw: &'f RefCell<NumpyLegacy>,
    starting: Activity,
    permit: Option<Permit<'f>>,
    done: &'f RefCell<Vec<Span>>,
    neighbours: &'f RefCell<Vec<NeighbourShares>>,
}

impl Virtual<'_> {
    async fn spend(&self, seconds: f64, activity: Activity) {
        let began = self.clock.now();
        let scatter = (0.4 * self.draw.borrow_mut().normal()).exp();
        self.clock.sleep(seconds * scatter).await;
        self.done.borrow_mut().push((began, self.clock.now(), activity));
    }

    fn fails(&self) -> Option<Failure> {
        let fails = self.draw.borrow_mut().normal() > 1.3;
        fails.then(|| Failure::new(Cause::CrashedUnderLoad, "in this test"))
    }
}

impl Stage for Virtual<'_> {
    type Error = Infallible;

    async fn act(&mut self, action: Action) -> Result<ActionOutcome, Infallible> {
        Ok(match action {
            Action::Await => {
                self.permit = Some(self.activity_lock.enter(self.starting).await);
                ActionOutcome::Permitted
            }
            Action::Start(_) => {
                let _permit = self.permit.take().expect("it was waited for");
                self.spend(120.0, self.starting).await;
                ActionOutcome::Started(self.fails().map_or_else(|| Ok(ReadyInfo::default()), Err))
            }
            Action::Run(_) => {
                let permit = self.activity_lock.enter(Activity::Run).await;
                self.spend(60.0, Activity::Run).await;
                self.neighbours.borrow_mut().push(permit.neighbours());
                match self.fails() {
                    Some(failure) => ActionOutcome::Died { failure, seconds: 1.0 },
                    None => ActionOutcome::Ran {
                        result: Ok(Box::new(MeasuredRun::default())),
                        seconds: 1.0,
                    },
                }
            }
            Action::Check => ActionOutcome::Unchanged,
            Action::Reset => ActionOutcome::Reset {
                result: Ok(()),
                seconds: 0.0,
            },
            Action::Stop | Action::Kill => ActionOutcome::Stopped {
                seconds: 0.0,
                held_seconds: None,
            },
        })
    }
}

#[derive(Default)]
struct MemoryRecord(RefCell<State>);

impl Writer for &MemoryRecord {
    type Error = Infallible;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(&self.0.borrow())
    }

    async fn write(&self, event: Event, _: Option<BenchmarkResult>) -> Result<Entry, Infallible> {
        let mut state = self.0.borrow_mut();
        let event = match event {
            // The number of the start, as the recorder of a real session would count it.
            Event::ServerStarting { server, slot, gpus, .. } => Event::ServerStarting {
                launch: 1 + state.launches().count() as u32,
                server,
                slot,
                gpus,
            },
            event => event,
        };
        Ok(state.apply_hypothetical(event))
    }

    fn note(&self, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A user who interrupts at some moment.
struct User<'c> {
    clock: &'c Clock,
    at_s: Option<f64>,
}

impl SignalSource for User<'_> {
    async fn next(&mut self) -> Signal {
        let Some(at_s) = self.at_s else {
            return std::future::pending().await;
        };
        let left = at_s - self.clock.now().as_secs_f64();
        if left > 0.0 {
            self.clock.sleep(left).await;
        }
        self.at_s = None;
        Signal::Interrupt
    }
}

/// The activities of a whole sweep, the shares of neighbours' activity that its runs recorded, and the number of interrupted groups.
struct Swept {
    done: Vec<Span>,
    neighbours: Vec<NeighbourShares>,
    interrupted: usize,
}

fn sweep(plan: &Plan, starting: Activity, interrupt_s: Option<f64>, seed: u32) -> Swept {
    let clock = &Clock::default();
    let matrix = Matrix::expand(plan).expect("it expands");
    let schedule = Schedule::new(plan, &matrix, Shard::WHOLE, false);
    let (record, activity_lock) = (&MemoryRecord::default(), &clock.activity_lock());
    let draw = &RefCell::new(NumpyLegacy::new(seed));
    let (done, neighbours) = (&RefCell::default(), &RefCell::default());
    let mut left: Vec<Group> = schedule
        .starts()
        .map(|start| {
            record
                .look(|state| schedule.group(&start, state))
                .expect("nothing is done yet")
        })
        .collect();
    left.reverse();
    let is_alone = |group: &Group| plan.exec.is_exclusive(&group.server.params);
    let interrupted = clock.run(async {
        let mut under_way = FuturesUnordered::new();
        let mut interrupted = 0;
        loop {
            while let Some(group) = left.pop_if(|group| under_way.len() < if is_alone(group) { 1 } else { PLACES }) {
                under_way.push(async {
                    let mut agenda = record.look(|state| Agenda::new(schedule, group, Hints::new(), state));
                    let permit = None;
                    let mut stage = Virtual {
                        activity_lock,
                        clock,
                        draw,
                        starting,
                        permit,
                        done,
                        neighbours,
                    };
                    let mut user = User {
                        clock,
                        at_s: interrupt_s,
                    };
                    drive(&mut agenda, &mut stage, &record, &mut user)
                        .await
                        .expect("it cannot fail")
                });
            }
            match under_way.next().await {
                Some(ending) => interrupted += usize::from(ending == Ending::Interrupted),
                None => break interrupted,
            }
        }
    });
    let state = activity_lock.state.borrow();
    assert!(
        state.active.is_empty() && state.waiting.is_empty(),
        "nobody is left: {state:?}"
    );
    Swept {
        done: done.take(),
        neighbours: neighbours.take(),
        interrupted,
    }
}

fn plan() -> Plan {
    parse(PLAN, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan")
}

/// Number of pairs of a run and a start that overlap in time.
fn overlaps(done: &[Span]) -> usize {
    let of = |is_run: bool| {
        done.iter()
            .filter(move |(.., activity)| (*activity == Activity::Run) == is_run)
    };
    let meets = |(from, to, _): &Span| of(false).filter(|(began, ended, _)| began < to && from < ended).count();
    of(true).map(meets).sum()
}

#[test]
fn no_run_meets_a_start_that_is_kept_apart_and_every_group_ends() {
    let plan = plan();
    let mut runs = 0;
    for seed in 0..SWEEPS {
        let swept = sweep(&plan, Activity::StartApart, None, seed);
        assert_eq!(overlaps(&swept.done), 0, "seed {seed}");
        assert!(
            swept.neighbours.iter().all(|neighbours| neighbours.starts == 0.0),
            "seed {seed}"
        );
        assert_eq!(swept.interrupted, 0);
        runs += swept.neighbours.len();
        let at_once = swept
            .neighbours
            .iter()
            .filter(|neighbours| neighbours.servers > 0.5)
            .count();
        assert!(2 * at_once > swept.neighbours.len(), "runs still go on side by side");
    }
    assert!(runs > 40 * SWEEPS as usize, "most servers are measured: {runs}");
}

#[test]
fn runs_meet_starts_that_are_not_kept_apart() {
    let plan = plan();
    for seed in 0..SWEEPS {
        let swept = sweep(&plan, Activity::Start, None, seed);
        assert!(overlaps(&swept.done) > 0, "seed {seed}");
        assert!(
            swept.neighbours.iter().any(|neighbours| neighbours.starts > 0.0),
            "it is noted"
        );
    }
}

#[test]
fn whoever_waits_for_a_start_or_a_run_is_interrupted_like_everybody() {
    let plan = plan();
    for seed in 0..SWEEPS {
        let swept = sweep(&plan, Activity::StartApart, Some(37.0 * f64::from(seed)), seed);
        assert!(swept.interrupted > 0, "seed {seed}");
        assert_eq!(overlaps(&swept.done), 0, "seed {seed}");
        let last = swept
            .done
            .iter()
            .map(|(_, ended, _)| ended.as_secs_f64())
            .fold(0.0, f64::max);
        assert!(last <= 37.0 * f64::from(seed), "nothing goes on after it");
    }
}

#[test]
fn a_start_waits_for_runs_and_runs_that_come_later_wait_for_it() {
    let clock = Clock::default();
    let ended = clock.run(async {
        let activity_lock = &clock.activity_lock();
        let turn = async |after_s: f64, activity: Activity| {
            clock.sleep(after_s).await;
            let _permit = activity_lock.enter(activity).await;
            clock.sleep(10.0).await;
            clock.now().as_secs()
        };
        let (first, start, other, light, second) = tokio::join!(
            turn(0.0, Activity::Run),
            turn(1.0, Activity::StartApart),
            turn(2.0, Activity::StartApart),
            turn(3.0, Activity::Start),
            turn(4.0, Activity::Run),
        );
        [first, start, other, light, second]
    });
    assert_eq!(ended, [10, 20, 20, 13, 30]);
}
