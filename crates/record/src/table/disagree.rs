//! Runs of a point that differ by more than noise explains: a disturbance of the machine, or a truth about the server that
//! the median alone would hide.

use super::{Spread, Table};

/// Figures that repetitions should agree in, each with the factor up to which they do. Repetitions on a quiet machine stay
/// within some percent of throughput; latencies, above all their tails, scatter more.
const FIGURES: [(&str, f64); 8] = [
    ("output_throughput", 1.25),
    ("request_throughput", 1.25),
    ("median_ttft_ms", 2.0),
    ("p99_ttft_ms", 2.0),
    ("median_tpot_ms", 2.0),
    ("p99_tpot_ms", 2.0),
    ("median_e2el_ms", 2.0),
    ("p99_e2el_ms", 2.0),
];
/// Latencies that are closer to each other agree, in milliseconds: a system's scheduler alone takes as long.
const NOTICED_MS: f64 = 10.0;

/// A figure in which runs disagree, and how far its values reach.
#[derive(Debug, Clone, Copy)]
pub struct Disagreement {
    /// The figure's column.
    pub metric: &'static str,
    /// Its values.
    pub spread: Spread,
    /// How far they are apart, as a multiple of what is allowed.
    pub excess: f64,
}

/// The figure in which these runs disagree most, if in any.
pub(super) fn disagreement(runs: &Table, rows: &[usize]) -> Option<Disagreement> {
    let figures = FIGURES.iter().filter_map(|(metric, factor)| {
        let spread = runs.column(metric)?.spread(rows)?;
        let is_noticed = !metric.ends_with("_ms") || spread.max - spread.min > NOTICED_MS;
        let excess = spread.max / spread.min / factor;
        (excess > 1.0 && is_noticed).then_some(Disagreement { metric, spread, excess })
    });
    figures.max_by(|a, b| a.excess.total_cmp(&b.excess))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, RunRow, TableBuilder};

    fn disagree(metric: &str, values: &[f64]) -> bool {
        let mut builder = TableBuilder::new();
        for (run, value) in values.iter().enumerate() {
            builder.push(RunRow {
                point: "p",
                run: run as u32,
                metrics: &[(metric.into(), Cell::Float(*value))],
                ..RunRow::default()
            });
        }
        disagreement(&builder.finish(), &Vec::from_iter(0..values.len())).is_some()
    }

    #[test]
    fn what_noise_explains_is_no_disagreement() {
        assert!(!disagree("output_throughput", &[100.0, 104.0, 120.0]));
        assert!(disagree("output_throughput", &[100.0, 14.0, 101.0]));
        assert!(disagree("p99_ttft_ms", &[62.0, 180.0]));
        assert!(!disagree("p99_ttft_ms", &[2.0, 9.0]), "a few milliseconds");
        assert!(!disagree("p99_ttft_ms", &[62.0]) && !disagree("duration", &[1.0, 9.0]));
    }
}
