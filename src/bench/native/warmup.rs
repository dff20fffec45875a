//! The amount of warm-up before a load is measured: as many requests as the load has in flight. During the first requests code is compiled,
//! memory is allocated and caches are filled. Measured requests should not wait for that.

use super::OPEN_LOOP_CONNECTIONS;
use super::settings::NativeSettings;
use crate::metrics::{Nanos, seconds};
use crate::plan::Warmup;
use std::time::Duration;

/// Time after which a warm-up is cut. Until then a server has performed every kind of step that the load needs.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Most requests of an automatic warm-up. No engine takes more at once.
const MOST: usize = 2048;
/// Duration of a warm-up at a rate, as a multiple of the latency. After one latency as many requests are in flight as in the load.
const LATENCIES: f64 = 2.0;

/// The unmeasured requests before a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// This many, all due at once.
    AtOnce(usize),
    /// At this rate per second, and at most this many. The first request is sent alone. Its duration determines the number of the others.
    AtRate(f64, usize),
}

impl Amount {
    /// The amount for a run: the greater of the plan's number and the benchmark's own `num_warmups`. If the plan leaves it automatic,
    /// `num_warmups` counts; if that is 0, the amount is as many requests as the load has in flight. `count` is the number of requests of
    /// the run, as `settings` count them. `due` are the due times of a trace, if they are known yet.
    pub fn of(warmup: Warmup, settings: &NativeSettings, count: Option<usize>, due: &[Nanos]) -> Amount {
        let given = settings.side.num_warmups;
        match warmup {
            Warmup::Requests(count) => Amount::AtOnce(given.max(count as usize)),
            Warmup::Automatic if given > 0 => Amount::AtOnce(given),
            Warmup::Automatic => Amount::of_load(settings, count, due),
        }
    }

    fn of_load(settings: &NativeSettings, count: Option<usize>, due: &[Nanos]) -> Amount {
        // 0 stands for every row of a file, before they are drawn.
        let count = count.filter(|count| *count > 0);
        let most = count.map_or(MOST, |count| count.min(MOST));
        let slots = settings.concurrency().unwrap_or(MOST);
        let arrivals = settings.arrival.arrivals();
        if settings.is_self_timed() {
            return match due.last() {
                Some(last) => Amount::AtRate(due.len() as f64 / seconds((*last).max(1)), most.min(slots)),
                None => Amount::AtOnce(OPEN_LOOP_CONNECTIONS.min(most).min(slots)),
            };
        }
        match settings.concurrency() {
            // The warm-up of a ramp uses its final rate.
            _ if arrivals.is_open() => Amount::AtRate(arrivals.rate_at(1, 2), most.min(slots)),
            Some(slots) => Amount::AtOnce(slots.min(MOST)),
            None => Amount::AtOnce(most),
        }
    }

    /// Most requests that the warm-up can take.
    pub fn most(self) -> usize {
        match self {
            Amount::AtOnce(count) | Amount::AtRate(_, count) => count,
        }
    }

    /// The number of requests for callers that cannot measure a first request. At a rate, it is the number that is due in one second.
    pub fn count(self) -> usize {
        match self {
            Amount::AtOnce(count) => count,
            Amount::AtRate(rate, most) => (rate.ceil() as usize).clamp(1, most),
        }
    }

    /// Due times of the requests after the first one, in nanoseconds, once the duration of the first is known; empty if all are due at
    /// once.
    pub fn due_after(self, first: Duration) -> Vec<u64> {
        let Amount::AtRate(rate, most) = self else {
            return Vec::new();
        };
        let count = (LATENCIES * rate * first.as_secs_f64()).ceil() as usize;
        let due = |i: usize| (i as f64 / rate * 1e9) as u64;
        (0..count.min(most).saturating_sub(1)).map(due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn amount(warmup: Warmup, params: Value) -> Amount {
        let params = params.as_object().expect("an object");
        let settings = NativeSettings::read(params).expect("valid");
        Amount::of(
            warmup,
            &settings,
            settings.requests_of(70),
            &[0, 2_000_000_000, 4_000_000_000],
        )
    }

    #[test]
    fn as_much_as_the_load_holds() {
        let automatic = |params| amount(Warmup::Automatic, params);
        assert_eq!(
            automatic(json!({"max_concurrency": 64, "num_prompts": 9})),
            Amount::AtOnce(64)
        );
        assert_eq!(
            automatic(json!({"max_concurrency": 64, "request_rate": 5})),
            Amount::AtRate(5.0, 64)
        );
        assert_eq!(automatic(json!({"num_prompts": 300})), Amount::AtOnce(300));
        assert_eq!(automatic(json!({"num_prompts": 9999})), Amount::AtOnce(MOST));
        let all_rows = json!({"num_prompts": 0, "dataset_name": "custom", "dataset_path": "rows.jsonl"});
        assert_eq!(automatic(all_rows.clone()), Amount::AtOnce(70));
        let settings = NativeSettings::read(all_rows.as_object().expect("an object")).expect("valid");
        let undrawn = Amount::of(Warmup::Automatic, &settings, settings.requests(), &[]);
        assert_eq!(undrawn, Amount::AtOnce(MOST));
        assert_eq!(
            automatic(json!({"num_prompts": 300, "request_rate": 5})),
            Amount::AtRate(5.0, 300)
        );
        let all_rows =
            automatic(json!({"dataset_name": "custom", "dataset_path": "p", "num_prompts": 0, "request_rate": 5}));
        assert_eq!((all_rows, all_rows.count()), (Amount::AtRate(5.0, 70), 5));
        assert_eq!(
            automatic(json!({"max_concurrency": 64, "num_warmups": 3})),
            Amount::AtOnce(3)
        );
        assert_eq!(
            amount(Warmup::Requests(0), json!({"max_concurrency": 64})),
            Amount::AtOnce(0)
        );
    }

    #[test]
    fn a_trace_warms_up_at_its_own_rate() {
        let trace = json!({"dataset_name": "timed_trace", "dataset_path": "trace.jsonl", "num_prompts": 300});
        assert_eq!(
            amount(Warmup::Automatic, trace.clone()),
            Amount::AtRate(0.75, 300),
            "3 requests in 4 s"
        );
        let settings = NativeSettings::read(trace.as_object().expect("an object")).expect("valid");
        let unread = Amount::of(Warmup::Automatic, &settings, settings.requests(), &[]);
        assert_eq!(unread, Amount::AtOnce(OPEN_LOOP_CONNECTIONS));
    }

    #[test]
    fn a_rate_is_warm_after_two_latencies() {
        let due = |first| {
            Amount::AtRate(10.0, 300)
                .due_after(Duration::from_secs_f64(first))
                .len()
                + 1
        };
        assert_eq!((due(0.0), due(0.01), due(1.5), due(100.0)), (1, 1, 30, 300));
        assert!(Amount::AtOnce(9).due_after(LONGEST).is_empty());
    }
}
