//! Reliability of the doubts about a run: a run with an injected fault is never free of the doubt, and good runs get hardly any.
//!
//! A run is drawn as a load on a server with slots, with random arrivals and lengths. It is read once a second, as telemetry does.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use vsweep::bench::judge::{RunFigures, Served, cached, doubts, output_lengths, steady_pace, telemetry};
use vsweep::plan::Params;
use vsweep::rng::NumpyPcg64;
use vsweep::table::{Cell, Points, RunRow, TableBuilder};
use vsweep::telemetry::series::Course;
use vsweep::validity::Code;

/// A random generator with the distributions that are needed here.
struct Draw(NumpyPcg64);

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.double()
    }

    /// A number in a range, with a uniform logarithm.
    fn size(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.0.double()).ln()
    }

    fn is(&mut self, share: f64) -> bool {
        self.0.double() < share
    }
}

/// A measured run: its figures and its readings over time.
struct Run {
    figures: Params,
    course: Course,
    served: Vec<Served>,
    /// Output tokens of each request, as the server counted them and as the request asked for.
    answers: Vec<(u64, u64)>,
    /// Share of prompt tokens found in the prefix cache, and the share that prompts have in common.
    cached: (f64, f64),
}

impl Run {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.figures.insert(key.to_owned(), value.into());
    }

    fn number(&self, key: &str) -> f64 {
        self.figures[key].as_f64().expect("a number")
    }

    fn codes(&self) -> Vec<Code> {
        let seen = RunFigures::whole(&self.figures);
        let told = doubts(seen).into_iter().chain(telemetry(&self.figures, &self.course));
        let told = told
            .chain(steady_pace(&self.served))
            .chain(output_lengths(&self.answers, true));
        let told = told.chain(cached(self.cached.0, self.cached.1));
        told.map(|doubt| doubt.code).collect()
    }
}

/// Draws a run. Its tokens become slower until its end, by the share `slowing`.
fn run(draw: &mut Draw, slowing: f64) -> Run {
    let load = Draw(NumpyPcg64::new((draw.0.double() * 1e9) as u64));
    play(load, draw, slowing, 1.0)
}

/// Draws another run of a load. All tokens take `pace` times as long, and become slower until the end by the share `slowing`.
fn play(mut load: Draw, draw: &mut Draw, slowing: f64, pace: f64) -> Run {
    // A trend needs several requests at a time and a minute to be distinguished from chance.
    let (fewest, shortest_s) = if slowing > 0.0 { (8.0, 60.0) } else { (4.0, 45.0) };
    let is_closed = load.is(0.6);
    let slots = load.size(fewest, 64.0).round();
    let (ttft_s, tpot_s) = (load.size(0.02, 1.0), load.size(0.005, 0.05));
    let (tokens, spread) = (load.size(32.0, 512.0), load.between(0.0, 0.9));
    let is_bursty = load.is(0.3);
    // The run is long enough for each slot to serve ten requests.
    let length_s = load.size(shortest_s, 200.0);
    let each_s = ttft_s + tokens * tpot_s;
    let length_s = length_s.max(10.0 * each_s);
    let count = (length_s / each_s * slots) as usize;
    let mut free: Vec<f64> = vec![0.0; slots as usize];
    let mut due = 0.0;
    let mut served: Vec<(f64, f64, f64)> = Vec::new();
    let mut requests = Vec::new();
    for _ in 0..count {
        let begin = match is_closed {
            true => free[next(&free)],
            false => {
                let gap = if is_bursty && draw.is(0.7) {
                    0.0
                } else {
                    draw.exponential()
                };
                due += gap * each_s / (0.6 * slots);
                due
            }
        };
        let own = (tokens * draw.between(1.0 - spread, 1.0 + spread)).round().max(2.0);
        let tpot = pace * tpot_s * draw.between(0.97, 1.03) * (1.0 + slowing * begin / length_s);
        let end = begin + ttft_s * draw.between(0.5, 1.5) + own * tpot;
        requests.push(Served { sent: begin, end, tpot });
        if is_closed {
            let slot = next(&free);
            free[slot] = end;
        }
        served.push((begin, end, own));
    }
    let duration = served.iter().map(|(_, end, _)| *end).fold(0.0, f64::max);
    let readings: Vec<f64> = (0..=duration as usize).map(|second| second as f64 + 0.3).collect();
    // Requests in flight at each reading, and tokens made since the reading before.
    let mut seen = vec![(0.0, 0.0); readings.len() + 1];
    for (begin, end, own) in &served {
        let from = readings.partition_point(|moment| moment < begin);
        let to = readings.partition_point(|moment| moment < end);
        let mut made = 0.0;
        let until = to.min(readings.len());
        for (at, seen) in seen.iter_mut().enumerate().take(until + 1).skip(from) {
            let now = match readings.get(at) {
                Some(moment) => own * ((moment - begin) / (end - begin)).min(1.0),
                None => *own,
            };
            seen.0 += f64::from(u8::from(at < to));
            seen.1 += now - made;
            made = now;
        }
    }
    seen.pop();
    let tokens_at = seen.iter().scan(0.0, |sum, (_, made)| {
        *sum += made;
        Some(*sum)
    });
    let tokens_at: Vec<f64> = tokens_at.collect();
    let seen: Vec<(f64, f64)> = seen.iter().map(|(running, _)| *running).zip(tokens_at).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / served.len() as f64;
    let total: f64 = served.iter().map(|(_, _, own)| own).sum();
    let figures = json!({
        "output_throughput": total / duration, "median_tpot_ms": 1000.0 * median(requests.iter().map(|request| request.tpot).collect()),
        "completed": count, "failed": 0, "duration": duration, "num_prompts": count,
        "mean_e2el_ms": 1000.0 * mean(&mut served.iter().map(|(begin, end, _)| end - begin)),
        "median_ttft_ms": 1000.0 * ttft_s, "total_output_tokens": total,
        "telemetry_samples": seen.len(), "preemptions": 0, "waiting_mean": 0.0,
        "running_mean": seen.iter().map(|(running, _)| running).sum::<f64>() / seen.len() as f64,
        "generator_longest_turn_ms": draw.between(0.1, 20.0), "generator_away_ms": 0.0, "generator_cpu_share": draw.between(0.01, 0.6),
        "generator_kernel_stamped_share": 1.0, "generator_lag_p99_ms": draw.between(0.0, 2.0),
    });
    let shared = if draw.is(0.5) { 0.0 } else { draw.between(0.0, 0.8) };
    let mut run = Run {
        // Some answers end one token early. Of the tokens that prompts have in common, those in blocks that are not full are not cached.
        answers: served
            .iter()
            .map(|(.., own)| (*own as u64 - u64::from(draw.is(0.05)), *own as u64))
            .collect(),
        cached: (shared * draw.between(0.5, 1.0), shared),
        figures: figures.as_object().expect("an object").clone(),
        course: Course {
            rates: seen.windows(2).map(|pair| pair[1].1 - pair[0].1).collect(),
            in_flight: seen.iter().map(|(running, _)| *running).collect(),
            speeds: seen
                .windows(2)
                .filter(|pair| pair[0].0 + pair[1].0 > 0.0)
                .map(|pair| (pair[1].1 - pair[0].1) / (pair[0].0 + pair[1].0) * 2.0)
                .collect(),
            slowed_share: Some(draw.between(0.0, 0.05)),
            shared_share: Some(0.0),
            acceptance: accepted(draw, seen.len(), 0.0),
        },
        served: requests,
    };
    match is_closed {
        true => {
            run.set("max_concurrency", slots);
            run.set("request_rate", "inf");
            run.set("peak_concurrent_requests", slots);
        }
        false => run.set("request_rate", 0.6 * slots / each_s),
    }
    run
}

/// Draws acceptance rates of some hundreds of draft tokens each. They fall until the end by the share `fall`.
fn accepted(draw: &mut Draw, readings: usize, fall: f64) -> Vec<f64> {
    let (share, each) = (draw.between(0.4, 0.9), draw.size(100.0, 5000.0));
    (0..readings)
        .map(|at| {
            let now = share * (1.0 - fall * at as f64 / readings as f64);
            let error = (now * (1.0 - now) / each).sqrt();
            // The sum of twelve uniform numbers is nearly normal.
            let normal: f64 = (0..12).map(|_| draw.between(0.0, 1.0)).sum::<f64>() - 6.0;
            (now + error * normal).clamp(0.0, 1.0)
        })
        .collect()
}

/// The slot that becomes free first.
fn next(free: &[f64]) -> usize {
    let slots = 0..free.len();
    slots
        .min_by(|one, other| free[*one].total_cmp(&free[*other]))
        .expect("a slot")
}

/// Shares by which tokens become slower: within a run of a minute or more, over the rounds of a start, and up to the repetition of the
/// first point.
const SLOWING: (f64, f64) = (0.3, 1.0);
const ROUNDS: (f64, f64) = (0.2, 0.4);
const AGAIN: (f64, f64) = (0.5, 1.0);

/// Faults that are injected into runs, named by the code that must report them.
const FAULTS: [Code; 15] = [
    Code::LoadNotReached,
    Code::GeneratorStopped,
    Code::GeneratorStalled,
    Code::GeneratorSaturated,
    Code::RequestErrors,
    Code::RunTooShort,
    Code::SampleTooSmall,
    Code::RequestsPreempted,
    Code::ServerNotAlone,
    Code::GpuSlowedDown,
    Code::GpuNotAlone,
    Code::AcceptanceDrifts,
    Code::PrefixCacheHits,
    Code::OutputLengthsDiffer,
    Code::TooManyOutputTokens,
];

fn spoil(run: &mut Run, fault: Code, draw: &mut Draw) {
    let (completed, duration) = (run.number("completed"), run.number("duration"));
    match fault {
        Code::LoadNotReached => {
            run.figures.remove("request_rate");
            run.set("max_concurrency", 64);
            run.set("peak_concurrent_requests", draw.between(1.0, 57.0).floor());
        }
        Code::GeneratorStopped => run.set("generator_away_ms", 1000.0 * duration * draw.between(0.21, 0.9)),
        Code::GeneratorStalled => run.set(
            "generator_longest_turn_ms",
            1000.0 * (duration * draw.between(0.021, 0.19)).max(1.1),
        ),
        Code::GeneratorSaturated => run.set("generator_cpu_share", draw.between(0.91, 1.0)),
        Code::RequestErrors => run.set("failed", (completed * draw.between(0.002, 0.05)).floor().max(1.0)),
        Code::RunTooShort => run.set("duration", draw.between(0.01, 0.49)),
        Code::SampleTooSmall => {
            run.set("completed", draw.between(8.0, 99.0).floor());
            run.set("p99_ttft_ms", 1.0);
        }
        Code::RequestsPreempted => run.set("preemptions", (completed * draw.between(0.011, 2.0)).ceil()),
        Code::ServerNotAlone => {
            // The other requests are at least one and a half times the benchmark's own.
            let others = run.number("running_mean") * draw.between(1.5, 4.0) + 2.0;
            run.set("running_mean", run.number("running_mean") + others);
        }
        // The GPU is shared from some moment in the first nine tenths of the run.
        Code::GpuNotAlone => run.course.shared_share = Some(draw.between(0.11, 1.0)),
        Code::AcceptanceDrifts => {
            let fall = draw.between(0.2, 0.6);
            run.course.acceptance = accepted(draw, run.course.in_flight.len(), fall);
        }
        // Prompts of an earlier run are in the cache, in addition to the part that prompts have in common.
        Code::PrefixCacheHits => {
            let shared = run.cached.1;
            run.cached.0 = (shared + 0.11).max(shared + (1.0 - shared) * draw.between(0.12, 1.0));
        }
        // Some answers are cut short, or the end-of-sequence token is counted too.
        Code::OutputLengthsDiffer => {
            let (kind, share) = (draw.between(0.0, 2.0), draw.between(0.05, 1.0));
            let count = (run.answers.len() as f64 * share).ceil() as usize;
            for (counted, asked) in run.answers.iter_mut().take(count) {
                *counted = match kind < 1.0 {
                    true => (*asked as f64 * draw.between(0.0, 0.5)) as u64,
                    false => *asked + 1,
                };
            }
        }
        Code::TooManyOutputTokens => {
            let count = (run.answers.len() as f64 * draw.between(0.3, 1.0)).ceil() as usize;
            for (counted, asked) in run.answers.iter_mut().take(count) {
                *counted = *asked + 2 + (draw.between(0.1, 1.0) * *asked as f64) as u64;
            }
        }
        _ => run.course.slowed_share = Some(draw.between(0.11, 1.0)),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Codes of the points of a start. Each of `loads` is measured `runs` times in turn, and with `again` the first is measured once more at
/// the end. Tokens become slower until the end by the share `slowing`, and runs differ by 1 to 2 %.
fn start(draw: &mut Draw, loads: u64, runs: u32, again: bool, slowing: f64) -> Vec<Vec<Code>> {
    let seed = (draw.0.double() * 1e9) as u64;
    let noise = draw.between(0.01, 0.02);
    let order = (0..runs).flat_map(|run| (0..loads).map(move |load| (load, run)));
    let order: Vec<(u64, u32)> = order.chain(again.then_some((0, runs))).collect();
    let mut builder = TableBuilder::new();
    for (at, (load, run)) in order.iter().enumerate() {
        let normal: f64 = (0..12).map(|_| draw.between(0.0, 1.0)).sum::<f64>() - 6.0;
        let pace = (1.0 + slowing * at as f64 / (order.len() - 1) as f64) * (noise * normal).exp();
        let run_of = play(Draw(NumpyPcg64::new(seed + load)), draw, 0.0, pace);
        let figures = run_of.figures.iter();
        let metrics = figures
            .filter(|(name, _)| !["max_concurrency", "request_rate"].contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), Cell::from_json(value)))
            .collect();
        let is_load = |name: &str| ["max_concurrency", "request_rate"].contains(&name);
        let bench = run_of.figures.clone().into_iter().filter(|(name, _)| is_load(name));
        builder.push(RunRow {
            point: &load.to_string(),
            run: *run,
            bench: Some(&bench.collect()),
            metrics: Some(&metrics),
            launch: Some("a start".to_owned()),
            order: at as u64,
            ..RunRow::default()
        });
    }
    let table = builder.finish();
    Points::of(&table).points.into_iter().map(|point| point.codes).collect()
}

/// Number of good runs.
const GOOD: usize = 500;

#[test]
fn no_fault_passes_and_good_runs_are_left_alone() {
    let mut draw = Draw(NumpyPcg64::new(20));
    let mut passed = Vec::new();
    for trial in 0..380 {
        let fault = FAULTS[trial % FAULTS.len()];
        let mut spoilt = run(&mut draw, 0.0);
        spoil(&mut spoilt, fault, &mut draw);
        if !spoilt.codes().contains(&fault) {
            passed.push((fault, format!("{:?}", spoilt.figures)));
        }
    }
    for _ in 0..60 {
        let slowing = draw.between(SLOWING.0, SLOWING.1);
        let spoilt = run(&mut draw, slowing);
        if !spoilt.codes().contains(&Code::NoSteadyState) {
            passed.push((Code::NoSteadyState, format!("{slowing} {:?}", spoilt.figures)));
        }
    }
    for trial in 0..60 {
        // Either several rounds of all loads, or one run of each load and a repetition of the first.
        let (loads, runs, (low, high)) = match trial % 2 {
            0 => (4, 3, ROUNDS),
            _ => (4, 1, AGAIN),
        };
        let slowing = draw.between(low, high);
        let codes = start(&mut draw, loads, runs, runs == 1, slowing);
        if !codes.iter().flatten().any(|code| *code == Code::ServerDrifts) {
            passed.push((Code::ServerDrifts, format!("{slowing} over {runs} runs")));
        }
    }
    let good: Vec<Vec<Code>> = (0..GOOD).map(|_| run(&mut draw, 0.0).codes()).collect();
    let starts = (0..200).flat_map(|trial| start(&mut draw, 5, 1 + trial % 3, trial % 3 == 0, 0.0));
    let points: Vec<Vec<Code>> = starts.collect();
    let count = |all: &[Vec<Code>]| {
        let mut doubted = BTreeMap::<Code, u32>::new();
        all.iter()
            .flatten()
            .for_each(|code| *doubted.entry(*code).or_default() += 1);
        (all.iter().filter(|codes| !codes.is_empty()).count(), doubted)
    };
    println!(
        "500 faults: {} passed {:?}",
        passed.len(),
        passed
            .iter()
            .map(|(code, seen)| (code.name(), seen))
            .collect::<Vec<_>>()
    );
    let (runs, points_doubted) = (count(&good), count(&points));
    println!(
        "{GOOD} good runs: {runs:?} doubted; {} good points of steady starts: {points_doubted:?} doubted",
        points.len()
    );
    assert!(passed.is_empty(), "{:?}", passed.first());
    assert!(runs.0 * 50 < GOOD, "{runs:?}");
    let drifting = points_doubted.1.get(&Code::ServerDrifts).copied().unwrap_or_default();
    assert!(drifting as usize * 50 < points.len(), "{points_doubted:?}");
}
