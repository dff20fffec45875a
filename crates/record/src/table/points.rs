//! Runs grouped into points: how many succeeded, and the median and spread of every figure.

use super::{Cell, Column, ECHOED, Section, Table};
use std::collections::HashMap;
use std::fmt;

/// What the runs of one point amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every run is good.
    Ok,
    /// Some runs are good; the figures are theirs.
    Partial,
    /// No run is good, but some were measured with a doubt; the figures are theirs.
    Suspect,
    /// Nothing was measured.
    Failed,
    /// Every run was a probe of a search that was ended as soon as its verdict was certain.
    Cut,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Partial => "partial",
            Verdict::Suspect => "suspect",
            Verdict::Failed => "failed",
            Verdict::Cut => "cut",
        })
    }
}

/// One point and its runs.
#[derive(Debug, Clone)]
pub struct Point {
    /// The point's id.
    pub id: Box<str>,
    /// What its runs amount to.
    pub verdict: Verdict,
    /// Good runs.
    pub ok: usize,
    /// Runs measured with a doubt.
    pub suspect: usize,
    /// Runs without figures.
    pub failed: usize,
    /// Probes of a search that were ended as soon as their verdict was certain.
    pub cut: usize,
    /// Rows of the run table that its figures come from: the good runs, or the doubtful ones if none is good.
    pub used: Vec<usize>,
    /// Any of its rows, for what is equal in all of them (parameters).
    pub row: usize,
}

/// One figure of a point over the runs it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Middle value; the mean of the middle two for an even number of runs.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

/// The points of a run table, in order of first appearance.
#[derive(Debug, Clone)]
pub struct Points<'t> {
    /// The runs.
    pub runs: &'t Table,
    /// The points.
    pub points: Vec<Point>,
}

impl<'t> Points<'t> {
    /// Groups runs by their point.
    pub fn of(runs: &'t Table) -> Self {
        let mut points: Vec<Point> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut doubtful: Vec<Vec<usize>> = Vec::new();
        for row in 0..runs.rows() {
            let id = runs.cell("point", row).to_string();
            let place = *places.entry(id).or_insert_with_key(|id| {
                points.push(Point::new(id, row));
                doubtful.push(Vec::new());
                points.len() - 1
            });
            let point = &mut points[place];
            match runs.cell("outcome", row) {
                Cell::Text(outcome) if &**outcome == "ok" => {
                    point.ok += 1;
                    point.used.push(row);
                }
                Cell::Text(outcome) if &**outcome == "suspect" => {
                    point.suspect += 1;
                    doubtful[place].push(row);
                }
                Cell::Text(outcome) if &**outcome == "cut" => point.cut += 1,
                _ => point.failed += 1,
            }
        }
        for (point, doubtful) in points.iter_mut().zip(doubtful) {
            if point.ok == 0 {
                point.used = doubtful;
            }
            point.verdict = match (point.ok, point.suspect, point.failed) {
                (0, 0, 0) => Verdict::Cut,
                (0, 0, _) => Verdict::Failed,
                (0, _, _) => Verdict::Suspect,
                (_, 0, 0) => Verdict::Ok,
                _ => Verdict::Partial,
            };
        }
        Points { runs, points }
    }

    /// Leaves only points with a used run among these rows, which are in ascending order.
    pub fn keep(&mut self, rows: &[usize]) {
        let is_kept = |row: &usize| rows.binary_search(row).is_ok();
        self.points.retain_mut(|point| {
            point.used.retain(is_kept);
            !point.used.is_empty()
        });
    }

    /// A figure of a point over its runs; `None` where no run has it.
    pub fn spread(&self, point: &Point, metric: &str) -> Option<Spread> {
        self.runs.column(metric)?.spread(&point.used)
    }

    /// A parameter of a point.
    pub fn param(&self, point: &Point, name: &str) -> &'t Cell {
        self.runs.cell(name, point.row)
    }

    /// One row a point: counts and verdict, parameters, then each figure's median by the figure's own name, with its
    /// smallest and largest value beside it.
    pub fn to_table(&self) -> Table {
        let column = |name: &str, section, cell: &dyn Fn(&Point) -> Cell| Column {
            name: name.to_owned(),
            section,
            cells: self.points.iter().map(cell).collect(),
        };
        let identity = Section::Identity;
        let mut columns = vec![
            column("point", identity, &|point| Cell::Text(point.id.clone())),
            column("verdict", identity, &|point| {
                Cell::Text(point.verdict.to_string().into())
            }),
            column("runs_ok", identity, &|point| point.ok.into()),
            column("runs_suspect", identity, &|point| point.suspect.into()),
            column("runs_failed", identity, &|point| point.failed.into()),
        ];
        for source in self.runs.columns() {
            match source.section {
                Section::Identity | Section::Cause => {}
                Section::Serve | Section::Bench | Section::Origin => {
                    columns.push(column(&source.name, source.section, &|point| {
                        source.cells[point.row].clone()
                    }));
                }
                Section::Metric | Section::Derived => columns.extend(self.spread_columns(source)),
            }
        }
        Table {
            columns,
            rows: self.points.len(),
        }
    }

    fn spread_columns(&self, source: &Column) -> impl Iterator<Item = Column> {
        let spreads: Vec<_> = self.points.iter().map(|point| source.spread(&point.used)).collect();
        let is_numeric = spreads.iter().any(Option::is_some);
        // Counts stay counts, but for a median between two of them.
        let is_count = source
            .cells
            .iter()
            .all(|cell| matches!(cell, Cell::Integer(_) | Cell::Missing));
        let cell = move |figure: f64| match is_count && figure.fract() == 0.0 {
            true => Cell::Integer(figure as i64),
            false => figure.into(),
        };
        let column = move |suffix: &str, figure: fn(&Spread) -> f64| Column {
            name: format!("{}{suffix}", source.name),
            section: source.section,
            cells: spreads
                .iter()
                .map(|spread| spread.as_ref().map_or(Cell::Missing, |spread| cell(figure(spread))))
                .collect(),
        };
        // A setting that the result repeats is the same in every run.
        let ends = if ECHOED.contains(&source.name.as_str()) { 0 } else { 2 };
        let columns = is_numeric.then(|| {
            [
                column("", |spread| spread.median),
                column("_min", |spread| spread.min),
                column("_max", |spread| spread.max),
            ]
        });
        columns.into_iter().flatten().take(1 + ends)
    }
}

impl Point {
    fn new(id: &str, row: usize) -> Self {
        Point {
            id: id.into(),
            verdict: Verdict::Failed,
            ok: 0,
            suspect: 0,
            failed: 0,
            cut: 0,
            used: Vec::new(),
            row,
        }
    }
}

impl Column {
    /// The numbers among these rows; `None` if there is none.
    pub fn spread(&self, rows: &[usize]) -> Option<Spread> {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| self.cells[*row].number()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            // Equal ones may be infinite, where a mean is none.
            _ if values[middle - 1] == values[middle] => values[middle],
            _ => values[middle - 1] + (values[middle] - values[middle - 1]) / 2.0,
        };
        let count = values.len();
        Some(Spread {
            median,
            min,
            max,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Row, TableBuilder, write_csv};
    use serde_json::json;
    use vsweep_plan::cause::Outcome;
    use vsweep_plan::plan::Params;

    fn table(runs: &[(&str, Outcome, Option<f64>)]) -> Table {
        let mut builder = TableBuilder::new();
        let serve = json!({"tp": 1}).as_object().cloned().expect("an object");
        for (i, (point, outcome, value)) in runs.iter().enumerate() {
            let metrics: Vec<_> = value
                .map(|value| ("ttft".into(), Cell::Float(value)))
                .into_iter()
                .collect();
            builder.push(Row {
                point,
                run: i as u32,
                outcome: *outcome,
                cause: None,
                detail: "",
                serve: &serve,
                bench: &Params::new(),
                simulated: Some(true),
                gpus: Some(1.0),
                metrics: &metrics,
            });
        }
        builder.finish()
    }

    #[test]
    fn doubtful_runs_count_only_where_no_run_is_good() {
        let runs = table(&[
            ("a", Outcome::Ok, Some(1.0)),
            ("a", Outcome::Suspect, Some(9.0)),
            ("a", Outcome::Ok, Some(3.0)),
            ("b", Outcome::Failed, None),
            ("b", Outcome::Suspect, Some(5.0)),
            ("c", Outcome::Failed, None),
        ]);
        let points = Points::of(&runs);
        let verdicts: Vec<_> = points.points.iter().map(|point| point.verdict).collect();
        assert_eq!(verdicts, [Verdict::Partial, Verdict::Suspect, Verdict::Failed]);
        let mut csv = Vec::new();
        write_csv(&points.to_table(), &mut csv).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8_lossy(&csv), @"
        point,verdict,runs_ok,runs_suspect,runs_failed,tp,simulated,ttft,ttft_min,ttft_max,gpu_count,gpu_count_min,gpu_count_max
        a,partial,2,1,0,1,true,2.0,1.0,3.0,1.0,1.0,1.0
        b,suspect,0,1,1,1,true,5.0,5.0,5.0,1.0,1.0,1.0
        c,failed,0,0,1,1,true,,,,,,
        ");
    }
}
