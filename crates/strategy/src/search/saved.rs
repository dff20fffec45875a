//! Reads single requests from results that contain them, such as those of `vllm bench serve --save-detailed`.

use super::criterion::Latency;
use super::reading::RequestLatencies;
use crate::stats::ClassTag;
use serde::Deserialize;

/// Lists with one entry for each request, by their keys; times are in seconds. A list that was not saved is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SavedRequests {
    ttfts: Vec<f64>,
    latencies: Vec<f64>,
    itls: Vec<Vec<f64>>,
    output_lens: Vec<f64>,
    errors: Vec<Option<String>>,
    /// The classes of a mixed load.
    classes: Vec<String>,
}

impl SavedRequests {
    /// Returns all requests, of which only the wanted latencies are reliable. `None` if a list that the wanted latencies need lacks some
    /// requests, because the figures of the rest would not be those of the run.
    pub fn with(&self, wanted: &[Latency]) -> Option<Vec<RequestLatencies>> {
        let count = self.latencies.len().max(self.ttfts.len());
        let wants_any = |of: &[Latency]| of.iter().any(|latency| wanted.contains(latency));
        let has_ttft = self.ttfts.len() == count;
        let has_end = self.latencies.len() == count || (has_ttft && self.itls.len() == count);
        let wants_tpot = wants_any(&[Latency::Tpot]);
        let has_all = (has_ttft || !wants_any(&[Latency::Ttft, Latency::Tpot]))
            && (has_end || !wants_any(&[Latency::E2el, Latency::Tpot]))
            && (self.output_lens.len() == count || !wants_tpot);
        has_all.then(|| (0..count).map(|at| self.request(at, wants_tpot)).collect())
    }

    fn request(&self, at: usize, wants_tpot: bool) -> RequestLatencies {
        let get = |list: &[f64]| list.get(at).copied();
        let ttft = get(&self.ttfts).unwrap_or_default();
        let of_gaps = || ttft + self.itls.get(at).map_or(0.0, |gaps| gaps.iter().sum());
        let latency = get(&self.latencies).unwrap_or_else(of_gaps);
        let tokens = get(&self.output_lens).unwrap_or_default();
        let class = self.classes.get(at).map_or(ClassTag::NONE, |class| ClassTag::of(class));
        // A failed request has no latency.
        let error = self.errors.get(at).and_then(Option::as_deref);
        if error.is_some_and(|error| !error.is_empty()) || latency <= 0.0 || (wants_tpot && tokens == 0.0) {
            return RequestLatencies {
                class,
                ..RequestLatencies::FAILED
            };
        }
        let tpot = if tokens > 1.0 {
            (latency - ttft) / (tokens - 1.0)
        } else {
            0.0
        };
        RequestLatencies {
            ttft_ms: ttft * 1000.0,
            tpot_ms: tpot * 1000.0,
            e2el_ms: latency * 1000.0,
            class,
            stalls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ALL: [Latency; 3] = [Latency::Ttft, Latency::Tpot, Latency::E2el];

    fn read(result: Value) -> Option<Vec<RequestLatencies>> {
        serde_json::from_value::<SavedRequests>(result)
            .expect("lists")
            .with(&ALL)
    }

    #[test]
    fn saved_requests_are_read_and_failed_ones_miss_every_limit() {
        let read = read(json!({
            "ttfts": [0.1, 0.0], "itls": [[0.02, 0.04], []], "output_lens": [3, 0], "errors": ["", "refused"],
        }));
        let read = read.expect("requests");
        assert_eq!(read[1], RequestLatencies::FAILED);
        let (first, near) = (read[0], |a: f64, b: f64| (a - b).abs() < 1e-9);
        assert!(
            near(first.ttft_ms, 100.0) && near(first.tpot_ms, 30.0) && near(first.e2el_ms, 160.0),
            "{first:?}"
        );
    }

    #[test]
    fn a_result_without_requests_has_none() {
        assert_eq!(read(json!({"mean_ttft_ms": 3.0})), Some(Vec::new()));
        assert_eq!(
            read(json!({"ttfts": [0.1, 0.2], "itls": [[]], "output_lens": [1, 1]})),
            None
        );
    }
}
