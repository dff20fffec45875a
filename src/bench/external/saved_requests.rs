//! Single requests in an external benchmark's result, where it was told to save them (`vllm bench serve --save-detailed`).

use crate::plan::Params;
use crate::search::RequestLatencies;
use serde::Deserialize;

/// Lists with one entry a request; times are in seconds.
#[derive(Deserialize)]
struct SavedRequests {
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    output_lens: Vec<f64>,
    #[serde(default)]
    errors: Vec<Option<String>>,
}

/// The latencies of every request; empty where the result does not hold them all, since half of a list would be another run.
pub fn requests(result: &Params) -> Vec<RequestLatencies> {
    let Ok(saved) = SavedRequests::deserialize(result) else {
        return Vec::new();
    };
    if saved.itls.len() < saved.ttfts.len() || saved.output_lens.len() < saved.ttfts.len() {
        return Vec::new();
    }
    let errors = saved.errors.into_iter().chain(std::iter::repeat(None));
    let requests = saved.ttfts.iter().zip(&saved.itls).zip(&saved.output_lens).zip(errors);
    let latencies = requests.map(|(((ttft_s, gaps), tokens), error)| {
        if *tokens == 0.0 || error.is_some_and(|error| !error.is_empty()) {
            return RequestLatencies::FAILED;
        }
        let rest_s: f64 = gaps.iter().sum();
        RequestLatencies {
            ttft_ms: 1000.0 * ttft_s,
            tpot_ms: if *tokens > 1.0 {
                1000.0 * rest_s / (tokens - 1.0)
            } else {
                0.0
            },
            e2el_ms: 1000.0 * (ttft_s + rest_s),
        }
    });
    latencies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(result: Value) -> Vec<RequestLatencies> {
        requests(result.as_object().expect("an object"))
    }

    #[test]
    fn saved_requests_are_read_and_failed_ones_miss_every_limit() {
        let read = read(json!({
            "ttfts": [0.1, 0.0], "itls": [[0.02, 0.04], []], "output_lens": [3, 0], "errors": ["", "refused"],
        }));
        assert_eq!(read[1], RequestLatencies::FAILED);
        let (first, near) = (read[0], |a: f64, b: f64| (a - b).abs() < 1e-9);
        assert!(
            near(first.ttft_ms, 100.0) && near(first.tpot_ms, 30.0) && near(first.e2el_ms, 160.0),
            "{first:?}"
        );
    }

    #[test]
    fn a_result_without_requests_has_none() {
        assert_eq!(read(json!({"mean_ttft_ms": 3.0})), []);
        assert_eq!(
            read(json!({"ttfts": [0.1, 0.2], "itls": [[]], "output_lens": [1, 1]})),
            []
        );
    }
}
