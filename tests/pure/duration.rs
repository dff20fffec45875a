//! Runs that end after a time, played against the engine model: they send as many requests as fit, and their intervals contain the true
//! figures. Time is virtual, so other programs do not disturb it.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use vsweep::bench::Measurement;
use vsweep::matrix::Matrix;
use vsweep::metrics::confidence::interval;
use vsweep::plan::{self, Format, Warmup, World};
use vsweep::rehearse::{Budget, Limits, ModelledServer, Options, Play, Player};

const RUNS: u64 = 100;

/// Plays a run of this load, with `number` as the seed of requests and server. Returns its duration and its measurement.
pub fn play(load: &Value, number: u64) -> (f64, Measurement) {
    let text = format!(
        "version = 1\n[serve]\ncommand = \"vsweep sim serve demo-8b --sim-noise 0.05 --sim-seed {number}\"\n[bench.params]\nmax_concurrency = 1\n"
    );
    let plan = plan::parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("valid");
    let matrix = Matrix::expand(&plan).expect("small");
    let server = matrix.servers().next().expect("a server");
    let stand_in = ModelledServer::of(&server, &Options::default()).expect("a simulated server");
    let mut params = load.as_object().expect("an object").clone();
    let usual = json!({"random_input_len": 200, "random_output_len": 40, "random_range_ratio": 0.6, "seed": number});
    params.extend(usual.as_object().expect("an object").clone());
    let played = Player::new(&stand_in, false, false).play(Play {
        params: &params,
        warmup: Warmup::Requests(0),
        watch: None,
        limit: Duration::MAX,
        budget: &Budget::new(&Limits::default()),
    });
    let (timing, measurement) = played.expect("played");
    (timing.seconds, measurement.expect("requests that fit"))
}

/// A figure of a run.
pub fn figure(measurement: &Measurement, name: &str) -> f64 {
    let value = measurement.result.get(name).and_then(|value| value.as_f64());
    value.unwrap_or_else(|| panic!("no {name}"))
}

/// Asserts that the 95 % intervals of at least 90 % of the runs contain the true figure. Returns the share that do.
pub fn assert_held(load: &Value, name: &str, truth: f64, runs: &[Measurement]) -> f64 {
    let held = runs.iter().filter(|run| {
        let [low, high] = interval(figure(run, name), run.errors[name]);
        low <= truth && truth <= high
    });
    let (held, all) = (held.count(), runs.len());
    println!("{load}: {name} is {truth:.4}, held by {held} of {all}");
    assert!(
        all >= 100 && 10 * held >= 9 * all,
        "{load}: {name} {truth} is in {held} of {all} intervals"
    );
    held as f64 / all as f64
}

/// Rates and percentiles of 100 runs of 20 s. The true rate is that of all runs together. The true percentiles are those of a run 50 times
/// as long.
#[test]
fn intervals_of_runs_that_time_ends_hold_the_truth() {
    for load in [json!({"max_concurrency": 16}), json!({"request_rate": 8})] {
        let with = |duration: &str| {
            let mut load = load.clone();
            load["duration"] = json!(duration);
            load
        };
        let (_, long) = play(&with("1000s"), 7_000);
        let runs: Vec<Measurement> = (0..RUNS).map(|number| play(&with("20s"), number).1).collect();
        for name in [
            "request_throughput",
            "output_throughput",
            "p50_ttft_ms",
            "p50_e2el_ms",
            "p90_e2el_ms",
            "p99_e2el_ms",
        ] {
            let truth = match name.ends_with("_throughput") {
                true => runs.iter().map(|run| figure(run, name)).sum::<f64>() / RUNS as f64,
                false => figure(&long, name),
            };
            assert_held(&load, name, truth, &runs);
        }
    }
}

#[test]
fn a_forecast_sends_what_fits_in_the_time() {
    let count = |load: Value| {
        let (seconds, measurement) = play(&load, 1);
        (seconds, figure(&measurement, "completed"))
    };
    let (seconds, short) = count(json!({"max_concurrency": 16, "duration": "10s"}));
    assert!((10.0..12.0).contains(&seconds), "{seconds} s");
    let (seconds, long) = count(json!({"max_concurrency": 16, "duration": "40s"}));
    assert!((40.0..42.0).contains(&seconds), "{seconds} s");
    assert!((3.5..4.5).contains(&(long / short)), "{short} and {long} requests");
    let (_, counted) = count(json!({"max_concurrency": 16, "duration": "40s", "num_prompts": 50}));
    assert_eq!(counted, 50.0);
    let (_, at_rate) = count(json!({"request_rate": 5, "duration": "40s"}));
    assert_eq!(at_rate, 200.0);
}
