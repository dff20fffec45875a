//! Sampling errors of figures without data of single requests, such as figures in another program's result. The errors are estimated from
//! counts, deviations and percentiles, and assumed if these are missing too.

use super::sequence::{beyond, deviation_at};

/// Relative sampling error that is assumed for a figure of which nothing else is known.
pub const ASSUMED: f64 = 0.05;
/// Percentiles that programs report.
const PERCENTS: [f64; 9] = [25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];
/// Smallest growth of a latency's logarithm that is assumed beyond the sample, each time the rarity grows by a factor of e. The rarity of a
/// percentile is `1 / (1 - share)`.
const LEAST_TAIL_GROWTH: f64 = 0.15;

/// The rule by which the relative sampling error of a figure is estimated from the other figures of its run. One rule serves all runs,
/// because figures have the same names in every run.
#[derive(Debug, Clone)]
pub struct Assumption {
    kind: Kind,
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Mean,
    /// A percentile, with the share of requests below it.
    Percentile(f64),
    Rate,
    Unknown,
}

/// Indices in [`Assumption::names`].
const COUNTS: [usize; 2] = [0, 1];
const DEVIATION: usize = 2;
const MEAN: usize = 3;
const REQUEST_RATE: usize = 4;
const MEDIAN: usize = 5;
const FIRST_PERCENT: usize = 6;

impl Assumption {
    /// Returns the rule for the figure of this name.
    pub fn of(figure: &str) -> Assumption {
        let (kind, metric) = match split(figure) {
            Some(("mean", metric)) => (Kind::Mean, metric),
            Some((statistic, metric)) => {
                let percent = match statistic {
                    "median" => Some(50.0),
                    _ => statistic.strip_prefix('p').and_then(|percent| percent.parse().ok()),
                };
                let kind = percent.map_or(Kind::Unknown, |percent: f64| Kind::Percentile(percent / 100.0));
                (kind, metric)
            }
            None if is_rate(figure) => (Kind::Rate, "e2el"),
            None => (Kind::Unknown, ""),
        };
        let statistic = |statistic: &str| format!("{statistic}_{metric}_ms");
        let counts = ["completed", "num_prompts"].map(str::to_owned).into_iter();
        let others = [
            statistic("std"),
            statistic("mean"),
            "request_rate".to_owned(),
            statistic("median"),
        ];
        let percents = PERCENTS.iter().map(|percent| statistic(&format!("p{percent}")));
        Assumption {
            kind,
            names: counts.chain(others).chain(percents).collect(),
        }
    }

    /// The names of the figures from which the error is estimated.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the relative sampling error. `figure` returns a figure of the run by the index of its name in [`Assumption::names`].
    pub fn error(&self, figure: impl Fn(usize) -> Option<f64>) -> f64 {
        let figure = |index: usize| figure(index).filter(|value| value.is_finite() && *value > 0.0);
        let Some(count) = COUNTS.into_iter().find_map(figure) else {
            return ASSUMED;
        };
        let error = match self.kind {
            Kind::Mean => variation(&figure).map(|variation| variation / count.sqrt()),
            Kind::Percentile(share) => percentile_error(share, count, &figure),
            Kind::Rate => rate_error(count, &figure),
            Kind::Unknown => None,
        };
        error.filter(|error| error.is_finite()).unwrap_or(ASSUMED)
    }
}

/// Splits the name of a figure: `p99_ttft_ms` into `p99` and `ttft`.
fn split(figure: &str) -> Option<(&str, &str)> {
    figure.strip_suffix("_ms")?.split_once('_')
}

fn is_rate(figure: &str) -> bool {
    figure.ends_with("_throughput") || matches!(figure, "request_goodput" | "rtfx")
}

/// Coefficient of variation: the standard deviation divided by the mean.
fn variation(figure: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    Some(figure(DEVIATION)? / figure(MEAN)?)
}

/// The error of a rate. In a closed loop, it comes from the variation of latencies; with a request rate, it comes from random arrivals.
fn rate_error(count: f64, figure: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let variation = match figure(REQUEST_RATE) {
        Some(_) => Some(1.0),
        None => variation(figure),
    };
    variation.map(|variation| variation / count.sqrt())
}

/// The error of a percentile. It follows from how fast the latency grows with rarity between the two known percentiles around it.
fn percentile_error(share: f64, count: f64, figure: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let log_rarity = |share: f64| -(1.0 - share).ln();
    let share = share.clamp(0.0, 1.0 - 1e-6);
    // Shares and values of the known percentiles, ascending.
    let mut known = [(0.0, 0.0); PERCENTS.len()];
    let mut count_known = 0;
    for (at, percent) in PERCENTS.into_iter().enumerate() {
        let median = || figure(MEDIAN).filter(|_| percent == 50.0);
        if let Some(value) = figure(FIRST_PERCENT + at).or_else(median) {
            known[count_known] = (percent / 100.0, value);
            count_known += 1;
        }
    }
    let known = &known[..count_known];
    let nearest = |pair: &&[(f64, f64)]| pair[1].0 + 1e-9 >= share;
    let pair = known.windows(2).find(nearest).or_else(|| known.windows(2).last());
    let growth = pair.map(|pair| {
        let slope = (pair[1].1 - pair[0].1) / (log_rarity(pair[1].0) - log_rarity(pair[0].0));
        let at = if share > pair[0].0 + 1e-9 { pair[1].1 } else { pair[0].1 };
        (slope / at).max(0.0)
    });
    let growth = growth.or_else(|| variation(figure))?;
    let unseen = growth.max(LEAST_TAIL_GROWTH) * beyond(share, count);
    Some((growth * deviation_at(share, count)).hypot(unseen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(figure: &str, figures: &[(&str, f64)]) -> f64 {
        let of = |name: &str| {
            figures
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value)
        };
        let assumption = Assumption::of(figure);
        assumption.error(|index| of(&assumption.names()[index]))
    }

    #[test]
    fn counts_and_deviations_say_how_sure_a_mean_is() {
        let figures = [("completed", 400.0), ("mean_e2el_ms", 50.0), ("std_e2el_ms", 10.0)];
        assert!((error("mean_e2el_ms", &figures) - 0.01).abs() < 1e-12);
        assert!((error("output_throughput", &figures) - 0.01).abs() < 1e-12);
        assert_eq!(error("mean_ttft_ms", &figures), ASSUMED);
        assert_eq!(error("output_throughput", &figures[1..]), ASSUMED);
        let open = [("completed", 400.0), ("request_rate", 3.0)];
        assert!((error("request_throughput", &open) - 0.05).abs() < 1e-12);
    }

    #[test]
    fn percentiles_say_how_sure_they_are() {
        // An exponential distribution with a mean of 100 ms.
        let at = |share: f64| -100.0 * (1.0 - share).ln();
        let of = |count: f64| {
            let figures = [
                ("completed", count),
                ("median_ttft_ms", at(0.5)),
                ("p90_ttft_ms", at(0.9)),
                ("p99_ttft_ms", at(0.99)),
            ];
            [error("median_ttft_ms", &figures), error("p99_ttft_ms", &figures)]
        };
        let [median, rare] = of(10_000.0);
        // By the delta method: 0.01 / ln 2, and 0.0995 / ln 100.
        assert!((0.010..0.016).contains(&median), "{median}");
        assert!((0.02..0.04).contains(&rare), "{rare}");
        let [_, unseen] = of(6.0);
        assert!((0.3..2.0).contains(&unseen), "{unseen}");
    }
}
