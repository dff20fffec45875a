//! Simulated nodes with hidden constants: a twin is fitted to runs of some of a node's server configs, and predicts those of the others, in
//! virtual time.

use crate::random::Random;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use vsweep::bench::Measurement;
use vsweep::matrix::Matrix;
use vsweep::plan::{self, Format, Params, Warmup, World};
use vsweep::rehearse::twin::{Case, Load, Measurements, NAMES, Twin};
use vsweep::rehearse::{Budget, Card, Limits, ModelledServer, Options, Play, Player};
use vsweep::sim::engine::cost::Constants;
use vsweep::sim::engine::gpu::Gpu;
use vsweep::sim::engine::noise::Spread;

/// Server configs of a node.
const CONFIGS: [&str; 20] = [
    "--max-num-seqs 16",
    "--max-num-seqs 64",
    "--max-num-seqs 256",
    "--max-num-batched-tokens 2048",
    "--max-num-batched-tokens 512 --max-num-seqs 128",
    "--kv-cache-dtype fp8",
    "--kv-cache-dtype fp8 --max-num-seqs 64",
    "--quantization fp8",
    "--quantization fp8 --max-num-seqs 32",
    "--quantization fp8 --kv-cache-dtype fp8",
    "--quantization fp8 --max-num-batched-tokens 2048",
    "--tensor-parallel-size 2",
    "--tensor-parallel-size 2 --max-num-seqs 32",
    "--tensor-parallel-size 2 --quantization fp8",
    "--tensor-parallel-size 2 --kv-cache-dtype fp8",
    "--tensor-parallel-size 4 --max-num-seqs 64",
    "--tensor-parallel-size 4 --quantization fp8",
    "--tensor-parallel-size 4 --max-num-batched-tokens 2048",
    "--enforce-eager --max-num-seqs 64",
    "--enforce-eager --tensor-parallel-size 2",
];

/// Loads: requests in flight, number of requests, prompt tokens, output tokens.
const LOADS: [(u64, u64, u64, u64); 3] = [(2, 8, 256, 64), (24, 96, 1024, 64), (96, 288, 256, 96)];

/// Coverage on one node: number of predictions, number whose 80 % interval contained the truth, and absolute errors of the logarithm of
/// durations.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub predictions: usize,
    pub held: usize,
    pub errors: Vec<f64>,
}

impl Coverage {
    pub fn share(&self) -> f64 {
        self.held as f64 / self.predictions.max(1) as f64
    }
}

/// A server of one H100 with nominal constants.
pub fn server(flags: &str) -> ModelledServer {
    let text = format!(
        "version = 1\n[serve]\ncommand = \"vllm serve llama-8b --max-model-len 8192 {flags}\"\n[bench.params]\nmax_concurrency = 1\n"
    );
    let plan = plan::parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("valid");
    let matrix = Matrix::expand(&plan).expect("small");
    let server = matrix.servers().next().expect("a server");
    let options = Options {
        card: Some(Card {
            gpu: Gpu::named("h100").expect("listed"),
            source: "from --gpu",
            is_assumed: false,
        }),
        ..Options::default()
    };
    ModelledServer::of(&server, &options).expect("a known model")
}

/// Parameters of a load.
pub fn params((users, requests, input, output): (u64, u64, u64, u64), seed: u64) -> Params {
    let params = json!({
        "max_concurrency": users, "num_prompts": requests, "random_input_len": input, "random_output_len": output, "seed": seed
    });
    params.as_object().expect("an object").clone()
}

/// Draws the constants of a node. Each differs from its default as much as its prior allows.
fn hidden(random: &mut Random) -> Constants {
    let mut constants = Constants::default();
    let mut draw = |value: &mut f64, deviation: f64| *value *= (deviation * random.normal()).exp();
    draw(&mut constants.weights, 0.15);
    draw(&mut constants.kv, 0.3);
    draw(&mut constants.matmul, 0.2);
    constants.matmul_8 = constants.matmul * 0.53 / 0.60;
    draw(&mut constants.pieces_launch_s, 0.4);
    draw(&mut constants.step_s, 0.5);
    draw(&mut constants.sequence_s, 0.7);
    draw(&mut constants.quantised, 0.25);
    draw(&mut constants.eager_launch_s, 0.4);
    draw(&mut constants.link, 0.5);
    constants
}

fn measure(server: &ModelledServer, params: &Params) -> Measurement {
    let played = Player::new(server, false, false).play(Play {
        params,
        warmup: Warmup::Requests(0),
        watch: None,
        limit: Duration::MAX,
        budget: &Budget::new(&Limits::default()),
    });
    let (_, measurement) = played.expect("played");
    measurement.expect("requests that fit")
}

/// Returns the coverage on the node with this number: the twin is fitted to runs of `known` of its server configs, and predicts the others.
/// Each server also differs from the model by an effect of its own, whose size is drawn, and each run has noise in its steps.
pub fn coverage(number: u64, known: usize) -> Coverage {
    let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x51);
    let constants = hidden(&mut random);
    let of_server = random.log_between(0.01, 0.03);
    let mut order: Vec<usize> = (0..CONFIGS.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, (random.between(0.0, 1.0) * (at + 1) as f64) as usize);
    }
    let budget = Budget::new(&Limits::default());
    let mut measurements = Measurements::default();
    let mut coverage = Coverage::default();
    let mut twin = None;
    for (place, config) in order.into_iter().enumerate() {
        let nominal = server(CONFIGS[config]);
        let mut real = nominal.clone();
        let settings = real.settings.as_mut().expect("it is modelled");
        settings.cost.constants = constants;
        settings.server = number * 100 + config as u64;
        settings.seed = number;
        settings.spread = Spread {
            step: 0.03,
            server: of_server,
            drift: 0.01,
            ..Spread::default()
        };
        for (at, load) in LOADS.into_iter().enumerate() {
            let params = params(load, number * 10 + at as u64);
            let measured = measure(&real, &params);
            let figure = |name: &str| measured.result.get(name).and_then(Value::as_f64).expect("a figure");
            let load = Load {
                server: nominal.clone(),
                params,
                keeps_caches: false,
            };
            if place < known {
                let error = |name: &str| measured.errors.get(name).copied().unwrap_or(0.02);
                measurements.cases.push(Case {
                    server: place,
                    measured: NAMES.map(|name| {
                        let error = error(if name == "duration" { "request_throughput" } else { name });
                        Some((figure(name).ln(), error.powi(2)))
                    }),
                    load,
                });
                continue;
            }
            let cost = &nominal.settings.as_ref().expect("it is modelled").cost;
            let twin = twin.get_or_insert_with(|| Twin::fitted(cost, &measurements, &budget).expect("fitted"));
            let predicted = twin.predict(&load, &budget).expect("predicted");
            let figures = [
                (predicted.duration, "duration"),
                (predicted.mean_tpot_ms, "mean_tpot_ms"),
                (predicted.mean_ttft_ms, "mean_ttft_ms"),
            ];
            for (estimate, name) in figures {
                let estimate = estimate.expect("a figure");
                let (low, high) = estimate.interval();
                coverage.predictions += 1;
                coverage.held += usize::from((low..=high).contains(&figure(name)));
                if name == "duration" {
                    coverage.errors.push((figure(name) / estimate.likely).ln().abs());
                }
            }
        }
    }
    coverage
}
