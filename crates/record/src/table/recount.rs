//! Users and GPUs counted by columns of the user's choice, and the figures that follow from them.

use super::users::written_number;
use super::{Cell, Table};

impl Table {
    /// Takes the number of users and of GPUs from these columns wherever they hold a positive number, and computes the
    /// tokens per user and per GPU again. Rows where they do not keep their count.
    pub fn recount(&mut self, users: Option<&str>, gpus: Option<&str>) -> Result<(), String> {
        let changes = [
            (users, "user_count_estimate", "tokens_per_user"),
            (gpus, "gpu_count", "tokens_per_gpu"),
        ];
        for (source, count, share) in changes {
            let Some(source) = source else { continue };
            let told: Vec<Option<f64>> = self.known_column(source)?.cells.iter().map(written_number).collect();
            if told.iter().all(Option::is_none) {
                self.numeric_column(source)?;
            }
            let throughput: Vec<Option<f64>> = (0..self.rows)
                .map(|row| self.cell("output_throughput", row).number())
                .collect();
            for (row, told) in told.iter().enumerate() {
                let Some(number) = told.filter(|number| number.is_finite() && *number > 0.0) else {
                    continue;
                };
                let per = Cell::from(throughput[row].map(|tokens| tokens / number));
                for (name, cell) in [(count, number.into()), (share, per)] {
                    if let Some(column) = self.column_mut(name) {
                        column.cells[row] = cell;
                    }
                }
            }
        }
        Ok(())
    }
}
