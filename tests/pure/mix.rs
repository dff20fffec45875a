//! Loads of several classes, played against the engine model: the shares, rates and percentiles of each class, and intervals that hold the
//! truth. Virtual time, so that no other program disturbs it.

use crate::duration::{assert_held, figure, play};
use serde_json::{Value, json};
use vsweep::bench::Measurement;
use vsweep::bench::native::settings::NativeSettings;

const RUNS: u64 = 100;

fn mixed(mut load: Value) -> Value {
    load["mix"] = json!([
        {"name": "chat", "share": 70, "random_input_len": 300},
        {"name": "docs", "share": 30, "random_input_len": 1200, "random_output_len": 15},
    ]);
    load
}

/// 100 runs of 40 s. The true shares are those of the plan, the true rates those of all runs together, and the true percentiles those of a run
/// 50 times as long.
#[test]
fn intervals_of_each_class_hold_the_truth() {
    for load in [json!({"max_concurrency": 16}), json!({"request_rate": 8})] {
        let with = |duration: &str| {
            let mut load = mixed(load.clone());
            load["duration"] = json!(duration);
            load
        };
        let (_, long) = play(&with("2000s"), 7_000);
        let runs: Vec<Measurement> = (0..RUNS).map(|number| play(&with("40s"), number).1).collect();
        for class in ["", "chat.", "docs."] {
            for figure_name in [
                "share",
                "request_throughput",
                "output_throughput",
                "total_token_throughput",
                "p50_ttft_ms",
                "p50_e2el_ms",
                "p90_e2el_ms",
                "p99_e2el_ms",
            ] {
                let name = &format!("{class}{figure_name}");
                let truth = match figure_name {
                    "share" if class.is_empty() => continue,
                    "share" => [0.3, 0.7][usize::from(class == "chat.")],
                    _ if name.ends_with("_throughput") => {
                        runs.iter().map(|run| figure(run, name)).sum::<f64>() / RUNS as f64
                    }
                    _ => figure(&long, name),
                };
                assert_held(&load, name, truth, &runs);
            }
        }
    }
}

#[test]
fn a_forecast_draws_the_classes_of_the_run() {
    let load = mixed(json!({"max_concurrency": 16, "num_prompts": 500}));
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
