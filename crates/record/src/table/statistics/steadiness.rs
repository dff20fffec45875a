//! Doubts that follow from several runs. The runs of a point may differ by more than noise explains, because of a disturbance of the
//! machine, or a property of the server that the median alone would hide. A server may also become slower or faster during a launch.

use crate::table::marks::closed_loop_slots;
use crate::table::{Spread, Table};
use std::collections::BTreeMap;
use vsweep_base::validity::Code;
use vsweep_strategy::checks::{Step, drift};
use vsweep_strategy::stats::RunPrior;

/// Figures in which repetitions should agree, each with the largest ratio of values that agree. On a quiet machine, throughputs differ by a
/// few percent. Latencies scatter more, above all their tails.
const REPEATED: [(&str, f64); 8] = [
    ("output_throughput", 1.25),
    ("request_throughput", 1.25),
    ("median_ttft_ms", 2.0),
    ("p99_ttft_ms", 2.0),
    ("median_tpot_ms", 2.0),
    ("p99_tpot_ms", 2.0),
    ("median_e2el_ms", 2.0),
    ("p99_e2el_ms", 2.0),
];
/// Difference between latencies, in milliseconds, up to which they always agree: the operating system's scheduler alone can take as long.
const AGREE_WITHIN_MS: f64 = 10.0;

/// A figure in which runs disagree, and the range of its values.
#[derive(Debug, Clone, Copy)]
pub struct Disagreement {
    /// The figure's column.
    pub metric: &'static str,
    /// Median and range of its values.
    pub spread: Spread,
    /// Ratio of the largest value to the smallest, as a multiple of the allowed ratio.
    pub excess: f64,
}

/// Returns the figures in which these runs disagree.
pub(in crate::table) fn disagreements(runs: &Table, rows: &[usize]) -> Vec<Disagreement> {
    let figures = REPEATED.iter().filter_map(|(metric, factor)| {
        let spread = runs.column(metric)?.spread(rows)?;
        let is_noticed = !metric.ends_with("_ms") || spread.max - spread.min > AGREE_WITHIN_MS;
        let excess = spread.max / spread.min / factor;
        (excess > 1.0 && is_noticed).then_some(Disagreement { metric, spread, excess })
    });
    figures.collect()
}

/// Figures that do not change on a steady server, each with the code of the doubt if the figure does change.
const STEADY: [(&str, Code); 3] = [
    ("median_tpot_ms", Code::ServerDrifts),
    ("output_throughput", Code::ServerDrifts),
    ("spec_decode_acceptance_rate", Code::AcceptanceDrifts),
];
/// Shortest duration, in seconds, and fewest requests of a run that can show a drift. The figures of smaller runs scatter too much.
const SHORTEST_S: f64 = 5.0;
const FEWEST_REQUESTS: f64 = 50.0;
/// Prior of the noise between runs of a closed loop.
const CLOSED_PRIOR: RunPrior = RunPrior { sd: 0.02, freedom: 8.0 };
/// Prior of the noise between other runs. With random arrivals, each run has a load of its own.
const OPEN_PRIOR: RunPrior = RunPrior { sd: 0.04, freedom: 8.0 };

/// A change of a figure from run to run of one launch.
#[derive(Debug, Clone, Copy)]
pub struct Drift {
    /// Code of the doubt.
    pub code: Code,
    /// The figure that shows it.
    pub metric: &'static str,
    /// Ratio by which the figure changed.
    pub ratio: f64,
    /// Row of one of its runs.
    pub row: usize,
    launch: u32,
}

impl Drift {
    /// Returns true if any of these runs was measured on the launch.
    pub(in crate::table) fn concerns(&self, runs: &Table, rows: &[usize]) -> bool {
        rows.iter().any(|row| runs.runs[*row].launch == Some(self.launch))
    }
}

/// Returns the drifts of all launches, one for each figure that changed. `points` yields the rows by which each point is judged.
pub(in crate::table) fn drifting<'r>(runs: &Table, points: impl Iterator<Item = &'r [usize]>) -> Vec<Drift> {
    let mut rows: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (load, used) in points.enumerate() {
        for row in used {
            if let Some(launch) = runs.runs[*row].launch.filter(|_| is_long_enough(runs, *row)) {
                rows.entry(launch).or_default().push((load, *row));
            }
        }
    }
    let of_launch = |(launch, rows): (&u32, &Vec<(usize, usize)>)| {
        let found = STEADY.iter().filter_map(|(metric, code)| {
            Some(Drift {
                code: *code,
                metric,
                ratio: change(runs, rows, metric)?,
                row: rows.first()?.1,
                launch: *launch,
            })
        });
        found.collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_launch).collect()
}

fn is_long_enough(runs: &Table, row: usize) -> bool {
    let has = |name: &str, least: f64| runs.cell(name, row).number().is_some_and(|value| value >= least);
    has("duration", SHORTEST_S) && has("completed", FEWEST_REQUESTS)
}

/// Returns the ratio by which a figure changed on one launch, if it did. `rows` has each run's load and row. Closed loops and other loads
/// are judged separately, because their noise differs.
fn change(runs: &Table, rows: &[(usize, usize)], metric: &str) -> Option<f64> {
    let column = runs.column(metric)?;
    let steps = |is_closed: bool| -> Vec<Step> {
        let of_kind = rows
            .iter()
            .filter(|(_, row)| closed_loop_slots(runs, *row).is_some() == is_closed);
        let step = |(load, row): &(usize, usize)| {
            let log = column.cells.at(*row).number()?.ln();
            let at = runs.runs[*row].order as f64;
            log.is_finite().then_some(Step { load: *load, at, log })
        };
        of_kind.filter_map(step).collect()
    };
    let (mut closed, mut open) = (steps(true), steps(false));
    [&mut closed, &mut open].into_iter().for_each(|steps| renumber(steps));
    // Arrivals decide the throughput of an open loop, so it shows no drift of the server.
    let open = (metric != "output_throughput")
        .then(|| drift(&open, OPEN_PRIOR))
        .flatten();
    drift(&closed, CLOSED_PRIOR).or(open)
}

/// Replaces the positions of steps by 0, 1, … in order, because positions are line numbers, which have gaps.
fn renumber(steps: &mut [Step]) {
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    for (at, step) in steps.iter_mut().enumerate() {
        step.at = at as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Points, RunRow, TableBuilder};
    use serde_json::json;
    use vsweep_plan::Params;

    fn disagree(metric: &str, values: &[f64]) -> bool {
        let mut builder = TableBuilder::new();
        for (run, value) in values.iter().enumerate() {
            builder.push(RunRow {
                point: "p",
                run: run as u32,
                metrics: Some(&[(metric, Cell::Float(*value))].into_iter().collect()),
                ..RunRow::default()
            });
        }
        !disagreements(&builder.finish(), &Vec::from_iter(0..values.len())).is_empty()
    }

    #[test]
    fn what_noise_explains_is_no_disagreement() {
        assert!(!disagree("output_throughput", &[100.0, 104.0, 120.0]));
        assert!(disagree("output_throughput", &[100.0, 14.0, 101.0]));
        assert!(disagree("p99_ttft_ms", &[62.0, 180.0]));
        assert!(!disagree("p99_ttft_ms", &[2.0, 9.0]), "a few milliseconds");
        assert!(!disagree("p99_ttft_ms", &[62.0]) && !disagree("duration", &[1.0, 9.0]));
    }

    /// Codes of three loads: two are measured in turn on one start, with TPOTs that follow from `tpots`, and one is measured on another
    /// start.
    fn codes(tpots: &[f64], duration: f64) -> Vec<Vec<Code>> {
        let mut builder = TableBuilder::new();
        let mut push = |point: &str, run: usize, launch: &str, order: usize, tpot: f64| {
            builder.push(RunRow {
                point,
                run: run as u32,
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(8))])),
                metrics: Some(
                    &[
                        ("median_tpot_ms", Cell::Float(tpot)),
                        ("duration", Cell::Float(duration)),
                        ("completed", Cell::Integer(200)),
                    ]
                    .into_iter()
                    .collect(),
                ),
                launch: Some(launch.to_owned()),
                order: order as u64,
                ..RunRow::default()
            });
        };
        for (at, tpot) in tpots.iter().enumerate() {
            let point = if at % 2 == 0 { "a" } else { "b" };
            push(
                point,
                at / 2,
                "one",
                3 * at,
                *tpot * if at % 2 == 0 { 1.0 } else { 1.7 },
            );
        }
        push("c", 0, "other", 0, 9.0);
        let table = builder.finish();
        let points = Points::of(&table).points;
        points.into_iter().map(|point| point.codes).collect()
    }

    #[test]
    fn a_start_that_slows_down_marks_its_points_and_no_others() {
        let slowing = [10.0, 10.1, 10.3, 10.6, 10.8, 11.1, 11.3, 11.6];
        let drifts = vec![Code::ServerDrifts];
        assert_eq!(codes(&slowing, 30.0), [drifts.clone(), drifts, vec![]]);
        assert_eq!(codes(&slowing, 3.0), [vec![], vec![], vec![]], "too short to tell");
        let steady = [10.0, 10.1, 9.9, 10.0, 10.1, 10.0, 9.9, 10.0];
        assert_eq!(codes(&steady, 30.0), [vec![], vec![], vec![]]);
    }
}
