//! Compares the engine model with published figures (tests/data/calibration): the ratio of predicted to published, for each figure. `cargo
//! test --test pure calibration -- --nocapture` prints the table that docs/simulator.md summarises. The bounds are the errors stated there,
//! so a change of the model that breaks them must change the docs too.

use serde::Deserialize;
use std::collections::BTreeMap;
use vsweep::sim::engine::gpu::Gpu;
use vsweep::sim::engine::memory::kv_blocks;
use vsweep::sim::engine::{Engine, SequenceRequest, token_id};
use vsweep::sim::flags::Flags;
use vsweep::sim::settings::ServerSettings;

#[derive(Deserialize)]
struct Published {
    throughput: Vec<Row>,
    one_stream: Vec<Row>,
    first_token: Vec<Row>,
    loads: Vec<Row>,
}

/// A published figure of a load: output tokens per second, time per output token, or time to the first token.
#[derive(Deserialize)]
struct Row {
    source: String,
    model: String,
    flags: String,
    input: usize,
    output: usize,
    /// Requests in flight, if published.
    batch: Option<usize>,
    output_tokens_per_s: Option<f64>,
    tpot_ms: Option<f64>,
    ttft_ms: Option<f64>,
}

impl Row {
    fn gpu(&self) -> &str {
        self.flags.split(' ').nth(1).unwrap_or_default()
    }
}

fn published() -> Published {
    let path = format!("{}/tests/data/calibration/published.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("figures")
}

/// Returns the engine of the row's server, and the number of requests in flight. Published figures were made with enough memory for all of
/// them until their ends, so the number is limited to those that fit.
fn engine(row: &Row) -> (Engine, usize) {
    let folder = format!("{}/tests/data/calibration/{}", env!("CARGO_MANIFEST_DIR"), row.model);
    let model = if std::path::Path::new(&folder).is_dir() {
        folder
    } else {
        row.model.clone()
    };
    let longest = row.input + row.output;
    let line = format!(
        "'{model}' {} --max-model-len {longest} --no-enable-prefix-caching --sim-noise 0",
        row.flags
    );
    let flags = Flags::parse(&shell_words::split(&line).expect("quoted well")).expect("known flags");
    let mut settings = ServerSettings::resolve(&flags, &|_| None).expect("usable");
    settings.limits.num_blocks = kv_blocks(&settings.cost, &settings.limits).expect("it fits");
    let room = settings.limits.num_blocks * settings.limits.block_size / longest;
    let batch = row.batch.unwrap_or(settings.limits.max_num_seqs);
    (settings.engine(32_000, 0), batch.min(room))
}

/// Output tokens per second for `users` requests in flight, in the second of two rounds. Each answer is followed by the next request at
/// once.
fn throughput(engine: &mut Engine, users: usize, row: &Row) -> f64 {
    let request = |number: u64| SequenceRequest {
        prompt: (0..row.input).map(|place| token_id(!number, place, 32_000)).collect(),
        output_len: row.output,
        seed: number,
        ..SequenceRequest::default()
    };
    (0..users as u64).for_each(|number| _ = engine.add(0.0, request(number)));
    let (mut now, mut sent, mut done, mut from) = (0.0, users, 0, 0.0);
    let mut ends = Vec::new();
    while done < 2 * users {
        ends.clear();
        let leap = engine.leap(now, f64::INFINITY, &mut ends);
        let mut finished = leap.ended.len() + leap.fresh.iter().filter(|output| output.finished).count();
        match ends.last() {
            Some(end) => now = *end,
            None => {
                now += engine.begin_step(now).expect("always busy");
                finished = engine.end_step(now).iter().filter(|output| output.finished).count();
            }
        }
        for _ in 0..finished {
            engine.add(now, request(sent as u64));
            sent += 1;
        }
        if done < users && done + finished >= users {
            from = now;
        }
        done += finished;
    }
    (users * row.output) as f64 / (now - from)
}

/// Returns the geometric mean of ratios, and the share of them that differ from 1 by a factor below `factor`.
fn summary(ratios: &[f64], factor: f64) -> (f64, f64) {
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let near = ratios
        .iter()
        .filter(|ratio| (1.0 / factor..factor).contains(*ratio))
        .count();
    (mean, near as f64 / ratios.len() as f64)
}

#[test]
fn predicted_throughput_is_as_near_to_published_figures_as_the_docs_say() {
    let mut ratios = Vec::new();
    let mut of_gpu: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in published().throughput {
        let (mut engine, most) = engine(&row);
        let predicted = throughput(&mut engine, most, &row);
        let figure = row.output_tokens_per_s.expect("a rate");
        let ratio = predicted / figure;
        let (source, model, load) = (&row.source, &row.model, format!("{}/{}", row.input, row.output));
        let gpu = row.gpu();
        println!(
            "{source:>11} {model:>16} {gpu:>5} {load:>10}  published {figure:>7}  predicted {predicted:>7.0}  ratio {ratio:.2}"
        );
        ratios.push(ratio);
        of_gpu.entry(gpu.to_owned()).or_default().push(ratio);
    }
    for (gpu, ratios) in &of_gpu {
        let (mean, near) = summary(ratios, 1.25);
        let square = ratios.iter().map(|ratio| ratio.ln().powi(2)).sum::<f64>() / ratios.len() as f64;
        let (many, error) = (ratios.len(), square.sqrt());
        println!(
            "{gpu}: {many} figures, geometric mean {mean:.2}, error {error:.3}, within a quarter: {:.0} %",
            100.0 * near
        );
        let stated = Gpu::named(gpu).expect("listed").model_error;
        assert!(
            (stated - error).abs() < 0.02,
            "{gpu}: {stated} is stated, {error} is the error"
        );
    }
    let (mean, near) = summary(&ratios, 1.25);
    println!("geometric mean {mean:.2}, within a quarter: {:.0} %", 100.0 * near);
    assert!((0.9..1.11).contains(&mean), "{mean}");
    assert!(near >= 0.85, "{near}");
}

#[test]
fn one_stream_is_as_fast_as_published() {
    for row in published().one_stream {
        let (mut engine, _) = engine(&row);
        let rate = throughput(&mut engine, 1, &row);
        let (predicted, figure) = (1000.0 / rate, row.tpot_ms.expect("a time"));
        let ratio = predicted / figure;
        println!(
            "{:>8} {:>16} published {figure} ms a token, predicted {predicted:.2}, ratio {ratio:.2}",
            row.source, row.model
        );
        assert!((0.85..1.18).contains(&ratio), "{ratio}");
    }
}

#[test]
fn a_first_token_comes_as_soon_as_published() {
    for row in published().first_token {
        let (mut engine, _) = engine(&row);
        let prompt = (0..row.input).map(|place| token_id(1, place, 32_000)).collect();
        let request = SequenceRequest {
            prompt,
            output_len: 1,
            ..SequenceRequest::default()
        };
        engine.add(0.0, request);
        let mut now = 0.0;
        while let Some(seconds) = engine.begin_step(now) {
            now += seconds;
            engine.end_step(now);
        }
        let (predicted, figure) = (now * 1000.0, row.ttft_ms.expect("a time"));
        let ratio = predicted / figure;
        let (source, gpu, input) = (&row.source, row.gpu(), row.input);
        println!(
            "{source:>11} {gpu:>5} {input:>5} tokens, first one published {figure} ms, predicted {predicted:.1}, ratio {ratio:.2}"
        );
        assert!((0.4..1.7).contains(&ratio), "{ratio}");
    }
}

#[test]
fn loads_of_a_real_vllm_take_as_long_as_measured() {
    for row in published().loads {
        let (mut engine, users) = engine(&row);
        let predicted = throughput(&mut engine, users, &row);
        let figure = row.output_tokens_per_s.expect("a rate");
        let ratio = predicted / figure;
        println!(
            "{users:>4} users, {}: measured {figure} tokens/s, predicted {predicted:.0}, ratio {ratio:.2}",
            row.flags
        );
        assert!((0.8..1.4).contains(&ratio), "{}: {ratio}", row.flags);
    }
}
