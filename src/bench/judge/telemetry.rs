//! Judges the telemetry of a run, which shows if the server was alone on the machine, steady, and not slowed down.

use super::RunFigures;
use crate::checks::{changing, unsteady};
use crate::plan::Params;
use crate::telemetry::series::Course;
use crate::units::show_many;
use crate::validity::{Code, Doubt};

/// Preemptions per completed request above which the repeated work affects the figures.
const PREEMPTED: f64 = 0.01;
/// Fewest readings whose mean describes a load.
const FEWEST: f64 = 10.0;
/// Limit of the readings in a closed loop: the number of slots times the first number, plus the second. It exceeds the slots, because
/// requests that were given up may remain at the server for a moment.
const ABOVE_SLOTS: (f64, f64) = (1.05, 0.5);
/// Factor by which the mean of the readings may exceed the requests in flight by Little's law.
const ABOVE_LAW: f64 = 1.25;
/// Number of relative standard errors of that mean that are added to [`ABOVE_LAW`]. The standard deviation of the readings is taken to be
/// as large as their mean, which it did not exceed in any load that was tried.
const SIGMAS: f64 = 4.0;
/// Share of readings with a GPU that is slowed down, or used by another process, above which the figures are affected.
const NOTICEABLE: f64 = 0.1;

/// Returns all doubts about a whole run that follow from its telemetry.
pub fn telemetry(figures: &Params, course: &Course) -> Vec<Doubt> {
    let seen = RunFigures::whole(figures);
    let of_gpus = |code, share: Option<f64>, what: &str| {
        let share = share.filter(|share| *share > NOTICEABLE)?;
        let detail = format!("{what} in {:.0} % of the readings", share * 100.0);
        Some(Doubt::new(code, detail))
    };
    let slowed = of_gpus(Code::GpuSlowedDown, course.slowed_share, "a GPU was slowed down");
    let shared = of_gpus(
        Code::GpuNotAlone,
        course.shared_share,
        "a process that is not the server's was on a GPU",
    );
    let drifting = changing(&course.acceptance).map(|found| {
        let percent = 100.0 * found;
        let detail = format!("the share of accepted draft tokens changed by {percent:+.0} % during the run");
        Doubt::new(Code::AcceptanceDrifts, detail)
    });
    let doubts = [
        preempted(seen),
        not_alone(seen),
        changed(seen, course),
        slowed,
        shared,
        drifting,
    ];
    doubts.into_iter().flatten().collect()
}

/// Returns a doubt if tokens per second had a trend under a steady load. In an open loop, in which arrivals determine this rate, the number
/// of requests at the server and the speed of each request are checked too.
fn changed(seen: RunFigures<'_>, course: &Course) -> Option<Doubt> {
    if seen.is_changing() {
        return None;
    }
    let series = [
        ("tokens per second", &course.rates),
        ("requests at the server", &course.in_flight),
        ("tokens per second of each request", &course.speeds),
    ];
    let checked = if seen.is_open_loop() { series.len() } else { 1 };
    let found = series[..checked]
        .iter()
        .find_map(|(what, values)| Some((what, unsteady(values)?)));
    let (what, found) = found?;
    let percent = 100.0 * found;
    let detail = format!("{what} changed by {percent:+.0} % from the end of the ramp to the end of the run");
    Some(Doubt::new(Code::NoSteadyState, detail))
}

fn preempted(seen: RunFigures<'_>) -> Option<Doubt> {
    let preemptions = seen.number("preemptions")?;
    let completed = seen.number("completed").unwrap_or(0.0);
    (preemptions > PREEMPTED * completed).then(|| {
        let detail = format!(
            "{} in {}: the KV cache did not hold them all",
            show_many(preemptions as u64, "preemption"),
            show_many(completed as u64, "request")
        );
        Doubt::new(Code::RequestsPreempted, detail)
    })
}

/// Returns a doubt if there were more requests at the server than the benchmark had in flight, by its slots or by Little's law. The law
/// holds for any load over a whole run, at the beginning and end of which the server is idle.
fn not_alone(seen: RunFigures<'_>) -> Option<Doubt> {
    let readings = seen
        .number("telemetry_samples")
        .filter(|readings| *readings >= FEWEST)?;
    let in_flight = seen.number("running_mean")? + seen.number("waiting_mean").unwrap_or(0.0);
    // A request without output, such as a batch of embeddings, may be several requests to the server, so the counts cannot be compared.
    seen.number("total_output_tokens").filter(|tokens| *tokens > 0.0)?;
    let (expected, limit) = match seen.slots() {
        Some(slots) => (slots, slots * ABOVE_SLOTS.0 + ABOVE_SLOTS.1),
        None => {
            let expected = by_littles_law(seen)?;
            (expected, expected * (ABOVE_LAW + SIGMAS / readings.sqrt()) + 1.0)
        }
    };
    (in_flight > limit).then(|| {
        let detail = format!(
            "{in_flight:.1} requests were at the server on average, but the benchmark had only {expected:.1} in flight"
        );
        Doubt::new(Code::ServerNotAlone, detail)
    })
}

/// Average number of requests in flight: completed requests per second, times their mean latency. `None` if some failed, or if a figure is
/// missing.
fn by_littles_law(seen: RunFigures<'_>) -> Option<f64> {
    let completed = seen.number("completed")?;
    seen.number("failed").filter(|failed| *failed == 0.0)?;
    let each_ms = seen.number("mean_e2el_ms").or_else(|| {
        let tokens = seen.number("total_output_tokens")? / completed;
        Some(seen.number("mean_ttft_ms")? + seen.number("mean_tpot_ms")? * (tokens - 1.0).max(0.0))
    })?;
    Some(completed * each_ms / 1000.0 / seen.duration_s()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn codes(figures: Value) -> Vec<Code> {
        let figures = figures.as_object().expect("an object");
        let doubts = telemetry(figures, &Course::default());
        doubts.into_iter().map(|doubt| doubt.code).collect()
    }

    #[test]
    fn preemptions_of_a_hundredth_of_the_requests_show() {
        assert_eq!(
            codes(json!({"completed": 100, "preemptions": 3})),
            [Code::RequestsPreempted]
        );
        assert_eq!(codes(json!({"completed": 1000, "preemptions": 3})), []);
        assert_eq!(codes(json!({"completed": 1000, "preemptions": null})), []);
        let figures = json!({"completed": 20, "preemptions": 1});
        let doubts = telemetry(figures.as_object().expect("an object"), &Course::default());
        assert_eq!(
            doubts[0].detail,
            "1 preemption in 20 requests: the KV cache did not hold them all"
        );
    }

    #[test]
    fn others_at_the_server_are_seen_by_slots_and_by_littles_law() {
        let closed = |running: f64| {
            codes(
                json!({"max_concurrency": 16, "telemetry_samples": 30, "running_mean": running, "waiting_mean": 1.0,
                "total_output_tokens": 9000}),
            )
        };
        assert_eq!((closed(15.0), closed(19.0)), (vec![], vec![Code::ServerNotAlone]));
        let open = |running: f64, samples: u32| {
            codes(
                json!({"request_rate": 2.0, "telemetry_samples": samples, "running_mean": running, "completed": 100, "failed": 0,
                "duration": 50.0, "mean_ttft_ms": 100.0, "mean_tpot_ms": 20.0, "total_output_tokens": 10_000}),
            )
        };
        // Two requests per second that take 2.08 s each are about 4.2 in flight.
        assert_eq!((open(4.2, 50), open(12.0, 50)), (vec![], vec![Code::ServerNotAlone]));
        assert_eq!(open(12.0, 5), [], "too few readings");
    }

    #[test]
    fn a_gpu_that_is_slowed_down_and_a_run_that_slows_down_show() {
        let of = |course: Course| {
            let doubts = telemetry(&Params::new(), &course);
            doubts.into_iter().map(|doubt| doubt.code).collect::<Vec<_>>()
        };
        let slowed = |share| Course {
            slowed_share: Some(share),
            ..Course::default()
        };
        assert_eq!((of(slowed(0.05)), of(slowed(0.5))), (vec![], vec![Code::GpuSlowedDown]));
        let rates = |slope: f64| Course {
            rates: (0..60)
                .map(|second| 1000.0 + f64::from(second * 7 % 11) - slope * f64::from(second))
                .collect(),
            ..Course::default()
        };
        assert_eq!((of(rates(0.0)), of(rates(5.0))), (vec![], vec![Code::NoSteadyState]));
        for changing in [
            json!({"num_conversations": 20, "max_concurrency": 4}),
            json!({"request_rate": "inf", "ramp_up_strategy": "linear"}),
            json!({"request_rate": "inf", "mean_ttft_from_due_ms": 20.0}),
        ] {
            let figures = changing.as_object().expect("an object");
            assert_eq!(telemetry(figures, &rates(5.0)), [], "the load itself changes");
        }
        let steady = json!({"request_rate": 4.0, "mean_ttft_from_due_ms": 20.0});
        let figures = steady.as_object().expect("an object");
        assert_eq!(telemetry(figures, &rates(5.0)).len(), 1);
    }
}
