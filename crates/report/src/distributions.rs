//! The distribution of request latencies of a point: the merged histograms of its runs' files. A run whose file is missing or damaged is
//! left out.

use super::rows::read_content;
use itertools::Itertools;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vsweep_base::units::to_four_digits;
use vsweep_metrics::Histogram;
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Points;
use vsweep_strategy::stats::split_class;

/// Most points whose distributions are read.
const MOST_POINTS: usize = 300;
/// The latencies, by the names that results have for them, with their titles.
pub const LATENCIES: [(&str, &str); 3] = [("ttft", "TTFT"), ("itl", "ITL"), ("e2el", "E2EL")];
/// Shares of requests; for each, a page has the latency that this share does not exceed.
const SHARES: [f64; 24] = [
    0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95,
    0.98, 0.99, 1.0,
];

/// Histograms by point and latency.
#[derive(Debug, Default)]
pub struct Distributions(BTreeMap<usize, BTreeMap<String, Histogram>>);

#[derive(Deserialize)]
struct RunHistograms {
    #[serde(default)]
    histograms: BTreeMap<String, Histogram>,
}

impl Distributions {
    /// Reads the distributions of the points with the indices `wanted`, up to `MOST_POINTS` of them.
    pub fn gather(
        directory: &Directory,
        state: &State,
        points: &Points<'_>,
        wanted: impl IntoIterator<Item = usize>,
    ) -> Distributions {
        let records: Vec<&RunRecord> = state.runs().collect();
        let mut found = BTreeMap::new();
        for at in wanted.into_iter().take(MOST_POINTS) {
            let mut together: BTreeMap<String, Histogram> = BTreeMap::new();
            let runs = points.points[at].used.iter().filter_map(|row| records.get(*row));
            let contents = runs.filter_map(|run| read_content(directory.root(), run).ok());
            for part in contents.filter_map(|content| serde_json::from_slice::<RunHistograms>(&content).ok()) {
                for (name, histogram) in part.histograms {
                    let known = together.entry(name).and_modify(|known| known.merge(&histogram));
                    known.or_insert(histogram);
                }
            }
            if !together.is_empty() {
                found.insert(at, together);
            }
        }
        Distributions(found)
    }

    /// Distribution of one latency at one point, if its benchmark recorded it.
    pub fn of(&self, point: usize, latency: &str) -> Option<&Histogram> {
        let histogram = self.0.get(&point)?.get(latency)?;
        (histogram.count() > 0).then_some(histogram)
    }

    /// The classes of a mixed load whose latencies its benchmark recorded at a point.
    pub fn classes(&self, point: usize) -> impl Iterator<Item = &str> {
        let names = self.0.get(&point).into_iter().flat_map(BTreeMap::keys);
        names.filter_map(|name| split_class(name).0).unique()
    }

    /// Encodes the distributions for a page: for each point, each latency in milliseconds at every share in `SHARES`.
    pub fn encode(&self) -> Value {
        let times = |histogram: &Histogram| -> Vec<Value> {
            let at = |share: &f64| {
                histogram
                    .quantile(*share)
                    .map_or(Value::Null, |ms| to_four_digits(ms).into())
            };
            SHARES.iter().map(at).collect()
        };
        let of_point = |at: usize| LATENCIES.map(|(name, _)| self.of(at, name).map(times));
        let points: BTreeMap<String, _> = self.0.keys().map(|at| (at.to_string(), of_point(*at))).collect();
        json!({"shares": SHARES, "titles": LATENCIES.map(|(_, title)| title), "points": points})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_metrics::Samples;

    #[test]
    fn the_classes_of_a_point_are_those_of_its_histograms() {
        let empty = &Histogram::of_samples(&Samples::default())["ttft"];
        let of_point = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), empty.clone())).collect();
        let mixed = of_point(&["chat.e2el", "chat.ttft", "docs.ttft", "ttft"]);
        let distributions = Distributions(BTreeMap::from([(0, of_point(&["e2el", "ttft"])), (3, mixed)]));
        let classes = |point| distributions.classes(point).collect_vec();
        assert_eq!(classes(3), ["chat", "docs"]);
        assert!(classes(0).is_empty() && classes(1).is_empty());
    }
}
