//! Searches judged by the truth, and compared with those of other programs:
//!
//! - `cargo bench --bench search -- --virtual [WORLDS [SEARCHES [FIRST]]]`: SEARCHES (2) of each of WORLDS (800) drawn plans in
//!   virtual time, on any machine. The method was made with the worlds below 20 000; those from 20 000 on judge it.
//! - `cargo bench --bench search -- --twins [WORLDS [SEARCHES [FIRST]]]`: the same with the plans of `--real`, the first of them again
//!   after the last one; a minute for WORLDS = 12, SEARCHES = 8.
//! - `--stalled` with either: the generator stalls for 250 ms every 4 s.
//! - `cargo bench --bench search -- --real [PLANS [SEEDS [FIRST [REQUESTS]]]]`: SEEDS (8) sweeps of each of PLANS (12) fixed plans
//!   through the real generator, and REQUESTS (20 000) a load for the truth. What a busy machine disturbs is measured again; hours.
//! - `cargo bench --bench search [-- SERVERS [SET [NAME]]]`: several programs' searches on synthetic servers whose limit is known.
//!
//! The first three print the figures of docs/search.md, and fail where one is missed.

mod calm;
mod campaign;
#[allow(dead_code, reason = "two of them choose levels and are compared in tests alone")]
mod history;
mod pchip;
#[path = "../support/random.rs"]
mod random;
mod real;
mod servers;
mod trial;
mod truth;
mod worlds;

use history::{Outcome, ProbeFigures, adaptive_concurrency, double_and_bisect, generation1, generation1b, generation2};
use random::Random;
use servers::{LIMIT_MS, Server, p99};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use vsweep::search::{
    Criterion, Probe, RequestLatencies, Requests, Search, Seed, SeedBasis, Settings, Target, Vary, wilson,
};

const REQUESTS: Requests = Requests {
    per_value: 10.0,
    min: 200,
    max: 2000,
};

/// Cost and answer of one algorithm on one server.
struct Trial {
    values: usize,
    runs: usize,
    seconds: f64,
    error: f64,
    unsafe_answer: bool,
    /// True if the true limit lies above the interval of the search.
    above_interval: bool,
    clearly_unsafe: bool,
}

impl Trial {
    fn new(server: &Server, vary: Vary, values: &[f64], runs: usize, seconds: f64, answer: f64, high: f64) -> Trial {
        let truth = vary.floor(server.boundary);
        let distinct: BTreeSet<u64> = values.iter().map(|value| value.to_bits()).collect();
        Trial {
            values: distinct.len(),
            runs,
            seconds,
            error: (answer - truth).abs() / truth,
            unsafe_answer: answer > server.boundary,
            above_interval: server.boundary > high,
            clearly_unsafe: answer > server.boundary && server.clearly_fails(answer),
        }
    }
}

fn main() -> ExitCode {
    let is_asked = |name: &str| std::env::args().any(|argument| argument == name);
    let (is_drawn, is_twin) = (is_asked("--virtual"), is_asked("--twins"));
    if is_drawn || is_twin {
        return campaign::run(is_drawn, is_asked("--stalled"));
    }
    if is_asked("--real") {
        return real::run();
    }
    compare();
    ExitCode::SUCCESS
}

fn compare() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let servers = numbers.first().copied().unwrap_or(400);
    let only = std::env::args()
        .skip(1)
        .find(|word| word.parse::<u64>().is_err() && !word.starts_with('-'));
    let chosen = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let set = numbers.get(1).copied().unwrap_or(2);
    println!("{servers} servers of set {set}, boundary 12 to 500, p99 <= {LIMIT_MS} ms\n");
    println!(
        "algorithm                       probes     runs       load min      error %        unsafe %         <98 %"
    );
    let make = |index: u64| Server::new(set * 1_000_003 + index, 12.0, 500.0);
    let indices = || 0..servers;
    let seed = |server: &Server, index: u64| guess(server, set, index);
    let past = |name: &str, runs: u64, algorithm: Past| {
        if !chosen(name) {
            return 0.0;
        }
        show(
            name,
            &indices()
                .map(|i| historic(make(i), seed(&make(i), i), runs, algorithm))
                .collect::<Vec<_>>(),
        )
    };
    past("generation 1", 1, |_, measure| generation1(LIMIT_MS, measure));
    past("generation 1b", 1, |_, measure| generation1b(LIMIT_MS, measure));
    past("generation 2 (65536)", 1, |_, measure| {
        generation2(65536, LIMIT_MS, measure)
    });
    past("generation 2 (8192)", 1, |_, measure| {
        generation2(8192, LIMIT_MS, measure)
    });
    past("generation 1b, 3 runs", 3, |_, measure| generation1b(LIMIT_MS, measure));
    past("adaptive concurrency", 1, |_, measure| adaptive(measure));
    past("double and bisect, 1 run", 1, |seed, measure| {
        double_and_bisect(seed, 1.0, LIMIT_MS, measure)
    });
    let reference = past("double and bisect, 3 runs", 3, |seed, measure| {
        double_and_bisect(seed, 1.0, LIMIT_MS, measure)
    });
    past("from 1 to 5 % (aiperf)", 1, |_, measure| {
        double_and_bisect(1, 1.05, LIMIT_MS, measure)
    });
    past("seeded to 5 %, 1 run", 1, |seed, measure| {
        double_and_bisect(seed, 1.05, LIMIT_MS, measure)
    });
    let ours = |name: &str,
                vary: Vary,
                confirmations: usize,
                make: &dyn Fn(u64) -> Server,
                seed: &dyn Fn(&Server, u64) -> Seed| {
        if !chosen(name) {
            return 0.0;
        }
        show(
            name,
            &indices()
                .map(|i| searched(make(i), vary, confirmations, seed(&make(i), i)))
                .collect::<Vec<_>>(),
        )
    };
    let near = |server: &Server, index| Seed {
        value: guess(server, set, index) as f64,
        factor: 2.0,
        basis: SeedBasis::Nothing,
    };
    let seconds = ours("vsweep, seeded", Vary::MaxConcurrency, 1, &make, &near);
    ours("vsweep, seeded, 2 confirms", Vary::MaxConcurrency, 2, &make, &near);
    ours("vsweep, seeded, no confirm", Vary::MaxConcurrency, 0, &make, &near);
    ours("vsweep, from 8", Vary::MaxConcurrency, 1, &make, &|_, _| Seed::UNKNOWN);
    let slow = |index: u64| Server::new(set * 1_000_003 + index, 0.1, 5.0);
    let near_rate = |server: &Server, index| Seed {
        value: server.boundary * Random(set * 7 + index).log_between(0.5, 2.0),
        factor: 2.0,
        basis: SeedBasis::Nothing,
    };
    ours("vsweep, rates 0.1 to 5", Vary::RequestRate, 1, &slow, &near_rate);
    println!(
        "\nload time of double and bisect with three runs / vsweep seeded: {:.1}",
        reference / seconds
    );
}

type Past = fn(u64, &mut dyn FnMut(u64) -> ProbeFigures) -> Outcome;

/// A first guess within a factor of two of the truth.
fn guess(server: &Server, set: u64, index: u64) -> u64 {
    (server.boundary * Random(set * 77_777 + index).log_between(0.5, 2.0))
        .round()
        .max(1.0) as u64
}

fn adaptive(measure: &mut dyn FnMut(u64) -> ProbeFigures) -> Outcome {
    let mut probes = Vec::new();
    let mut noted = |value| {
        probes.push(value);
        measure(value)
    };
    let ([_, _, pass, _], _) = adaptive_concurrency(&[12, 16, 24, 32, 64, 128, 200], 8, 1024, LIMIT_MS, &mut noted);
    Outcome {
        probes,
        answer: pass.unwrap_or(0),
    }
}

fn historic(mut server: Server, seed: u64, runs: u64, algorithm: Past) -> Trial {
    let mut seconds = 0.0;
    let outcome = algorithm(seed, &mut |value| {
        let load = value as f64;
        let mut p99s: Vec<f64> = (0..runs)
            .map(|_| {
                seconds += server.seconds(load, REQUESTS.at(load));
                p99(&server.run(load, REQUESTS.at(load)))
            })
            .collect();
        p99s.sort_by(f64::total_cmp);
        ProbeFigures {
            p99_ms: p99s[p99s.len() / 2],
            reached: server.reached(),
        }
    });
    let values: Vec<f64> = outcome.probes.iter().map(|value| *value as f64).collect();
    let runs = values.len() * runs as usize;
    Trial::new(
        &server,
        Vary::MaxConcurrency,
        &values,
        runs,
        seconds,
        outcome.answer as f64,
        f64::INFINITY,
    )
}

fn searched(mut server: Server, vary: Vary, confirmations: usize, seed: Seed) -> Trial {
    let criterion = Criterion::metric("p99_ttft_ms", "<=500").expect("the criterion is valid");
    let target = Target {
        name: "chat".into(),
        criteria: vec![criterion],
    };
    // A rate of one request per second needs as many requests as ten requests in flight.
    let scale = if vary == Vary::RequestRate {
        100.0
    } else {
        REQUESTS.per_value
    };
    let requests = Requests {
        per_value: scale,
        ..REQUESTS
    };
    let mut search = Search::new(
        Settings {
            confirmations,
            requests,
            ..Settings::new(vary, vec![target.clone()])
        },
        seed,
    );
    let (mut seconds, mut values) = (0.0, Vec::new());
    loop {
        let question = match search.ask() {
            Err(question) => question,
            Ok(answers) => {
                let answer = answers[0].found.value().unwrap_or(0.0);
                return Trial::new(&server, vary, &values, values.len(), seconds, answer, answers[0].high);
            }
        };
        let latencies = server.run(question.value, question.requests);
        let requests: Vec<RequestLatencies> = latencies
            .iter()
            .map(|&ttft_ms| RequestLatencies {
                ttft_ms,
                tpot_ms: 0.0,
                e2el_ms: ttft_ms,
                ..RequestLatencies::default()
            })
            .collect();
        let in_flight = question.value as u64;
        let second = Duration::from_secs;
        // The first wave of requests ends in the first second. All later waves are alike, so they share one span.
        let span = |i: usize| match (i as u64) < in_flight {
            true => second(0)..second(1),
            false => second(1)..second(2),
        };
        let mut watch = search.watch(&question);
        let mut ends = requests.iter().enumerate();
        let stop = ends.find_map(|(i, request)| {
            let cut = watch.note_end(*request, span(i), in_flight.saturating_sub(1))?;
            Some((i + 1, cut))
        });
        let stop = stop.filter(|(done, _)| *done < requests.len());
        let done = stop.as_ref().map_or(requests.len(), |(done, _)| *done);
        let p99_ms = p99(&latencies[..done]);
        seconds += server.seconds(question.value, done as u64);
        values.push(question.value);
        let cut = stop.as_ref().map(|(_, cut)| cut);
        search.add(&Probe::read(
            question,
            std::slice::from_ref(&target),
            vary,
            |key| (key == "p99_ttft_ms").then_some(p99_ms),
            &requests[..done],
            cut,
        ));
    }
}

/// Prints one row and returns the total load time in seconds.
fn show(name: &str, trials: &[Trial]) -> f64 {
    let quantiles = |value: &dyn Fn(&Trial) -> f64| {
        let mut values: Vec<f64> = trials.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[values.len() * 9 / 10])
    };
    let share = |flag: &dyn Fn(&Trial) -> bool| {
        let hits = trials.iter().filter(|trial| flag(trial)).count() as u64;
        let (low, high) = wilson(hits as f64 / trials.len().max(1) as f64, trials.len() as f64, 1.96);
        (100.0 * hits as f64 / trials.len() as f64, 100.0 * low, 100.0 * high)
    };
    let (values, runs) = (quantiles(&|t| t.values as f64), quantiles(&|t| t.runs as f64));
    let (minutes, error) = (quantiles(&|t| t.seconds / 60.0), quantiles(&|t| 100.0 * t.error));
    let (risk, clear) = (share(&|t| t.unsafe_answer), share(&|t| t.clearly_unsafe));
    println!(
        "{name:<28} {:>5} /{:>3}  {:>3} /{:>3}  {:>6.1} /{:>6.1}  {:>5.1} /{:>5.1}  {:>5.1} ({:>4.1}-{:>4.1})  {:>4.1} ({:>3.1}-{:>3.1})",
        values.0,
        values.1,
        runs.0,
        runs.1,
        minutes.0,
        minutes.1,
        error.0,
        error.1,
        risk.0,
        risk.1,
        risk.2,
        clear.0,
        clear.1,
        clear.2
    );
    let above = trials.iter().filter(|trial| trial.above_interval).count();
    if above > 0 {
        println!("    {above} of {} boundaries above the stated interval", trials.len());
    }
    trials.iter().map(|trial| trial.seconds).sum()
}
