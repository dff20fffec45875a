//! Runs grouped into points: how many succeeded, whether their figures may be believed, and the median and spread of every
//! figure.

use super::disagree::{Disagreement, disagreement};
use super::drift::{Drifting, drifting};
use super::{Cell, Column, ECHOED, Section, Spread, Table};
use itertools::Itertools;
use std::collections::HashMap;
use std::fmt;
use vsweep_plan::cause::Outcome;
use vsweep_plan::validity::{Code, Validity};

/// What the runs of one point amount to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PointOutcome {
    /// Every run is good.
    Ok,
    /// Some runs are good; the figures are theirs.
    Partial,
    /// No run is good, but some were measured with a doubt.
    Suspect,
    /// Nothing was measured.
    #[default]
    Failed,
    /// Every run was a probe of a search that was ended as soon as its verdict was certain.
    Cut,
}

impl fmt::Display for PointOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PointOutcome::Ok => "ok",
            PointOutcome::Partial => "partial",
            PointOutcome::Suspect => "suspect",
            PointOutcome::Failed => "failed",
            PointOutcome::Cut => "cut",
        })
    }
}

/// One point and its runs.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// The point's id.
    pub id: Box<str>,
    /// What its runs amount to.
    pub outcome: PointOutcome,
    /// Whether its figures may be believed; `None` where nothing was measured.
    pub validity: Option<Validity>,
    /// Why not, each code once.
    pub codes: Vec<Code>,
    /// Good runs.
    pub ok: usize,
    /// Runs measured with a doubt.
    pub suspect: usize,
    /// Runs without figures.
    pub failed: usize,
    /// Probes of a search that were ended as soon as their verdict was certain, by their rows; figures of a part of a run stand
    /// in the table of points where there are no others, and never compete.
    pub cut: Vec<usize>,
    /// Rows of the run table that it is judged by: the valid runs, or the suspect ones if none is valid. An invalid run is
    /// no measurement of this point.
    pub used: Vec<usize>,
    /// The launches that its judged runs were measured on; none where that is not known.
    pub(super) launches: Option<usize>,
    /// The planned starts that it was tried on, failed runs included.
    pub slots: Vec<u32>,
    /// Invalid runs, whose figures stand in the table of points where there are no others.
    pub invalid: Vec<usize>,
    /// Any of its rows, for what is equal in all of them (parameters).
    pub row: usize,
}

/// The points of a run table, in order of first appearance.
#[derive(Debug, Clone)]
pub struct Points<'t> {
    /// The runs.
    pub runs: &'t Table,
    /// The points.
    pub points: Vec<Point>,
    /// Starts of a server that changed under way.
    pub drifting: Vec<Drifting>,
}

impl<'t> Points<'t> {
    /// Groups runs by their point.
    pub fn of(runs: &'t Table) -> Self {
        let mut points: Vec<Point> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut suspect: Vec<Vec<usize>> = Vec::new();
        for row in 0..runs.rows() {
            let id = runs.cell("point", row).to_string();
            let place = *places.entry(id).or_insert_with_key(|id| {
                points.push(Point {
                    id: id.as_str().into(),
                    row,
                    ..Point::default()
                });
                suspect.push(Vec::new());
                points.len() - 1
            });
            let point = &mut points[place];
            let run = &runs.runs[row];
            if !point.slots.contains(&run.slot) {
                point.slots.push(run.slot);
            }
            match run.outcome {
                Outcome::Ok => {
                    point.ok += 1;
                    point.used.push(row);
                }
                Outcome::Suspect => {
                    point.suspect += 1;
                    match run.validity {
                        Some(Validity::Invalid) => point.invalid.push(row),
                        _ => suspect[place].push(row),
                    }
                }
                Outcome::Cut => point.cut.push(row),
                Outcome::Failed => point.failed += 1,
            }
        }
        for (point, suspect) in points.iter_mut().zip(suspect) {
            if point.ok == 0 {
                point.used = suspect;
            }
            point.outcome = match (point.ok, point.suspect, point.failed) {
                (0, 0, 0) => PointOutcome::Cut,
                (0, 0, _) => PointOutcome::Failed,
                (0, _, _) => PointOutcome::Suspect,
                (_, 0, 0) => PointOutcome::Ok,
                _ => PointOutcome::Partial,
            };
            point.launches = runs.launches(&point.used);
        }
        let drifting = drifting(runs, points.iter().map(|point| point.used.as_slice()));
        for point in &mut points {
            point.judge(runs, &drifting);
        }
        Points { runs, points, drifting }
    }

    /// Leaves only points with a used run among these rows, which are in ascending order.
    pub fn keep(&mut self, rows: &[usize]) {
        let is_kept = |row: &usize| rows.binary_search(row).is_ok();
        self.points.retain_mut(|point| {
            point.used.retain(is_kept);
            point.launches = self.runs.launches(&point.used);
            !point.used.is_empty()
        });
    }

    /// A figure of a point over its runs; `None` where no run has it.
    pub fn spread(&self, point: &Point, metric: &str) -> Option<Spread> {
        let column = self.runs.column(metric)?;
        let spread = column.spread(&point.used)?;
        Some(Spread {
            interval: self.interval_of(column, point),
            starts: self.starts(point),
            ..spread
        })
    }

    /// The figure in which the runs of a point disagree most, if in any.
    pub fn disagreement(&self, point: &Point) -> Option<Disagreement> {
        disagreement(self.runs, &point.used)
    }

    /// A parameter of a point.
    pub fn param(&self, point: &Point, name: &str) -> &'t Cell {
        self.runs.cell(name, point.row)
    }

    /// One row a point: outcome, validity and counts, parameters, then each figure's median by the figure's own name, with its
    /// smallest and largest value beside it. `more` columns of identity stand before the parameters.
    pub fn to_table(&self, more: Vec<Column>) -> Table {
        let column = |name: &str, section, cell: &dyn Fn(&Point) -> Cell| {
            Column::of(name, section, self.points.iter().map(cell))
        };
        let identity = Section::Identity;
        let mut columns = vec![
            column("point", identity, &|point| Cell::Text(point.id.as_ref().into())),
            column("outcome", identity, &|point| {
                Cell::Text(point.outcome.to_string().into())
            }),
            column("validity", identity, &|point| point.validity.map(Validity::name).into()),
            column("codes", identity, &|point| match point.codes.is_empty() {
                true => Cell::Missing,
                false => Cell::Text(point.codes.iter().join(" ").into()),
            }),
            column("runs_ok", identity, &|point| point.ok.into()),
            column("runs_suspect", identity, &|point| point.suspect.into()),
            column("runs_failed", identity, &|point| point.failed.into()),
        ];
        let starts: Vec<Option<usize>> = self.points.iter().map(|point| self.starts(point)).collect();
        if starts.iter().any(|starts| starts.is_some_and(|starts| starts > 1)) {
            columns.push(Column::of("starts", identity, starts));
        }
        columns.extend(more);
        for source in self.runs.columns() {
            match source.section {
                Section::Identity | Section::Cause => {}
                Section::Origin => columns.push(column(&source.name, source.section, &|point| {
                    self.origin(source, point)
                })),
                Section::Serve | Section::Bench => {
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
            ..Table::default()
        }
    }

    /// Where the runs of a point come from; of several places all.
    fn origin(&self, source: &Column, point: &Point) -> Cell {
        let rows = point.shown(self.runs);
        match rows.iter().map(|row| &source.cells[*row]).all_equal() {
            true => source.cells[rows.first().copied().unwrap_or(point.row)].clone(),
            false => Cell::text(
                &rows
                    .iter()
                    .map(|row| source.cells[*row].to_string())
                    .unique()
                    .join("; "),
            ),
        }
    }

    fn spread_columns(&self, source: &Column) -> impl Iterator<Item = Column> {
        let spreads: Vec<_> = self
            .points
            .iter()
            .map(|point| source.spread(&point.shown(self.runs)))
            .collect();
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
        let column = move |suffix: &str, figure: fn(&Spread) -> f64| {
            let figures = spreads
                .iter()
                .map(|spread| spread.as_ref().map(|spread| cell(figure(spread))));
            Column::of(format!("{}{suffix}", source.name), source.section, figures)
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
        let columns = columns.into_iter().flatten().take(1 + ends);
        columns.chain(self.interval_columns(source).filter(|_| ends > 0).into_iter().flatten())
    }

    /// The ends of a figure's intervals over starts, where any point has one.
    fn interval_columns(&self, source: &Column) -> Option<[Column; 2]> {
        let intervals = self.points.iter().map(|point| self.interval_of(source, point));
        let intervals: Vec<Option<(f64, f64)>> = intervals.collect();
        let column = |suffix: &str, end: fn((f64, f64)) -> f64| {
            let ends = intervals.iter().map(|interval| interval.map(end));
            Column::of(format!("{}{suffix}", source.name), source.section, ends)
        };
        let is_any = intervals.iter().any(Option::is_some);
        is_any.then(|| [column("_low", |(low, _)| low), column("_high", |(_, high)| high)])
    }
}

impl Point {
    /// Rows that say whether its figures may be believed.
    fn judged(&self) -> &[usize] {
        if self.used.is_empty() {
            &self.invalid
        } else {
            &self.used
        }
    }

    /// Rows whose figures stand in the table of points: where there are no others, those of cut runs that have some.
    fn shown(&self, runs: &Table) -> Vec<usize> {
        let is_measured = |row: &usize| {
            let mut figures = runs.columns().iter().filter(|column| column.section == Section::Metric);
            figures.any(|column| !matches!(column.cells[*row], Cell::Missing))
        };
        match self.judged().is_empty() {
            true => self.cut.iter().copied().filter(is_measured).collect(),
            false => self.judged().to_vec(),
        }
    }

    /// Whether its figures may be believed, by the runs that they come from and by how these agree.
    fn judge(&mut self, runs: &Table, drifting: &[Drifting]) {
        let judged = || self.judged().iter().map(|row| &runs.runs[*row]);
        let codes = judged().flat_map(|run| run.codes.iter().copied());
        let disagree = disagreement(runs, &self.used).map(|_| Code::RunsDisagree);
        let drifts = drifting.iter().filter(|drifting| drifting.concerns(runs, &self.used));
        let drifts = drifts.map(|drifting| drifting.code);
        let codes: Vec<Code> = codes.chain(disagree).chain(drifts).sorted().dedup().collect();
        let of_runs = judged().map(|run| run.validity.unwrap_or_default()).max();
        self.validity = of_runs.map(|of_runs| of_runs.max(Validity::of(codes.iter().copied())));
        self.codes = codes;
    }

    /// Whether it is measured and marked: it competes, and whoever shows it says so.
    pub fn is_suspect(&self) -> bool {
        self.validity == Some(Validity::Suspect)
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
            interval: None,
            starts: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{RunRow, TableBuilder, write_csv};
    use serde_json::json;
    use vsweep_plan::plan::Params;
    use vsweep_plan::validity::Doubt;

    fn table(runs: &[(&str, Validity, Option<f64>)]) -> Table {
        let mut builder = TableBuilder::new();
        let serve = json!({"tp": 1}).as_object().cloned().expect("an object");
        for (i, (point, validity, value)) in runs.iter().enumerate() {
            let (outcome, doubts) = match (value, validity) {
                (None, _) => (Outcome::Failed, vec![]),
                (_, Validity::Valid) => (Outcome::Ok, vec![]),
                (_, Validity::Suspect) => (Outcome::Suspect, vec![Doubt::new(Code::ColdServer, "first")]),
                (_, Validity::Invalid) => (Outcome::Suspect, vec![Doubt::new(Code::LoadNotReached, "4 of 64")]),
            };
            let metrics: Vec<_> = value
                .map(|value| ("ttft".into(), Cell::Float(value)))
                .into_iter()
                .collect();
            builder.push(RunRow {
                point,
                run: i as u32,
                outcome,
                validity: Some(*validity),
                doubts: &doubts,
                cause: None,
                detail: "",
                serve: &serve,
                bench: &Params::new(),
                simulated: Some(true),
                gpus: Some(1.0),
                metrics: &metrics,
                ..RunRow::default()
            });
        }
        builder.finish()
    }

    fn csv(runs: &[(&str, Validity, Option<f64>)]) -> String {
        let runs = table(runs);
        let mut csv = Vec::new();
        write_csv(&Points::of(&runs).to_table(Vec::new()), &mut csv).expect("memory takes it");
        String::from_utf8(csv).expect("text")
    }

    #[test]
    fn a_point_is_made_of_its_best_runs() {
        let (valid, suspect, invalid) = (Validity::Valid, Validity::Suspect, Validity::Invalid);
        let table = csv(&[
            ("a", valid, Some(1.0)),
            ("a", suspect, Some(9.0)),
            ("a", valid, Some(3.0)),
            ("b", valid, None),
            ("b", suspect, Some(5.0)),
            ("b", invalid, Some(50.0)),
            ("c", valid, None),
            ("d", invalid, Some(7.0)),
        ]);
        insta::assert_snapshot!(table, @"
        point,outcome,validity,codes,runs_ok,runs_suspect,runs_failed,tp,simulated,ttft,ttft_min,ttft_max,gpu_count,gpu_count_min,gpu_count_max
        a,partial,valid,,2,1,0,1,true,2.0,1.0,3.0,1.0,1.0,1.0
        b,suspect,suspect,cold_server,0,2,1,1,true,5.0,5.0,5.0,1.0,1.0,1.0
        c,failed,,,0,0,1,1,true,,,,,,
        d,suspect,invalid,load_not_reached,0,1,0,1,true,7.0,7.0,7.0,1.0,1.0,1.0
        ");
    }

    #[test]
    fn an_invalid_run_is_no_measurement_of_its_point() {
        let runs = table(&[("d", Validity::Invalid, Some(7.0))]);
        let points = Points::of(&runs);
        assert!(points.spread(&points.points[0], "ttft").is_none());
    }
}
