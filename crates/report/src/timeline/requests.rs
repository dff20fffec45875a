//! The samples of one run from its result file: when each request was sent, when its tokens came, and what failed.

use serde::Deserialize;
use serde_json::{Value, json};

/// The requests of a run, in arrays with one entry for each request. The keys are those of `vllm bench serve --save-detailed`. Times are in
/// seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RequestSamples {
    start_times: Vec<f64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    errors: Vec<String>,
}

impl RequestSamples {
    /// Reads the result file of a run. The error completes a sentence whose subject is the run.
    pub fn read(json: &[u8]) -> Result<RequestSamples, String> {
        let requests: RequestSamples =
            serde_json::from_slice(json).map_err(|error| format!("has no samples that can be read: {error}"))?;
        let count = requests.start_times.len();
        if count == 0 || requests.itls.is_empty() {
            let remedy = "set save_detailed = true in [bench.params] and measure it again";
            return Err(format!("has no samples of its requests; {remedy}"));
        }
        if requests.ttfts.len() != count || requests.itls.len() != count {
            return Err(format!(
                "is inconsistent: {count} start times, {} first tokens and {} lists of gaps; measure it again",
                requests.ttfts.len(),
                requests.itls.len()
            ));
        }
        Ok(requests)
    }

    /// Returns a list for each request: its start after the earliest start, its TTFT and its gaps, all in microseconds, then its numbers of
    /// tokens and its error.
    pub(super) fn to_json(&self) -> Value {
        let first = self.start_times.iter().copied().reduce(f64::min).unwrap_or_default();
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let request = |i: usize| {
            let gaps: Vec<i64> = self.itls[i].iter().map(|gap| micros(*gap)).collect();
            let error = self.errors.get(i).filter(|error| !error.is_empty());
            let tokens = [self.input_lens.get(i), self.output_lens.get(i)];
            json!([
                micros(self.start_times[i] - first),
                micros(self.ttfts[i]),
                gaps,
                tokens,
                error
            ])
        };
        json!({"requests": (0..self.start_times.len()).map(request).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_microseconds_from_the_first_request_on() {
        let file = json!({"start_times": [100.5, 100.25], "ttfts": [0.0, 0.0125], "itls": [[], [0.001, 0.002]],
            "input_lens": [7, 8], "errors": ["HTTP 503", ""], "duration": 3});
        let requests = RequestSamples::read(file.to_string().as_bytes()).expect("samples");
        let expected = json!([
            [250_000, 0, [], [7, null], "HTTP 503"],
            [0, 12_500, [1000, 2000], [8, null], null]
        ]);
        assert_eq!(requests.to_json()["requests"], expected);
    }

    #[test]
    fn a_file_without_samples_says_what_to_do() {
        let refusal = |file: Value| RequestSamples::read(file.to_string().as_bytes()).expect_err("no samples");
        assert!(refusal(json!({"latencies": [1.0]})).contains("save_detailed"));
        let torn = json!({"start_times": [1.0], "ttfts": [1.0, 2.0], "itls": [[]]});
        assert!(refusal(torn).contains("inconsistent"));
        assert!(
            refusal(json!({"ttfts": "x"})).contains("cannot") || refusal(json!({"ttfts": "x"})).contains("can be read")
        );
    }
}
