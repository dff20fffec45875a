//! The sampling error of rates. It depends on what the load fixes: the number of requests in flight, the times at which they are sent, or
//! neither.

use super::Errors;
use super::sequence::{BATCHES, batch, error_of_sum, pooled, widening};
use crate::moments::{Nanos, seconds};
use crate::sample::Goodput;
use crate::samples::Samples;

/// Assumed deviation of one additional request, relative to the mean.
const PRIOR_DEVIATION: f64 = 0.1;
/// Standard deviation of the greatest of several values, relative to the standard deviation of a single value.
const DEVIATION_OF_GREATEST: f64 = 0.6;
/// Number of last requests whose ends are spread about as much as the end of the run varies.
const LAST_ENDS: usize = 4;
/// Fewer waves of requests than this do not show how much waves vary.
const FEW_WAVES: usize = 10;
/// Fewer slots, or fewer batches of requests, than this do not show how much they vary.
const FEWEST_SLOTS: usize = 4;
/// Share of busy slots below which something other than the slots limits a closed loop.
const FULL: f64 = 0.5;

/// The way in which a load sends its requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Flow {
    /// With this many requests in flight. The rate is this number divided by the mean latency.
    Closed(usize),
    /// At drawn times, over a span with this relative standard deviation between draws; 0 if the span is the same for every draw.
    Scheduled(f64),
}

impl Flow {
    /// Number of requests that are sent together.
    pub fn wave(self) -> usize {
        match self {
            Flow::Closed(slots) => slots,
            Flow::Scheduled(_) => 1,
        }
    }
}

/// The relative error of the number of events per second in a window of a steady load, from the counts in equal spans of the window.
/// `None` if there are fewer than two events per span on average.
pub fn of_events(moments: impl Iterator<Item = Nanos>, window: Nanos) -> Option<f64> {
    let mut counts = [0.0; BATCHES];
    for moment in moments.filter(|moment| *moment < window) {
        counts[(u128::from(moment) * BATCHES as u128 / u128::from(window)) as usize] += 1.0;
    }
    let sum: f64 = counts.iter().sum();
    (sum >= 2.0 * BATCHES as f64).then(|| pooled(sum, &counts) / sum)
}

/// A request that succeeded, with times in seconds after t0.
struct Request {
    due: f64,
    sent: f64,
    end: f64,
    output: f64,
    tokens: f64,
    sequences: f64,
    audio: f64,
    is_good: bool,
    class: u8,
}

/// The quantity of a request that is summed for a rate.
type Amount = fn(&Request) -> f64;

/// All requests that succeeded, in the order in which they ended.
pub(super) struct Requests {
    each: Vec<Request>,
    duration: f64,
    has_goodput: bool,
}

impl Requests {
    pub fn of(samples: &Samples, duration: Nanos, goodput: Option<&Goodput>) -> Requests {
        let request = |sample: crate::Sample| Request {
            due: seconds(sample.due),
            sent: seconds(sample.sent),
            end: seconds(sample.end),
            output: sample.output_len() as f64,
            tokens: sample.output_len().saturating_add(sample.prompt_len) as f64,
            sequences: f64::from(sample.sequences),
            audio: sample.audio_s,
            is_good: goodput.is_some_and(|goodput| goodput.is_met(&sample)),
            class: sample.class,
        };
        Requests {
            each: samples.ok().map(request).collect(),
            duration: seconds(duration),
            has_goodput: goodput.is_some(),
        }
    }

    /// The relative errors of all rates of a result, or of the rates of one class of a mixed load.
    pub fn errors(&self, flow: Flow, class: Option<u8>) -> Errors {
        let rates: [(&str, Amount); 6] = [
            ("request_throughput", |_| 1.0),
            ("output_throughput", |request| request.output),
            ("total_token_throughput", |request| request.tokens),
            ("input_sequence_throughput", |request| request.sequences),
            ("rtfx", |request| request.audio),
            ("request_goodput", |request| f64::from(u8::from(request.is_good))),
        ];
        let is_part = class.is_some_and(|class| self.each.iter().any(|request| request.class != class));
        rates
            .into_iter()
            .filter(|(name, _)| self.has_goodput || *name != "request_goodput")
            .filter_map(|(name, of)| {
                let amount = |request: &Request| match class.is_none_or(|class| class == request.class) {
                    true => of(request),
                    // Requests of other classes keep their places, but contribute nothing.
                    false => 0.0,
                };
                let amounts: Vec<f64> = self.each.iter().map(amount).collect();
                Some((name.to_owned(), self.error(flow, &amounts, is_part)?))
            })
            .collect()
    }

    /// The relative error of the rate of `amounts`, or `None` if the rate is not above 0. `is_part` is true if only a part of the requests
    /// contributes.
    fn error(&self, flow: Flow, amounts: &[f64], is_part: bool) -> Option<f64> {
        let sum: f64 = amounts.iter().sum();
        if sum <= 0.0 || self.duration <= 0.0 {
            return None;
        }
        let error = match flow {
            Flow::Closed(slots) if self.is_full(slots) && is_part => self.of_part(amounts, sum, slots),
            Flow::Closed(slots) if self.is_full(slots) => self.of_closed(amounts, sum, slots),
            Flow::Scheduled(of_span) => self.of_scheduled(amounts, sum, of_span),
            Flow::Closed(_) => self.of_open(amounts),
        };
        Some(error / sum)
    }

    fn busy_seconds(&self) -> f64 {
        self.each.iter().map(|request| request.end - request.sent).sum()
    }

    fn is_full(&self, slots: usize) -> bool {
        self.busy_seconds() >= FULL * slots.min(self.each.len()) as f64 * self.duration
    }

    /// Standard error of the sum of amounts in a closed loop. It follows from the error of a ratio, either of amounts to latencies, or of
    /// amounts to the duration of the run. The smaller of both is used.
    fn of_closed(&self, amounts: &[f64], sum: f64, slots: usize) -> f64 {
        let rate = sum / self.busy_seconds();
        let deviation = |(request, amount): (&Request, &f64)| amount - rate * (request.end - request.sent);
        let deviations: Vec<f64> = self.each.iter().zip(amounts).map(deviation).collect();
        let mean = sum / amounts.len() as f64;
        let drawn: Vec<f64> = amounts.iter().map(|amount| amount - mean).collect();
        let of_amounts = error_of_sum(&drawn, 1, PRIOR_DEVIATION * mean);
        let of_latencies = match slots.min(amounts.len()) >= FEWEST_SLOTS && self.each.len() < FEW_WAVES * slots {
            true => self
                .of_slots(&deviations, slots)
                .hypot(PRIOR_DEVIATION * sum / amounts.len() as f64),
            false => error_of_sum(&deviations, slots, PRIOR_DEVIATION * sum / amounts.len() as f64),
        };
        // The run ends with the last of its slots, so its end varies like the greatest of their ends.
        let last = &self.each[self.each.len().saturating_sub(slots)..];
        let middle = last.iter().map(|request| request.end).sum::<f64>() / last.len() as f64;
        let squares = last.iter().map(|request| (request.end - middle).powi(2)).sum::<f64>();
        let of_end = DEVIATION_OF_GREATEST * (squares / last.len() as f64).sqrt() / self.duration * sum;
        // If requests wait for each other, latencies depend on their places in the queue, but the server's pace does not. So both errors are
        // estimated, and the smaller one is used.
        let last_gaps = last[last.len() - 1].end - last[last.len().saturating_sub(LAST_ENDS)].end;
        let of_pace = self.pace_error().hypot(0.5 * last_gaps) / self.duration * sum;
        of_latencies.hypot(of_end).min(of_amounts.hypot(of_pace))
    }

    /// Standard error of a sum to which only some requests contribute, from the error of the rate of all requests, the error of the mean
    /// amount of a request, and the correlation of both: requests that cost the server less than others lengthen the run less.
    fn of_part(&self, amounts: &[f64], sum: f64, slots: usize) -> f64 {
        let n = amounts.len() as f64;
        let mean = sum / n;
        let squares = amounts.iter().map(|amount| (amount - mean).powi(2)).sum::<f64>();
        let of_mean = squares.sqrt() / sum * widening(n);
        let of_whole = self.of_closed(&vec![1.0; amounts.len()], n, slots) / n;
        let correlation = self.correlation(amounts, slots);
        let variance = of_mean.powi(2) + of_whole.powi(2) - 2.0 * correlation * of_mean * of_whole;
        variance.max(0.0).sqrt() * sum
    }

    /// Correlation of the amounts of batches of requests with the time that the batches took.
    fn correlation(&self, amounts: &[f64], slots: usize) -> f64 {
        let n = amounts.len();
        let batches = BATCHES.min(n / slots.max(2));
        if batches < FEWEST_SLOTS {
            return 0.0;
        }
        let middles = self.middles(batches);
        // A request counts by the part of it that lengthens the time between the middles of two batches.
        let between = |at: usize| {
            let part = |from: usize, grows: bool| {
                let batch = batch(amounts, batches, from);
                let size = batch.len() as f64;
                let weighed = batch.iter().enumerate().map(move |(place, amount)| {
                    let share = (place as f64 + 0.5) / size;
                    amount * if grows { share } else { 1.0 - share }
                });
                weighed.sum::<f64>()
            };
            (part(at, true) + part(at + 1, false), middles[at + 1] - middles[at])
        };
        let steps: Vec<(f64, f64)> = (0..batches - 1).map(between).collect();
        let count = steps.len() as f64;
        let means = steps.iter().fold((0.0, 0.0), |sums, step| {
            (sums.0 + step.0 / count, sums.1 + step.1 / count)
        });
        let product = |one: fn(&(f64, f64)) -> f64, other: fn(&(f64, f64)) -> f64| {
            let of_means = (one(&means), other(&means));
            let each = steps
                .iter()
                .map(|step| (one(step) - of_means.0) * (other(step) - of_means.1));
            each.sum::<f64>()
        };
        let squares = product(|step| step.0, |step| step.0) * product(|step| step.1, |step| step.1);
        match squares > 0.0 {
            true => product(|step| step.0, |step| step.1) / squares.sqrt(),
            false => 0.0,
        }
    }

    /// Standard error of a sum, from its variation between slots, each of which sends its requests one after the other. Waves of requests
    /// are not compared, because at the beginning and the end of a run they differ in the same way in each repetition.
    fn of_slots(&self, deviations: &[f64], slots: usize) -> f64 {
        let mut by_start: Vec<(&Request, f64)> = self.each.iter().zip(deviations.iter().copied()).collect();
        by_start.sort_by(|(one, _), (other, _)| one.sent.total_cmp(&other.sent));
        // A request is sent by the slot that has been free for the longest time.
        let mut chains = vec![(f64::NEG_INFINITY, 0.0); slots.min(self.each.len()).max(1)];
        for (request, deviation) in by_start {
            let free = chains.iter_mut().min_by(|one, other| one.0.total_cmp(&other.0));
            let chain = free.expect("there is a slot");
            *chain = (request.end, chain.1 + deviation);
        }
        let count = chains.len() as f64;
        let mean = chains.iter().map(|(_, sum)| sum).sum::<f64>() / count;
        let squares = chains.iter().map(|(_, sum)| (sum - mean).powi(2)).sum::<f64>();
        (squares / (count - 1.0) * count).sqrt() * widening(count - 1.0)
    }

    /// Standard error of the sum of amounts if requests are scheduled: from the draw of the amounts, and from the end of the run. The run
    /// ends a latency after its last request is due, or, if the server cannot keep up, when the server has finished. Of the errors of these
    /// two ends, the smaller is used. `of_span` is the relative standard deviation of the time at which the last request is due.
    fn of_scheduled(&self, amounts: &[f64], sum: f64, of_span: f64) -> f64 {
        let n = amounts.len();
        let mean = sum / n as f64;
        let deviations: Vec<f64> = amounts.iter().map(|amount| amount - mean).collect();
        let of_amounts = error_of_sum(&deviations, 1, PRIOR_DEVIATION * mean / (n as f64).sqrt());
        let late: Vec<f64> = self.each.iter().map(|request| request.end - request.due).collect();
        let middle = late.iter().sum::<f64>() / n as f64;
        let keeping_up = 2.0 * late.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / n as f64;
        let keeping_up = keeping_up.sqrt().hypot(of_span * self.duration);
        let of_end = keeping_up.min(self.pace_error()) / self.duration * sum;
        of_amounts.hypot(of_end)
    }

    /// Standard error of the duration in seconds, if requests end one after the other at the server's own pace. It is estimated from the
    /// times that equal numbers of requests took; infinite for too few requests.
    fn pace_error(&self) -> f64 {
        let n = self.each.len();
        let batches = BATCHES.min(n / 2);
        if batches < 3 {
            return f64::INFINITY;
        }
        let steps: Vec<f64> = self.middles(batches).windows(2).map(|pair| pair[1] - pair[0]).collect();
        let step = steps.iter().sum::<f64>() / steps.len() as f64;
        let squares = steps.iter().map(|value| (value - step).powi(2)).sum::<f64>();
        // The variance between the middles of neighbouring batches is two thirds of that between their ends.
        let variance = 1.5 * squares / (steps.len() - 1) as f64 * batches as f64;
        variance.sqrt() * widening(steps.len() as f64)
    }

    /// Mean times at which the requests of equal batches ended.
    fn middles(&self, batches: usize) -> Vec<f64> {
        let middle = |at| {
            let batch = batch(&self.each, batches, at);
            batch.iter().map(|request| request.end).sum::<f64>() / batch.len() as f64
        };
        (0..batches).map(middle).collect()
    }

    /// Standard error of the sum of amounts if requests are sent at random times, from the amounts that ended in equal spans of time.
    fn of_open(&self, amounts: &[f64]) -> f64 {
        let independent: f64 = amounts.iter().map(|amount| amount * amount).sum();
        let ends = || self.each.iter().map(|request| request.end);
        let (first, last) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        let length = (last - first).max(f64::MIN_POSITIVE);
        let spans = BATCHES.min(amounts.len() / 4);
        if spans < 2 {
            return independent.sqrt() * widening(amounts.len() as f64);
        }
        let mut counts = vec![0.0; spans];
        for (end, amount) in ends().zip(amounts) {
            let span = ((end - first) / length * spans as f64) as usize;
            counts[span.min(spans - 1)] += amount;
        }
        pooled(independent, &counts)
    }
}
