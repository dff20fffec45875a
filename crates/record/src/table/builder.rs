//! Builds the table of runs row by row: collects columns as they appear, gives every column a unique name, and adds the figures that are
//! computed from others.

use super::marks::{Mark, RunFacts};
use super::shares::derive;
use super::{Cell, Column, RunFigures, RunRow, Section, Table, normal};
use crate::journal::ALONE_SLOT;
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use vsweep_base::cause::Cause;
use vsweep_base::printable::printable;
use vsweep_base::validity::{Doubt, Validity};
use vsweep_plan::spelling;

/// Keys of a result that only repeat a setting. If the plan sets the parameter of that name, only the parameter's column is kept.
pub const ECHOED: [&str; 9] = [
    "backend",
    "burstiness",
    "endpoint_type",
    "label",
    "max_concurrency",
    "model_id",
    "num_prompts",
    "request_rate",
    "tokenizer_id",
];

/// Column with the slot of a run's start; left out if every run belongs to the first start.
const START: &str = "start";

/// A table under construction.
#[derive(Debug, Default)]
pub struct TableBuilder {
    columns: Vec<Column>,
    /// Indices of the columns, by section and name. A parameter has an entry for every spelling that occurred.
    indices: HashMap<Section, HashMap<Box<str>, usize>>,
    runs: Vec<RunFacts>,
    launches: HashMap<String, u32>,
    /// The names of the last run's figures, and the indices of their columns.
    figures: (Arc<[Box<str>]>, Arc<[usize]>),
    /// The names of figures in doubts. Each is stored once, and shared by all runs.
    names: HashMap<String, Arc<str>>,
}

impl TableBuilder {
    /// Returns a builder without rows, which already has the columns that every table has.
    pub fn new() -> Self {
        let mut builder = TableBuilder::default();
        for name in ["point", "run", "outcome", "validity", "codes", "cause"] {
            builder.index_of(Section::Identity, name);
        }
        builder.index_of(Section::Origin, "simulated");
        builder.index_of(Section::Cause, "detail");
        builder.index_of(Section::Cause, "advice");
        builder
    }

    /// Appends one run.
    pub fn push(&mut self, row: RunRow<'_>) {
        let derived = derive(&row);
        self.set(Section::Identity, "point", Cell::Text(row.point.into()));
        self.set(Section::Identity, "run", Cell::Integer(row.run.into()));
        self.set(Section::Identity, "outcome", Cell::Text(row.outcome.to_string().into()));
        let text = |text: &str| match text {
            "" => Cell::Missing,
            text => Cell::text(text),
        };
        let codes = row.doubts.iter().map(|doubt| doubt.code.name()).join(" ");
        self.set(Section::Identity, "validity", row.validity.map(Validity::name).into());
        self.set(Section::Identity, "codes", text(&codes));
        self.set(Section::Identity, "cause", row.cause.map(Cause::name).into());
        // A probe that was cut has a detail without a cause: the reason for its verdict.
        let details = [row.detail]
            .into_iter()
            .chain(row.doubts.iter().map(|doubt| doubt.detail.as_str()));
        let detail = details.filter(|detail| !detail.is_empty()).join("; ");
        self.set(Section::Cause, "detail", text(&detail));
        let advice = row.cause.map(Cause::advice).into_iter();
        let advice = advice.chain(row.doubts.iter().map(|doubt| doubt.code.advice()));
        self.set(Section::Cause, "advice", text(&advice.unique().join("; ")));
        for (section, params) in [(Section::Serve, row.serve), (Section::Bench, row.bench)] {
            for (name, value) in params.into_iter().flatten() {
                self.set(section, name, Cell::from_json(value));
            }
        }
        if let Some(simulated) = row.simulated {
            self.set(Section::Origin, "simulated", Cell::Bool(simulated));
        }
        if let Some(figures) = row.metrics {
            self.set_figures(figures);
        }
        for (name, value) in derived {
            self.set(Section::Derived, name, value.into());
        }
        if let Some(machine) = row.machine {
            self.set(Section::Origin, "node", text(&machine.node));
            for (name, fact) in [
                ("node_gpus", machine.describe_gpus()),
                ("node_gpu_driver", machine.gpu_driver.unwrap_or_default()),
            ] {
                if !fact.is_empty() {
                    self.set(Section::Origin, name, Cell::text(&fact));
                }
            }
        }
        let mark = |doubt: &Doubt| Mark {
            code: doubt.code,
            figures: doubt.figures.iter().map(|name| self.name_of(name)).collect(),
        };
        let marks = row.doubts.iter().map(mark).collect();
        let number = self.launches.len() as u32;
        self.runs.push(RunFacts {
            outcome: row.outcome,
            validity: row.validity,
            marks,
            errors: row.errors.cloned().unwrap_or_default(),
            slot: row.slot,
            launch: row.launch.map(|launch| *self.launches.entry(launch).or_insert(number)),
            order: row.order,
        });
    }

    /// Returns the stored copy of a figure's name.
    fn name_of(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(name) => name.clone(),
            None => self.names.entry(name.to_owned()).or_insert(name.into()).clone(),
        }
    }

    /// Returns the finished table. A parameter keeps its name, or gets its side as a prefix if the name alone is ambiguous. A measured
    /// figure keeps its name, but is dropped if it repeats a setting or has the name of a column of vsweep.
    pub fn finish(mut self) -> Table {
        let named = self.columns.iter().map(|column| (column.section, normal(&column.name)));
        let mut taken: HashSet<(Section, String)> = named.collect();
        let has_starts = self.runs.iter().any(|run| run.slot > 0);
        taken.extend(has_starts.then(|| (Section::Identity, normal(START))));
        let has = |section, column: &Column| taken.contains(&(section, normal(&column.name)));
        self.columns.retain(|column| {
            let is_metric = column.section == Section::Metric;
            let repeats_setting = is_echo(column) && (has(Section::Bench, column) || has(Section::Serve, column));
            // An external benchmark may use the name of a column of vsweep for another figure.
            let has_reserved_name = [Section::Identity, Section::Origin, Section::Derived, Section::Cause]
                .into_iter()
                .any(|section| has(section, column));
            !(is_metric && (repeats_setting || has_reserved_name))
        });
        for column in &mut self.columns {
            column.cells.resize(self.runs.len());
            column.cells.shrink();
            let (side, rival) = match column.section {
                Section::Serve => ("serve", Section::Bench),
                Section::Bench => ("bench", Section::Serve),
                _ => continue,
            };
            let reserved = [Section::Identity, Section::Origin, Section::Cause];
            let is_reserved = reserved.into_iter().any(|section| has(section, column));
            let is_figure = has(Section::Derived, column) || (has(Section::Metric, column) && !is_echo(column));
            if has(rival, column) || is_reserved || is_figure {
                column.name = format!("{side}.{}", column.name);
            }
        }
        self.columns.sort_by_key(|column| column.section);
        self.runs.shrink_to_fit();
        if has_starts {
            let slots = self.runs.iter().map(|run| match run.slot {
                ALONE_SLOT => Cell::text("alone"),
                slot => Cell::Integer(slot.into()),
            });
            let after_point = 1;
            self.columns
                .insert(after_point, Column::of(START, Section::Identity, slots));
        }
        Table {
            columns: self.columns,
            rows: self.runs.len(),
            runs: self.runs,
        }
    }

    fn set(&mut self, section: Section, name: &str, cell: Cell) {
        let index = self.index_of(section, name);
        self.put(index, cell);
    }

    fn set_figures(&mut self, figures: &RunFigures) {
        let (names, indices) = &self.figures;
        let indices = match names == figures.names() {
            true => Arc::clone(indices),
            false => figures
                .iter()
                .map(|(name, _)| self.index_of(Section::Metric, name))
                .collect(),
        };
        for (index, (_, cell)) in indices.iter().zip(figures.iter()) {
            self.put(*index, cell.clone());
        }
        self.figures = (Arc::clone(figures.names()), indices);
    }

    /// Sets a cell of the run that is being added, replacing an earlier value. Cells of earlier runs that have no value are filled as
    /// missing.
    fn put(&mut self, index: usize, cell: Cell) {
        let cells = &mut self.columns[index].cells;
        cells.resize(self.runs.len());
        cells.push(cell);
    }

    fn index_of(&mut self, section: Section, name: &str) -> usize {
        let indices = self.indices.entry(section).or_default();
        if let Some(index) = indices.get(name) {
            return *index;
        }
        // All spellings of a parameter are one column.
        let canonical: Box<str> = match section.is_parameter() {
            true => spelling::canonical(name).into(),
            false => name.into(),
        };
        let index = *indices.entry(canonical).or_insert_with(|| {
            self.columns.push(Column::of(printable(name), section, None::<Cell>));
            self.columns.len() - 1
        });
        indices.insert(name.into(), index);
        index
    }
}

fn is_echo(column: &Column) -> bool {
    ECHOED.contains(&normal(&column.name).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use vsweep_plan::Params;

    fn params(value: serde_json::Value) -> Params {
        value.as_object().cloned().expect("an object")
    }

    fn row<'a>(serve: &'a Params, bench: &'a Params, metrics: &'a RunFigures) -> RunRow<'a> {
        RunRow {
            point: "p",
            run: 1,
            validity: Some(Validity::Valid),
            serve: Some(serve),
            bench: Some(bench),
            gpus: Some(2.0),
            metrics: Some(metrics),
            ..RunRow::default()
        }
    }

    fn names(table: &Table) -> Vec<&str> {
        table.columns().iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn parameters_keep_their_names_unless_two_things_share_one() {
        let serve = params(json!({"seed": 1, "tp": 2, "run": 3}));
        let bench = params(json!({"seed": 4, "max_concurrency": 8, "duration": 9}));
        let figures = [("max_concurrency", 8.0), ("duration", 1.5), ("output_throughput", 64.0)];
        let figures = figures
            .map(|(name, value)| (name, Cell::Float(value)))
            .into_iter()
            .collect();
        let mut builder = TableBuilder::new();
        builder.push(row(&serve, &bench, &figures));
        let table = builder.finish();
        let expected = "point run outcome validity codes cause serve.seed tp serve.run bench.seed max_concurrency bench.duration \
                        simulated duration output_throughput user_count_estimate gpu_count tokens_per_user tokens_per_gpu \
                        detail advice";
        assert_eq!(names(&table), expected.split_whitespace().collect::<Vec<_>>());
        assert_eq!(table.cell("duration", 0), Cell::Float(1.5));
        assert_eq!(table.cell("serve.tp", 0), Cell::Integer(2));
        assert_eq!(table.cell("max-concurrency", 0), Cell::Integer(8));
        assert_eq!(table.cell("tokens_per_user", 0), Cell::Float(8.0));
        assert_eq!(table.cell("tokens_per_gpu", 0), Cell::Float(32.0));
    }

    #[test]
    fn rows_with_different_columns_line_up() {
        let (none, tp) = (Params::new(), params(json!({"tp": 2})));
        let mut builder = TableBuilder::new();
        builder.push(row(&none, &none, &[("a", Cell::Integer(1))].into_iter().collect()));
        builder.push(row(&tp, &none, &RunFigures::default()));
        builder.push(row(&none, &none, &[("b", Cell::Integer(3))].into_iter().collect()));
        let table = builder.finish();
        let column = |name: &str| table.column(name).expect("there").cells.iter().collect::<Vec<_>>();
        assert_eq!(column("tp"), [Cell::Missing, Cell::Integer(2), Cell::Missing]);
        assert_eq!(column("a"), [Cell::Integer(1), Cell::Missing, Cell::Missing]);
        assert_eq!(column("b"), [Cell::Missing, Cell::Missing, Cell::Integer(3)]);
    }

    #[test]
    fn a_parameter_is_one_column_however_it_is_spelled() {
        let none = Params::new();
        let mut builder = TableBuilder::new();
        for given in [
            json!({"max_num_seqs": 1}),
            json!({"max-num-seqs": 2}),
            json!({"max_num_seqs": 3, "max-num-seqs": 4}),
        ] {
            builder.push(row(&params(given), &none, &RunFigures::default()));
        }
        let table = builder.finish();
        let cells = &table.column("max_num_seqs").expect("there").cells;
        assert_eq!(*cells, [1, 2, 4].map(Cell::Integer).into_iter().collect());
        assert!(!names(&table).contains(&"max-num-seqs"));
    }
}
