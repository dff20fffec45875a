//! Single requests in an external benchmark's result, where it was told to save them (`vllm bench serve --save-detailed`).

use crate::plan::Params;
use crate::search::RequestLatencies;
use serde_json::Value;

/// The latencies of every request; empty where the result does not hold them. Times are in seconds there.
pub fn requests(result: &Params) -> Vec<RequestLatencies> {
    let list = |key: &str| result.get(key).and_then(Value::as_array);
    let (Some(ttfts), Some(itls), Some(lengths)) = (list("ttfts"), list("itls"), list("output_lens")) else {
        return Vec::new();
    };
    let errors = list("errors");
    let failed =
        |i: usize| errors.is_some_and(|errors| errors.get(i).and_then(Value::as_str).is_some_and(|e| !e.is_empty()));
    let request = |i: usize| {
        let (ttft_s, tokens) = (ttfts.get(i)?.as_f64()?, lengths.get(i)?.as_f64()?);
        if failed(i) || tokens == 0.0 {
            return Some(RequestLatencies::FAILED);
        }
        let gaps = itls.get(i)?.as_array()?;
        let rest_s: f64 = gaps.iter().filter_map(Value::as_f64).sum();
        Some(RequestLatencies {
            ttft_ms: 1000.0 * ttft_s,
            tpot_ms: if tokens > 1.0 {
                1000.0 * rest_s / (tokens - 1.0)
            } else {
                0.0
            },
            e2el_ms: 1000.0 * (ttft_s + rest_s),
        })
    };
    // Half of a list would be another run.
    (0..ttfts.len())
        .map(request)
        .collect::<Option<Vec<RequestLatencies>>>()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
