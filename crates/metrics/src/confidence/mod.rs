//! The sampling error of each figure of a run, estimated from the requests of the run.
//!
//! A sampling error is relative to its figure (a standard error of its logarithm). It is widened for few requests, so that an interval of
//! 1.96 errors to either side holds the true figure in 95 of 100 cases. It does not cover differences between runs.

mod assumed;
mod rates;
mod sequence;

use super::moments::Nanos;
use super::sample::Goodput;
use super::samples::Samples;
use super::summary::Metric;
pub use assumed::{ASSUMED, Assumption};
use rates::Requests;
pub use rates::{Flow, of_events};
use sequence::Sequence;
use std::collections::BTreeMap;

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const NORMAL: f64 = 1.96;

/// Relative sampling errors by the names of the figures. A rate or a mean that is not above 0 has none. Percentiles have none if no
/// value is above 0.
pub type Errors = BTreeMap<String, f64>;

/// Returns both ends of the interval of a figure with this relative sampling error. It holds the true value in 95 of 100 cases.
pub fn interval(figure: f64, error: f64) -> [f64; 2] {
    let factor = (NORMAL * error).exp();
    [figure / factor, figure * factor]
}

/// The errors of a run's rates, and of the statistics of `metrics`.
pub fn of_run(
    samples: &Samples,
    flow: Flow,
    duration: Nanos,
    metrics: &[Metric],
    percents: &[f64],
    goodput: Option<&Goodput>,
) -> Errors {
    let mut errors = Requests::of(samples, duration, goodput).errors(flow, None);
    of_distributions(samples, flow.wave(), metrics, percents, &mut errors);
    errors
}

/// The errors of the figures of one class of a mixed load, and of its share of the requests. `own` are the samples of the class.
pub fn of_class(
    samples: &Samples,
    (class, own): (u8, &Samples),
    flow: Flow,
    duration: Nanos,
    metrics: &[Metric],
    percents: &[f64],
    goodput: Option<&Goodput>,
) -> Errors {
    let share = own.len() as f64 / samples.len() as f64;
    let mut errors = Requests::of(samples, duration, goodput).errors(flow, Some(class));
    let wave = (share * flow.wave() as f64).round().max(1.0);
    of_distributions(own, wave as usize, metrics, percents, &mut errors);
    let of_share = ((1.0 - share) / own.len() as f64).sqrt();
    errors.extend((!own.is_empty()).then(|| (SHARE.to_owned(), of_share)));
    errors
}

/// Name of a class's share of the requests among its figures.
pub const SHARE: &str = "share";

fn of_distributions(samples: &Samples, wave: usize, metrics: &[Metric], percents: &[f64], errors: &mut Errors) {
    for metric in metrics {
        let sequence = match metric {
            Metric::Itl => Sequence::of_gaps(samples),
            _ => Sequence::of_values(metric.values(samples)),
        };
        of_distribution(metric.name(), &sequence, wave, percents, errors);
    }
}

/// Adds the errors of mean, median and percentiles of a distribution, under the keys of a result, such as `p99_ttft_ms`. The values
/// are in the order of completion. `wave` is the number of requests that are sent together.
pub fn of_values(name: &str, values: Vec<f64>, wave: usize, percents: &[f64], errors: &mut Errors) {
    of_distribution(name, &Sequence::of_values(values), wave, percents, errors);
}

/// The error of the median of repeats; `None` if there are fewer than two, or none is above 0.
pub fn of_repeats(values: Vec<f64>) -> Option<f64> {
    let is_known = values.len() > 1;
    is_known.then(|| Sequence::of_values(values).percentile_error(0.5, 1))?
}

fn of_distribution(name: &str, sequence: &Sequence, wave: usize, percents: &[f64], errors: &mut Errors) {
    errors.extend(
        sequence
            .mean_error(wave)
            .map(|error| (format!("mean_{name}_ms"), error)),
    );
    let asked = percents.iter().map(|percent| (format!("p{percent}"), *percent));
    for (statistic, percent) in asked.chain([("median".to_owned(), 50.0)]) {
        let error = sequence.percentile_error(percent / 100.0, wave);
        errors.extend(error.map(|error| (format!("{statistic}_{name}_ms"), error)));
    }
}

#[cfg(test)]
mod tests;
