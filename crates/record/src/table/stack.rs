//! Several tables as one, so that experiments can be drawn in one chart.

use super::marks::RunFacts;
use super::{Cell, Cells, Column, Section, Table};
use std::collections::HashMap;
use std::fmt::Display;

/// Name of the column with the experiment of a row. It is a setting of the server, so results of two experiments stay apart, and compete
/// with each other.
pub const EXPERIMENT: &str = "experiment";

/// Returns the id of a point among those of several experiments.
pub(super) fn stacked_point(experiment: &str, point: impl Display) -> String {
    format!("{experiment}/{point}")
}

impl Table {
    /// Returns the rows of all tables in order, each with the name of its experiment. Columns of equal name and section become one. A point
    /// stays apart from the same point of another experiment.
    pub fn stack(tables: Vec<(String, Table)>) -> Table {
        let mut stacked = Table::default();
        let mut indices: HashMap<(Section, String), usize> = HashMap::new();
        let mut names = Vec::new();
        for (experiment, table) in tables {
            let from = stacked.rows;
            stacked.rows += table.rows;
            stacked.add_runs(table.runs);
            names.resize(stacked.rows, Cell::text(&experiment));
            for mut column in table.columns {
                if (column.section, column.name.as_str()) == (Section::Identity, "point") {
                    column
                        .cells
                        .change(|point| Cell::text(&stacked_point(&experiment, point)));
                }
                let index = indices.entry((column.section, column.name.clone())).or_insert_with(|| {
                    stacked.columns.push(Column {
                        name: column.name.clone(),
                        section: column.section,
                        cells: Cells::default(),
                    });
                    stacked.columns.len() - 1
                });
                let cells = &mut stacked.columns[*index].cells;
                cells.resize(from);
                column.cells.iter().for_each(|cell| cells.push(cell));
            }
            for column in &mut stacked.columns {
                column.cells.resize(stacked.rows);
            }
        }
        stacked.columns.push(Column::of(EXPERIMENT, Section::Serve, names));
        // The experiment comes first among the settings.
        stacked
            .columns
            .sort_by_key(|column| (column.section, column.name != EXPERIMENT));
        stacked
    }

    /// Returns a table with these rows.
    pub fn select(&self, rows: &[usize]) -> Table {
        let column = |column: &Column| Column {
            name: column.name.clone(),
            section: column.section,
            cells: rows.iter().map(|row| column.cells.at(*row)).collect(),
        };
        Table {
            columns: self.columns.iter().map(column).collect(),
            rows: rows.len(),
            runs: rows.iter().filter_map(|row| self.runs.get(*row).cloned()).collect(),
        }
    }

    /// Adds the facts about another table's runs, with new numbers for its launches.
    fn add_runs(&mut self, runs: Vec<RunFacts>) {
        let launches = self.runs.iter().filter_map(|run| run.launch);
        let first = launches.max().map_or(0, |last| last + 1);
        self.runs.extend(runs.into_iter().map(|run| RunFacts {
            launch: run.launch.map(|launch| first + launch),
            ..run
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, Section, &[i64])]) -> Table {
        let columns: Vec<Column> = columns
            .iter()
            .map(|(name, section, values)| Column {
                name: (*name).to_owned(),
                section: *section,
                cells: values.iter().map(|value| Cell::Integer(*value)).collect(),
            })
            .collect();
        Table::of(columns)
    }

    #[test]
    fn rows_line_up_and_points_stay_apart() {
        let a = table(&[("point", Section::Identity, &[1, 2]), ("tp", Section::Serve, &[1, 2])]);
        let b = table(&[("point", Section::Identity, &[1]), ("seqs", Section::Serve, &[8])]);
        let both = Table::stack(vec![("a".into(), a), ("b".into(), b)]);
        let shown = |name: &str| {
            (0..3)
                .map(|row| both.cell(name, row).to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(shown("point"), "a/1 a/2 b/1");
        assert_eq!(shown("tp"), "1 2 ");
        assert_eq!(shown("seqs"), "  8");
        assert_eq!(shown(EXPERIMENT), "a a b");
        let names: Vec<&str> = both.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["point", "experiment", "tp", "seqs"]);
    }
}
