//! The result of a run that measures one phase, prefill or decode, at one level of concurrency: its figures with their errors, warnings and
//! doubts.

use super::{LoadWindow, PhaseRun, Shape};
use crate::bench::exact_prompts::ServingPhase;
use crate::bench::result::extra_keys::generator;
use crate::bench::result::{failure_reasons, write_stats};
use crate::bench::side::counters::ServerCounters;
use crate::bench::side::endpoint::ServerLimits;
use crate::bench::{Measurement, broken, date, judge, members};
use crate::cause::Failure;
use crate::load::LoadOutcome;
use crate::metrics::confidence::{Errors, interval, of_events, of_values};
use crate::metrics::{Nanos, Sample, Samples, Stats, seconds};
use crate::units::show_many;
use crate::validity::{Code, Doubt};
use serde_json::json;
use std::ops::Range;

/// Returns the result of a run with sequences of this shape. `grown` is the growth of the server's counters during the run, if they are
/// known.
pub(super) fn measurement(
    run: &PhaseRun,
    limits: &ServerLimits,
    shape: Shape,
    grown: Option<ServerCounters>,
    outcome: &LoadOutcome,
    window: &LoadWindow,
) -> Measurement {
    let settings = &run.settings;
    let figures = WindowFigures::of(
        &outcome.samples,
        &outcome.cut,
        window.span(),
        settings.window.max_concurrency,
    );
    let (input, output) = (shape.input_len, shape.output_len);
    let failed = outcome.samples.failed();
    let (input_rate, output_rate) = (
        figures.per_s(figures.input_tokens),
        figures.per_s(figures.output_tokens),
    );
    // In the long run, as many prompts are computed as outputs end, so the total rate follows from the output rate.
    let tokens_per_output = (input + output) as f64 / output as f64;
    let mut result = members(json!({
        "date": date(),
        "model_id": settings.server.model.as_ref().unwrap_or(&run.job.model_root),
        "max_concurrency": settings.window.max_concurrency,
        "input_len": input,
        "output_len": output,
        "seq_len": input + output,
        "kv_capacity_tokens": shape.kv_tokens,
        "sequence_limit": shape.limit,
        "kv_cache_dtype": limits.cache_dtype,
        "prefix_caching": limits.prefix_caching,
        "tensor_parallel": limits.tensor_parallel,
        "engines": limits.engines,
        "warmup_s": seconds(window.span().start),
        "primed_s": window.primed.map(seconds),
        "window_s": figures.window_s,
        "requests_started": figures.started,
        "completed": figures.completed,
        "failed": failed,
        "input_tokens": figures.input_tokens,
        "output_tokens": figures.output_tokens,
        "request_throughput": figures.per_s(figures.completed),
        "input_throughput": input_rate,
        "output_throughput": output_rate,
        "total_token_throughput": input_rate + output_rate,
        "total_throughput": output_rate * tokens_per_output,
    }));
    // Prefill gets no interval: a step finishes several prompts at once, so the times of the events do not show the error of the rate.
    let mut errors = figures.errors.clone();
    if let (ServingPhase::Decode, Some(error)) = (settings.window.phase, figures.events_error) {
        let ends = interval(output_rate * tokens_per_output, error);
        result.insert("confidence_95".to_owned(), json!({"total_throughput": ends}));
        errors.extend(["output_throughput", "total_throughput"].map(|name| (name.to_owned(), error)));
    }
    for (latency, stats) in [("ttft", &figures.ttft), ("itl", &figures.itl)] {
        if stats.count > 0 {
            write_stats(latency, stats, &mut result);
        }
    }
    result.extend(generator(outcome));
    let reasons = failure_reasons(&outcome.samples);
    if !reasons.is_empty() {
        result.insert("failure_reasons".to_owned(), json!(reasons));
    }
    let mut warnings: Vec<String> = Vec::new();
    if let Some(grown) = &grown {
        let preemptions = grown.get("num_preemptions_total").unwrap_or(0.0);
        result.insert("preemptions".to_owned(), json!(preemptions as u64));
        if let Some(rate) = grown.hit_rate() {
            result.insert("prefix_cache_hit_rate".to_owned(), json!(rate));
            warnings.extend(judge::cached(rate, 0.0).map(|doubt| doubt.detail));
        }
        if preemptions > 0.0 {
            warnings.push(format!(
                "{}: the KV cache did not hold {} of {} tokens at once",
                show_many(preemptions as u64, "preemption"),
                show_many(settings.window.max_concurrency as u64, "sequence"),
                input + output
            ));
        }
    }
    if let Some(limit) = limits
        .max_num_seqs
        .filter(|limit| settings.window.max_concurrency as u64 > *limit * limits.engines as u64)
    {
        let of_each = match limits.engines {
            1 => String::new(),
            engines => format!(" on each of its {engines} engines"),
        };
        warnings.push(format!(
            "max_concurrency {} is above the server's max_num_seqs {limit}{of_each}: the others wait in its queue",
            settings.window.max_concurrency
        ));
    }
    if !warnings.is_empty() {
        result.insert("warnings".to_owned(), json!(warnings));
    }
    let commonest = judge::commonest_error([&outcome.samples]);
    let all = outcome.samples.len() + outcome.cut.len();
    let (failure, some_failed) = judge::failed_requests(failed as f64, all as f64, commonest);
    let doubts = unprimed(settings.window.max_concurrency, outcome, window)
        .into_iter()
        .chain(other_lengths(&outcome.samples, shape))
        .chain(uncounted(&figures, shape))
        .chain(some_failed);
    Measurement {
        errors,
        failure: failure.or_else(|| without_output(&figures)),
        doubts: doubts.chain(judge::of_generator(&result)).collect(),
        result: result.into(),
        ..Measurement::default()
    }
}

/// Returns the failure of a window without output tokens: it measured nothing.
fn without_output(figures: &WindowFigures) -> Option<Failure> {
    (figures.output_tokens == 0).then(|| {
        broken(format!(
            "no output token came within the window of {:.1} s; raise duration, or lower max_concurrency",
            figures.window_s
        ))
    })
}

/// Returns a doubt if some of the slots had no output yet when the window opened.
fn unprimed(slots: usize, outcome: &LoadOutcome, window: &LoadWindow) -> Option<Doubt> {
    if window.primed.is_some() {
        return None;
    }
    let with_output = outcome.cut.iter().filter(|sample| !sample.events.is_empty());
    let ended = outcome.samples.ok().count();
    let detail = format!(
        "not all of the {slots} requests in flight had output when the window opened (at its end {ended} had ended and {} had \
         output)",
        with_output.count()
    );
    Some(Doubt::new(Code::LoadNotReached, detail))
}

/// Returns doubts about the lengths of prompts and answers, as the server counted them. The first answers are shorter on purpose, so they
/// are left out.
fn other_lengths(ended: &Samples, shape: Shape) -> impl Iterator<Item = Doubt> + use<> {
    let [input, output] = [shape.input_len, shape.output_len].map(|length| length as u64);
    let prompts: Vec<(u64, u64)> = ended.ok().map(|sample| (sample.prompt_len, input)).collect();
    // Only first requests are ready at time 0.
    let whole = ended.ok().filter(|sample| sample.ready > 0);
    let answers: Vec<(u64, u64)> = whole
        .filter_map(|sample| Some((sample.output_tokens?, output)))
        .collect();
    let doubts = [
        judge::prompt_lengths(&prompts, false),
        judge::output_lengths(&answers, true),
    ];
    doubts.into_iter().flatten()
}

/// Returns a doubt if events had to be counted as tokens.
fn uncounted(figures: &WindowFigures, shape: Shape) -> Option<Doubt> {
    (figures.is_uncounted && shape.output_len > 1).then(|| {
        let detail = "the server counted no output tokens, so each event counts as one; let it report usage";
        Doubt::new(Code::OutputLengthsDiffer, detail)
    })
}

/// Percentiles that are reported of every latency.
const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Tokens, requests and latencies within the window. They are counted from the timelines of all requests, including those that were cut.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WindowFigures {
    /// Length of the window in seconds.
    pub window_s: f64,
    /// Output tokens that arrived. If the server does not count them with each event, the tokens of a request are spread evenly over its
    /// events. A request whose tokens are unknown, such as one that was cut, gets the mean of the others.
    pub output_tokens: u64,
    /// True if the server never counted tokens, so that each event counts as one.
    pub is_uncounted: bool,
    /// Prompt tokens of requests whose first token arrived.
    pub input_tokens: u64,
    pub started: u64,
    pub completed: u64,
    /// Relative sampling error of the rate of output events.
    pub events_error: Option<f64>,
    /// Relative sampling errors of the latencies, by name.
    pub errors: Errors,
    /// TTFT of requests whose first token arrived.
    pub ttft: Stats,
    /// ITL of the gaps that ended within the window.
    pub itl: Stats,
}

impl WindowFigures {
    /// Counts the events of `ended` and `cut` requests within `window`. Failed requests do not count.
    pub fn of(ended: &Samples, cut: &[Sample], window: Range<Nanos>, slots: usize) -> WindowFigures {
        let completed = ended.ok().filter(|sample| window.contains(&sample.end)).count() as u64;
        let within = |at: Nanos| window.contains(&at);
        let mut events: Vec<Nanos> = Vec::new();
        let (mut ttfts, mut gaps) = (Vec::new(), Vec::new());
        let (mut output_tokens, mut input_tokens, mut started) = (0f64, 0, 0);
        let (mean, mut is_uncounted) = (tokens_per_event(ended), false);
        for sample in ended.iter().chain(cut.iter().cloned()).filter(Sample::is_ok) {
            started += u64::from(within(sample.sent));
            if sample.events.first().is_some_and(within) {
                input_tokens += sample.prompt_len;
                ttfts.push(seconds(sample.ttft()));
            }
            let has_counts = sample.tokens_by_event.len() == sample.events.len();
            let is_counted = has_counts || sample.output_tokens.is_some_and(|tokens| tokens > 0);
            let mut last = None;
            for (event, tokens) in sample.events.iter().zip(sample.tokens_of_events()) {
                let gap = last.replace(event).map(|last| event - last);
                if !within(event) {
                    continue;
                }
                output_tokens += if is_counted { tokens } else { mean.unwrap_or(1.0) };
                is_uncounted |= !is_counted && mean.is_none();
                events.push(event - window.start);
                gaps.extend(gap.map(seconds));
            }
        }
        let length = window.end - window.start;
        let mut errors = Errors::new();
        for (name, values) in [("ttft", &ttfts), ("itl", &gaps)] {
            of_values(name, values.clone(), slots, &PERCENTS, &mut errors);
        }
        WindowFigures {
            window_s: seconds(length),
            output_tokens: output_tokens.round() as u64,
            is_uncounted,
            input_tokens,
            started,
            completed,
            events_error: of_events(events.into_iter(), length),
            errors,
            ttft: Stats::of_seconds(ttfts, &PERCENTS),
            itl: Stats::of_seconds(gaps, &PERCENTS),
        }
    }

    /// A count as a rate over the window, per second.
    pub fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.window_s
    }
}

/// Mean number of tokens in an event of the requests whose tokens the server counted; `None` if it counted none.
fn tokens_per_event(ended: &Samples) -> Option<f64> {
    let counted = ended
        .ok()
        .filter_map(|sample| Some((sample.output_tokens?, sample.events.len())));
    let (tokens, events) = counted.fold((0, 0), |sums, (tokens, events)| (sums.0 + tokens, sums.1 + events));
    (tokens > 0 && events > 0).then(|| tokens as f64 / events as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_counts_in_events_the_counts_at_the_end_are_spread() {
        let packed = |sent: Nanos, output_tokens| Sample {
            ready: sent,
            sent,
            events: [sent + 5, sent + 9].into_iter().collect(),
            end: sent + 9,
            prompt_len: 100,
            output_tokens,
            ..Sample::default()
        };
        let cut = [packed(31, None)];
        let figures = WindowFigures::of(&vec![packed(15, Some(8))].into(), &cut, 20..40, 2);
        assert_eq!((figures.output_tokens, figures.is_uncounted), (12, false));
        let figures = WindowFigures::of(&vec![packed(15, None)].into(), &cut, 20..40, 2);
        assert_eq!((figures.output_tokens, figures.is_uncounted), (3, true));
    }

    #[test]
    fn answers_and_prompts_of_other_lengths_are_doubted() {
        let shape = Shape {
            input_len: 400,
            output_len: 100,
            kv_tokens: 9999,
            limit: None,
        };
        let of = |ready, prompt_len, tokens| {
            let sample = Sample {
                ready,
                prompt_len,
                output_tokens: Some(tokens),
                ..Sample::default()
            };
            let doubts = other_lengths(&vec![sample].into(), shape);
            doubts.map(|doubt| doubt.code).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 400, 25), [], "the first are graded");
        assert_eq!(of(7, 400, 100), []);
        assert_eq!(of(7, 400, 25), [Code::OutputLengthsDiffer]);
        assert_eq!(of(7, 200, 100), [Code::InputLengthsDiffer]);
    }

    #[test]
    fn only_the_window_counts() {
        let ended = Sample {
            sent: 5,
            events: [10, 20, 30].into_iter().collect(),
            tokens_by_event: vec![1, 3, 4],
            end: 30,
            prompt_len: 100,
            ..Sample::default()
        };
        let cut = Sample {
            sent: 31,
            events: [35, 45].into_iter().collect(),
            tokens_by_event: vec![],
            end: 45,
            prompt_len: 50,
            ..Sample::default()
        };
        let failed = Sample {
            sent: 21,
            events: [22].into_iter().collect(),
            end: 23,
            error: Some("HTTP 500".into()),
            ..Sample::default()
        };
        let figures = WindowFigures::of(&vec![ended, failed].into(), &[cut], 20..40, 2);
        assert_eq!(figures.output_tokens, 2 + 1 + 1);
        assert_eq!(figures.input_tokens, 50);
        assert_eq!((figures.started, figures.completed), (1, 1));
        assert_eq!((figures.ttft.count, figures.itl.count), (1, 2));
    }
}
