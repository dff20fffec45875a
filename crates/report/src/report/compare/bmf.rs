//! The new side of a comparison in the Bencher Metric Format, for services that keep a history of results: a benchmark for each
//! point, a measure for each metric, its value and its 95 % interval.

use super::Comparison;
use serde_json::{Map, Value, json};

/// The JSON text. A point on one start has no interval.
pub fn to_bmf(comparison: &Comparison) -> String {
    let benchmarks = comparison.points.iter().map(|pair| {
        let measures = pair.figures.iter().map(|figure| {
            let mut measure = json!({"value": figure.new});
            if let Some((low, high)) = figure.new_interval {
                measure["lower_value"] = json!(low);
                measure["upper_value"] = json!(high);
            }
            (figure.metric.clone(), measure)
        });
        (pair.settings.clone(), Value::Object(measures.collect()))
    });
    let benchmarks: Map<String, Value> = benchmarks.collect();
    serde_json::to_string_pretty(&benchmarks).expect("plain data always serialises") + "\n"
}
