//! Chance error of the figures of a row: as the run states it, or estimated from its other figures.

use super::{Column, Points, Section, Table, normal};
use vsweep_metrics::metrics::confidence::assumed_error;
use vsweep_strategy::stats::normal_quantile;

/// Derived figures, and the one that varies as they do.
const DERIVED_FROM: &str = "output_throughput";

impl Table {
    /// The relative sampling error (standard error of the logarithm) of a figure of a row; `None` if the row has no such figure
    /// above 0. Of an error that the run does not state, `part` is left (see [`Points::assumed_part`]).
    pub fn error(&self, row: usize, metric: &str, part: f64) -> Option<f64> {
        let column = self.column(metric)?;
        let value = column.cells.get(row)?.number()?;
        if column.section.is_parameter() || value <= 0.0 {
            return None;
        }
        let name = varies_as(column);
        let assumed = || part * assumed_error(&name, |other| self.cell(other, row).number());
        Some(self.stated_error(row, &name).unwrap_or_else(assumed))
    }

    /// The error that the run itself states of a figure.
    fn stated_error(&self, row: usize, name: &str) -> Option<f64> {
        let mut known = self.runs.get(row)?.errors.iter();
        known.find(|(known, _)| **known == *name).map(|(_, error)| *error)
    }
}

/// The figure by whose error that of a column is known.
fn varies_as(column: &Column) -> String {
    match column.section {
        // Tokens, cost and energy by what was generated.
        Section::Derived => DERIVED_FROM.to_owned(),
        _ => normal(&column.name),
    }
}

/// The least part of an assumed error, even where runs repeat each other to the digit.
const LEAST: f64 = 0.1;
/// The probability that assumed errors are reduced below the true ones.
const RISK: f64 = 0.25;

impl Points<'_> {
    /// The part of the assumed errors of a metric that is left where repeated runs of its points agree better than these errors allow: by the
    /// upper bound of their scatter (chi-squared, by Wilson and Hilferty 1931). 1 where nothing was assumed or repeated.
    pub fn assumed_part(&self, metric: &str) -> f64 {
        let Some(column) = self.runs.column(metric) else {
            return 1.0;
        };
        let name = varies_as(column);
        let (mut freedom, mut squares, mut expected) = (0.0, 0.0, 0.0);
        for point in &self.points {
            let rows = point.used.iter();
            let assumed = rows.filter(|row| self.runs.stated_error(**row, &name).is_none());
            // A figure with an error is above 0.
            let figures = assumed.filter_map(|row| {
                let error = self.runs.error(*row, metric, 1.0)?;
                Some((column.cells[*row].number()?.ln(), error))
            });
            let figures: Vec<(f64, f64)> = figures.collect();
            if figures.len() < 2 {
                continue;
            }
            let count = figures.len() as f64;
            let mean = figures.iter().map(|(log, _)| log).sum::<f64>() / count;
            squares += figures.iter().map(|(log, _)| (log - mean).powi(2)).sum::<f64>();
            expected += figures.iter().map(|(_, error)| error.powi(2)).sum::<f64>() * (1.0 - 1.0 / count);
            freedom += count - 1.0;
        }
        let ninth = 2.0 / (9.0 * freedom);
        let least = (1.0 - ninth - normal_quantile(RISK) * ninth.sqrt()).max(0.0).powi(3);
        match expected > 0.0 && least > 0.0 {
            true => (squares / expected / least).sqrt().clamp(LEAST, 1.0),
            false => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::Figures;
    use crate::table::{Cell, Points, RunRow, TableBuilder};
    use vsweep_metrics::metrics::confidence::ASSUMED;
    use vsweep_plan::validity::Validity;

    #[test]
    fn no_figure_is_certain() {
        let metrics = [
            ("completed", 100.0),
            ("output_throughput", 50.0),
            ("mean_ttft_ms", 8.0),
            ("std_ttft_ms", 4.0),
            ("spec_decode_acceptance_rate", 0.5),
            ("p99_itl_ms", 0.0),
        ];
        let metrics = metrics.map(|(name, value)| (name.into(), Cell::Float(value)));
        let errors = Figures::from([("output_throughput".to_owned(), 0.03)]);
        let mut builder = TableBuilder::new();
        builder.push(RunRow {
            metrics: &metrics,
            errors: Some(&errors),
            gpus: Some(2.0),
            ..RunRow::default()
        });
        let table = builder.finish();
        assert_eq!(table.error(0, "output_throughput", 1.0), Some(0.03));
        assert_eq!(table.error(0, "tokens_per_gpu", 1.0), Some(0.03));
        assert_eq!(table.error(0, "mean_ttft_ms", 1.0), Some(0.05));
        assert_eq!(table.error(0, "spec_decode_acceptance_rate", 1.0), Some(ASSUMED));
        assert_eq!(table.error(0, "p99_itl_ms", 1.0), None);
        assert_eq!(table.error(0, "p99_e2el_ms", 1.0), None);
    }
    #[test]
    fn runs_that_agree_contradict_an_assumed_error() {
        let part_of = |values: &[(&str, f64)], is_stated: bool| {
            let errors = Figures::from([("output_throughput".to_owned(), ASSUMED)]);
            let mut builder = TableBuilder::new();
            for (point, value) in values {
                builder.push(RunRow {
                    point,
                    validity: Some(Validity::Valid),
                    metrics: &[("output_throughput".into(), Cell::Float(*value))],
                    errors: Some(&errors).filter(|_| is_stated),
                    ..RunRow::default()
                });
            }
            let table = builder.finish();
            Points::of(&table).assumed_part("output_throughput")
        };
        let part = |values: &[f64], is_stated| {
            let values: Vec<(&str, f64)> = values.iter().map(|value| ("a", *value)).collect();
            part_of(&values, is_stated)
        };
        let close = [100.0, 100.4, 99.7, 100.1, 99.9];
        assert!(part(&close, false) < 0.3);
        assert_eq!(part(&close, true), 1.0, "the run states its error");
        let mut with_others: Vec<(&str, f64)> = close.iter().map(|value| ("a", *value)).collect();
        // One point without such a figure, and one with a single run.
        with_others.extend([("b", 0.0), ("c", 300.0)]);
        assert_eq!(part_of(&with_others, false), part(&close, false));
        assert_eq!(
            part(&[100.0, 106.0, 95.0, 102.0, 97.0], false),
            1.0,
            "they scatter as assumed"
        );
        let more = part(&[100.0, 101.0, 100.5, 100.0, 101.0], false);
        assert!(part(&[100.0, 101.0], false) > 1.5 * more, "two runs may agree by luck");
    }
}
