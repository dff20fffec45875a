//! Runs as rows: typed columns in a fixed order, grouped into points, written as CSV and Parquet, compared by Pareto dominance.
//!
//! This room computes and orders; it neither finds files nor draws. The caller provides the rows, from the journal or from another tool's
//! results.

mod bin;
mod builder;
mod cell;
mod csv;
mod filter;
mod marks;
mod metric_set;
mod parquet;
mod points;
mod scalars;
mod search_result;
mod shares;
mod stack;
/// Statistics of points: estimates, spreads, samplings, frontiers.
mod statistics {
    pub(super) mod estimates;
    pub(super) mod pareto;
    pub(super) mod sampling;
    pub(super) mod steadiness;
    pub(super) mod tradeoff;
}
mod workload;

pub use self::parquet::write_parquet;
pub use bin::Bin;
pub use builder::{ECHOED, TableBuilder};
pub use cell::{Cell, Cells};
pub use csv::{inert, write_csv};
pub use filter::Filter;
use itertools::Itertools;
pub use marks::RunRow;
pub use metric_set::{MetricSet, TableFigure};
pub use points::{Point, PointOutcome, Points};
pub use scalars::{RunFigures, read_scalars};
pub use search_result::{SearchResult, search_results};
pub use shares::{SOURCES, count_gpus, machine_gpus, used_gpus, whole_gpus};
pub use stack::EXPERIMENT;
pub use statistics::estimates::Spread;
pub use statistics::pareto::{distinct, frontier, knee};
pub use statistics::sampling::Sampling;
pub use statistics::steadiness::{Disagreement, Drift};
pub use statistics::tradeoff::{Measure, PER_GPU, PER_USER, PlacedPoint, Tradeoff, list_placed, natural_direction};
pub use vsweep_strategy::stats::Better;
pub use workload::{Workload, is_of_load};

/// The column with the name of a combination, of servers or of loads. Names are more readable than the combination's parameters.
pub const COMBO: &str = "combo";

/// The topic of a column. Tables list their columns in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// Identity of the run or point of the row, and its outcome.
    Identity,
    /// A server parameter.
    Serve,
    /// A bench parameter.
    Bench,
    /// Origin of the figures: `simulated` for those of the simulator, and the node.
    Origin,
    /// A figure of the run's result, by vLLM's name.
    Metric,
    /// A figure computed from others: users, GPUs, tokens per user and per GPU, cost and energy.
    Derived,
    /// Details of the row's cause, and the remedy.
    Cause,
}

impl Section {
    /// Returns true if a column of this section is a setting instead of a figure.
    pub fn is_parameter(self) -> bool {
        matches!(self, Section::Serve | Section::Bench)
    }
}

/// One column: a name and a cell for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name of the column, unique within its table.
    pub name: String,
    /// The topic of the column.
    pub section: Section,
    /// One cell for each row.
    pub cells: Cells,
}

impl Column {
    /// Returns a column of these cells.
    pub fn of<C: Into<Cell>>(name: impl Into<String>, section: Section, cells: impl IntoIterator<Item = C>) -> Column {
        Column {
            name: name.into(),
            section,
            cells: cells.into_iter().collect(),
        }
    }

    /// Returns true if any row has a number.
    pub fn has_numbers(&self) -> bool {
        self.cells.values().any(|cell| cell.number().is_some())
    }
}

/// Rows and typed columns, stored by column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: usize,
    /// Facts about each row; empty in tables that do not list runs.
    runs: Vec<marks::RunFacts>,
}

impl Table {
    /// Returns a table that does not list runs, with columns of equal length.
    pub(crate) fn of(columns: Vec<Column>) -> Table {
        Table {
            rows: columns.first().map_or(0, |column| column.cells.len()),
            columns,
            ..Table::default()
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns, ordered by section and within a section by first appearance.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the column of this name. Dashes and underscores are alike, as on vLLM's command line. `serve.x` or `bench.x` finds the
    /// parameter `x` of that side, even if its column has no prefix.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        let alike = exact.or_else(|| self.column_alike(name));
        // vLLM calls the combination `_benchmark_name`. If both sides have one, that of the load is meant.
        let of_vllm = || self.column(COMBO).or_else(|| self.column(&format!("bench.{COMBO}")));
        alike.or_else(|| (name == "_benchmark_name").then(of_vllm).flatten())
    }

    fn column_alike(&self, wanted: &str) -> Option<&Column> {
        let alike = self.columns.iter().find(|column| are_alike(&column.name, wanted));
        alike.or_else(|| {
            let (side, plain) = wanted.split_once('.')?;
            let section = match side {
                "serve" => Section::Serve,
                "bench" => Section::Bench,
                _ => return None,
            };
            let mut side = self.columns.iter().filter(|column| column.section == section);
            side.find(|column| are_alike(&column.name, plain))
        })
    }

    /// Returns the column of this name, or a sentence with names that were likely meant.
    pub fn known_column(&self, name: &str) -> Result<&Column, String> {
        self.column(name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            let remedy = match vsweep_plan::nearest(name, names.iter().copied()).is_empty() {
                // The names of all columns do not fit in a terminal.
                true => "the first line of summary.csv has the names".to_owned(),
                false => vsweep_plan::suggest(name, names),
            };
            format!("there is no column `{name}`; {remedy}")
        })
    }

    /// Returns the column of this name, which must have a number in some row.
    pub fn numeric_column(&self, name: &str) -> Result<&Column, String> {
        let column = self.known_column(name)?;
        if column.has_numbers() {
            return Ok(column);
        }
        let numeric = self.columns.iter().filter(|column| column.has_numbers());
        let numeric = numeric.map(|column| &column.name).join(", ");
        Err(format!(
            "no run has a number for `{name}`; columns with numbers are: {numeric}"
        ))
    }

    fn column_mut(&mut self, name: &str) -> Option<&mut Column> {
        let name = self.column(name)?.name.clone();
        self.columns.iter_mut().find(|column| column.name == name)
    }

    /// Returns the cell of a row; missing if the table has no such column.
    pub fn cell(&self, name: &str, row: usize) -> Cell {
        self.column(name).map_or(Cell::Missing, |column| column.cells.at(row))
    }
}

/// Returns true if two names differ at most in dashes and underscores, which vLLM does not distinguish.
fn are_alike(one: &str, other: &str) -> bool {
    let is_dash = |byte: u8| matches!(byte, b'-' | b'_');
    let mut pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.all(|(a, b)| a == b || (is_dash(a) && is_dash(b)))
}

/// Returns a parameter's name with underscores instead of dashes, which vLLM does not distinguish.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}
