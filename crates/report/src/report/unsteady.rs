//! Points whose runs disagree. An outlier among repetitions is a disturbance of the machine or a truth about the server;
//! either way the median alone would hide it.

use super::variation::{settings, varying};
use super::words::{axis_title, show_number};
use vsweep_record::table::{Points, Spread};

/// Runs of a point whose throughputs are further apart than this factor disagree. Repetitions on a quiet machine stay
/// within some percent.
const FACTOR: f64 = 1.25;
/// Points that are named.
const MOST_NAMED: usize = 3;

/// One line a point, the most unsteady first, and one for those that are not named.
pub fn remarks(points: &Points<'_>) -> Vec<String> {
    let varied = varying(points);
    let throughput = |point| {
        let metrics = ["output_throughput", "request_throughput"];
        metrics
            .into_iter()
            .find_map(|metric| Some((metric, points.spread(point, metric)?)))
    };
    let ratio = |spread: &Spread| spread.max / spread.min;
    let mut unsteady: Vec<_> = points
        .points
        .iter()
        .filter_map(|point| Some((point, throughput(point)?)))
        .filter(|(_, (_, spread))| ratio(spread) > FACTOR)
        .collect();
    unsteady.sort_by(|(_, (_, a)), (_, (_, b))| ratio(b).total_cmp(&ratio(a)));
    let named = unsteady.iter().take(MOST_NAMED).map(|(point, (metric, spread))| {
        format!(
            "the {} runs of {} disagree: {} {} to {}; look into the server's log, or raise `runs` to learn which is usual",
            spread.count,
            settings(&varied, point.row),
            axis_title(metric),
            show_number(spread.min),
            show_number(spread.max)
        )
    });
    let mut remarks: Vec<String> = named.collect();
    match unsteady.len().saturating_sub(MOST_NAMED) {
        0 => {}
        1 => remarks.push("the runs of 1 more point disagree; see points.csv".into()),
        more => remarks.push(format!("the runs of {more} more points disagree; see points.csv")),
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vsweep_plan::cause::Outcome;
    use vsweep_plan::plan::Params;
    use vsweep_record::table::{Cell, Row, TableBuilder};

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
            builder.push(Row {
                point,
                run: run as u32,
                outcome: Outcome::Ok,
                cause: None,
                detail: "",
                serve: &Params::new(),
                bench: &Params::from_iter([("max_concurrency".to_owned(), json!(concurrency))]),
                simulated: None,
                gpus: None,
                metrics: &[("output_throughput".into(), Cell::Float(value))],
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
