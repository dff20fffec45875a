//! Loads of several classes, played against the engine model: the shares, rates and percentiles of each class, and intervals that contain
//! the true figures. Time is virtual, so other programs do not disturb it.

use crate::duration::{assert_held, figure, play};
use itertools::Itertools;
use serde_json::{Value, json};
use vsweep::bench::Measurement;
use vsweep::bench::native::settings::NativeSettings;

const RUNS: u64 = 200;
const FIGURES: [&str; 8] = [
    "share",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "p50_ttft_ms",
    "p50_e2el_ms",
    "p90_e2el_ms",
    "p99_e2el_ms",
];

/// Prompt lengths of the two classes.
const PROMPTS: [[u64; 2]; 4] = [[200, 900], [300, 1200], [400, 1500], [600, 2000]];

fn mixed(mut load: Value, [chat, docs]: [u64; 2]) -> Value {
    load["mix"] = json!([
        {"name": "chat", "share": 70, "random_input_len": chat},
        {"name": "docs", "share": 30, "random_input_len": docs, "random_output_len": 15},
    ]);
    load
}

/// Plays runs of 40 s for each pair of lengths. The true shares are those of the plan, the true rates those of all runs together, and the
/// true percentiles those of a run 50 times as long. Intervals of rates must not always contain the true rate, because then they would be
/// too wide.
fn assert_truth_of_each_class(load: &Value) {
    let mut of_rates = vec![];
    for prompts in PROMPTS {
        let with = |duration: &str| {
            let mut load = mixed(load.clone(), prompts);
            load["duration"] = json!(duration);
            load
        };
        let (_, long) = play(&with("2000s"), 7_000);
        let runs: Vec<Measurement> = (0..RUNS).map(|number| play(&with("40s"), number).1).collect();
        for (class, figure_name) in ["", "chat.", "docs."].into_iter().cartesian_product(FIGURES) {
            let name = &format!("{class}{figure_name}");
            let is_rate = name.ends_with("_throughput");
            let truth = match figure_name {
                "share" if class.is_empty() => continue,
                "share" => [0.3, 0.7][usize::from(class == "chat.")],
                _ if is_rate => runs.iter().map(|run| figure(run, name)).sum::<f64>() / RUNS as f64,
                _ => figure(&long, name),
            };
            let held = assert_held(&with("40s"), name, truth, &runs);
            of_rates.extend((is_rate && !class.is_empty()).then_some(held));
        }
    }
    let mean = of_rates.iter().sum::<f64>() / of_rates.len() as f64;
    assert!(mean <= 0.99, "{mean} of the intervals of rates hold the truth");
}

#[test]
fn intervals_of_each_class_hold_the_truth_in_a_closed_loop() {
    assert_truth_of_each_class(&json!({"max_concurrency": 16}));
}

#[test]
fn intervals_of_each_class_hold_the_truth_at_a_rate() {
    assert_truth_of_each_class(&json!({"request_rate": 8}));
}

#[test]
fn a_forecast_draws_the_classes_of_the_run() {
    let load = mixed(json!({"max_concurrency": 16, "num_prompts": 500}), [300, 1200]);
    let (_, played) = play(&load, 3);
    let mut params = load.clone();
    params["seed"] = json!(3);
    let settings = NativeSettings::read(params.as_object().expect("an object")).expect("sound");
    let shares = settings.mix.expect("a mix").shares(3);
    let docs = (0..500).filter(|place| shares.at(*place) == 1).count();
    assert_eq!(figure(&played, "docs.completed"), docs as f64);
    assert_eq!(figure(&played, "chat.completed"), 500.0 - docs as f64);
}

#[test]
fn one_class_has_the_figures_of_the_whole() {
    let mut load = json!({"max_concurrency": 16, "num_prompts": 300});
    let (_, plain) = play(&load, 3);
    load["mix"] = json!([{"name": "all", "share": 1}]);
    let (_, alone) = play(&load, 3);
    for (name, value) in &plain.result.values {
        if name != "duration" && name != "histograms" {
            assert_eq!(alone.result.get(name), Some(value), "{name}");
            assert_eq!(alone.result.get(&format!("all.{name}")), Some(value), "{name}");
        }
    }
    for (name, error) in &plain.errors {
        assert_eq!(alone.errors[&format!("all.{name}")], *error, "{name}");
    }
}
