//! Sampling errors of the figures of a row: as the run states them, or estimated from its other figures.

use crate::table::{Column, Points, Section, Table, normal};
use vsweep_metrics::confidence::Assumption;
use vsweep_strategy::stats::normal_quantile;

/// The figure whose relative error all derived figures have.
const DERIVED_FROM: &str = "output_throughput";

/// The sampling errors of one metric of a table.
#[derive(Debug, Default)]
pub struct Sampling {
    /// The error of each row; `None` if the row has no value of the metric above 0.
    errors: Vec<Option<SamplingError>>,
    /// Factor for assumed errors: below 1 if repeated runs agree better than the assumed errors allow; else 1.
    factor: f64,
}

/// The relative sampling error (standard error of the logarithm) of a figure.
#[derive(Debug, Clone, Copy)]
enum SamplingError {
    /// The run itself states it.
    Stated(f64),
    /// Estimated from the other figures of the run.
    Assumed(f64),
}

impl Sampling {
    /// Returns the relative sampling error of a row; `None` if the row has no value of the metric above 0.
    pub fn error(&self, row: usize) -> Option<f64> {
        Some(match (*self.errors.get(row)?)? {
            SamplingError::Stated(error) => error,
            SamplingError::Assumed(error) => self.factor * error,
        })
    }
}

impl Table {
    /// Returns the sampling errors of a column's figures. `name` is the figure whose relative errors the column has.
    fn sampling_errors(&self, column: &Column, name: &str) -> Vec<Option<SamplingError>> {
        let assumption = Assumption::of(name);
        let inputs: Vec<Option<&Column>> = assumption.names().iter().map(|input| self.column(input)).collect();
        let error = |row: usize| {
            column.cells.at(row).number().filter(|value| *value > 0.0)?;
            let stated = self.runs.get(row)?.errors.get(name);
            Some(match stated {
                Some(error) => SamplingError::Stated(error),
                None => SamplingError::Assumed(assumption.error(|input| inputs[input]?.cells.at(row).number())),
            })
        };
        (0..self.rows).map(error).collect()
    }
}

/// Returns the name of the figure whose relative error a column has.
fn varies_as(column: &Column) -> String {
    match column.section {
        // Tokens, cost and energy vary with the generated tokens.
        Section::Derived => DERIVED_FROM.to_owned(),
        _ => normal(&column.name),
    }
}

/// Smallest factor for assumed errors, even if runs repeat each other to the digit.
const LEAST_FACTOR: f64 = 0.1;
/// The probability that assumed errors are reduced below the true ones.
const RISK: f64 = 0.25;

impl Points<'_> {
    /// Returns the sampling errors of a metric. Assumed errors are reduced to the upper bound of the scatter of repeated runs (quantile of
    /// chi-squared by Wilson and Hilferty 1931).
    pub fn sampling(&self, metric: &str) -> Sampling {
        let column = self.runs.column(metric).filter(|column| !column.section.is_parameter());
        let Some(column) = column else {
            return Sampling::default();
        };
        let name = varies_as(column);
        let errors = self.runs.sampling_errors(column, &name);
        let factor = self.assumed_factor(column, &errors);
        Sampling { errors, factor }
    }

    fn assumed_factor(&self, column: &Column, errors: &[Option<SamplingError>]) -> f64 {
        let (mut freedom, mut squares, mut expected) = (0.0, 0.0, 0.0);
        for point in &self.points {
            let figures = point.used.iter().filter_map(|row| match errors[*row] {
                Some(SamplingError::Assumed(error)) => Some((column.cells.at(*row).number()?.ln(), error)),
                _ => None,
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
            true => (squares / expected / least).sqrt().clamp(LEAST_FACTOR, 1.0),
            false => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::Figures;
    use crate::table::{Cell, Points, RunRow, TableBuilder};
    use vsweep_base::validity::Validity;
    use vsweep_metrics::confidence::ASSUMED;

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
        let metrics = metrics
            .map(|(name, value)| (name, Cell::Float(value)))
            .into_iter()
            .collect();
        let errors = Figures::from_iter([("output_throughput".to_owned(), 0.03)]);
        let mut builder = TableBuilder::new();
        builder.push(RunRow {
            metrics: Some(&metrics),
            errors: Some(&errors),
            gpus: Some(2.0),
            ..RunRow::default()
        });
        let table = builder.finish();
        let error = |metric| Points::of(&table).sampling(metric).error(0);
        assert_eq!(error("output_throughput"), Some(0.03));
        assert_eq!(error("tokens_per_gpu"), Some(0.03));
        assert_eq!(error("mean_ttft_ms"), Some(0.05));
        assert_eq!(error("spec_decode_acceptance_rate"), Some(ASSUMED));
        assert_eq!(error("p99_itl_ms"), None);
        assert_eq!(error("p99_e2el_ms"), None);
    }
    #[test]
    fn runs_that_agree_contradict_an_assumed_error() {
        let part_of = |values: &[(&str, f64)], is_stated: bool| {
            let errors = Figures::from_iter([("output_throughput".to_owned(), ASSUMED)]);
            let mut builder = TableBuilder::new();
            for (point, value) in values {
                builder.push(RunRow {
                    point,
                    validity: Some(Validity::Valid),
                    metrics: Some(&[("output_throughput", Cell::Float(*value))].into_iter().collect()),
                    errors: Some(&errors).filter(|_| is_stated),
                    ..RunRow::default()
                });
            }
            let table = builder.finish();
            Points::of(&table).sampling("output_throughput").factor
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
