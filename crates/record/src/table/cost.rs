//! The cost of tokens: money if a price is known, energy if it was measured.

use super::{Column, Section, Table};

/// Seconds of an hour, by which GPUs are paid.
const HOUR_S: f64 = 3600.0;

impl Table {
    /// Adds the money for a million tokens, at a price for each GPU and hour: price × GPUs ÷ (tokens a second × 3600) × 10⁶.
    /// It is what the load costs while it lasts; a server that idles costs more.
    pub fn add_costs(&mut self, price_per_gpu_hour: f64) {
        let figures = [
            ("cost_per_million_output_tokens", "output_throughput"),
            ("cost_per_million_tokens", "total_token_throughput"),
        ];
        for (name, throughput) in figures {
            self.add(name, |table, row| {
                let gpus = table.positive("gpu_count", row)?;
                let tokens_per_s = table.positive(throughput, row)?;
                Some(price_per_gpu_hour * gpus / (tokens_per_s * HOUR_S) * 1e6)
            });
        }
    }

    /// Adds the energy of a token where the energy of every GPU of the server was measured.
    pub fn add_energies(&mut self) {
        let joules = |table: &Table, row| {
            let all = table.positive("gpu_count", row)?;
            let sampled = table.positive("gpus_sampled", row)?;
            table.positive("gpu_energy_joules", row).filter(|_| all == sampled)
        };
        self.add("joules_per_output_token", |table, row| {
            Some(joules(table, row)? / table.positive("total_output_tokens", row)?)
        });
        self.add("joules_per_token", |table, row| {
            let output = table.positive("total_output_tokens", row)?;
            Some(joules(table, row)? / (output + table.positive("total_input_tokens", row)?))
        });
    }

    /// Adds a column, unless no row has a figure for it or the benchmark itself has one of that name.
    fn add(&mut self, name: &str, figure: impl Fn(&Table, usize) -> Option<f64>) {
        let figures = (0..self.rows).map(|row| figure(self, row));
        let column = Column::of(name, Section::Derived, figures);
        if self.column(name).is_none() && column.is_known() {
            self.columns.push(column);
        }
    }

    fn positive(&self, name: &str, row: usize) -> Option<f64> {
        let number = self.cell(name, row).number();
        number.filter(|number| number.is_finite() && *number > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, RunRow, TableBuilder};

    fn table(rows: &[&[(&str, f64)]]) -> Table {
        let mut builder = TableBuilder::new();
        for (i, figures) in rows.iter().enumerate() {
            let figures = figures.iter().map(|(name, value)| (*name, Cell::Float(*value)));
            builder.push(RunRow {
                point: "p",
                run: i as u32,
                gpus: Some(4.0),
                metrics: Some(&figures.collect()),
                ..RunRow::default()
            });
        }
        builder.finish()
    }

    #[test]
    fn money_is_gpu_hours_by_tokens() {
        let mut table = table(&[
            &[("output_throughput", 1000.0), ("total_token_throughput", 4000.0)],
            &[],
        ]);
        table.add_costs(3.6);
        // 4 GPUs at 3.6 an hour are 0.004 a second, in which there are 1000 tokens.
        assert_eq!(table.cell("cost_per_million_output_tokens", 0), Cell::Float(4.0));
        assert_eq!(table.cell("cost_per_million_tokens", 0), Cell::Float(1.0));
        assert_eq!(table.cell("cost_per_million_tokens", 1), Cell::Missing);
    }

    #[test]
    fn energy_counts_only_where_every_gpu_was_read() {
        let run = |sampled| {
            vec![
                ("gpu_energy_joules", 600.0),
                ("gpus_sampled", sampled),
                ("total_output_tokens", 200.0),
                ("total_input_tokens", 100.0),
            ]
        };
        let mut table = table(&[&run(4.0), &run(2.0)]);
        table.add_energies();
        assert_eq!(table.cell("joules_per_output_token", 0), Cell::Float(3.0));
        assert_eq!(table.cell("joules_per_token", 0), Cell::Float(2.0));
        assert_eq!(table.cell("joules_per_token", 1), Cell::Missing);
    }

    #[test]
    fn nothing_known_adds_no_column() {
        let mut table = table(&[&[]]);
        let before = table.clone();
        table.add_costs(2.0);
        table.add_energies();
        assert_eq!(table, before);
    }
}
