//! Properties of every engine, whatever its settings, tested under a virtual clock with hundreds of engines a second.

use super::cost::CostModel;
use super::cost::Speculation;
use super::gpu::Gpu;
use super::model::Model;
use super::noise::{Noise, Spread};
use super::{Engine, Key, Limits, SequenceRequest};
use proptest::prelude::*;
use std::collections::BTreeMap;

const VOCABULARY: u32 = 1000;

fn limits(max_num_seqs: usize, max_num_batched_tokens: usize, block_size: usize, num_blocks: usize) -> Limits {
    Limits {
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len: num_blocks * block_size,
        block_size,
        num_blocks,
        gpu_memory_utilization: 0.92,
        num_gpu_blocks_override: None,
        prefix_caching: true,
        chunked_prefill: true,
        long_prefill_token_threshold: 0,
        by_priority: false,
    }
}

fn engine(limits: Limits, seed: u64, sigma: f64) -> Engine {
    Engine::new(limits, cost(), noise(seed, sigma), VOCABULARY)
}

/// Noise of the durations of steps; `sigma` is the standard deviation of their logarithm.
fn noise(seed: u64, sigma: f64) -> Noise {
    let spread = Spread {
        step: sigma,
        ..Spread::default()
    };
    Noise::new(seed, 0, spread)
}

fn cost() -> CostModel {
    CostModel::new(Gpu::named("h100").expect("listed"), Model::named("8b"))
}

/// A request whose content depends on `number`.
fn request(number: u64, prompt: usize, output_len: usize) -> SequenceRequest {
    let prompt = (0..prompt)
        .map(|place| super::token_id(!number, place, VOCABULARY))
        .collect();
    SequenceRequest {
        prompt,
        output_len,
        seed: number,
        ..SequenceRequest::default()
    }
}

/// The arrival of one request, and the times of its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
struct Trace {
    arrival: f64,
    tokens: Vec<f64>,
}

/// Runs an engine over requests that arrive at given times, checking every step.
fn run(engine: &mut Engine, arrivals: &[(f64, SequenceRequest)]) -> BTreeMap<Key, Trace> {
    let mut traces: BTreeMap<Key, Trace> = BTreeMap::new();
    let mut coming = arrivals.iter().peekable();
    let mut now = 0.0;
    loop {
        while let Some((arrival, request)) = coming.next_if(|(arrival, _)| *arrival <= now) {
            let key = engine.add(*arrival, request.clone());
            traces.insert(
                key,
                Trace {
                    arrival: *arrival,
                    tokens: Vec::new(),
                },
            );
        }
        let Some(seconds) = engine.begin_step(now) else {
            assert!(!engine.is_busy(), "the engine is stuck");
            match coming.peek() {
                Some((arrival, _)) => now = *arrival,
                None => return traces,
            }
            continue;
        };
        check(engine);
        now += seconds;
        for output in engine.end_step(now) {
            let trace = traces.get_mut(&output.key).expect("a token of a known request");
            assert_eq!(output.index, trace.tokens.len(), "tokens come in order");
            trace.tokens.push(now);
        }
    }
}

fn check(engine: &Engine) {
    let planned: usize = engine.sequences.values().map(|sequence| sequence.planned).sum();
    assert!(planned <= engine.limits.max_num_batched_tokens);
    assert!(engine.running() <= engine.limits.max_num_seqs);
    assert!(engine.waiting.iter().is_sorted_by_key(|key| engine.rank(*key)));
    assert!(engine.pool.used() <= engine.limits.num_blocks);
    for sequence in engine.sequences.values() {
        let room = sequence.blocks.count() * engine.limits.block_size;
        assert!(
            room >= sequence.computed + sequence.planned,
            "every computed token has its place"
        );
    }
}

/// Output tokens per second of `users` who each send a request as soon as their previous one is answered.
fn closed_loop(users: usize, limits: Limits) -> f64 {
    let mut engine = engine(limits, 0, 0.0);
    let mut number = 0;
    let mut next = || {
        number += 1;
        request(number, 200, 50)
    };
    (0..users).for_each(|_| _ = engine.add(0.0, next()));
    let (mut now, mut tokens) = (0.0, 0);
    while tokens < 40 * 50 * users {
        now += engine.begin_step(now).expect("always busy");
        let outputs = engine.end_step(now).to_vec();
        tokens += outputs.len();
        outputs
            .iter()
            .filter(|output| output.finished)
            .for_each(|_| _ = engine.add(now, next()));
    }
    tokens as f64 / now
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// No token before its step, KV never over capacity, and every request finishes, preempted or not.
    #[test]
    fn every_request_gets_its_tokens_in_order(
        seqs in 1usize..20,
        guesses in 0usize..4,
        batched in 20usize..300,
        block_size in 1usize..20,
        by_priority: bool,
        chunked: bool,
        requests in prop::collection::vec((0.0f64..0.5, 1usize..60, 1usize..40, -2i64..3), 1..30),
    ) {
        let num_blocks = 100usize.div_ceil(block_size) + 3;
        // Without chunked prefill a step must hold the longest prompt, as vLLM demands.
        let batched = if chunked { batched } else { batched.max((num_blocks + 1) * block_size) };
        let limits = Limits { chunked_prefill: chunked, by_priority, ..limits(seqs.min(batched), batched, block_size, num_blocks) };
        let mut requests: Vec<(f64, SequenceRequest)> = requests
            .into_iter()
            .enumerate()
            .map(|(number, (at, prompt, output, priority))| (at, SequenceRequest { priority, ..request(number as u64, prompt, output) }))
            .collect();
        requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        let speculation = (guesses > 0).then(|| Speculation { tokens: guesses, parameters: 0.0, acceptance: vec![0.6], falling: 0.0 });
        let cost = CostModel { speculation, ..cost() };
        let mut engine = Engine::new(limits, cost, noise(1, 0.05), VOCABULARY);
        let traces = run(&mut engine, &requests);
        for (trace, (_, request)) in traces.values().zip(&requests) {
            prop_assert_eq!(trace.tokens.len(), request.output_len);
            prop_assert!(trace.tokens[0] > trace.arrival);
            let in_order = trace.tokens.is_sorted_by(|a, b| a < b || (guesses > 0 && a == b));
            prop_assert!(in_order);
        }
        prop_assert_eq!(engine.pool.used(), 0);
        prop_assert_eq!(engine.stats().finished_by_length, requests.len() as u64);
        prop_assert_eq!(engine.stats().e2e.count(), requests.len() as u64);
    }

    #[test]
    fn an_aborted_request_leaves_no_block(steps in 0usize..20, prompt in 1usize..100) {
        let mut engine = engine(limits(4, 64, 16, 64), 0, 0.0);
        let keys: Vec<Key> = (0..6).map(|number| engine.add(0.0, request(number, prompt, 30))).collect();
        let mut now = 0.0;
        for _ in 0..steps {
            now += engine.begin_step(now).expect("busy");
            engine.end_step(now);
        }
        keys.into_iter().for_each(|key| engine.abort(key));
        prop_assert!(!engine.is_busy());
        prop_assert_eq!(engine.pool.used(), 0);
    }
}

#[test]
fn right_guesses_shorten_an_answer_and_the_counters_add_up() {
    let acceptance = vec![0.8];
    let end = |tokens: usize| {
        let speculation = (tokens > 0).then(|| Speculation {
            tokens,
            parameters: 0.25e9,
            acceptance: acceptance.clone(),
            falling: 0.0,
        });
        let cost = CostModel { speculation, ..cost() };
        let mut engine = Engine::new(limits(8, 2048, 16, 4000), cost, noise(0, 0.0), VOCABULARY);
        let traces = run(&mut engine, &[(0.0, request(1, 100, 400))]);
        let stats = engine.stats().clone();
        assert_eq!(stats.generation_tokens, 400);
        assert_eq!(
            stats.inter_token_latency.count() + 1 + stats.accepted.iter().sum::<u64>(),
            400,
            "a step yields one token and its right guesses"
        );
        assert!(stats.accepted.is_sorted_by(|first, second| first >= second));
        (*traces[&0].tokens.last().expect("finished"), stats)
    };
    let ((plain, _), (guessed, stats)) = (end(0), end(3));
    assert!(guessed < 0.5 * plain, "{plain} {guessed}");
    let rate = stats.accepted[0] as f64 / stats.drafts as f64;
    assert!((rate - 0.8).abs() < 0.12, "{rate}");
}

#[test]
fn preempted_requests_finish() {
    let mut engine = engine(limits(8, 256, 4, 30), 0, 0.0);
    let requests: Vec<(f64, SequenceRequest)> = (0..8).map(|number| (0.0, request(number, 20, 60))).collect();
    let traces = run(&mut engine, &requests);
    assert!(engine.stats().preemptions > 0);
    assert!(traces.values().all(|trace| trace.tokens.len() == 60));
}

#[test]
fn a_cached_prefix_shortens_prefill_until_it_is_reset() {
    let mut engine = engine(limits(8, 8192, 16, 4000), 0, 0.0);
    let ttft = |engine: &mut Engine| {
        let traces = run(engine, &[(0.0, request(1, 6000, 2))]);
        traces
            .values()
            .next()
            .map(|trace| trace.tokens[0])
            .expect("one request")
    };
    let cold = ttft(&mut engine);
    let warm = ttft(&mut engine);
    assert!(warm < cold / 4.0, "{cold} {warm}");
    assert_eq!(engine.stats().prefix_hits, 5984);
    assert!(engine.reset_prefix_cache());
    assert_eq!(ttft(&mut engine), cold);
}

#[test]
fn throughput_grows_with_users_until_the_batch_is_full() {
    let limits = || limits(32, 2048, 16, 20_000);
    let rates: Vec<f64> = [1, 2, 4, 8, 16, 32, 64]
        .map(|users| closed_loop(users, limits()))
        .to_vec();
    assert!(rates[..6].windows(2).all(|pair| pair[1] > pair[0] * 1.2), "{rates:?}");
    assert!(rates[6] < rates[5] * 1.05, "32 at a time is all it takes: {rates:?}");
}

#[test]
fn a_larger_batch_serves_more_and_each_more_slowly() {
    let slow = closed_loop(64, limits(8, 2048, 16, 20_000));
    let fast = closed_loop(64, limits(64, 2048, 16, 20_000));
    assert!(fast > 3.0 * slow, "{slow} {fast}");
}

/// Little's law: the mean number of requests present is the arrival rate times the mean time each spends.
#[test]
fn presence_is_rate_times_time() {
    let mut engine = engine(limits(16, 1024, 16, 4000), 3, 0.1);
    let requests: Vec<(f64, SequenceRequest)> = (0..400)
        .map(|n| (n as f64 * 0.02, request(n, 300, 20 + (n as usize * 7) % 60)))
        .collect();
    let traces = run(&mut engine, &requests);
    let end = traces
        .values()
        .filter_map(|trace| trace.tokens.last())
        .fold(0.0f64, |latest, at| latest.max(*at));
    let spent: f64 = traces
        .values()
        .map(|trace| trace.tokens.last().expect("finished") - trace.arrival)
        .sum();
    assert!(
        (engine.stats().e2e.sum - spent).abs() < 1e-6,
        "the histogram's sum is the time spent"
    );
    // The second way: counts the requests that are present at many instants.
    let instants = 20_000;
    let present = |at: f64| {
        traces
            .values()
            .filter(|t| t.arrival <= at && at < *t.tokens.last().expect("finished"))
            .count()
    };
    let counted: usize = (0..instants)
        .map(|i| present(end * f64::from(i) / f64::from(instants)))
        .sum();
    let mean = counted as f64 / f64::from(instants);
    let by_law = requests.len() as f64 / end * (spent / requests.len() as f64);
    assert!((mean / by_law - 1.0).abs() < 0.01, "{mean} {by_law}");
}

#[test]
fn the_first_token_waits_for_the_queue() {
    let first = |users: u64| {
        let mut engine = engine(limits(4, 2048, 16, 4000), 0, 0.0);
        let requests: Vec<(f64, SequenceRequest)> = (0..users).map(|number| (0.0, request(number, 500, 20))).collect();
        let traces = run(&mut engine, &requests);
        traces.values().map(|trace| trace.tokens[0]).sum::<f64>() / users as f64
    };
    let waits: Vec<f64> = [1, 4, 8, 16, 32].map(first).to_vec();
    assert!(waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
}

#[test]
fn one_seed_gives_one_history() {
    let requests: Vec<(f64, SequenceRequest)> = (0..50).map(|n| (n as f64 * 0.01, request(n, 100, 30))).collect();
    let history = |seed: u64| run(&mut engine(limits(8, 512, 16, 400), seed, 0.05), &requests);
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}
