//! Measures a planted truth: runs with noise, in the order of a sweep that is complete, killed and resumed, or has a crash and a retry.

use super::planted::{MARGIN, Planted};
use std::collections::BTreeMap;
use vsweep_answer::{
    Better, Config, Experiment, Facts, Figure, Metric, NoisePrior, Operator, Point, Question, Random, Run, RunFigures,
    Scale, Target,
};

/// The fate of the sweep.
#[derive(Clone, Copy, PartialEq)]
pub enum Fate {
    Whole,
    /// It is killed at a random event, and resumed.
    Killed,
    /// A server dies under a run at a random event, and is started again.
    Crashed,
}

/// The metrics of every experiment.
pub const METRICS: [&str; 2] = ["output_throughput", "p99_ttft_ms"];

/// Plays the experiment of a sweep.
pub fn play(planted: &Planted, fate: Fate) -> Experiment {
    play_more(planted, fate, &|_| 0)
}

/// Plays an experiment with additional starts of each server.
pub fn play_more(planted: &Planted, fate: Fate, more: &dyn Fn(usize) -> usize) -> Experiment {
    let events = events(planted, more);
    let mut random = Random::of(
        planted.seed,
        &["fate", if fate == Fate::Killed { "killed" } else { "crashed" }],
    );
    let struck = (fate != Fate::Whole).then(|| random.below(events.len().max(1)));
    let struck_start = struck
        .and_then(|at| events.get(at))
        .map(|event| (event.server, event.start));
    let mut points: BTreeMap<(usize, usize), Vec<Run>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        // The rest of the struck start is measured on a new launch.
        let is_after = struck.is_some_and(|struck| at >= struck) && struck_start == Some((event.server, event.start));
        let launch = format!("{}-{}", event.start, usize::from(is_after));
        let run = measure(planted, event, &launch);
        points.entry((event.server, event.load)).or_default().push(run);
    }
    let configs = planted.servers.iter().enumerate().map(|(number, server)| {
        let settings = server.settings.iter().enumerate().filter(|(_, level)| **level > 0);
        Config {
            id: id(number),
            name: String::new(),
            settings: settings
                .map(|(at, level)| (format!("s{at}"), level.to_string()))
                .collect(),
            changes: server.settings.iter().filter(|level| **level > 0).count(),
            gpus: 1,
            seconds_per_start: Some(60.0),
            seconds_around_runs: Some(40.0),
            facts: Facts::default(),
        }
    });
    let points = points.into_iter().map(|((server, load), runs)| Point {
        id: format!("{}@{load}", id(server)),
        config: id(server),
        load: load.to_string(),
        runs,
        ..Point::default()
    });
    let target = |limit| Target {
        metric: METRICS[1].to_owned(),
        bound: Operator::AtMost,
        limit,
        conditions: String::new(),
        about: Vec::new(),
    };
    let metric = |at: usize, better, prior| Metric {
        name: METRICS[at].to_owned(),
        scale: Scale::Log,
        better,
        prior,
    };
    Experiment {
        metrics: vec![
            metric(0, Better::Higher, NoisePrior::THROUGHPUT),
            metric(1, Better::Lower, NoisePrior::LATENCY),
        ],
        configs: configs.collect(),
        points: points.collect(),
        questions: vec![Question {
            targets: planted.limit.map(target).into_iter().collect(),
            effects: METRICS.map(str::to_owned).to_vec(),
            ..Question::highest(METRICS[0])
        }],
        margin: MARGIN,
        seed: planted.seed,
        ..Experiment::default()
    }
}

/// The id of a server.
pub fn id(server: usize) -> String {
    format!("c{server:02}")
}

/// One planned run.
struct Event {
    server: usize,
    start: usize,
    load: usize,
    run: usize,
}

/// The planned runs in order: every server is started once before any is started twice, and within a start every point is measured once
/// before any is measured twice.
fn events(planted: &Planted, more: &dyn Fn(usize) -> usize) -> Vec<Event> {
    let mut events = Vec::new();
    let mut random = Random::of(planted.seed, &["failed"]);
    let servers = planted.servers.len();
    let fails: Vec<bool> = (0..servers * planted.loads.len())
        .map(|_| random.uniform() < planted.failed)
        .collect();
    let starts: Vec<usize> = (0..servers)
        .map(|server| {
            let planned = if random.uniform() < planted.lacking {
                1
            } else {
                planted.starts
            };
            planned + more(server)
        })
        .collect();
    for start in 0..starts.iter().copied().max().unwrap_or(0) {
        for server in (0..servers).filter(|server| start < starts[*server]) {
            for run in 0..planted.runs {
                for load in (0..planted.loads.len()).filter(|load| !fails[server * planted.loads.len() + load]) {
                    events.push(Event {
                        server,
                        start,
                        load,
                        run,
                    });
                }
            }
        }
    }
    events
}

fn measure(planted: &Planted, event: &Event, launch: &str) -> Run {
    let Event { server, load, run, .. } = *event;
    let stream = |of: &[&str]| Random::of(planted.seed, of);
    let (server_id, load_name, run_name) = (id(server), load.to_string(), run.to_string());
    let mut of_run = stream(&["run", &server_id, &load_name, &run_name, launch]);
    let disturbed = of_run.uniform() < planted.disturbed;
    let is_short = of_run.uniform() < planted.short;
    let requests = planted.requests / if is_short { 10.0 } else { 1.0 };
    let hit = if disturbed { 0.25 * of_run.uniform() } else { 0.0 };
    let mut figures = RunFigures::default();
    for (at, metric) in METRICS.iter().enumerate() {
        let noise = planted.noise[at];
        let of_start = stream(&["start", metric, &server_id, launch]).normal();
        let sampling = noise.request / requests.sqrt();
        let off = noise.start * of_start + noise.run * of_run.normal() + sampling * of_run.normal();
        let hit = if at == 0 { (1.0 - hit).ln() } else { (1.0 + hit).ln() };
        let value = (planted.servers[server].means[load][at] + off + hit).exp();
        // The recorded error is itself an estimate.
        let error = sampling * (0.15 * of_run.normal()).exp();
        figures.insert(*metric, Figure::Value { value, error });
    }
    Run {
        start: launch.to_owned(),
        node: "n".to_owned(),
        disturbed,
        figures,
    }
}
