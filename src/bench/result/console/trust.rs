//! A block of our own below that of `vllm bench serve`: how far its figures can be trusted.

use super::{WIDTH, line};
use crate::plan::Params;
use serde_json::Value;
use std::fmt::Write;

/// Writes the block, if the result is one of ours.
pub(super) fn write(text: &mut String, result: &Params) {
    if !result.contains_key("generator_lag_p99_ms") {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:=^WIDTH$}", " How Sure These Figures Are ");
    word(text, "Prompts made of:", result.get("prompt_source"));
    word(
        text,
        "Prompt tokens counted by:",
        result.get("prompt_tokens_counted_by"),
    );
    line(text, "Peak open requests:", result.get("peak_concurrent_requests"));
    line(text, "P99 generator lag (ms):", result.get("generator_lag_p99_ms"));
    line(text, "Generator CPU share (0 to 1):", result.get("generator_cpu_share"));
    let intervals = result.get("confidence_95").and_then(Value::as_object);
    for (name, interval) in intervals.into_iter().flatten() {
        if let Some([low, high]) = ends(interval) {
            let value = format!("{low:.2} to {high:.2}");
            let _ = writeln!(text, "{:<40} {value}", format!("95 % of {}:", quantity(name)));
        }
    }
    match result.get("steady_state") {
        Some(Value::Object(steady)) => {
            let window = steady.get("window").and_then(|window| window.get("duration_s"));
            line(text, "Steady state (s):", window);
            line(
                text,
                "Steady output throughput (tok/s):",
                steady.get("output_throughput"),
            );
            line(text, "Steady median TTFT (ms):", steady.get("median_ttft_ms"));
        }
        reason => word(text, "Steady state:", reason),
    }
    text.push_str(&"=".repeat(WIDTH));
    text.push('\n');
}

/// What a key of the intervals is about, as the lines above the block call it: `P99 TTFT (ms)`.
fn quantity(name: &str) -> String {
    let latency = || {
        let (percentile, metric) = name.strip_suffix("_ms")?.split_once('_')?;
        Some(format!("{} {} (ms)", percentile.to_uppercase(), metric.to_uppercase()))
    };
    match name {
        "request_throughput" => "request throughput (req/s)".to_owned(),
        "output_events_per_s" => "output events (events/s)".to_owned(),
        name => latency().unwrap_or_else(|| name.to_owned()),
    }
}

fn word(text: &mut String, label: &str, value: Option<&Value>) {
    if let Some(value) = value.and_then(Value::as_str) {
        let _ = writeln!(text, "{label:<40} {value}");
    }
}

fn ends(interval: &Value) -> Option<[f64; 2]> {
    let [low, high] = interval.as_array()?.as_slice() else {
        return None;
    };
    Some([low.as_f64()?, high.as_f64()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(result: Value) -> String {
        let mut text = String::new();
        write(&mut text, result.as_object().expect("an object"));
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    #[test]
    fn what_is_known_is_said() {
        let result = json!({
            "prompt_source": "token_ids", "prompt_tokens_counted_by": "token_ids", "peak_concurrent_requests": 8,
            "generator_lag_p99_ms": 0.126, "generator_cpu_share": 0.031,
            "confidence_95": {"request_throughput": [9.5, 10.5], "p99_ttft_ms": [1.0, 2.5], "p99_itl_ms": null},
            "steady_state": {"window": {"duration_s": 12.5}, "output_throughput": 99.0, "median_ttft_ms": 4.0},
        });
        let expected = "\
=========== How Sure These Figures Are ===========
Prompts made of:                         token_ids
Prompt tokens counted by:                token_ids
Peak open requests:                      8
P99 generator lag (ms):                  0.13
Generator CPU share (0 to 1):            0.03
95 % of request throughput (req/s):      9.50 to 10.50
95 % of P99 TTFT (ms):                   1.00 to 2.50
Steady state (s):                        12.50
Steady output throughput (tok/s):        99.00
Steady median TTFT (ms):                 4.00
==================================================
";
        assert_eq!(written(result), expected);
        assert_eq!(written(json!({"completed": 3})), "", "a result of vLLM's");
        let short = json!({"generator_lag_p99_ms": 1.0, "steady_state": "none found: too short"});
        assert!(written(short).contains("Steady state:                            none found: too short"));
    }
}
