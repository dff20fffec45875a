//! Checks that the load generator did not stall and was not the limit.

use super::RunFigures;
use crate::validity::{Code, Doubt};

/// Share of the run above which standing still made another run of it, if it took longer than so many milliseconds: a busy
/// machine's scheduler alone takes less.
const STOPPED: (f64, f64) = (0.2, 500.0);
/// The shares above which stalls affect the result.
const STALLED: (f64, f64) = (0.02, 50.0);
/// Time that shows in some request, however long the run, in milliseconds.
const LONG_MS: f64 = 1000.0;
/// Share of the median TTFT above which events without a kernel's stamp are dated too late.
const OF_TTFT: f64 = 0.1;
/// Share of its core above which the generator has nothing left.
const BUSY: f64 = 0.9;
/// Lag of an open loop that shows: a share of the median TTFT, and in milliseconds.
const LATE: (f64, f64) = (0.05, 10.0);

/// A generator that was stopped, or that the system did not let run. Meanwhile no slot was filled and nothing was sent when
/// due; the kernel dates what arrived, so latencies are right wherever it stamps.
pub(super) fn stood_still(seen: RunFigures<'_>) -> Option<Doubt> {
    let longest_ms = seen.number("generator_longest_turn_ms")?;
    let away_ms = seen.number("generator_away_ms").unwrap_or(0.0).max(longest_ms);
    let run_ms = 1000.0 * seen.duration_s()?;
    let doubt = |code| {
        let detail = format!(
            "the generator stood still for {away_ms:.0} of {run_ms:.0} ms: it was stopped, or the machine was too busy"
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
        let detail = format!(
            "the generator did not look at the network for {longest_ms:.0} ms, against a median TTFT of {ttft_ms:.0} ms"
        );
        Doubt::new(Code::GeneratorStalled, detail)
    })
}

/// A generator that had hardly any of its core left, or that sent requests noticeably after they were due.
pub(super) fn saturated(seen: RunFigures<'_>) -> Option<Doubt> {
    let doubt = |detail: String| Some(Doubt::new(Code::GeneratorSaturated, detail));
    let share = seen.number("generator_cpu_share")?;
    if share > BUSY {
        return doubt(format!("the generator used {:.0} % of its core", share * 100.0));
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
    fn without_stamps_latencies_are_late_too() {
        let doubts = judge(json!({
            "duration": 60.0, "generator_longest_turn_ms": 80.0, "generator_kernel_stamped_share": 0.0,
            "median_ttft_ms": 30.0,
        }));
        assert!(
            doubts[0].starts_with("generator_stalled: the generator did not look"),
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
        let mut closed = late;
        closed["request_rate"] = json!("inf");
        assert!(judge(closed).is_empty());
    }
}
