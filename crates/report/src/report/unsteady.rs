//! Points whose runs disagree and servers that changed while they were measured, in words. An outlier among repetitions is a disturbance of the machine or a truth about the
//! server; either way the median alone would hide it.

use super::variation::{settings, varying};
use super::words::{axis_title, show_number};
use vsweep_plan::units::show_many;
use vsweep_plan::validity::Code;
use vsweep_record::table::{Column, Drifting, Points, Section};

/// Points that are named.
const MOST_NAMED: usize = 3;

/// One line a point, the most unsteady first, and one for those that are not named.
pub fn remarks(points: &Points<'_>) -> Vec<String> {
    let varied = varying(points);
    let mut unsteady: Vec<_> = points
        .points
        .iter()
        .filter_map(|point| Some((point, points.disagreement(point)?)))
        .collect();
    unsteady.sort_by(|(_, a), (_, b)| b.excess.total_cmp(&a.excess));
    let named = unsteady.iter().take(MOST_NAMED).map(|(point, disagreement)| {
        let spread = &disagreement.spread;
        format!(
            "the {} runs of {} disagree: {} {} to {}; {}",
            spread.count,
            settings(&varied, point.row),
            axis_title(disagreement.metric),
            show_number(spread.min),
            show_number(spread.max),
            Code::RunsDisagree.advice()
        )
    });
    let mut remarks: Vec<String> = named.collect();
    remarks.extend(drifts(points, &varied));
    if let more @ 1.. = unsteady.len().saturating_sub(MOST_NAMED) {
        let more = show_many(more as u64, "more point");
        remarks.push(format!("the runs of {more} disagree; see points.csv"));
    }
    remarks
}

/// One line a start that drifted and figure, the largest drifts first.
fn drifts(points: &Points<'_>, varied: &[&Column]) -> Vec<String> {
    let mut drifting = points.drifting.clone();
    drifting.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    let of_server: Vec<&Column> = varied
        .iter()
        .copied()
        .filter(|column| column.section == Section::Serve)
        .collect();
    let line = |drifting: &Drifting| {
        let server = match of_server.is_empty() {
            true => "the server".to_owned(),
            false => format!("the server with {}", settings(&of_server, drifting.row)),
        };
        format!(
            "{server} changed while it was measured: {} {:+.0} % from its first run to its last; {}",
            axis_title(drifting.metric),
            (drifting.ratio - 1.0) * 100.0,
            drifting.code.advice()
        )
    };
    let mut lines: Vec<String> = drifting.iter().take(MOST_NAMED).map(line).collect();
    if let more @ 1.. = drifting.len().saturating_sub(MOST_NAMED) {
        lines.push(format!("{more} more such changes; see the codes in points.csv"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use vsweep_plan::plan::Params;
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
                bench: &Params::from_iter([("max_concurrency".to_owned(), json!(concurrency))]),
                metrics: &[("output_throughput".into(), Cell::Float(value))],
                ..RunRow::default()
            });
        }
        let table = builder.finish();
        let remarks = remarks(&Points::of(&table));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].starts_with("the 3 runs of concurrency 2 disagree"),
            "{remarks:?}"
        );
        assert!(remarks[0].contains("14 to 101"), "{remarks:?}");
    }
}
