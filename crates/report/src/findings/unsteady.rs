//! Points whose runs disagree, and servers that changed while they were measured, in words. An outlier among repetitions is a disturbance
//! of the machine or a property of the server. The median alone would hide both.

use super::variation::{settings, varying};
use crate::ordered::Ordered;
use crate::texts::words::{name, say, show_number};
use itertools::Itertools;
use vsweep_base::units::show_many;
use vsweep_base::validity::Code;
use vsweep_plan::Runs;
use vsweep_record::journal::State;
use vsweep_record::table::{Point, Points, Section};

/// Most points or drifts that are named.
const MOST_NAMED: usize = 3;

/// A line for each point whose runs disagree, the most unsteady first.
pub fn disagreements(points: &Points<'_>) -> Vec<String> {
    let varied = varying(points);
    let unsteady = points.points.iter();
    let unsteady = unsteady.filter_map(|point| Some((point, points.disagreement(point)?)));
    let unsteady = unsteady.ordered_by(|(_, a), (_, b)| b.excess.total_cmp(&a.excess));
    let unsteady = unsteady.map(|(point, disagreement)| {
        let spread = &disagreement.spread;
        format!(
            "the {} runs of {} disagree: {}; {}",
            spread.count,
            settings(&varied, point.row),
            say(
                disagreement.metric,
                &format!("{} to {}", show_number(spread.min), show_number(spread.max))
            ),
            Code::RunsDisagree.advice()
        )
    });
    foremost(unsteady, |more| {
        format!("the runs of {} disagree; see points.csv", show_many(more, "more point"))
    })
}

/// A line for each figure that drifted during a launch, the largest drifts first.
pub fn drifts(points: &Points<'_>) -> Vec<String> {
    let mut of_server = varying(points);
    of_server.retain(|column| column.section == Section::Serve);
    let drifts = points.drifting.iter();
    let drifts = drifts.ordered_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    let drifts = drifts.map(|drifting| {
        let server = match of_server.is_empty() {
            true => "the server".to_owned(),
            false => format!("the server with {}", settings(&of_server, drifting.row)),
        };
        format!(
            "{server} changed while it was measured: {} {:+.0} % from its first run to its last; {}",
            name(drifting.metric),
            (drifting.ratio - 1.0) * 100.0,
            drifting.code.advice()
        )
    });
    foremost(drifts, |more| {
        format!("further changes of this kind: {more}; see the column `codes` in points.csv")
    })
}

/// A sentence about points whose intervals are wider than the plan asks, although they have the most runs that the plan allows.
pub fn wide_intervals(state: &State, points: &Points<'_>, asked: Option<&Runs>) -> Option<String> {
    let Some(Runs::Until { metric, rule }) = asked else {
        return None;
    };
    let column = points.runs.column(metric)?;
    let slots: Vec<u32> = state.runs().map(|run| run.slot).collect();
    let is_wide = |point: &&Point| {
        let of_slots = point.used.iter().into_group_map_by(|row| slots.get(**row));
        of_slots.values().any(|rows| {
            let values: Vec<f64> = rows.iter().filter_map(|row| column.cells.at(**row).number()).collect();
            values.len() >= rule.max && !rule.is_narrow(&values)
        })
    };
    let measured = points.points.iter().filter(|point| !point.used.is_empty());
    let (all, wide) = (measured.clone().count(), measured.filter(is_wide).count());
    (wide > 0).then(|| {
        format!(
            "the interval of {} is still wider than ±{} % at {wide} of {} after all {} runs; raise runs.max",
            name(metric),
            show_number(rule.until * 100.0),
            show_many(all as u64, "point"),
            rule.max
        )
    })
}

/// The first of some lines, and one for all others.
fn foremost(mut lines: impl Iterator<Item = String>, describe_more: impl Fn(u64) -> String) -> Vec<String> {
    let mut named: Vec<String> = lines.by_ref().take(MOST_NAMED).collect();
    let more = lines.count() as u64;
    named.extend((more > 0).then(|| describe_more(more)));
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use vsweep_plan::Params;
    use vsweep_record::table::{Cell, RunRow, TableBuilder};

    #[test]
    fn an_outlier_is_named_and_noise_is_not() {
        let runs = [
            ("a", 1, 100.0),
            ("a", 1, 104.0),
            ("b", 2, 100.0),
            ("b", 2, 14.0),
            ("b", 2, 101.0),
            ("c", 4, 9.0),
        ];
        let mut builder = TableBuilder::new();
        for (run, (point, concurrency, value)) in runs.into_iter().enumerate() {
            builder.push(RunRow {
                point,
                run: run as u32,
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(concurrency))])),
                metrics: Some(&[("output_throughput", Cell::Float(value))].into_iter().collect()),
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let remarks = disagreements(&Points::of(&table));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].starts_with("the 3 runs of concurrency 2 disagree"),
            "{remarks:?}"
        );
        assert!(remarks[0].contains("14 to 101"), "{remarks:?}");
    }
}
