//! Sampling errors of figures without data of single requests, such as figures in another program's result. The errors are estimated from
//! counts, deviations and percentiles, and assumed if these are missing too.

use super::sequence::{beyond, deviation_at};

/// Relative sampling error that is assumed for a figure of which nothing else is known.
pub const ASSUMED: f64 = 0.05;
/// Percentiles that programs report.
const PERCENTS: [f64; 9] = [25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];
/// Minimum growth of a latency's logarithm that is assumed beyond the sample, for each factor e of rarity. The rarity of a percentile is
/// `1 / (1 - share)`.
const TAIL: f64 = 0.15;

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

/// Indexes in [`Assumption::names`].
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

    /// Returns the relative sampling error. `of` returns a figure of the run by the index of its name in [`Assumption::names`].
    pub fn error(&self, of: impl Fn(usize) -> Option<f64>) -> f64 {
        let of = |index: usize| of(index).filter(|value| value.is_finite() && *value > 0.0);
        let Some(count) = COUNTS.into_iter().find_map(of) else {
            return ASSUMED;
        };
        let error = match self.kind {
            Kind::Mean => spread(&of).map(|spread| spread / count.sqrt()),
            Kind::Percentile(share) => of_percentile(share, count, &of),
            Kind::Rate => of_rate(count, &of),
            Kind::Unknown => None,
        };
        error.filter(|error| error.is_finite()).unwrap_or(ASSUMED)
    }
}

/// Splits the name of a figure: `p99_ttft_ms` into `p99` and `ttft`.
fn split(figure: &str) -> Option<(&str, &str)> {
    let (statistic, metric) = figure.strip_suffix("_ms")?.split_once('_')?;
    Some((statistic, metric))
}

fn is_rate(figure: &str) -> bool {
    figure.ends_with("_throughput") || matches!(figure, "request_goodput" | "rtfx")
}

/// Standard deviation, divided by the mean.
fn spread(of: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    Some(of(DEVIATION)? / of(MEAN)?)
}

/// The error of a rate. In a closed loop, it comes from the spread of latencies; with a request rate, it comes from random arrivals.
fn of_rate(count: f64, of: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let spread = match of(REQUEST_RATE) {
        Some(_) => Some(1.0),
        None => spread(of),
    };
    spread.map(|spread| spread / count.sqrt())
}

/// The error of a percentile, from the growth of the latency with rarity between the percentiles around it.
fn of_percentile(share: f64, count: f64, of: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let log_rarity = |share: f64| -(1.0 - share).ln();
    let share = share.clamp(0.0, 1.0 - 1e-6);
    // Shares and values of the known percentiles, ascending.
    let mut known = [(0.0, 0.0); PERCENTS.len()];
    let mut count_known = 0;
    for (at, percent) in PERCENTS.into_iter().enumerate() {
        let median = || of(MEDIAN).filter(|_| percent == 50.0);
        if let Some(value) = of(FIRST_PERCENT + at).or_else(median) {
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
    let growth = growth.or_else(|| spread(of))?;
    let unseen = growth.max(TAIL) * beyond(share, count);
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
        assumption.error(|place| of(&assumption.names()[place]))
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
