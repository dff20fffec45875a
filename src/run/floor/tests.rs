//! Agendas, floor and record of a real sweep in virtual time, on a machine whose servers slow each other down by a known share.

mod clock;

use super::*;
use crate::agenda::{Action, ActionOutcome, Agenda, Facts, Group, Hints, Ran, Schedule, Start};
use crate::journal::{Entry, Event, Measured, Nonce, PlanContent, RecordedPlan, Seen, SessionStarted, Shard, State};
use crate::matrix::Matrix;
use crate::plan::{Format, Plan, World, parse};
use crate::rng::NumpyLegacy;
use crate::run::drive::{Stage, Unattended, Writer, drive};
use crate::validity::Validity;
use clock::Clock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::cell::Cell;
use std::convert::Infallible;
use std::io::Write as _;
use std::path::Path;

/// Twenty-four servers with three loads each, eight at a time.
const PLAN: &str = "version = 1\nruns = 2\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = { from = 1, to = 24, step = 1 }\n\
                    [exec]\nparallel = 8\n[bench.params]\nmax_concurrency = [1, 2, 4]\nnum_prompts = 9\n";
const PLACES: usize = 8;
/// Between two looks at who is slowed down by whom, in virtual time.
const SLICE: Duration = Duration::from_secs(1);

/// What servers do to each other, and how runs scatter: standard deviations of logarithms.
#[derive(Debug, Clone, Copy)]
struct Machine {
    cross_talk: f64,
    of_starts: f64,
    between_runs: f64,
    between_starts: f64,
}

/// Runs scatter as they do on a quiet GPU node.
const QUIET: Machine = Machine {
    cross_talk: 0.0,
    of_starts: 0.0,
    between_runs: 0.01,
    between_starts: 0.02,
};

struct Virtual<'f> {
    floor: &'f Floor,
    clock: &'f Clock,
    machine: Machine,
    record: &'f Recorded,
    draw: &'f RefCell<NumpyLegacy>,
    /// How long its runs take against those of others, in all and on this start.
    length: f64,
    speed: f64,
}

#[derive(Default)]
struct Recorded(RefCell<State>);

impl Writer for &Recorded {
    type Error = Infallible;

    fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(&self.0.borrow())
    }

    async fn write(&self, event: Event, _: Option<Measured>) -> Result<Entry, Infallible> {
        let mut state = self.0.borrow_mut();
        let event = match event {
            // The recorder of a real session counts.
            Event::ServerStarting { server, slot, gpus, .. } => {
                let launch = 1 + state
                    .servers
                    .values()
                    .map(|server| server.starts.len() as u32)
                    .sum::<u32>();
                Event::ServerStarting {
                    server,
                    slot,
                    launch,
                    gpus,
                }
            }
            event => event,
        };
        let mut entry = state.next_entry(event);
        entry.at = "2026-11-23T00:00:00Z".to_owned();
        state.apply(entry.clone());
        Ok(entry)
    }

    fn note(&self, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'f> Virtual<'f> {
    fn scatter(&self, sigma: f64) -> f64 {
        (sigma * self.draw.borrow_mut().normal()).exp()
    }

    async fn enter(&self, doing: Doing) -> Option<Leave<'f>> {
        let sharing = || self.record.look(|state| Sharing::after(state.interference()));
        self.floor.enter(doing, sharing).await
    }

    /// Does so many seconds of work beside others, and says what it took.
    async fn work(&self, seconds: f64) -> f64 {
        let began = self.clock.now();
        let mut left = seconds;
        while left > 0.0 {
            let (servers, starts) = {
                let hall = self.floor.hall.borrow();
                let starts = hall.active.iter().filter(|(_, doing)| *doing == Doing::Start).count();
                (hall.active.len() - starts, starts)
            };
            let slower = |is: bool, share: f64| if is { 1.0 + share } else { 1.0 };
            let factor = slower(servers > 1, self.machine.cross_talk) * slower(starts > 0, self.machine.of_starts);
            let slice = SLICE.as_secs_f64().min(left * factor);
            self.clock.sleep(slice).await;
            left -= slice / factor;
        }
        (self.clock.now() - began).as_secs_f64()
    }

    async fn measure(&self) -> f64 {
        let seconds = 40.0 * self.length * self.speed;
        self.work(seconds).await * self.scatter(self.machine.between_runs)
    }
}

impl Stage for Virtual<'_> {
    type Error = Infallible;

    async fn act(&mut self, action: Action) -> Result<ActionOutcome, Infallible> {
        Ok(match action {
            Action::Start(_) => {
                let _leave = self.enter(Doing::Start).await;
                self.clock.sleep(120.0 * self.scatter(0.2)).await;
                self.speed = self.scatter(self.machine.between_starts);
                ActionOutcome::Started(Ok(Facts::default()))
            }
            Action::Run(_) => {
                let leave = self.enter(Doing::Run).await.expect("a run always may be done");
                let seconds = self.measure().await;
                let ran = Ran {
                    beside: Some(leave.beside()),
                    ..Ran::default()
                };
                ActionOutcome::Ran {
                    result: Ok(Box::new(ran)),
                    seconds,
                }
            }
            Action::Check { is_alone, .. } => {
                let doing = if is_alone { Doing::Alone } else { Doing::Beside };
                let Some(leave) = self.enter(doing).await else {
                    return Ok(ActionOutcome::Needless);
                };
                let is_open = self.record.look(|state| state.interference().servers.is_open());
                if is_alone && !is_open {
                    return Ok(ActionOutcome::Needless);
                }
                let seconds = self.measure().await;
                ActionOutcome::Checked {
                    latency_ms: Some(seconds),
                    beside: leave.beside(),
                    seconds,
                }
            }
            Action::Look => ActionOutcome::Unchanged,
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

/// What a whole sweep leaves behind, and how long it takes in seconds.
async fn sweep(clock: &Clock, plan: &Plan, machine: Machine, seed: u32) -> (State, f64) {
    let matrix = Matrix::expand(plan).expect("it expands");
    let schedule = Schedule::new(plan, &matrix, Shard::WHOLE, false);
    let (record, floor) = (&Recorded::default(), &clock.floor());
    let draw = &RefCell::new(NumpyLegacy::new(seed));
    record.record(session(plan)).await.expect("recorded");
    let began = clock.now();
    let mut left: Vec<Start> = schedule.starts().collect();
    left.reverse();
    let mut under_way = FuturesUnordered::new();
    loop {
        let is_apart = record.look(|state| Sharing::after(state.interference())) == Sharing::Apart;
        while under_way.len() < if is_apart { 1 } else { PLACES } {
            let Some(start) = left.pop() else { break };
            let group = record
                .look(|state| schedule.group(&start, state))
                .expect("nothing is done yet");
            under_way.push(async move { perform(schedule, group, (record, floor, clock, draw), machine).await });
        }
        if under_way.next().await.is_none() {
            break;
        }
    }
    let state = record.0.borrow().clone();
    (state, (clock.now() - began).as_secs_f64())
}

async fn perform(
    schedule: Schedule<'_>,
    group: Group,
    (record, floor, clock, draw): (&Recorded, &Floor, &Clock, &RefCell<NumpyLegacy>),
    machine: Machine,
) {
    let mut agenda = record.look(|state| Agenda::new(schedule, group, Hints::new(), state));
    let mut stage = Virtual {
        floor,
        clock,
        machine,
        record,
        draw,
        length: (0.4 * draw.borrow_mut().normal()).exp(),
        speed: 1.0,
    };
    let ended = drive(&mut agenda, &mut stage, &record, &mut Unattended).await;
    ended.expect("nothing can go wrong");
}

fn session(plan: &Plan) -> Event {
    Event::SessionStarted(Box::new(SessionStarted {
        host: "virtual".to_owned(),
        boot: String::new(),
        pid: 1,
        started: 0,
        machine: None,
        joined: false,
        plan: RecordedPlan {
            name: "p".to_owned(),
            sha256: String::new(),
            content: PlanContent::In(Nonce::IMAGINED),
        },
        servers: 24,
        points: 72,
        starts: 1,
        runs: 144,
        searches: 0,
        compare: None,
        interference: plan.exec.watched_percent(),
        seen: Seen::new(),
    }))
}

fn plan(text: &str) -> Plan {
    parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan")
}

fn campaign(name: &str, machine: Machine, sweeps: u32) -> Vec<State> {
    let plan = plan(PLAN);
    let ended: Vec<(State, f64)> = (0..sweeps)
        .map(|seed| {
            let clock = Clock::default();
            clock.run(sweep(&clock, &plan, machine, seed))
        })
        .collect();
    let slows = |found: fn(&Interferences) -> Slowdown| {
        let tripped = ended
            .iter()
            .filter(|(state, _)| found(state.interference()) == Slowdown::Slows);
        tripped.count()
    };
    let mean = |of: fn(&State) -> f64| ended.iter().map(|(state, _)| of(state)).sum::<f64>() / f64::from(sweeps);
    let _ = writeln!(
        std::io::stderr(),
        "{name}: servers trip in {} of {sweeps}, starts in {}; {:.1} and {:.1} pairs, {:.0} further runs, {:.0} min a sweep",
        slows(|found| found.servers.slowdown),
        slows(|found| found.starts.slowdown),
        mean(|state| state.interference().servers.pairs as f64),
        mean(|state| state.interference().starts.pairs as f64),
        mean(|state| state.samples().count() as f64),
        ended.iter().map(|(_, seconds)| seconds / 60.0).sum::<f64>() / f64::from(sweeps),
    );
    ended.into_iter().map(|(state, _)| state).collect()
}

fn tripped(states: &[State], found: fn(&Interferences) -> Slowdown) -> usize {
    let slows = |state: &&State| found(state.interference()) == Slowdown::Slows;
    states.iter().filter(slows).count()
}

const SWEEPS: u32 = 50;

#[test]
fn without_cross_talk_servers_stay_side_by_side() {
    let states = campaign("none", QUIET, SWEEPS);
    assert!(tripped(&states, |found| found.servers.slowdown) <= 1);
    assert!(tripped(&states, |found| found.starts.slowdown) <= 1);
    let decided = |state: &&State| !state.interference().servers.is_open();
    assert_eq!(states.iter().filter(decided).count(), SWEEPS as usize);
}

#[test]
fn cross_talk_of_five_percent_is_found_and_its_runs_are_marked() {
    let machine = Machine {
        cross_talk: 0.05,
        ..QUIET
    };
    let states = campaign("5 %", machine, SWEEPS);
    assert!(tripped(&states, |found| found.servers.slowdown) >= 49);
    let state = &states[0];
    let is_beside = |run: &&crate::journal::RunRecord| run.beside.is_some_and(|beside| beside.servers >= 0.05);
    let beside: Vec<_> = state.runs().filter(is_beside).collect();
    assert!(
        beside.iter().all(|run| run.validity == Validity::Suspect),
        "they are marked"
    );
    let alone: Vec<_> = state.runs().filter(|run| !is_beside(run)).collect();
    assert!(
        alone.len() > beside.len(),
        "from then on servers run one after the other"
    );
    assert!(alone.iter().all(|run| run.validity == Validity::Valid));
}

#[test]
fn slow_starts_of_others_are_found_and_kept_apart() {
    let machine = Machine {
        of_starts: 0.2,
        ..QUIET
    };
    let states = campaign("starts 20 %", machine, SWEEPS);
    assert!(tripped(&states, |found| found.servers.slowdown) <= 1);
    assert!(tripped(&states, |found| found.starts.slowdown) >= 49);
}

#[test]
fn who_is_to_be_alone_is_and_is_not_kept_waiting() {
    let clock = Clock::default();
    clock.run(async {
        let floor = clock.floor();
        let together = || Sharing::Together;
        let seen = Cell::new(0);
        let run = async |seconds: f64, doing: Doing| {
            let leave = floor.enter(doing, together).await;
            clock.sleep(seconds).await;
            seen.set(seen.get() + 1);
            leave.map(|leave| (leave.beside(), seen.get()))
        };
        let (first, alone, second) = tokio::join!(
            run(10.0, Doing::Run),
            async {
                clock.sleep(1.0).await;
                run(10.0, Doing::Alone).await
            },
            async {
                clock.sleep(2.0).await;
                run(10.0, Doing::Run).await
            },
        );
        let [first, alone, second] = [first, alone, second].map(|turn| turn.expect("each had its turn"));
        assert_eq!([first.1, alone.1, second.1], [1, 2, 3]);
        assert!([first.0, alone.0, second.0].iter().all(|beside| beside.servers == 0.0));
        let started = floor.enter(Doing::Start, together).await;
        assert!(
            floor.enter(Doing::Alone, together).await.is_none(),
            "a start is not waited for"
        );
        drop(started);
        assert!(floor.enter(Doing::Alone, together).await.is_some());
    });
}
