//! Judges the telemetry of a run: the server had the machine for itself, was steady, and as fast as it could be.

use super::RunFigures;
use crate::checks::{changing, unsteady};
use crate::plan::Params;
use crate::telemetry::series::Course;
use crate::validity::{Code, Doubt};

/// Preemptions for each completed request above which what is computed twice shows.
const PREEMPTED: f64 = 0.01;
/// Readings below which a mean over them says little of a load.
const FEWEST: f64 = 10.0;
/// A closed loop never has more in flight than its slots. What it gave up before may linger for a moment.
const ABOVE_SLOTS: (f64, f64) = (1.05, 0.5);
/// Readings are a sample of what was in flight, whose values scatter at most as much as their mean in all loads that were tried.
const ABOVE_LAW: f64 = 1.25;
const ERRORS: f64 = 4.0;
/// Share of readings above which a GPU that was slowed down, or had somebody else on it, shows.
const SHOWS: f64 = 0.1;

/// Returns all doubts about a whole run that follow from its telemetry.
pub fn telemetry(figures: &Params, course: &Course) -> Vec<Doubt> {
    let seen = RunFigures::whole(figures);
    let of_gpus = |code, share: Option<f64>, what: &str| {
        let share = share.filter(|share| *share > SHOWS)?;
        let detail = format!("{what} in {:.0} % of the readings", share * 100.0);
        Some(Doubt::new(code, detail))
    };
    let slowed = of_gpus(Code::GpuSlowedDown, course.slowed_share, "a GPU was slowed down");
    let shared = of_gpus(
        Code::GpuNotAlone,
        course.shared_share,
        "a process that is not the server's was on a GPU",
    );
    let guessed = changing(&course.acceptance).map(|found| {
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
        guessed,
    ];
    doubts.into_iter().flatten().collect()
}

/// Returns a doubt if tokens a second had a trend. If arrivals determine that rate, the number of requests at the server, or the speed of
/// each, is used instead.
fn changed(seen: RunFigures<'_>, course: &Course) -> Option<Doubt> {
    let series = [
        ("tokens per second", &course.rates),
        ("requests at the server", &course.in_flight),
        ("tokens per second of each request", &course.speeds),
    ];
    let shown = if seen.is_open_loop() { series.len() } else { 1 };
    let found = series[..shown]
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
        let detail = format!("{preemptions} preemptions in {completed} requests: the KV cache did not hold them all");
        Doubt::new(Code::RequestsPreempted, detail)
    })
}

/// More requests at the server than the benchmark had in flight: by its slots, or by Little's law, which holds for the whole run, from
/// an idle server to an idle server, whatever the load.
fn not_alone(seen: RunFigures<'_>) -> Option<Doubt> {
    let readings = seen
        .number("telemetry_samples")
        .filter(|readings| *readings >= FEWEST)?;
    let in_flight = seen.number("running_mean")? + seen.number("waiting_mean").unwrap_or(0.0);
    // A request may be several to the server, but not if it generates.
    seen.number("total_output_tokens").filter(|tokens| *tokens > 0.0)?;
    let (own, limit) = match seen.slots() {
        Some(slots) => (slots, slots * ABOVE_SLOTS.0 + ABOVE_SLOTS.1),
        None => {
            let own = by_littles_law(seen)?;
            (own, own * (ABOVE_LAW + ERRORS / readings.sqrt()) + 1.0)
        }
    };
    (in_flight > limit).then(|| {
        let detail = format!(
            "{in_flight:.1} requests were at the server on average, and {own:.1} of them can be the benchmark's"
        );
        Doubt::new(Code::ServerNotAlone, detail)
    })
}

/// Requests in flight on average: how many ended in a second, times how long each took.
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
        // Two a second, 2.08 s each.
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
    }
}
