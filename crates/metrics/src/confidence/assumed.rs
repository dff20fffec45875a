//! The chance errors of figures whose requests nobody kept, as those of another program's result: from counts, deviations and
//! percentiles, and assumed where these are missing too.

use super::sequence::{beyond, deviation_at};

/// The relative error of a figure of which nothing is known.
pub const ASSUMED: f64 = 0.05;
/// Percentiles that programs report.
const PERCENTS: [&str; 9] = ["25", "50", "75", "90", "95", "98", "99", "99.5", "99.9"];
/// Growth of a latency's logarithm a factor e of rarity, assumed where a percentile lies beyond the sample.
const TAIL: f64 = 0.15;

/// The relative sampling error of a figure, by the other figures of its run: `of` gives them by their names.
pub fn assumed_error(figure: &str, of: impl Fn(&str) -> Option<f64>) -> f64 {
    let of = |name: &str| of(name).filter(|value| value.is_finite() && *value > 0.0);
    let Some(count) = of("completed").or_else(|| of("num_prompts")) else {
        return ASSUMED;
    };
    let error = match split(figure) {
        Some(("mean", metric)) => spread(metric, &of).map(|spread| spread / count.sqrt()),
        Some((statistic, metric)) => {
            let percent = match statistic {
                "median" => Some(50.0),
                _ => statistic.strip_prefix('p').and_then(|percent| percent.parse().ok()),
            };
            percent.and_then(|percent| of_percentile(percent / 100.0, metric, count, &of))
        }
        None if is_rate(figure) => of_rate(count, &of),
        None => None,
    };
    error.filter(|error| error.is_finite()).unwrap_or(ASSUMED)
}

/// `p99` and `ttft` of `p99_ttft_ms`.
fn split(figure: &str) -> Option<(&str, &str)> {
    let (statistic, metric) = figure.strip_suffix("_ms")?.split_once('_')?;
    Some((statistic, metric))
}

fn is_rate(figure: &str) -> bool {
    figure.ends_with("_throughput") || matches!(figure, "request_goodput" | "rtfx")
}

/// Standard deviation by mean.
fn spread(metric: &str, of: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
    Some(of(&format!("std_{metric}_ms"))? / of(&format!("mean_{metric}_ms"))?)
}

/// In a closed loop by the latency, at a given rate by chance arrivals.
fn of_rate(count: f64, of: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let spread = match of("request_rate") {
        Some(_) => Some(1.0),
        None => spread("e2el", of),
    };
    spread.map(|spread| spread / count.sqrt())
}

/// Growth of the latency with rarity, between the percentiles around it.
fn of_percentile(share: f64, metric: &str, count: f64, of: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let place = |share: f64| -(1.0 - share).ln();
    let share = share.clamp(0.0, 1.0 - 1e-6);
    let mut known: Vec<(f64, f64)> = PERCENTS
        .into_iter()
        .filter_map(|percent| {
            let named = of(&format!("p{percent}_{metric}_ms"));
            let value = named.or_else(|| of(&format!("median_{metric}_ms")).filter(|_| percent == "50"))?;
            Some((percent.parse::<f64>().ok()? / 100.0, value))
        })
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = |pair: &&[(f64, f64)]| pair[1].0 + 1e-9 >= share;
    let pair = known.windows(2).find(nearest).or_else(|| known.windows(2).last());
    let growth = pair.map(|pair| {
        let slope = (pair[1].1 - pair[0].1) / (place(pair[1].0) - place(pair[0].0));
        let at = if share > pair[0].0 + 1e-9 { pair[1].1 } else { pair[0].1 };
        (slope / at).max(0.0)
    });
    let growth = growth.or_else(|| spread(metric, of))?;
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
        assumed_error(figure, of)
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
