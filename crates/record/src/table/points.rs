//! Runs grouped into points: how many succeeded, whether their figures are valid, and the median and spread of every figure.

use super::marks::Mark;
use super::statistics::steadiness::{Disagreement, Drift, disagreements, drifting};
use super::{Cell, Column, ECHOED, Section, Spread, Table, normal};
use crate::journal::ALONE_SLOT;
use itertools::Itertools;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fmt;
use vsweep_answer::Estimate;
use vsweep_base::cause::Outcome;
use vsweep_base::validity::{Code, Validity};

/// Combined outcome of the runs of one point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PointOutcome {
    /// Every run is good.
    Ok,
    /// Some runs are good, others failed or are in doubt.
    Partial,
    /// No run is good, but some were measured with a doubt.
    Suspect,
    /// No run was measured, and at least one failed.
    #[default]
    Failed,
    /// Every run was a probe of a search that was ended as soon as its verdict was certain.
    Cut,
}

impl fmt::Display for PointOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One point and its runs.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// The point's id.
    pub id: Box<str>,
    /// Combined outcome of its runs.
    pub outcome: PointOutcome,
    /// Validity of its figures; `None` if nothing was measured.
    pub validity: Option<Validity>,
    /// Doubts about it or some of its figures, each code once.
    pub codes: Vec<Code>,
    pub(super) marks: Vec<Mark>,
    /// Number of good runs.
    pub ok: usize,
    /// Number of runs that were measured with a doubt.
    pub suspect: usize,
    /// Number of failed runs.
    pub failed: usize,
    /// Rows of probes of a search that were ended as soon as their verdict was certain. Figures of such partial runs never compete, and the
    /// table of points shows them only if there are no others.
    pub cut: Vec<usize>,
    /// Rows of the runs by which it is judged: all measured runs, in doubt or not, except invalid ones, which are no measurement of this
    /// point.
    pub used: Vec<usize>,
    /// Rows of the runs on a start without neighbours, which are compared with the judged ones and not mixed with them. If a selection has
    /// no other runs, these are judged, and this list is empty.
    pub alone: Vec<usize>,
    /// Number of launches of its server on which its judged runs were measured; `None` if unknown.
    pub starts: Option<usize>,
    /// The planned starts on which it was tried, failed runs included.
    pub slots: Vec<u32>,
    /// Rows of invalid runs. The table of points shows their figures only if there are no others.
    pub invalid: Vec<usize>,
    /// One of its rows, for values that are equal in all of them, such as parameters.
    pub row: usize,
}

/// The points of a run table, in order of first appearance.
#[derive(Debug, Clone)]
pub struct Points<'t> {
    /// The runs.
    pub runs: &'t Table,
    /// The points.
    pub points: Vec<Point>,
    /// Launches during which the server's figures drifted.
    pub drifting: Vec<Drift>,
    /// The estimates of the answer by metric and point.
    pub(super) estimates: HashMap<String, HashMap<Box<str>, Estimate>>,
    /// The ids of the points on the answer's frontiers, by their two metrics.
    pub(super) frontiers: HashMap<(String, String), HashSet<Box<str>>>,
    /// True if some runs were left out, so that the frontiers of all are not those of these.
    pub(super) is_part: bool,
}

impl<'t> Points<'t> {
    /// Groups runs by their point.
    pub fn of(runs: &'t Table) -> Self {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut indices: HashMap<String, usize> = HashMap::new();
        for row in 0..runs.rows() {
            let next = indices.len();
            let index = *indices.entry(runs.cell("point", row).to_string()).or_insert(next);
            rows.resize_with(indices.len(), Vec::new);
            rows[index].push(row);
        }
        let mut points: Vec<Point> = rows.iter().map(|rows| Point::of(runs, rows)).collect();
        let drifting = drifting(runs, points.iter().map(|point| point.used.as_slice()));
        for point in &mut points {
            point.judge(runs, &drifting);
        }
        Points {
            runs,
            points,
            drifting,
            estimates: HashMap::new(),
            frontiers: HashMap::new(),
            is_part: false,
        }
    }

    /// Keeps only the used runs among `rows`, and only the points that have any. `rows` are in ascending order.
    pub fn keep(&mut self, rows: &[usize]) {
        let is_kept = |row: &usize| rows.binary_search(row).is_ok();
        self.is_part = true;
        self.points.retain_mut(|point| {
            point.used.retain(is_kept);
            point.starts = self.runs.launches(&point.used);
            !point.used.is_empty()
        });
    }

    /// Returns a figure of a point over its runs; `None` if no run has it.
    pub fn spread(&self, point: &Point, metric: &str) -> Option<Spread> {
        let column = self.runs.column(metric)?;
        let spread = column.spread(&point.used)?;
        Some(self.judged(point, metric, spread))
    }

    /// Returns the figure in which the runs of a point disagree most, if there is one.
    pub fn disagreement(&self, point: &Point) -> Option<Disagreement> {
        let figures = disagreements(self.runs, &point.used).into_iter();
        figures.max_by(|a, b| a.excess.total_cmp(&b.excess))
    }

    /// Returns a parameter of a point.
    pub fn param(&self, point: &Point, name: &str) -> Cell {
        self.runs.cell(name, point.row)
    }

    /// Returns a table with one row per point: outcome, validity and counts, parameters, then each figure's estimate or median under the
    /// figure's own name, followed by its smallest and largest value, and its interval if known. `more` adds columns of identity before the
    /// parameters.
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
                false => Cell::Text(point.codes.iter().map(|code| code.name()).join(" ").into()),
            }),
            column("runs_ok", identity, &|point| point.ok.into()),
            column("runs_suspect", identity, &|point| point.suspect.into()),
            column("runs_failed", identity, &|point| point.failed.into()),
        ];
        let starts: Vec<Option<usize>> = self.points.iter().map(|point| point.starts).collect();
        if starts.iter().any(|starts| starts.is_some_and(|starts| starts > 1)) {
            columns.push(Column::of("starts", identity, starts));
        }
        columns.extend(more);
        let own_columns = columns.len();
        let taken: HashSet<String> = self.runs.columns().iter().map(|column| normal(&column.name)).collect();
        for source in self.runs.columns() {
            match source.section {
                Section::Identity | Section::Cause => {}
                Section::Origin => columns.push(column(&source.name, source.section, &|point| {
                    self.origin(source, point)
                })),
                Section::Serve | Section::Bench => {
                    columns.push(column(&source.name, source.section, &|point| {
                        source.cells.at(point.row)
                    }));
                }
                Section::Metric | Section::Derived => columns.extend(self.spread_columns(source, &taken)),
            }
        }
        let (own, of_runs) = columns.split_at_mut(own_columns);
        // A parameter or a figure of another benchmark may have the name of a column of points.
        for column in of_runs {
            if own.iter().any(|own| own.name == column.name) {
                let kind = match column.section {
                    Section::Serve => "serve",
                    Section::Bench => "bench",
                    _ => "result",
                };
                column.name = format!("{kind}.{}", column.name);
            }
        }
        Table::of(columns)
    }

    /// Returns the value of an origin column for a point: all values of its runs if they differ.
    fn origin(&self, source: &Column, point: &Point) -> Cell {
        let rows = point.shown_rows(self.runs);
        match rows.iter().map(|row| source.cells.at(*row)).all_equal() {
            true => source.cells.at(rows.first().copied().unwrap_or(point.row)),
            false => Cell::text(
                &rows
                    .iter()
                    .map(|row| source.cells.at(*row).to_string())
                    .unique()
                    .join("; "),
            ),
        }
    }

    /// Returns the columns of a figure: its estimate or median, its smallest and largest value over the runs, and the ends of its
    /// intervals, if any point has one. A column that would have the name of another one, among those `taken`, is left out.
    fn spread_columns(&self, source: &Column, taken: &HashSet<String>) -> Vec<Column> {
        let spread = |point: &Point| {
            let spread = source.spread(&point.shown_rows(self.runs))?;
            Some(self.judged(point, &source.name, spread))
        };
        let spreads: Vec<Option<Spread>> = self.points.iter().map(spread).collect();
        // Counts stay whole numbers, except a median between two of them.
        let is_count = |cell: &Cell| matches!(cell, Cell::Integer(_) | Cell::Missing);
        let are_counts = source.cells.values().all(|cell| is_count(&cell));
        let cell = |figure: f64| match are_counts && figure.fract() == 0.0 {
            true => Cell::Integer(figure as i64),
            false => figure.into(),
        };
        let column = |suffix: &str, figure: &dyn Fn(&Spread) -> Option<Cell>| {
            let figures = spreads.iter().map(|spread| spread.as_ref().and_then(figure));
            Column::of(format!("{}{suffix}", source.name), source.section, figures)
        };
        let mut columns = vec![column("", &|spread| Some(cell(spread.value)))];
        // A setting that the result repeats is equal in every run, so it has no range.
        if !ECHOED.contains(&source.name.as_str()) {
            columns.push(column("_min", &|spread| Some(cell(spread.min))));
            columns.push(column("_max", &|spread| Some(cell(spread.max))));
            columns.push(column("_low", &|spread| Some(spread.interval?.0.into())));
            columns.push(column("_high", &|spread| Some(spread.interval?.1.into())));
        }
        let is_taken = |name: &str| name != source.name && taken.contains(&normal(name));
        columns.retain(|column| column.is_known() && !is_taken(&column.name));
        columns
    }
}

impl Point {
    /// Returns a point from the rows of its runs, before its validity is judged.
    fn of(runs: &Table, rows: &[usize]) -> Point {
        let first = rows[0];
        let is_alone = |row: &usize| runs.slot(*row) == ALONE_SLOT;
        let (mut alone, mut rows): (Vec<usize>, Vec<usize>) = rows.iter().partition(|row| is_alone(row));
        if rows.is_empty() {
            std::mem::swap(&mut alone, &mut rows);
        }
        let with = |outcome: Outcome| {
            rows.iter()
                .copied()
                .filter(move |row| runs.runs[*row].outcome == outcome)
        };
        let is_invalid = |row: &usize| runs.runs[*row].validity == Some(Validity::Invalid);
        let is_used = |row: &usize| match runs.runs[*row].outcome {
            Outcome::Ok => true,
            Outcome::Suspect => !is_invalid(row),
            Outcome::Failed | Outcome::Cut => false,
        };
        let count = |outcome: Outcome| with(outcome).count();
        let counts = (count(Outcome::Ok), count(Outcome::Suspect), count(Outcome::Failed));
        let used: Vec<usize> = rows.iter().copied().filter(is_used).sorted().collect();
        Point {
            id: runs.cell("point", first).to_string().into(),
            outcome: match counts {
                (0, 0, 0) => PointOutcome::Cut,
                (0, 0, _) => PointOutcome::Failed,
                (0, _, _) => PointOutcome::Suspect,
                (_, 0, 0) => PointOutcome::Ok,
                _ => PointOutcome::Partial,
            },
            ok: counts.0,
            suspect: counts.1,
            failed: counts.2,
            cut: with(Outcome::Cut).collect(),
            starts: runs.launches(&used),
            used,
            invalid: with(Outcome::Suspect).filter(is_invalid).collect(),
            alone: alone.into_iter().filter(is_used).collect(),
            slots: rows.iter().map(|row| runs.slot(*row)).unique().collect(),
            row: first,
            ..Point::default()
        }
    }

    /// Returns the rows behind its figures: those of used runs, or else those of invalid ones.
    fn judged_rows(&self) -> &[usize] {
        if self.used.is_empty() {
            &self.invalid
        } else {
            &self.used
        }
    }

    /// Returns the rows whose figures the table of points shows: the judged ones, or else those of cut runs that have figures.
    fn shown_rows(&self, runs: &Table) -> Vec<usize> {
        let is_measured = |row: &usize| {
            let mut figures = runs.columns().iter().filter(|column| column.section == Section::Metric);
            figures.any(|column| !matches!(column.cells.at(*row), Cell::Missing))
        };
        match self.judged_rows().is_empty() {
            true => self.cut.iter().copied().filter(is_measured).collect(),
            false => self.judged_rows().to_vec(),
        }
    }

    /// Judges its validity by the best of the runs behind its figures and by how well these agree.
    fn judge(&mut self, runs: &Table, drifting: &[Drift]) {
        let judged = || self.judged_rows().iter().map(|row| &runs.runs[*row]);
        let of_runs = judged().flat_map(|run| &run.marks);
        let of_runs = of_runs.filter_map(|mark| mark.of_point(runs, self.judged_rows()));
        let disagree = disagreements(runs, &self.used);
        let disagree = (!disagree.is_empty()).then(|| Mark {
            code: Code::RunsDisagree,
            figures: disagree.iter().map(|found| found.metric.into()).collect(),
        });
        let drifts = drifting.iter().filter(|drifting| drifting.concerns(runs, &self.used));
        let drifts = drifts.map(|drifting| Mark::of(drifting.code));
        let together: Vec<Mark> = disagree.into_iter().chain(drifts).collect();
        let found = Validity::of(together.iter().map(|mark| mark.code));
        let best = judged().map(|run| run.validity.unwrap_or_default()).min();
        let mut marks: Vec<Mark> = Vec::new();
        for mark in of_runs.chain(together) {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
        self.validity = best.map(|best| best.max(found));
        self.codes = marks.iter().map(|mark| mark.code).sorted().dedup().collect();
        self.marks = marks;
    }

    /// Returns the doubts about one of its figures, each code once.
    pub fn doubts_of(&self, metric: &str) -> Vec<Code> {
        let touching = self.marks.iter().filter(|mark| mark.touches(metric));
        touching.map(|mark| mark.code).sorted().dedup().collect()
    }

    /// Returns true if there are doubts about its figures. It still competes, and is shown with its doubts.
    pub fn is_suspect(&self) -> bool {
        self.validity == Some(Validity::Suspect)
    }
}

impl Column {
    /// Returns true if any row has a value.
    pub(super) fn is_known(&self) -> bool {
        self.cells.values().any(|cell| !cell.is_missing())
    }

    /// Returns the median and the range of the numbers in these rows; `None` without numbers.
    pub fn spread(&self, rows: &[usize]) -> Option<Spread> {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| self.cells.at(*row).number()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let value = match values.len() % 2 {
            1 => values[middle],
            // Equal values may be infinite, and then have no mean.
            _ if values[middle - 1] == values[middle] => values[middle],
            _ => values[middle - 1] + (values[middle] - values[middle - 1]) / 2.0,
        };
        let count = values.len();
        Some(Spread {
            value,
            min,
            max,
            count,
            interval: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{RunRow, TableBuilder, write_csv};
    use serde_json::json;
    use vsweep_base::validity::Doubt;

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
            let metrics = value.iter().map(|value| ("ttft", Cell::Float(*value))).collect();
            builder.push(RunRow {
                point,
                run: i as u32,
                outcome,
                validity: Some(*validity),
                doubts: &doubts,
                cause: None,
                detail: "",
                serve: Some(&serve),
                simulated: Some(true),
                gpus: Some(1.0),
                metrics: Some(&metrics),
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
    fn no_two_columns_have_the_same_name() {
        let mut builder = TableBuilder::new();
        let serve = json!({"start": 1, "runs_ok": 2})
            .as_object()
            .cloned()
            .expect("an object");
        let figures = [("latency", 3.0), ("latency_min", 1.0), ("runs_failed", 4.0)];
        let metrics = figures
            .map(|(name, value)| (name, Cell::Float(value)))
            .into_iter()
            .collect();
        for slot in 0..2 {
            builder.push(RunRow {
                point: "a",
                slot,
                outcome: Outcome::Ok,
                serve: Some(&serve),
                metrics: Some(&metrics),
                ..RunRow::default()
            });
        }
        let runs = builder.finish();
        for table in [&runs, &Points::of(&runs).to_table(Vec::new())] {
            let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
            assert!(names.iter().all_unique(), "{names:?}");
            assert!(
                names.contains(&"serve.start") || names.contains(&"serve.runs_ok"),
                "{names:?}"
            );
        }
    }

    #[test]
    fn a_point_is_made_of_all_runs_that_measured_it() {
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
        a,partial,valid,cold_server,2,1,0,1,true,3.0,1.0,9.0,1.0,1.0,1.0
        b,suspect,suspect,cold_server,0,2,1,1,true,5.0,5.0,5.0,1.0,1.0,1.0
        c,failed,,,0,0,1,1,true,,,,,,
        d,suspect,invalid,load_not_reached,0,1,0,1,true,7.0,7.0,7.0,1.0,1.0,1.0
        ");
    }

    #[test]
    fn runs_without_neighbours_are_judged_if_there_are_no_others() {
        let points = |slots: &[u32]| {
            let mut builder = TableBuilder::new();
            for slot in slots {
                builder.push(RunRow {
                    point: "p",
                    slot: *slot,
                    outcome: Outcome::Ok,
                    validity: Some(Validity::Valid),
                    ..RunRow::default()
                });
            }
            let table = builder.finish();
            let point = Points::of(&table).points.remove(0);
            (point.outcome, point.used, point.alone)
        };
        assert_eq!(points(&[ALONE_SLOT, 0]), (PointOutcome::Ok, vec![1], vec![0]));
        assert_eq!(points(&[ALONE_SLOT]), (PointOutcome::Ok, vec![0], vec![]));
    }

    #[test]
    fn an_invalid_run_is_no_measurement_of_its_point() {
        let runs = table(&[("d", Validity::Invalid, Some(7.0))]);
        let points = Points::of(&runs);
        assert!(points.spread(&points.points[0], "ttft").is_none());
    }

    #[test]
    fn size_and_duration_are_judged_once_for_the_point() {
        let small = Doubt::new(Code::SampleTooSmall, "p99 of 60 requests; at least 100 are needed");
        let small = small.about(vec!["p99_ttft_ms".to_owned(), "p99.9_ttft_ms".to_owned()]);
        let doubts = [Doubt::new(Code::RunTooShort, "it took 300 ms"), small];
        let metrics = [("duration", 0.3), ("completed", 60.0), ("p99_ttft_ms", 9.0)];
        let metrics = metrics
            .map(|(name, value)| (name, Cell::Float(value)))
            .into_iter()
            .collect();
        let mut builder = TableBuilder::new();
        for (point, run) in [("once", 0), ("twice", 0), ("twice", 1)] {
            builder.push(RunRow {
                point,
                run,
                validity: Some(Validity::of(doubts.iter().map(|doubt| doubt.code))),
                outcome: Outcome::Ok,
                doubts: &doubts,
                metrics: Some(&metrics),
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let points = Points::of(&table).points;
        let [once, twice] = [&points[0], &points[1]];
        assert_eq!(
            (once.validity, twice.validity),
            (Some(Validity::Valid), Some(Validity::Valid))
        );
        assert_eq!(once.doubts_of("p99_ttft_ms"), [Code::RunTooShort, Code::SampleTooSmall]);
        assert_eq!(once.doubts_of("output_throughput"), [Code::RunTooShort]);
        assert_eq!(twice.doubts_of("p99_ttft_ms"), []);
        assert_eq!(twice.doubts_of("p99.9_ttft_ms"), [Code::SampleTooSmall]);
    }

    #[test]
    fn a_disturbed_run_counts_for_its_point() {
        let stalled = [Doubt::new(Code::GeneratorStalled, "for 2 s")];
        let mut builder = TableBuilder::new();
        for (run, doubts) in [(0, &stalled[..]), (1, &[])] {
            let validity = Validity::of(doubts.iter().map(|doubt| doubt.code));
            builder.push(RunRow {
                point: "p",
                run,
                outcome: if doubts.is_empty() {
                    Outcome::Ok
                } else {
                    Outcome::Suspect
                },
                validity: Some(validity),
                doubts,
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let point = &Points::of(&table).points[0];
        assert_eq!(point.used, [0, 1]);
        assert_eq!(
            (point.validity, point.codes.clone()),
            (Some(Validity::Valid), vec![Code::GeneratorStalled])
        );
    }
}
