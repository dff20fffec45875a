//! `starts.csv`: every launch of a server, with its node, the time for which it held its GPUs, and the part of that time that was spent
//! measuring. The file is the timeline of the sweep as a table.

use super::files::{self, cell};
use crate::ordered::Ordered;
use crate::texts::words::show_number;
use itertools::Itertools;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use vsweep_base::cause::Cause;
use vsweep_base::ids::ServerId;
use vsweep_base::units::{duration_of, show_duration, show_many};
use vsweep_record::journal::{ALONE_SLOT, Launch, LaunchRecord, ServerRecord, State, covered_s};
use vsweep_record::table::used_gpus;

/// One launch of a server, and its use of the machine.
struct LaunchUsage<'s> {
    id: &'s ServerId,
    server: &'s ServerRecord,
    launch: &'s LaunchRecord,
    node: String,
    /// Number of its GPUs, if it is known.
    gpus: Option<f64>,
    /// Times of day of its beginning and its end; if the end is unknown, of the last line of its session. The clock may have been set
    /// meanwhile.
    span: Option<(Timestamp, Timestamp)>,
    spent: Spent,
}

/// Number of runs of a launch in the tables, and the time that they took, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    runs: usize,
    measured_s: f64,
    warmup_s: f64,
    reset_s: f64,
}

/// Tolerance for rounding, and for the difference between two clocks, in seconds.
const SLACK_S: f64 = 1.0;

impl LaunchUsage<'_> {
    /// Time for which it held its GPUs, in seconds: as measured, or by the clock if no measured time is recorded. `None` if the time by the
    /// clock is unknown, or shorter than the work done in it because the clock was set.
    fn held_s(&self) -> Option<f64> {
        self.launch.exit.held_seconds.or_else(|| {
            let (launch, spent) = (self.launch, self.spent);
            let around = launch.ready_seconds().unwrap_or_default() + launch.exit.seconds.unwrap_or_default();
            let done_s = around + spent.measured_s + spent.warmup_s + spent.reset_s;
            self.span_s()
                .filter(|span_s| *span_s >= 0.0 && span_s + SLACK_S >= done_s)
        })
    }

    fn span_s(&self) -> Option<f64> {
        let (from, to) = self.span?;
        Some(to.duration_since(from).as_secs_f64())
    }

    /// Returns true if its times of day agree with the measured duration.
    fn agrees_with_clock(&self) -> bool {
        let both = self.held_s().zip(self.span_s());
        both.is_some_and(|(held_s, span_s)| (held_s - span_s).abs() <= SLACK_S + held_s / 100.0)
    }

    fn gpu_hours(&self) -> Option<f64> {
        Some(self.held_s()? * self.gpus? / 3600.0)
    }

    /// Share of its time that was spent measuring.
    fn utilisation(&self) -> Option<f64> {
        let held_s = self.held_s().filter(|held_s| *held_s > 0.0)?;
        Some((self.spent.measured_s / held_s).min(1.0))
    }
}

/// All launches, in the order in which they began.
fn usages(state: &State) -> Vec<LaunchUsage<'_>> {
    let mut spent: HashMap<(&ServerId, Launch), Spent> = HashMap::new();
    for run in state.runs().filter(|run| run.seconds.is_finite()) {
        if let Some(launch) = run.launch {
            let spent = spent.entry((&run.server, launch)).or_default();
            spent.runs += 1;
            spent.measured_s += run.seconds;
            spent.warmup_s += run.warmup_seconds.unwrap_or_default();
            spent.reset_s += run.reset_seconds.unwrap_or_default();
        }
    }
    let at = |text: &str| text.parse::<Timestamp>().ok();
    let launches = state
        .servers
        .iter()
        .flat_map(|(id, server)| server.launches.iter().map(move |launch| (id, server, launch)));
    let usages = launches.map(|(id, server, launch)| {
        let until = launch.exited_at.as_deref().or(state.last_moment(launch.launch.session));
        let machine = state.machine_of(launch.launch.session);
        LaunchUsage {
            id,
            server,
            launch,
            node: machine.map_or(String::new(), |machine| machine.node),
            gpus: used_gpus(&server.params, &server.argv, std::slice::from_ref(launch)),
            span: at(&launch.started_at).zip(until.and_then(at)),
            spent: spent.get(&(id, launch.launch)).copied().unwrap_or_default(),
        }
    });
    usages
        .ordered_by(|a, b| (&a.launch.started_at, a.launch.launch).cmp(&(&b.launch.started_at, b.launch.launch)))
        .collect()
}

/// The launches without those that measured only points that the plan no longer has: the runs in the tables took no time of these.
fn planned_usages(state: &State) -> Vec<LaunchUsage<'_>> {
    let dropped = state.dropped_launches();
    let mut launches = usages(state);
    launches.retain(|usage| !dropped.contains(&usage.launch.launch));
    launches
}

/// The number of a planned start, or `alone`.
pub(super) fn show_slot(slot: u32) -> String {
    match slot {
        ALONE_SLOT => "alone".to_owned(),
        slot => slot.to_string(),
    }
}

/// The table; `None` if no server was started.
pub fn to_csv(state: &State) -> Option<Vec<u8>> {
    let figure = |figure: Option<f64>, digits: usize| figure.map_or_else(String::new, |it| format!("{it:.digits$}"));
    let row = |usage: LaunchUsage<'_>| {
        let (launch, spent) = (usage.launch, usage.spent);
        vec![
            ("server", usage.id.to_string()),
            ("name", usage.server.name.clone()),
            ("start", show_slot(launch.slot)),
            ("launch", launch.launch.to_string()),
            ("node", usage.node.to_string()),
            ("gpus", launch.gpus.iter().join(" ")),
            ("gpu_count", cell(usage.gpus)),
            ("started", launch.started_at.clone()),
            ("startup_s", figure(launch.ready_seconds(), 1)),
            ("ended", launch.exited_at.clone().unwrap_or_default()),
            ("cause", launch.exit.cause.map_or("", Cause::name).to_owned()),
            ("simulated", cell(usage.server.is_simulated())),
            ("runs", spent.runs.to_string()),
            ("held_s", figure(usage.held_s(), 1)),
            ("measured_s", figure(Some(spent.measured_s), 1)),
            ("warmup_s", figure(Some(spent.warmup_s), 1)),
            ("reset_s", figure(Some(spent.reset_s), 1)),
            ("stop_s", figure(launch.exit.seconds, 1)),
            ("gpu_hours", figure(usage.gpu_hours(), 4)),
            ("utilisation", figure(usage.utilisation(), 3)),
        ]
    };
    files::to_csv(&usages(state).into_iter().map(row).collect_vec())
}

/// The time during which servers were up or starting in a sweep, their GPU-hours and their price. Unknown figures are `None`; simulated
/// servers have GPU-hours only if their GPUs have a price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SweepUsage {
    /// Time during which a server was up or starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Hours for which servers held GPUs, times their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours: Option<f64>,
    /// The price of these GPU-hours, in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl SweepUsage {
    /// Usage of the sweep so far, for points of the plan. The price is in dollars.
    pub fn of(state: &State, price_per_gpu_hour: Option<f64>) -> SweepUsage {
        let positive = |sum: f64| (sum > 0.0).then_some(sum);
        let mut launches = planned_usages(state);
        launches.retain(|usage| usage.span.is_some());
        let spans = launches.iter().filter_map(|usage| usage.span);
        let seconds = positive(covered_s(spans));
        if price_per_gpu_hour.is_none() {
            launches = real(state, launches);
        }
        let are_counted = launches.iter().all(|usage| usage.gpus.is_some());
        let gpu_hours = positive(launches.iter().filter_map(LaunchUsage::gpu_hours).sum()).filter(|_| are_counted);
        SweepUsage {
            seconds,
            gpu_hours,
            cost: gpu_hours.zip(price_per_gpu_hour).map(|(hours, price)| hours * price),
        }
    }

    /// Formats the usage: `10m 50s, 0.68 GPU-hours ($1.70)`; empty if nothing is known.
    pub fn in_words(&self) -> String {
        let money = self.cost.map_or(String::new(), |cost| match cost {
            ..0.1 => format!(" (${})", show_number(cost)),
            _ => format!(" (${cost:.2})"),
        });
        // Smaller amounts do not matter to anybody.
        let hours = self.gpu_hours.filter(|hours| *hours >= 0.001);
        let hours = hours.map(|hours| format!("{} GPU-hours{money}", show_number(hours)));
        self.time_in_words().into_iter().chain(hours).join(", ")
    }

    /// Formats the time: `10m 50s`.
    pub fn time_in_words(&self) -> Option<String> {
        self.seconds.map(|seconds| show_duration(duration_of(seconds)))
    }
}

/// The launches of real servers among these that have a span.
fn real<'s>(state: &State, usages: Vec<LaunchUsage<'s>>) -> Vec<LaunchUsage<'s>> {
    // A server that never became ready has not reported its kind; it is assumed to be like the others.
    let any_simulated = state.servers.values().any(|server| server.is_simulated() == Some(true));
    let is_real =
        |usage: &LaunchUsage<'_>| !usage.server.is_simulated().unwrap_or(any_simulated) && usage.span.is_some();
    usages.into_iter().filter(is_real).collect()
}

/// The GPU-hours of real servers in words: `3 in 2 server starts, 40 % of it measuring; 8 GPUs in use 93 % of the time`; `None` if no real
/// server held a GPU.
pub(crate) fn in_words(state: &State) -> Option<String> {
    let (counted, uncounted): (Vec<LaunchUsage<'_>>, Vec<LaunchUsage<'_>>) = real(state, planned_usages(state))
        .into_iter()
        .partition(|usage| usage.gpus.is_some());
    let (usages, unknown): (Vec<LaunchUsage<'_>>, Vec<LaunchUsage<'_>>) =
        counted.into_iter().partition(|usage| usage.held_s().is_some());
    let sum = |figure: fn(&LaunchUsage<'_>) -> f64| usages.iter().map(figure).sum::<f64>();
    let hours = sum(|usage| usage.gpu_hours().unwrap_or(0.0));
    let measuring = sum(|usage| usage.gpus.unwrap_or(0.0) * usage.spent.measured_s / 3600.0);
    let share = held_share(&usages).filter(|_| unknown.is_empty());
    let held = share.map_or(String::new(), |(gpus, share)| {
        format!(
            "; {} in use {:.0} % of the time",
            show_many(gpus as u64, "GPU"),
            100.0 * share
        )
    });
    let unknown = match unknown.len() {
        0 => String::new(),
        count => format!("; the time of {count} more is unknown, since the clock was changed"),
    };
    let uncounted = match uncounted.len() {
        0 => String::new(),
        count => format!("; the GPUs of {count} more are unknown"),
    };
    (hours > 0.0).then(|| {
        format!(
            "{} in {}, {:.0} % of it measuring{held}{unknown}{uncounted}",
            show_number(hours),
            show_many(usages.len() as u64, "server start"),
            (100.0 * measuring / hours).min(100.0)
        )
    })
}

/// Number of GPUs that servers held on all nodes, and the share of time for which they were held. Only the time counts in which their node
/// had a server. `None` if fewer than two GPUs were assigned, or a clock was set.
fn held_share(usages: &[LaunchUsage<'_>]) -> Option<(usize, f64)> {
    if !usages.iter().all(LaunchUsage::agrees_with_clock) {
        return None;
    }
    let given_out = usages.iter().filter(|usage| !usage.launch.gpus.is_empty());
    let (mut count, mut held, mut available) = (0, 0.0, 0.0);
    for of_node in given_out.into_group_map_by(|usage| &usage.node).into_values() {
        let gpus = of_node.iter().flat_map(|usage| &usage.launch.gpus).unique().count();
        let covered_s = covered_s(of_node.iter().filter_map(|usage| usage.span));
        let held_s = of_node
            .iter()
            .map(|usage| usage.held_s().unwrap_or_default() * usage.launch.gpus.len() as f64);
        count += gpus;
        held += held_s.sum::<f64>();
        available += covered_s * gpus as f64;
    }
    (count > 1 && available > 0.0).then(|| (count, (held / available).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_base::ids::PointId;
    use vsweep_record::journal::{
        Event, GroupBegun, ReadPositions, RecordedPlan, RunFinished, RunStarted, ServerDescription, ServerExited,
        ServerReady, SessionStarted,
    };

    /// Notes a start of a server on these GPUs, from one minute of a day to another. The server is ready after a minute.
    fn started(state: &mut State, name: &str, launch: u32, gpus: &[u32], (from, to): (u32, Option<u32>)) {
        let server = ServerId(name.into());
        let mut note = |minute: u32, event: Event| {
            let mut entry = state.next_entry(event);
            entry.at = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
            state.apply(entry);
        };
        let argv = ["vllm", "serve", "m", "--tensor-parallel-size", "2"].map(str::to_owned);
        let config = ServerDescription {
            name: name.to_owned(),
            argv: argv.into(),
            ..ServerDescription::default()
        };
        let begun = GroupBegun {
            proposed: None,
            server: server.clone(),
            slot: 0,
            config,
            seen: ReadPositions::new(),
        };
        note(from, Event::GroupBegun(Box::new(begun)));
        let starting = Event::ServerStarting {
            server: server.clone(),
            slot: 0,
            launch,
            gpus: gpus.to_vec(),
        };
        note(from, starting);
        let ready = ServerReady {
            server: server.clone(),
            launch,
            seconds: 60.0,
            ..ServerReady::default()
        };
        note(from + 1, Event::ServerReady(Box::new(ready)));
        if let Some(to) = to {
            let exited = ServerExited {
                server,
                launch,
                seconds: Some(20.0),
                ..ServerExited::default()
            };
            note(to, Event::ServerExited(Box::new(exited)));
        }
    }

    #[test]
    fn gpu_hours_are_those_of_servers_that_ended() {
        let mut state = State::default();
        started(&mut state, "a", 1, &[3, 4], (0, Some(90)));
        started(&mut state, "c", 2, &[], (100, None));
        let text = in_words(&state);
        let expected = "3.03 in 2 server starts, 0 % of it measuring; 2 GPUs in use 100 % of the time";
        assert_eq!(text.as_deref(), Some(expected));
        let table = String::from_utf8(to_csv(&state).expect("two starts")).expect("text");
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows[0].ends_with(",0,5400.0,0.0,0.0,0.0,20.0,3.0000,0.000"), "{table}");
        assert!(
            rows[1].ends_with(",0,60.0,0.0,0.0,0.0,,0.0333,0.000"),
            "one whose end is not recorded was up until the last line of its session: {table}"
        );
        // If no GPUs were given, their number follows from the flags.
        assert!(rows[1].contains(",,2,2026-01-01T01:40:00Z,60.0,"), "{table}");
    }

    /// Notes a run at a point on a launch.
    fn measured(state: &mut State, server: &str, launch: u32, point: &str) {
        let started = state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
            server: ServerId(server.into()),
            point: PointId(point.into()),
            launch,
            ..RunStarted::default()
        })));
        state.apply_hypothetical(Event::RunFinished(Box::new(RunFinished {
            started: started.rank.line.seq,
            seconds: 900.0,
            ..RunFinished::default()
        })));
    }

    #[test]
    fn launches_of_points_that_left_the_plan_take_no_time() {
        let mut state = State::default();
        let session = SessionStarted {
            plan: RecordedPlan::new("plan", String::new(), &[PointId("0123456789abcdef".into())], &[]),
            ..SessionStarted::default()
        };
        state.apply_hypothetical(Event::SessionStarted(Box::new(session)));
        started(&mut state, "a", 1, &[0], (0, Some(60)));
        started(&mut state, "b", 2, &[0], (60, Some(120)));
        measured(&mut state, "a", 1, "0123456789abcdef");
        measured(&mut state, "b", 2, "fedcba9876543210");
        assert_eq!(SweepUsage::of(&state, None).in_words(), "1h 00m, 1 GPU-hours");
        let text = in_words(&state);
        assert_eq!(text.as_deref(), Some("1 in 1 server start, 25 % of it measuring"));
        assert_eq!(figures(&state).len(), 2, "the table lists every launch");
    }

    /// The last eight columns of each start.
    fn figures(state: &State) -> Vec<String> {
        let table = String::from_utf8(to_csv(state).expect("starts")).expect("text");
        let last = |row: &str| {
            row.rsplitn(9, ',')
                .take(8)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join(",")
        };
        table.lines().skip(1).map(last).collect()
    }

    #[test]
    fn a_clock_that_was_set_makes_no_figures() {
        let mut state = State::default();
        started(&mut state, "a", 1, &[0], (0, Some(60)));
        // The clock was set back by an hour, so the server seems to have ended before it started.
        started(&mut state, "b", 2, &[1], (120, Some(60)));
        started(&mut state, "c", 3, &[1], (200, Some(201)));
        let expected = [
            "0,3600.0,0.0,0.0,0.0,20.0,1.0000,0.000",
            "0,,0.0,0.0,0.0,20.0,,",
            "0,,0.0,0.0,0.0,20.0,,",
        ];
        assert_eq!(figures(&state), expected);
        let text = in_words(&state).expect("real servers");
        assert_eq!(
            text,
            "1 in 1 server start, 0 % of it measuring; the time of 2 more is unknown, since the clock was changed"
        );
    }

    #[test]
    fn what_was_measured_counts_and_not_the_clock() {
        let mut state = State::default();
        started(&mut state, "a", 1, &[0, 1], (120, Some(60)));
        let start = &mut state.servers.values_mut().next().expect("a server").launches[0];
        start.exit.held_seconds = Some(1800.0);
        assert_eq!(figures(&state), ["0,1800.0,0.0,0.0,0.0,20.0,1.0000,0.000"]);
        let text = in_words(&state);
        assert_eq!(text.as_deref(), Some("1 in 1 server start, 0 % of it measuring"));
    }

    #[test]
    fn gpus_that_are_idle_while_others_are_held_are_reported() {
        let mut state = State::default();
        started(&mut state, "a", 1, &[0], (0, Some(60)));
        started(&mut state, "b", 2, &[1], (0, Some(30)));
        // The time between two sessions counts neither as held nor as available.
        started(&mut state, "c", 3, &[0], (600, Some(630)));
        let text = in_words(&state).expect("real servers");
        assert!(text.ends_with("2 GPUs in use 67 % of the time"), "{text}");
    }
}
