//! How sure the doubts of a run are: of faults that are put into runs none passes as valid, and good runs are left alone.
//!
//! A run is drawn as a load on a server with slots, arrivals and lengths by chance, and looked at once a second, as telemetry does.

use serde_json::{Value, json};
use vsweep::bench::judge::{Seen, beside, doubts};
use vsweep::plan::Params;
use vsweep::rng::NumpyPcg64;
use vsweep::telemetry::series::Course;
use vsweep::validity::{Code, Validity};

/// Uniform in 0 to 1, and what is drawn of it.
struct Draw(NumpyPcg64);

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.double()
    }

    /// A number of a range whose logarithm is uniform.
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

/// A measured run: its figures and its course.
struct Run {
    figures: Params,
    course: Course,
}

impl Run {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.figures.insert(key.to_owned(), value.into());
    }

    fn number(&self, key: &str) -> f64 {
        self.figures[key].as_f64().expect("a number")
    }

    fn codes(&self) -> Vec<Code> {
        let seen = Seen {
            figures: &self.figures,
            is_whole: true,
        };
        let told = doubts(seen).into_iter().chain(beside(&self.figures, &self.course));
        told.map(|doubt| doubt.code).collect()
    }
}

/// A run on a server whose tokens take longer by a part until the end.
fn run(draw: &mut Draw, slowing: f64) -> Run {
    // A trend of a few requests is chance, and takes two minutes to be seen in many.
    let (fewest, shortest_s) = if slowing > 0.0 { (16.0, 120.0) } else { (4.0, 45.0) };
    let is_closed = draw.is(0.6);
    let slots = draw.size(fewest, 64.0).round();
    let (ttft_s, tpot_s) = (draw.size(0.02, 1.0), draw.size(0.005, 0.05));
    let (tokens, spread) = (draw.size(32.0, 512.0), draw.between(0.0, 0.9));
    let each_s = ttft_s + tokens * tpot_s;
    let is_bursty = draw.is(0.3);
    // Between half a minute and five, with ten waves at least.
    let length_s = draw.size(shortest_s, 200.0).max(10.0 * each_s);
    let count = (length_s / each_s * slots) as usize;
    let mut free: Vec<f64> = vec![0.0; slots as usize];
    let mut due = 0.0;
    let mut served: Vec<(f64, f64, f64)> = Vec::new();
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
        let pace = tpot_s * draw.between(0.97, 1.03) * (1.0 + slowing * begin / length_s);
        let end = begin + ttft_s * draw.between(0.5, 1.5) + own * pace;
        if is_closed {
            let slot = next(&free);
            free[slot] = end;
        }
        served.push((begin, end, own));
    }
    let duration = served.iter().map(|(_, end, _)| *end).fold(0.0, f64::max);
    let readings: Vec<f64> = (0..=duration as usize).map(|second| second as f64 + 0.3).collect();
    let at = |moment: f64| {
        let under_way = served.iter().filter(|(begin, end, _)| (*begin..*end).contains(&moment));
        let produced = served
            .iter()
            .map(|(begin, end, own)| own * ((moment - begin) / (end - begin)).clamp(0.0, 1.0));
        (under_way.count() as f64, produced.sum::<f64>())
    };
    let seen: Vec<(f64, f64)> = readings.iter().map(|moment| at(*moment)).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / served.len() as f64;
    let total: f64 = served.iter().map(|(_, _, own)| own).sum();
    let figures = json!({
        "completed": count, "failed": 0, "duration": duration, "num_prompts": count,
        "mean_e2el_ms": 1000.0 * mean(&mut served.iter().map(|(begin, end, _)| end - begin)),
        "median_ttft_ms": 1000.0 * ttft_s, "total_output_tokens": total,
        "telemetry_samples": seen.len(), "preemptions": 0, "waiting_mean": 0.0,
        "running_mean": seen.iter().map(|(running, _)| running).sum::<f64>() / seen.len() as f64,
        "generator_longest_turn_ms": draw.between(0.1, 20.0), "generator_away_ms": 0.0, "generator_cpu_share": draw.between(0.01, 0.6),
        "generator_kernel_stamped_share": 1.0, "generator_lag_p99_ms": draw.between(0.0, 2.0),
    });
    let mut run = Run {
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
        },
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

/// The slot that is free first.
fn next(free: &[f64]) -> usize {
    let slots = 0..free.len();
    slots
        .min_by(|one, other| free[*one].total_cmp(&free[*other]))
        .expect("a slot")
}

/// The faults that are put into runs, with the code that is to tell each.
const FAULTS: [Code; 10] = [
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
            // Half as many again as the benchmark's own at least.
            let others = run.number("running_mean") * draw.between(1.5, 4.0) + 2.0;
            run.set("running_mean", run.number("running_mean") + others);
        }
        _ => run.course.slowed_share = Some(draw.between(0.11, 1.0)),
    }
}

/// Good runs that are drawn.
const GOOD: usize = 500;

#[test]
fn no_fault_passes_and_good_runs_are_left_alone() {
    let mut draw = Draw(NumpyPcg64::new(20));
    let mut passed = Vec::new();
    for trial in 0..450 {
        let fault = FAULTS[trial % FAULTS.len()];
        let mut spoilt = run(&mut draw, 0.0);
        spoil(&mut spoilt, fault, &mut draw);
        if Validity::of(spoilt.codes()) == Validity::Valid || !spoilt.codes().contains(&fault) {
            passed.push((fault, spoilt.figures));
        }
    }
    for _ in 0..50 {
        let slowing = draw.between(1.5, 3.0);
        let spoilt = run(&mut draw, slowing);
        if !spoilt.codes().contains(&Code::NoSteadyState) {
            passed.push((Code::NoSteadyState, spoilt.figures));
        }
    }
    let good: Vec<Run> = (0..GOOD).map(|_| run(&mut draw, 0.0)).collect();
    let doubted =
        good.iter()
            .flat_map(Run::codes)
            .fold(std::collections::BTreeMap::<Code, u32>::new(), |mut count, code| {
                *count.entry(code).or_default() += 1;
                count
            });
    let not_valid = good.iter().filter(|run| !run.codes().is_empty()).count();
    println!(
        "500 faults: {} passed {:?}",
        passed.len(),
        passed.iter().map(|(code, _)| code.name()).collect::<Vec<_>>()
    );
    println!("{GOOD} good runs: {not_valid} doubted: {doubted:?}");
    assert!(passed.is_empty(), "{:?}", passed.first());
    assert!(not_valid * 50 < GOOD, "{doubted:?}");
}
