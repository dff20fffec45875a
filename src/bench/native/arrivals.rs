//! The due times of a native benchmark's requests, and the limit of requests in flight.

use crate::bench::params::{TIME, TimeSpan};
use crate::load::SendWindow;
use crate::load::arrival::{Arrivals, Ramp, RampShape};
use crate::metrics::Nanos;
use crate::params::{Bounds, ParamReader};

crate::params! {
    /// Timing of requests.
    pub struct ArrivalParams {
        /// Mean requests per second.
        rate: f64 = param("request_rate").within("a number above 0, or \"inf\"", |rate| rate > 0.0).default("inf")
            .otherwise("inf: all at once"),
        /// Shape of the gaps: 1 is Poisson, below is burstier, inf is even.
        burstiness: f64 = param("burstiness").within("a number above 0, or \"inf\"", |shape| shape > 0.0).default("1"),
        /// Time from the first request on during which requests are sent.
        duration: Option<TimeSpan> = param("duration").within(TIME, |_| true).otherwise("until num_prompts are sent"),
        /// Time after duration within which the requests in flight must end.
        grace: TimeSpan = param("duration_grace").within(TIME, |_| true).default("5m"),
        /// Most requests in flight.
        max_concurrency: Option<usize> = param("max_concurrency").least(1),
        /// Let the rate grow: linear or exponential.
        ramp: Option<RampShape> = param("ramp_up_strategy"),
        /// Rate at the first request.
        ramp_start: Option<f64> = param("ramp_up_start_rps").bounded(RATE),
        /// Rate at the last request.
        ramp_end: Option<f64> = param("ramp_up_end_rps").bounded(RATE),
        /// Send requests at the trace's own times.
        self_timed: bool = param("self_timed").otherwise("on for timed_trace"),
        /// Send a trace's requests at request_rate.
        no_self_timed: bool = param("no_self_timed"),
    }
}

const RATE: Bounds = ("a rate above 0", |rate| 0.0 < rate && rate < 1e9);

impl ArrivalParams {
    /// Reads the values, and reports those that exclude each other. A timed dataset has its own due times, which exclude a rate or a ramp.
    pub(super) fn checked(reader: &mut ParamReader<'_>, is_timed: bool) -> ArrivalParams {
        let arrival = ArrivalParams::read(reader);
        match (arrival.ramp, arrival.ramp_start, arrival.ramp_end) {
            (Some(_), Some(start), Some(end)) if start > end => {
                reader.wrong("ramp_up_start_rps", "at most ramp_up_end_rps");
            }
            (None, None, None) | (Some(_), Some(_), Some(_)) => {}
            _ if reader.is_sound() => reader.problem(
                "a ramp needs all of ramp_up_strategy, ramp_up_start_rps and ramp_up_end_rps; add what is missing",
            ),
            _ => {}
        }
        if arrival.duration.is_some_and(|TimeSpan(duration)| duration.is_zero()) {
            reader.wrong("duration", "a time above 0, such as \"60s\"");
        }
        if arrival.duration.is_none() && reader.has("duration_grace") && !reader.has("duration") {
            reader.problem("duration_grace has no meaning without duration; add that, or remove it");
        }
        let arrivals = arrival.arrivals();
        if arrivals.ramp.is_some() && arrival.rate.is_finite() {
            reader.problem("request_rate cannot be given together with a ramp; remove one");
        }
        if arrival.self_timed && !is_timed {
            reader.problem("self_timed needs times in the dataset; use dataset_name timed_trace, or remove it");
        }
        if is_timed && !arrival.no_self_timed && arrivals.is_open() {
            reader.problem(
                "a timed_trace has its own times and cannot be combined with request_rate or the ramp; remove these, or set no_self_timed",
            );
        }
        arrival
    }

    /// Returns the time limit of sending, if there is one.
    pub fn sending(&self) -> Option<SendWindow> {
        let TimeSpan(lasts) = self.duration?;
        let TimeSpan(grace) = self.grace;
        Some(SendWindow { lasts, grace })
    }

    /// The arrival process.
    pub fn arrivals(&self) -> Arrivals {
        let ramp = self.ramp.zip(self.ramp_start.zip(self.ramp_end));
        Arrivals {
            rate: self.rate,
            burstiness: self.burstiness,
            ramp: ramp.map(|(shape, (start, end))| Ramp { shape, start, end }),
        }
    }

    /// Number of requests over which the rate of a ramp grows: those that come within the duration, else all that are `sent`.
    pub fn ramp_len(&self, sent: usize) -> usize {
        let arrivals = self.arrivals();
        let sending = self.sending().filter(|_| arrivals.ramp.is_some());
        let within = sending.and_then(|sending| arrivals.count_within(sending.lasts.as_secs_f64()));
        within.map_or(sent, |within| within as usize)
    }

    /// Relative standard deviation, between draws, of the time at which the last of the `sent` requests is due. A ramp with a duration
    /// always lasts for it.
    pub fn span_deviation(&self, sent: usize) -> f64 {
        match self.duration.is_some() && sent >= self.ramp_len(sent) {
            true => 0.0,
            false => self.arrivals().span_deviation(sent),
        }
    }

    /// Due times of `count` requests, in nanoseconds after t0. A ramp with a duration lasts for it, even if fewer requests are sent; further
    /// requests are due after it.
    pub fn due_times(&self, count: usize, seed: u32) -> Vec<Nanos> {
        let arrivals = self.arrivals();
        let mut due = arrivals.due_times(self.ramp_len(count), seed);
        if let Some(sending) = self.sending().filter(|_| arrivals.ramp.is_some()) {
            let lasts = sending.lasts.as_nanos() as Nanos;
            let stretch = lasts as f64 / due.last().copied().unwrap_or(0).max(1) as f64;
            due.iter_mut().for_each(|due| *due = (*due as f64 * stretch) as Nanos);
            due.resize(count, lasts + 1);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::{Value, json};

    fn settings(num_prompts: Value) -> NativeSettings {
        let params = json!({
            "ramp_up_strategy": "exponential", "ramp_up_start_rps": 1, "ramp_up_end_rps": 50, "duration": "6s",
            "num_prompts": num_prompts,
        });
        NativeSettings::read(params.as_object().expect("an object")).expect("sound")
    }

    fn due(num_prompts: Value) -> Vec<u64> {
        let settings = settings(num_prompts);
        let count = settings.requests().expect("a number");
        settings.arrival.due_times(count, settings.prompts.seed)
    }

    #[test]
    fn a_ramp_lasts_for_the_duration_however_many_are_sent() {
        let whole = due(json!(1000));
        let last = whole.last().copied().expect("requests");
        assert!((5_999_999_998..=6_000_000_000).contains(&last), "{last}");
        assert_eq!(due(json!(10)), whole[..10]);
        let deviation = |num_prompts: usize, sent: usize| settings(json!(num_prompts)).arrival.span_deviation(sent);
        assert_eq!(deviation(1000, whole.len()), 0.0);
        assert!(deviation(10, 10) > 0.0, "the first of them may come early or late");
    }
}
