//! Checks that the requested load was reached, for long enough, and with enough requests for the figures; and that the load generator did
//! not stall and was not the limit.

use super::RunFigures;
use crate::checks::{Shortfall, percentile, shortfall, values_needed};
use crate::metrics::Histogram;
use crate::search::KEEPS_UP;
use crate::stats::{figure_of, split_class};
use crate::units::{show_count, show_many};
use crate::validity::{Code, Doubt};

/// Least share of the slots that must be in use at once. With fewer requests in flight at the peak, the run measured another load.
const ENOUGH: f64 = 0.9;
/// Latencies with one value per request.
const ONE_PER_REQUEST: [&str; 3] = ["ttft", "tpot", "e2el"];

/// Returns true if this many requests in flight at the peak are enough for a closed loop with this many slots.
pub fn fills(peak: f64, slots: f64) -> bool {
    peak >= ENOUGH * slots
}

/// Returns a doubt if a closed loop never had enough requests in flight. `vllm bench serve` counts them by whole seconds. Its count is
/// never too low, so it can be used too.
pub(super) fn not_reached(seen: RunFigures<'_>) -> Option<Doubt> {
    let slots = seen.slots().filter(|_| seen.is_whole)?;
    let peak = seen
        .number("peak_concurrent_requests")
        .or_else(|| seen.number("max_concurrent_requests"))?;
    (!fills(peak, slots)).then(|| {
        let sent = seen.number("num_prompts").filter(|sent| (1.0..slots).contains(sent));
        let why = sent.map_or(String::new(), |sent| format!(", because only {sent} were sent"));
        Doubt::new(
            Code::LoadNotReached,
            format!("at most {peak} of {slots} requests were in flight{why}"),
        )
    })
}

/// Returns a doubt if requests were not sent at their rate, because too few may be in flight at once. Where they all wait for a slot, each
/// waits half of the time, on average, by which the run becomes longer.
pub(super) fn held_back(seen: RunFigures<'_>) -> Option<Doubt> {
    let rate = seen.number("request_rate").filter(|_| seen.is_whole)?;
    let (slots, peak) = (
        seen.number("max_concurrency")?,
        seen.number("peak_concurrent_requests")?,
    );
    let completed = seen.number("completed")?;
    let served = completed / seen.duration_s()?;
    let waited_s = (seen.number("mean_ttft_from_due_ms")? - seen.number("mean_ttft_ms")?) / 1000.0;
    let longer_s = completed / rate * (KEEPS_UP.recip() - 1.0);
    (served < KEEPS_UP * rate && fills(peak, slots) && waited_s > longer_s / 2.0).then(|| {
        let detail = format!("{served:.1} of {rate} requests per second were sent, with at most {slots} in flight");
        Doubt::new(Code::LoadNotReached, detail)
    })
}

/// Returns a doubt if the run ended before a steady state.
pub(super) fn too_short(seen: RunFigures<'_>) -> Option<Doubt> {
    let duration_s = seen.duration_s().filter(|_| seen.is_whole)?;
    let (completed, slots) = (seen.number("completed"), seen.slots());
    let detail = match shortfall(duration_s, completed, slots)? {
        Shortfall::Time => format!("the load lasted only {:.0} ms", duration_s * 1000.0),
        Shortfall::Requests => format!(
            "{} requests are too few for a steady state with {} in flight",
            completed.unwrap_or(0.0),
            slots.unwrap_or(0.0)
        ),
    };
    Some(Doubt::new(Code::RunTooShort, detail))
}

/// Returns a doubt about percentiles for which there are too few requests, or gaps between tokens.
pub(super) fn too_small(seen: RunFigures<'_>) -> Option<Doubt> {
    if !seen.is_whole {
        return None;
    }
    let count = |class: Option<&str>, latency: &str| {
        let number = |name: &str| seen.number(&figure_of(class, name));
        let completed = number("completed")?;
        match latency {
            // Another program's result has no histograms. One token per event is assumed there.
            "itl" => {
                let by_tokens = || number("total_output_tokens").map_or(0.0, |tokens| tokens - completed);
                Some(gaps(seen, class).unwrap_or_else(by_tokens))
            }
            _ => ONE_PER_REQUEST.contains(&latency).then_some(completed),
        }
    };
    let lacking = seen.figures.keys().filter_map(|key| {
        let (class, figure) = split_class(key);
        let (percent, latency) = percentile(figure)?;
        let (count, needed) = (count(class, latency)?, values_needed(percent));
        (count < needed).then_some((percent, latency, count, needed, key))
    });
    let lacking: Vec<_> = lacking.collect();
    let (percent, latency, count, needed, key) = lacking.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let class = split_class(key).0.map_or(String::new(), |class| format!(" of {class}"));
    let counted = match *latency {
        "itl" => format!("{} between tokens", show_many(*count as u64, "gap")),
        _ => show_many(*count as u64, "request"),
    };
    let needed = show_count(*needed as u64);
    let detail = format!("p{percent} of {counted}{class}; at least {needed} are needed");
    let figures = lacking.iter().map(|(.., key)| String::clone(key)).collect();
    Some(Doubt::new(Code::SampleTooSmall, detail).about(figures))
}

/// Number of gaps between tokens, by the distribution in the result.
fn gaps(seen: RunFigures<'_>, class: Option<&str>) -> Option<f64> {
    let counts = seen.figures.get("histograms")?.get(figure_of(class, "itl"))?;
    let counts: Histogram = serde_json::from_value(counts.clone()).ok()?;
    Some(counts.count() as f64)
}

/// Share of the run, and milliseconds, above both of which a standstill of the generator changes the load. A shorter one does not count,
/// because the scheduler of a busy machine can cause it.
const STOPPED: (f64, f64) = (0.2, 500.0);
/// Share of the run, and milliseconds, above both of which a standstill affects the result.
const STALLED: (f64, f64) = (0.02, 50.0);
/// Share of failed requests above which the failures, which may come at once, keep the generator busy. A standstill fails only requests in
/// flight.
const MOSTLY_FAILED: f64 = 0.9;
/// Time above which a single standstill affects some request, however long the run, in milliseconds.
const LONG_MS: f64 = 1000.0;
/// Share of the median TTFT above which a standstill makes the times of events that the kernel did not stamp too inexact.
const OF_TTFT: f64 = 0.1;
/// Share of its core above which the generator is saturated.
const BUSY: f64 = 0.9;
/// Share of the requests' time above which waiting for connections affects the result.
const CONNECTING: f64 = 0.02;
/// Share of the median TTFT, and milliseconds, above both of which the lag of an open loop affects the result.
const LATE: (f64, f64) = (0.05, 10.0);

/// Returns a doubt if the generator was stopped, or was not scheduled. During such a time no slot is filled, and no request is sent when
/// due. Unless the kernel stamps the arrivals, latencies are wrong too, so a shorter standstill also counts.
pub(super) fn stood_still(seen: RunFigures<'_>) -> Option<Doubt> {
    let longest_ms = seen.number("generator_longest_turn_ms")?;
    let away_ms = seen.number("generator_away_ms").unwrap_or(0.0).max(longest_ms);
    let run_ms = 1000.0 * seen.duration_s()?;
    let [completed, failed] = ["completed", "failed"].map(|key| seen.number(key).unwrap_or(0.0));
    if failed > MOSTLY_FAILED * (completed + failed) {
        return None;
    }
    let doubt = |code| {
        let detail = format!(
            "the generator stalled for {away_ms:.0} of {run_ms:.0} ms: it was stopped, or the machine was too busy"
        );
        Some(Doubt::new(code, detail))
    };
    let is_above = |(share, least_ms): (f64, f64)| away_ms > (share * run_ms).max(least_ms);
    if is_above(STOPPED) {
        return doubt(Code::GeneratorStopped);
    }
    if is_above(STALLED) || longest_ms > LONG_MS {
        return doubt(Code::GeneratorStalled);
    }
    let is_stamped = seen.number("generator_kernel_stamped_share").unwrap_or(0.0) > 0.99;
    let ttft_ms = seen.number("median_ttft_ms").filter(|_| !is_stamped)?;
    let shows = longest_ms > (OF_TTFT * ttft_ms).max(STALLED.1);
    shows.then(|| {
        let detail = format!("the generator stalled for {longest_ms:.0} ms, against a median TTFT of {ttft_ms:.0} ms");
        Doubt::new(Code::GeneratorStalled, detail)
    })
}

/// Returns a doubt if the generator used nearly all of its core, or sent requests noticeably late. Slots that wait for connections are not
/// in any latency, but lower the throughput.
pub(super) fn saturated(seen: RunFigures<'_>) -> Option<Doubt> {
    let doubt = |detail: String| Some(Doubt::new(Code::GeneratorSaturated, detail));
    let share = seen.number("generator_cpu_share")?;
    if share > BUSY {
        return doubt(format!("the generator used {:.0} % of its core", share * 100.0));
    }
    let connecting = seen.number("generator_connecting_share").unwrap_or(0.0);
    if connecting > CONNECTING {
        return doubt(format!(
            "requests waited {:.0} % of their time for new connections: the server, or a proxy before it, closes them",
            connecting * 100.0
        ));
    }
    let lag_ms = seen.number("generator_lag_p99_ms").filter(|_| seen.is_open_loop())?;
    let ttft_ms = seen.number("median_ttft_ms").unwrap_or(0.0);
    let (of_ttft, least_ms) = LATE;
    if lag_ms > (of_ttft * ttft_ms).max(least_ms) {
        return doubt(format!(
            "requests left up to {lag_ms:.1} ms late (p99), against a median TTFT of {ttft_ms:.1} ms"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{RunFigures, doubts, judge};
    use serde_json::json;

    #[test]
    fn fewer_requests_than_slots_are_another_load() {
        let doubts = judge(
            json!({"max_concurrency": 64, "request_rate": "inf", "num_prompts": 4, "peak_concurrent_requests": 4}),
        );
        assert_eq!(
            doubts,
            ["load_not_reached: at most 4 of 64 requests were in flight, because only 4 were sent"]
        );
        let counted_by_second = json!({"max_concurrency": 64, "request_rate": "inf", "max_concurrent_requests": 5});
        assert_eq!(judge(counted_by_second).len(), 1);
        let nearly = json!({"max_concurrency": 64, "request_rate": "inf", "peak_concurrent_requests": 60});
        assert!(judge(nearly).is_empty());
        let bounded = json!({"max_concurrency": 64, "request_rate": 2.0, "peak_concurrent_requests": 4});
        assert!(judge(bounded).is_empty(), "beside a rate it is a bound");
        let growing = json!({"max_concurrency": 64, "request_rate": "inf", "ramp_up_strategy": "linear", "peak_concurrent_requests": 4});
        assert!(judge(growing).is_empty(), "also beside a rate that grows");
    }

    #[test]
    fn a_rate_that_a_limit_holds_back_is_another_load() {
        let run = |rate: f64, wait_ms: f64| {
            judge(json!({
                "max_concurrency": 8, "peak_concurrent_requests": 8, "request_rate": rate, "completed": 600, "duration": 10.0,
                "mean_ttft_ms": 20.0, "mean_ttft_from_due_ms": 20.0 + wait_ms,
            }))
        };
        assert_eq!(
            run(2000.0, 4800.0),
            ["load_not_reached: 60.0 of 2000 requests per second were sent, with at most 8 in flight"]
        );
        assert!(run(70.0, 700.0).is_empty());
        assert!(run(100.0, 0.0).is_empty(), "only the last answers took long");
    }

    #[test]
    fn a_run_of_milliseconds_or_of_one_wave_is_short() {
        assert_eq!(
            judge(json!({"duration": 0.035})),
            ["run_too_short: the load lasted only 35 ms"]
        );
        let loops = |completed: u64, slots: u64| {
            judge(json!({"duration": 9.0, "completed": completed, "max_concurrency": slots, "request_rate": "inf"}))
        };
        assert_eq!(loops(70, 64).len(), 1);
        assert!(loops(128, 64).is_empty());
        assert!(loops(1, 1).is_empty(), "one after the other is all there is");
    }

    #[test]
    fn a_percentile_needs_requests_beyond_it() {
        let of = |completed: u64| judge(json!({"completed": completed, "p90_ttft_ms": 1.0, "p99_ttft_ms": 2.0}));
        assert_eq!(of(4), ["sample_too_small: p99 of 4 requests; at least 100 are needed"]);
        assert_eq!(of(1), ["sample_too_small: p99 of 1 request; at least 100 are needed"]);
        assert_eq!(of(99).len(), 1);
        assert!(of(100).is_empty());
        let gaps = json!({"completed": 4, "total_output_tokens": 204, "p99_itl_ms": 1.0, "p100_e2el_ms": 2.0});
        assert!(
            judge(gaps).is_empty(),
            "200 gaps have a p99, and every sample a maximum"
        );
        let few = json!({"completed": 4, "total_output_tokens": 40, "p99_itl_ms": 1.0});
        assert_eq!(
            judge(few),
            ["sample_too_small: p99 of 36 gaps between tokens; at least 100 are needed"]
        );
        let packed = json!({
            "completed": 4, "total_output_tokens": 204, "p99_itl_ms": 1.0,
            "histograms": {"itl": {"scale": 5, "zeros": 10, "buckets": {"7": 40}}},
        });
        assert_eq!(
            judge(packed),
            ["sample_too_small: p99 of 50 gaps between tokens; at least 100 are needed"],
            "several tokens per event"
        );
    }

    #[test]
    fn a_cut_run_is_not_judged_by_its_size() {
        let figures = json!({"duration": 0.1, "completed": 4, "p99_ttft_ms": 2.0});
        let figures = figures.as_object().expect("an object");
        assert!(
            doubts(RunFigures {
                commonest_error: None,
                figures,
                is_whole: false
            })
            .is_empty()
        );
    }
}

#[cfg(test)]
mod generator_tests {
    use super::super::judge;
    use serde_json::json;

    fn away(away_ms: f64, longest_ms: f64, duration: f64) -> Vec<String> {
        let doubts = judge(json!({
            "duration": duration, "generator_away_ms": away_ms, "generator_longest_turn_ms": longest_ms,
            "generator_kernel_stamped_share": 1.0, "median_ttft_ms": 30.0,
        }));
        doubts
            .into_iter()
            .filter_map(|doubt| Some(doubt.split_once(':')?.0.to_owned()))
            .collect()
    }

    #[test]
    fn standing_still_counts_by_its_share_of_the_run() {
        assert_eq!(away(1980.0, 1980.0, 5.1), ["generator_stopped"]);
        assert_eq!(away(2000.0, 2000.0, 60.0), ["generator_stalled"]);
        assert_eq!(away(300.0, 60.0, 5.0), ["generator_stalled"], "many short ones");
        assert_eq!(away(200.0, 200.0, 0.6), ["generator_stalled"], "a busy machine");
        assert_eq!(away(60.0, 60.0, 60.0), [""; 0]);
        assert_eq!(away(45.0, 45.0, 0.6), [""; 0], "a scheduler's slice");
    }

    #[test]
    fn a_flood_of_failures_is_not_a_standstill() {
        let flood = json!({
            "duration": 5.0, "generator_away_ms": 2000.0, "generator_longest_turn_ms": 20.0, "failed": 9500, "completed": 40,
        });
        assert_eq!(judge(flood), [""; 0]);
    }

    #[test]
    fn without_stamps_latencies_are_late_too() {
        let doubts = judge(json!({
            "duration": 60.0, "generator_longest_turn_ms": 80.0, "generator_kernel_stamped_share": 0.0,
            "median_ttft_ms": 30.0,
        }));
        assert!(
            doubts[0].starts_with("generator_stalled: the generator stalled for 80 ms"),
            "{doubts:?}"
        );
    }

    #[test]
    fn a_busy_generator_is_the_limit() {
        let doubts = judge(json!({"generator_cpu_share": 0.95}));
        assert_eq!(doubts, ["generator_saturated: the generator used 95 % of its core"]);
        let late = json!({
            "generator_cpu_share": 0.1, "generator_lag_p99_ms": 12.0, "median_ttft_ms": 100.0, "request_rate": 5.0,
        });
        assert_eq!(judge(late.clone()).len(), 1);
        let mut closed = late.clone();
        closed["request_rate"] = json!("inf");
        assert!(judge(closed.clone()).is_empty());
        for mut load in [late, closed] {
            load["generator_connecting_share"] = json!(0.22);
            assert_eq!(
                judge(load),
                [
                    "generator_saturated: requests waited 22 % of their time for new connections: the server, or a proxy before it, \
                     closes them"
                ]
            );
        }
    }
}
