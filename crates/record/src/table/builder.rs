//! Builds the table of runs row by row: collects columns as they appear, gives every column an unmistakable name, and
//! adds the figures that are computed from others.

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

/// Keys of a result that only repeat a setting. Where the plan sets the parameter of that name, its column says it.
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

/// A table under construction.
#[derive(Debug, Default)]
pub struct TableBuilder {
    columns: Vec<Column>,
    /// The columns by section and name; those of a parameter by every spelling that a row had.
    places: HashMap<Section, HashMap<Box<str>, usize>>,
    runs: Vec<RunFacts>,
    launches: HashMap<String, u32>,
    /// The names of the last run's figures, and their columns.
    figures: (Arc<[Box<str>]>, Arc<[usize]>),
    /// Names of figures, which every run repeats.
    names: HashMap<String, Arc<str>>,
}

impl TableBuilder {
    /// A table without rows, which already has the columns that every table has.
    pub fn new() -> Self {
        let mut builder = TableBuilder::default();
        for name in ["point", "run", "outcome", "validity", "codes", "cause"] {
            builder.place(Section::Identity, name);
        }
        builder.place(Section::Origin, "simulated");
        builder.place(Section::Cause, "detail");
        builder.place(Section::Cause, "advice");
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
        let codes = row.doubts.iter().map(|doubt| doubt.code).join(" ");
        self.set(Section::Identity, "validity", row.validity.map(Validity::name).into());
        self.set(Section::Identity, "codes", text(&codes));
        self.set(Section::Identity, "cause", row.cause.map(Cause::name).into());
        // A probe that was cut has no cause, but a reason for its verdict.
        let seen = [row.detail]
            .into_iter()
            .chain(row.doubts.iter().map(|doubt| doubt.detail.as_str()));
        let detail = seen.filter(|seen| !seen.is_empty()).join("; ");
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

    fn name_of(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(name) => name.clone(),
            None => self.names.entry(name.to_owned()).or_insert(name.into()).clone(),
        }
    }

    /// The finished table: every parameter by its own name, with its side as a prefix where the name alone would be
    /// ambiguous; a measured figure never gives way to a parameter.
    pub fn finish(mut self) -> Table {
        let named = self.columns.iter().map(|column| (column.section, normal(&column.name)));
        let taken: HashSet<(Section, String)> = named.collect();
        let has = |section, column: &Column| taken.contains(&(section, normal(&column.name)));
        self.columns.retain(|column| {
            let is_metric = column.section == Section::Metric;
            let repeats_setting = is_echo(column) && (has(Section::Bench, column) || has(Section::Serve, column));
            // Columns of an external benchmark with one of our names mean something else.
            let takes_our_name = [Section::Identity, Section::Origin, Section::Derived, Section::Cause]
                .into_iter()
                .any(|section| has(section, column));
            !(is_metric && (repeats_setting || takes_our_name))
        });
        for column in &mut self.columns {
            column.cells.resize(self.runs.len());
            column.cells.shrink();
            let (side, rival) = match column.section {
                Section::Serve => ("serve", Section::Bench),
                Section::Bench => ("bench", Section::Serve),
                _ => continue,
            };
            let ours = [Section::Identity, Section::Origin, Section::Cause];
            let reserved = ours.into_iter().any(|section| has(section, column));
            let measured = has(Section::Derived, column) || (has(Section::Metric, column) && !is_echo(column));
            if has(rival, column) || reserved || measured {
                column.name = format!("{side}.{}", column.name);
            }
        }
        self.columns.sort_by_key(|column| column.section);
        self.runs.shrink_to_fit();
        if self.runs.iter().any(|run| run.slot > 0) {
            let slots = self.runs.iter().map(|run| match run.slot {
                ALONE_SLOT => Cell::text("alone"),
                slot => Cell::Integer(slot.into()),
            });
            let after_point = 1;
            self.columns
                .insert(after_point, Column::of("start", Section::Identity, slots));
        }
        Table {
            columns: self.columns,
            rows: self.runs.len(),
            runs: self.runs,
        }
    }

    fn set(&mut self, section: Section, name: &str, cell: Cell) {
        let place = self.place(section, name);
        self.put(place, cell);
    }

    fn set_figures(&mut self, figures: &RunFigures) {
        let (names, places) = &self.figures;
        let places = match names == figures.names() {
            true => Arc::clone(places),
            false => figures
                .iter()
                .map(|(name, _)| self.place(Section::Metric, name))
                .collect(),
        };
        for (place, (_, cell)) in places.iter().zip(figures.iter()) {
            self.put(*place, cell.clone());
        }
        self.figures = (Arc::clone(figures.names()), places);
    }

    fn put(&mut self, place: usize, cell: Cell) {
        let cells = &mut self.columns[place].cells;
        cells.resize(self.runs.len());
        cells.push(cell);
    }

    fn place(&mut self, section: Section, name: &str) -> usize {
        let places = self.places.entry(section).or_default();
        if let Some(place) = places.get(name) {
            return *place;
        }
        // All spellings of a parameter are one column.
        let canonical: Box<str> = match section.is_parameter() {
            true => spelling::canonical(name).into(),
            false => name.into(),
        };
        let place = *places.entry(canonical).or_insert_with(|| {
            self.columns.push(Column::of(printable(name), section, None::<Cell>));
            self.columns.len() - 1
        });
        places.insert(name.into(), place);
        place
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
