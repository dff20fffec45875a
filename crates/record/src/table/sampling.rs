//! Chance error of the figures of a row: as the run states it, or estimated from its other figures.

use super::{Section, Table, normal};
use vsweep_metrics::metrics::confidence::assumed_error;

/// Derived figures, and the one that varies as they do.
const DERIVED_FROM: &str = "output_throughput";

impl Table {
    /// The relative sampling error (standard error of the logarithm) of a figure of a row; `None` if the row has no such figure
    /// above 0.
    pub fn error(&self, row: usize, metric: &str) -> Option<f64> {
        let column = self.column(metric)?;
        let value = column.cells.get(row)?.number()?;
        if column.section.is_parameter() || value <= 0.0 {
            return None;
        }
        let name = match column.section {
            // Errors of tokens, cost and energy come from the output throughput.
            Section::Derived => DERIVED_FROM,
            _ => &normal(&column.name),
        };
        let known = &self.runs.get(row)?.errors;
        let stated = known
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, error)| *error);
        Some(stated.unwrap_or_else(|| assumed_error(name, |other| self.cell(other, row).number())))
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::Figures;
    use crate::table::{Cell, RunRow, TableBuilder};
    use vsweep_metrics::metrics::confidence::ASSUMED;

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
        assert_eq!(table.error(0, "output_throughput"), Some(0.03));
        assert_eq!(table.error(0, "tokens_per_gpu"), Some(0.03));
        assert_eq!(table.error(0, "mean_ttft_ms"), Some(0.05));
        assert_eq!(table.error(0, "spec_decode_acceptance_rate"), Some(ASSUMED));
        assert_eq!(table.error(0, "p99_itl_ms"), None);
        assert_eq!(table.error(0, "p99_e2el_ms"), None);
    }
}
