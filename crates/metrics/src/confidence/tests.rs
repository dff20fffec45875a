//! Tests on simulated processes: about 95 % of the intervals of a figure must contain its true value, or the mean of repeated runs.

use super::*;
use crate::rng::NumpyLegacy;
use crate::{Sample, Stats, Summary, seconds};

const RUNS: usize = 300;

/// Draws runs, each with its figure and error. Returns the share of their intervals that contain `truth`, or else the mean of the runs.
fn coverage(truth: Option<f64>, mut run: impl FnMut(&mut NumpyLegacy) -> (f64, f64)) -> f64 {
    let mut random = NumpyLegacy::new(7);
    let runs: Vec<(f64, f64)> = (0..RUNS).map(|_| run(&mut random)).collect();
    let truth = truth.unwrap_or_else(|| runs.iter().map(|(figure, _)| figure).sum::<f64>() / RUNS as f64);
    let held = runs.iter().filter(|(figure, error)| {
        let [low, high] = interval(*figure, *error);
        low <= truth && truth <= high
    });
    held.count() as f64 / RUNS as f64
}

/// Asserts that a share of intervals is near 0.95. Intervals of small samples may be somewhat too wide, and those of dependent samples
/// somewhat too narrow.
fn holds(what: &str, share: f64) {
    assert!((0.88..=0.995).contains(&share), "{what}: {share}");
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}

fn sample(due: f64, sent: f64, end: f64, tokens: u64) -> Sample {
    Sample {
        due: nanos(due),
        sent: nanos(sent),
        end: nanos(end),
        events: vec![nanos(end)].into(),
        output_tokens: Some(tokens),
        ..Sample::default()
    }
}

/// Returns `count` requests of a closed loop with `slots`. `latency` returns the latency of a request from its index and the time at which
/// it is sent.
fn closed(slots: usize, count: usize, mut latency: impl FnMut(usize, f64) -> f64) -> Vec<Sample> {
    let mut free = vec![0.0; slots];
    let mut all: Vec<(f64, f64)> = Vec::new();
    for place in 0..count {
        let slot = (0..slots)
            .min_by(|a, b| f64::total_cmp(&free[*a], &free[*b]))
            .expect("a slot");
        let sent = free[slot];
        free[slot] = sent + latency(place, sent);
        all.push((sent, free[slot]));
    }
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.into_iter().map(|(sent, end)| sample(0.0, sent, end, 100)).collect()
}

fn figures(samples: Vec<Sample>, flow: Flow) -> (Summary, Stats, Errors) {
    let duration = samples.last().expect("some").end;
    let samples = Samples::from(samples);
    let errors = of_run(&samples, flow, duration, &[Metric::E2el], &[50.0, 90.0, 99.0], None);
    let stats = Metric::E2el.stats(&samples, &[50.0, 90.0, 99.0]);
    (Summary::of(&samples, seconds(duration), None), stats, errors)
}

#[test]
fn requests_that_do_not_depend_on_each_other() {
    for count in [60, 200, 1000] {
        for (name, truth) in [
            ("mean_x_ms", 1.0),
            ("median_x_ms", 2f64.ln()),
            ("p90_x_ms", 10f64.ln()),
            ("p99_x_ms", 100f64.ln()),
        ] {
            let share = coverage(Some(truth), |random| {
                let values: Vec<f64> = (0..count).map(|_| random.exponential()).collect();
                let mut errors = Errors::new();
                let stats = Stats::of_seconds(values.clone(), &[50.0, 90.0, 99.0]);
                of_values("x", values, 1, &[50.0, 90.0, 99.0], &mut errors);
                let figure = match name {
                    "mean_x_ms" => stats.mean,
                    "median_x_ms" => stats.median,
                    "p90_x_ms" => stats.percentiles[1].1,
                    _ => stats.percentiles[2].1,
                };
                (figure / 1000.0, errors[name])
            });
            holds(&format!("{name} of {count}"), share);
        }
    }
}

#[test]
fn a_single_request_leaves_every_error_finite() {
    for flow in [
        Flow::Closed(1),
        Flow::Closed(8),
        Flow::Scheduled(0.0),
        Flow::Scheduled(1.0),
    ] {
        let (_, _, errors) = figures(vec![sample(0.0, 0.0, 1.0, 100)], flow);
        assert!(errors["request_throughput"].is_finite(), "{flow:?}: {errors:?}");
    }
}

#[test]
fn an_open_loop_of_poisson_arrivals() {
    for count in [60, 200, 1000] {
        let run = |random: &mut NumpyLegacy| {
            let mut at = 0.0;
            let mut samples: Vec<Sample> = (0..count)
                .map(|_| {
                    at += random.exponential() / 10.0;
                    sample(at, at, at + 0.3 + 0.2 * random.exponential(), 100)
                })
                .collect();
            samples.sort_by_key(|sample| sample.end);
            figures(samples, Flow::Scheduled(1.0 / f64::from(count).sqrt()))
        };
        holds(
            &format!("poisson throughput of {count}"),
            coverage(None, |random| {
                let (summary, _, errors) = run(random);
                (summary.request_throughput, errors["request_throughput"])
            }),
        );
        holds(
            &format!("poisson p90 of {count}"),
            coverage(Some(300.0 + 200.0 * 10f64.ln()), |random| {
                let (_, stats, errors) = run(random);
                (stats.percentiles[1].1, errors["p90_e2el_ms"])
            }),
        );
    }
}

#[test]
fn a_closed_loop_in_waves() {
    for (waves, commons) in [(5, [0.0, 0.01]), (20, [0.0, 0.03]), (60, [0.03, 0.1])] {
        for common in commons {
            let run = |random: &mut NumpyLegacy| {
                let waves: Vec<f64> = (0..=3 * waves).map(|_| 1.0 + common * random.normal()).collect();
                figures(
                    closed(16, 16 * (waves.len() - 1) / 3, |_, sent| {
                        waves[sent as usize] * (1.0 + 0.05 * random.normal())
                    }),
                    Flow::Closed(16),
                )
            };
            holds(
                &format!("{waves} waves with {common}: throughput"),
                coverage(None, |random| {
                    let (summary, _, errors) = run(random);
                    (summary.output_throughput, errors["output_throughput"])
                }),
            );
            holds(
                &format!("{waves} waves with {common}: mean"),
                coverage(None, |random| {
                    let (_, stats, errors) = run(random);
                    (stats.mean, errors["mean_e2el_ms"])
                }),
            );
            holds(
                &format!("{waves} waves with {common}: p90"),
                coverage(None, |random| {
                    let (_, stats, errors) = run(random);
                    (stats.percentiles[1].1, errors["p90_e2el_ms"])
                }),
            );
        }
    }
}

#[test]
fn a_slow_drift() {
    for (count, memory) in [(200, 0.8), (400, 0.9), (1000, 0.95)] {
        let values = |random: &mut NumpyLegacy| -> Vec<f64> {
            let mut state = random.normal();
            let mut step = || {
                state = memory * state + (1.0f64 - memory * memory).sqrt() * random.normal();
                (0.2 * state + 0.1 * random.normal()).exp()
            };
            (0..count).map(|_| step()).collect()
        };
        for name in ["mean_x_ms", "median_x_ms", "p90_x_ms"] {
            let share = coverage(None, |random| {
                let values = values(random);
                let mut errors = Errors::new();
                let stats = Stats::of_seconds(values.clone(), &[90.0]);
                of_values("x", values, 1, &[90.0], &mut errors);
                let figure = match name {
                    "mean_x_ms" => stats.mean,
                    "median_x_ms" => stats.median,
                    _ => stats.percentiles[0].1,
                };
                (figure, errors[name])
            });
            holds(&format!("drift {count} {memory} {name}"), share);
        }
    }
}

#[test]
fn two_waves_have_a_plausible_interval() {
    let mut random = NumpyLegacy::new(3);
    let samples = closed(32, 64, |_, _| 1.0 + 0.05 * random.normal());
    let (summary, _, errors) = figures(samples, Flow::Closed(32));
    let error = errors["request_throughput"];
    assert!((0.005..0.06).contains(&error), "{error}");
    let [low, high] = interval(summary.request_throughput, error);
    assert!(low > 26.0 && high < 34.0, "{low} to {high}");
}

#[test]
fn a_rare_percentile_of_few_requests_is_wide_and_finite() {
    for values in [vec![1.0; 6], vec![1.0, 1.1, 1.2, 1.15, 1.05, 1.3], vec![1.0]] {
        let mut errors = Errors::new();
        of_values("x", values, 1, &[99.0, 100.0, 0.0], &mut errors);
        assert!(errors["p99_x_ms"] >= 0.3 && errors["p99_x_ms"] < 1.0, "{errors:?}");
        assert!(
            errors.values().all(|error| *error > 0.0 && error.is_finite()),
            "{errors:?}"
        );
    }
}

#[test]
fn what_is_not_above_zero_has_no_error() {
    let mut errors = Errors::new();
    of_values("x", vec![0.0; 9], 1, &[99.0], &mut errors);
    of_values("y", vec![], 1, &[99.0], &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(
        of_run(
            &Samples::default(),
            Flow::Scheduled(0.0),
            0,
            &Metric::ALL,
            &[50.0],
            None
        )
        .is_empty()
    );
}

#[test]
fn a_schedule_with_requests_to_spare() {
    for (rate, servers) in [(10.0, 40), (10.0, 4)] {
        let run = |random: &mut NumpyLegacy| {
            let count = 200;
            let mut due: Vec<f64> = (0..count)
                .scan(0.0, |at, _| {
                    *at += random.exponential();
                    Some(*at)
                })
                .collect();
            let stretch = count as f64 / rate / due[count - 1];
            due.iter_mut().for_each(|due| *due *= stretch);
            let mut free = vec![0.0f64; servers];
            let mut samples: Vec<Sample> = due
                .iter()
                .map(|due| {
                    let slot = (0..servers)
                        .min_by(|a, b| f64::total_cmp(&free[*a], &free[*b]))
                        .expect("a slot");
                    let begin = due.max(free[slot]);
                    free[slot] = begin + 0.5 + 0.1 * random.exponential();
                    sample(*due, *due, free[slot], 100)
                })
                .collect();
            samples.sort_by_key(|sample| sample.end);
            figures(samples, Flow::Scheduled(0.0))
        };
        let share = coverage(None, |random| {
            let (summary, _, errors) = run(random);
            (summary.request_throughput, errors["request_throughput"])
        });
        let mut random = NumpyLegacy::new(1);
        let (summary, _, errors) = run(&mut random);
        holds(
            &format!(
                "schedule {rate} {servers}: {} {}",
                summary.request_throughput, errors["request_throughput"]
            ),
            share,
        );
    }
}

#[test]
fn a_ramp_whose_trend_is_known() {
    for count in [60, 200] {
        let rates: Vec<f64> = (0..count)
            .map(|place| 1.0 + 8.0 * f64::from(place) / f64::from(count - 1))
            .collect();
        let gaps = || rates.iter().map(|rate| 1.0 / *rate);
        let of_span = gaps().map(|gap| gap * gap).sum::<f64>().sqrt() / gaps().sum::<f64>();
        let share = coverage(None, |random| {
            let mut at = 0.0;
            let mut samples: Vec<Sample> = gaps()
                .map(|gap| {
                    at += gap * random.exponential();
                    sample(at, at, at + 0.3 + 0.2 * random.exponential(), 100)
                })
                .collect();
            samples.sort_by_key(|sample| sample.end);
            let (summary, _, errors) = figures(samples, Flow::Scheduled(of_span));
            let error = errors["request_throughput"];
            assert!(error < 1.3 * of_span, "{error} of {of_span}");
            (summary.request_throughput, error)
        });
        holds(&format!("ramp of {count}"), share);
    }
}

#[test]
fn users_that_wait_for_few_places_know_their_throughput() {
    // The server has fewer places than users. Each place takes about a second for a request.
    let run = |random: &mut NumpyLegacy| {
        let (places, users, count) = (8, 38, 150);
        let (mut free, mut ready) = (vec![0.0f64; places], vec![0.0f64; users]);
        let first = |times: &[f64]| {
            (0..times.len())
                .min_by(|a, b| f64::total_cmp(&times[*a], &times[*b]))
                .expect("some")
        };
        let mut samples: Vec<Sample> = (0..count)
            .map(|_| {
                let (place, user) = (first(&free), first(&ready));
                let sent = ready[user];
                let end = sent.max(free[place]) + 1.0 + 0.05 * random.normal();
                (free[place], ready[user]) = (end, end);
                sample(0.0, sent, end, 100)
            })
            .collect();
        samples.sort_by_key(|sample| sample.end);
        figures(samples, Flow::Closed(users))
    };
    let (_, _, errors) = run(&mut NumpyLegacy::new(1));
    let error = errors["output_throughput"];
    assert!((0.001..0.05).contains(&error), "{error}");
    assert!(errors["mean_e2el_ms"] < 0.1, "{errors:?}");
    let share = coverage(None, |random| {
        let (summary, _, errors) = run(random);
        (summary.output_throughput, errors["output_throughput"])
    });
    assert!(share >= 0.9, "{share}");
}
