//! The twin compared with measurements to which it was not fitted: other server configs of an H100, and simulated nodes with hidden
//! constants.

use crate::nodes::{coverage, params, server};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use vsweep::journal::{self, Check, Directory, State};
use vsweep::plan::{self, Format, Plan, World};
use vsweep::rehearse::twin::{Case, Load, Measurements, NAMES, Prediction, Twin, TwinSource};
use vsweep::rehearse::{Budget, Card, Limits, Options, Unknown};
use vsweep::sim::engine::gpu::Gpu;

fn h100() -> Options {
    Options {
        card: Some(Card {
            gpu: Gpu::named("h100").expect("listed"),
            source: "from --gpu",
            is_assumed: false,
        }),
        ..Options::default()
    }
}

/// Returns the recorded session.
fn recorded() -> (Directory, State, Plan) {
    let directory = Directory::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("results/h100"));
    let state = journal::load(&directory, Check::Lengths).expect("readable");
    let (_, _, text) = state.plan_that_counts().expect("a plan");
    let plan = plan::parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("valid");
    (directory, state, plan)
}

/// Returns everything that the recorded session measured, and the names of its servers by number.
fn measured() -> (Measurements, Vec<String>) {
    let (directory, state, plan) = recorded();
    let mut found = Measurements::default();
    let bf16 = server("");
    let like = &bf16.settings.as_ref().expect("modelled").cost;
    found.gather((&state, &directory), &plan, like, &h100());
    let servers = state.servers.values().map(|server| server.config.name.clone());
    (found, servers.collect())
}

fn fitted_to(all: &Measurements, names: &[String], wanted: &[&str]) -> Twin {
    let mut some = all.clone();
    some.cases.retain(|case| wanted.contains(&names[case.server].as_str()));
    some.sources = vec![("h100".to_owned(), some.cases.len())];
    let bf16 = server("");
    let cost = &bf16.settings.as_ref().expect("modelled").cost;
    Twin::fitted(cost, &some, &Budget::new(&Limits::default())).expect("fitted")
}

fn figures(predicted: &Prediction) -> [f64; 3] {
    let all = [predicted.duration, predicted.mean_tpot_ms, predicted.mean_ttft_ms];
    all.map(|estimate| estimate.expect("a figure").likely)
}

/// For each server, the geometric means of predicted over measured figures: duration, TPOT, TTFT.
fn ratios(twin: &Twin, all: &Measurements, names: &[String]) -> BTreeMap<String, [f64; 3]> {
    let budget = Budget::new(&Limits::default());
    let mut sums: BTreeMap<String, ([f64; 3], f64)> = BTreeMap::new();
    for case in &all.cases {
        let predicted = twin.predict(&case.load, &budget).expect("predicted");
        let (sum, count) = sums.entry(names[case.server].clone()).or_default();
        for (figure, predicted) in figures(&predicted).into_iter().enumerate() {
            sum[figure] += predicted.ln() - case.measured[figure].expect("a figure").0;
        }
        *count += 1.0;
    }
    let mean = |(name, (sum, count)): (String, ([f64; 3], f64))| (name, sum.map(|sum| (sum / count).exp()));
    sums.into_iter().map(mean).collect()
}

fn print(title: &str, twin: &Twin, ratios: &BTreeMap<String, [f64; 3]>) {
    println!("{title}: {}", twin.in_words());
    for (name, ratios) in ratios {
        let shown: Vec<String> = NAMES
            .iter()
            .zip(ratios)
            .map(|(name, ratio)| format!("{name} {ratio:.3}"))
            .collect();
        println!("  predicted over measured, {name}: {}", shown.join(", "));
    }
}

/// Fitted to runs with 16-bit weights alone, the twin predicts servers with other scheduler and cache settings well. For 8-bit weights it
/// needs some runs with them.
#[test]
fn servers_of_an_h100_are_predicted_from_others() {
    let (all, names) = measured();
    let bf16 = fitted_to(&all, &names, &["bf16"]);
    let unseen = ratios(&bf16, &all, &names);
    print("fitted to bf16", &bf16, &unseen);
    for name in ["kv-fp8", "chunk-2048"] {
        let [duration, tpot, _] = unseen[name];
        assert!((0.92..1.08).contains(&duration), "{name}: duration {duration}");
        // With small chunks, prompts wait less and answers wait more in the model than in vLLM.
        assert!((0.85..1.18).contains(&tpot), "{name}: TPOT {tpot}");
    }
    let both = fitted_to(&all, &names, &["bf16", "fp8"]);
    let seen = ratios(&both, &all, &names);
    print("fitted to bf16 and fp8", &both, &seen);
    let [duration, tpot, _] = seen["fp8"];
    assert!(
        (0.92..1.08).contains(&duration) && (0.85..1.15).contains(&tpot),
        "fp8: {duration}, {tpot}"
    );
    let everything = fitted_to(&all, &names, &["bf16", "fp8", "kv-fp8", "chunk-2048", "eager"]);
    print("fitted to all", &everything, &ratios(&everything, &all, &names));
    let quantised = |twin: &Twin| {
        let constants = twin.fitted_constants();
        constants
            .iter()
            .any(|fitted| fitted.name == "quantised weights" && fitted.identified)
    };
    assert!(!quantised(&bf16) && quantised(&both));
}

/// Log of an earlier session on the same node: users, requests, and seconds of both runs, with 512 tokens in and 128 out. Below, the mean
/// TPOT of the last load.
const BF16: [(u64, u64, [f64; 2]); 3] = [(1, 6, [5.4, 5.3]), (32, 64, [3.0, 3.0]), (256, 512, [10.8, 10.9])];
const BF16_TPOT_MS: f64 = 28.85;
const SMALL: [(u64, u64, [f64; 2]); 2] = [(1, 6, [5.5, 5.4]), (32, 64, [3.0, 2.9])];

/// Fitted to the runs of `bf16` (up to 256 requests at once), the twin predicts those of `small` (up to 32).
#[test]
fn a_fit_that_fails_gives_its_reason() {
    let (directory, state, plan) = recorded();
    let bf16 = server("");
    let like = &bf16.settings.as_ref().expect("modelled").cost;
    let options = h100();
    options.limits.is_cancelled.store(true, Ordering::Relaxed);
    let twin = TwinSource::at(directory).twin(&state, &plan, like, &options);
    assert_eq!(twin, Err(Unknown::TooMuch));
}

#[test]
fn another_session_of_an_h100_is_predicted() {
    let load = |flags: &str, users: u64, requests: u64| Load {
        server: server(flags),
        params: params((users, requests, 512, 128), 0),
        keeps_caches: false,
    };
    let mut measured = Measurements::default();
    for (users, requests, seconds) in BF16 {
        for seconds in seconds {
            measured.cases.push(Case {
                server: 0,
                load: load("--max-num-seqs 256", users, requests),
                measured: [
                    Some((seconds.ln(), 0.01f64.powi(2))),
                    (users == 256).then_some((BF16_TPOT_MS.ln(), 0.03f64.powi(2))),
                    None,
                ],
            });
        }
    }
    measured.sources.push(("bf16".to_owned(), measured.cases.len()));
    let budget = Budget::new(&Limits::default());
    let cost = measured.cases[0]
        .load
        .server
        .settings
        .as_ref()
        .expect("modelled")
        .cost
        .clone();
    let twin = Twin::fitted(&cost, &measured, &budget).expect("fitted");
    println!("{}", twin.in_words());
    for (users, requests, seconds) in SMALL {
        let predicted = twin
            .predict(&load("--max-num-seqs 32", users, requests), &budget)
            .expect("predicted");
        let duration = predicted.duration.expect("a figure");
        let (low, high) = duration.interval();
        let tpot = predicted.mean_tpot_ms.expect("a figure").likely;
        println!(
            "small, {users} at once: predicted {:.2} s ({low:.2} to {high:.2}), measured {seconds:?}; TPOT {tpot:.2} ms",
            duration.likely
        );
        let mean = (seconds[0] + seconds[1]) / 2.0;
        assert!(
            (0.92..1.08).contains(&(duration.likely / mean)),
            "{duration:?} for {mean}"
        );
        // A single sequence got a token every 6.9 ms.
        assert!(users > 1 || (0.85..1.15).contains(&(tpot / 6.9)), "{tpot}");
    }
}

#[test]
fn intervals_are_wide_on_a_machine_that_the_model_does_not_fit() {
    let (mut all, names) = measured();
    // A law that the model lacks: servers differ by a factor of 2.7 for no reason.
    for case in &mut all.cases {
        let shift = if case.server % 2 == 0 { 0.5 } else { -0.5 };
        case.measured.iter_mut().flatten().for_each(|(log, _)| *log += shift);
    }
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let twin = fitted_to(&all, &names, &wanted);
    let predicted = twin.predict(&all.cases[0].load, &Budget::new(&Limits::default()));
    let (low, high) = predicted.expect("playable").duration.expect("a figure").interval();
    let (half, error) = ((high / low).ln() / 2.0, twin.score().expect("several servers"));
    println!("half the 80 % interval {half:.2}, median error {error:.2}");
    assert!(half >= 0.6 * error);
}

/// `cargo bench --bench twin` is the long version of this test.
#[test]
fn intervals_hold_the_figures_of_servers_that_were_not_measured() {
    let found: Vec<f64> = (0..10).map(|node| coverage(node, 3).share()).collect();
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    println!("coverage of the 80 % interval: {found:.2?}, mean {mean:.2}");
    assert!((0.60..0.97).contains(&mean), "{found:?}");
}
