//! A result as the text block that `vllm bench serve` prints.

mod trust;

use crate::metrics::Metric;
use crate::plan::Params;
use serde_json::Value;
use std::fmt::Write;

const WIDTH: usize = 50;

/// The block for a result; the metrics are those that the result holds.
pub fn console(result: &Params) -> String {
    let mut text = format!("{:=^WIDTH$}\n", " Serving Benchmark Result ");
    lines(&mut text, &HEAD, result);
    let peak = result
        .get("max_concurrent_requests")
        .and_then(Value::as_f64)
        .map(Value::from);
    let rtfx = result
        .get("rtfx")
        .filter(|rtfx| rtfx.as_f64().is_some_and(|rtfx| rtfx > 0.0));
    line(&mut text, "Peak concurrent requests:", peak.as_ref());
    line(&mut text, "RTFx (Inverse Real-Time Factor):", rtfx);
    line(
        &mut text,
        "Total token throughput (tok/s):",
        result.get("total_token_throughput"),
    );
    if result.contains_key("probe_completed") {
        block(&mut text, "Probe Requests", &PROBES, result);
    }
    for metric in Metric::ALL {
        metric_block(&mut text, metric, result);
    }
    if result.contains_key("conversations_completed") {
        block(&mut text, "Conversations", &CONVERSATIONS, result);
        turns(&mut text, result);
    }
    if result.contains_key("diffusion_committed_throughput") {
        block(&mut text, "Diffusion Decoding", &DIFFUSION, result);
    } else if result.contains_key("spec_decode_acceptance_rate") {
        block(&mut text, "Speculative Decoding", &SPECULATION, result);
        positions(&mut text, result);
    }
    text.push_str(&"=".repeat(WIDTH));
    text.push('\n');
    trust::write(&mut text, result);
    text
}

const HEAD: [(&str, &str); 12] = [
    ("Successful requests:", "completed"),
    ("Failed requests:", "failed"),
    ("Maximum request concurrency:", "max_concurrency"),
    ("Request rate configured (RPS):", "request_rate"),
    ("Benchmark duration (s):", "duration"),
    ("Total input tokens:", "total_input_tokens"),
    ("Total generated tokens:", "total_output_tokens"),
    ("Request throughput (req/s):", "request_throughput"),
    ("Input throughput (inputs/s):", "input_sequence_throughput"),
    ("Request goodput (req/s):", "request_goodput"),
    ("Output token throughput (tok/s):", "output_throughput"),
    ("Peak output token throughput (tok/s):", "max_output_tokens_per_s"),
];
const PROBES: [(&str, &str); 5] = [
    ("Probe requests completed:", "probe_completed"),
    ("Probe requests failed:", "probe_failed"),
    ("Median probe E2EL (ms):", "probe_median_e2el_ms"),
    ("P99 probe E2EL (ms):", "probe_p99_e2el_ms"),
    ("Max probe E2EL (ms):", "probe_max_e2el_ms"),
];
const CONVERSATIONS: [(&str, &str); 4] = [
    ("Conversations completed:", "conversations_completed"),
    ("Conversations failed:", "conversations_failed"),
    ("Mean turns completed:", "avg_turns_completed"),
    ("Mean conversation duration (ms):", "avg_conversation_duration_ms"),
];
const DIFFUSION: [(&str, &str); 6] = [
    ("Committed throughput (tok/s):", "diffusion_committed_throughput"),
    ("Denoising steps per canvas:", "diffusion_steps_per_canvas"),
    ("Committed per denoising step:", "diffusion_committed_per_step"),
    ("Committed tokens:", "diffusion_committed_tokens"),
    ("Denoising steps:", "diffusion_denoising_steps"),
    ("Canvas positions evaluated:", "diffusion_canvas_positions"),
];
const SPECULATION: [(&str, &str); 5] = [
    ("Acceptance rate (%):", "spec_decode_acceptance_rate"),
    ("Acceptance length:", "spec_decode_acceptance_length"),
    ("Drafts:", "spec_decode_num_drafts"),
    ("Draft tokens:", "spec_decode_draft_tokens"),
    ("Accepted tokens:", "spec_decode_accepted_tokens"),
];

/// A title, and a line for each figure.
fn block(text: &mut String, title: &str, figures: &[(&str, &str)], result: &Params) {
    let _ = writeln!(text, "{title:-^WIDTH$}");
    lines(text, figures, result);
}

fn lines(text: &mut String, figures: &[(&str, &str)], result: &Params) {
    for (label, key) in figures {
        line(text, label, result.get(*key));
    }
}

fn turns(text: &mut String, result: &Params) {
    let turns = result.get("per_turn_metrics").and_then(Value::as_array);
    for (number, turn) in (1..).zip(turns.into_iter().flatten()) {
        line(
            text,
            &format!("Turn {number}: mean TTFT (ms):"),
            turn.get("mean_ttft_ms"),
        );
    }
}

fn positions(text: &mut String, result: &Params) {
    let rates = result
        .get("spec_decode_per_position_acceptance_rates")
        .and_then(Value::as_array);
    let rates = rates.map(Vec::as_slice).unwrap_or_default();
    if !rates.is_empty() {
        let _ = writeln!(text, "Per-position acceptance (%):");
    }
    for (position, rate) in rates.iter().filter_map(Value::as_f64).enumerate() {
        line(
            text,
            &format!("  Position {position}:"),
            Some(&Value::from(rate * 100.0)),
        );
    }
}

/// One line: whole numbers as they are, others with two decimals, nothing for a value that is missing.
fn line(text: &mut String, label: &str, value: Option<&Value>) {
    // Writing to a string cannot fail.
    let _ = match value {
        Some(Value::Number(number)) if number.is_f64() => {
            writeln!(text, "{label:<40} {:<10.2}", number.as_f64().unwrap_or(0.0))
        }
        Some(Value::Number(number)) => writeln!(text, "{label:<40} {:<10}", number.to_string()),
        _ => Ok(()),
    };
}

fn metric_block(text: &mut String, metric: Metric, result: &Params) {
    let suffix = format!("_{}_ms", metric.name());
    let Some(mean) = result.get(&format!("mean{suffix}")) else {
        return;
    };
    let (title, name) = titles(metric);
    let _ = writeln!(text, "{title:-^WIDTH$}");
    line(text, &format!("Mean {name} (ms):"), Some(mean));
    line(
        text,
        &format!("Median {name} (ms):"),
        result.get(&format!("median{suffix}")),
    );
    for (key, value) in result {
        let percent = key.strip_prefix('p').and_then(|key| key.strip_suffix(&suffix));
        if let Some(percent) = percent.filter(|percent| percent.parse::<f64>().is_ok()) {
            line(text, &format!("P{percent} {name} (ms):"), Some(value));
        }
    }
}

fn titles(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Ttft => ("Time to First Token", "TTFT"),
        Metric::Tpot => ("Time per Output Token (excl. 1st token)", "TPOT"),
        Metric::Itl => ("Inter-token Latency", "ITL"),
        Metric::E2el => ("End-to-end Latency", "E2EL"),
        Metric::ClientQueueTime => ("Client-side Queueing", "Client Queue Time"),
        Metric::E2elIncludingClientQueue => ("Queue-inclusive End-to-end Latency", "E2EL incl. Client Queue"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tail(result: Value) -> String {
        let Value::Object(result) = result else {
            panic!("an object")
        };
        console(&result).lines().skip(1).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn diffusion_stands_in_for_speculation() {
        let result = json!({
            "spec_decode_acceptance_rate": 50.0, "diffusion_committed_throughput": 123.456, "diffusion_steps_per_canvas": 4.0,
            "diffusion_committed_per_step": 8.0, "diffusion_committed_tokens": 320, "diffusion_denoising_steps": 50,
            "diffusion_canvas_positions": 1600,
        });
        let expected = "\
----------------Diffusion Decoding----------------
Committed throughput (tok/s):            123.46
Denoising steps per canvas:              4.00
Committed per denoising step:            8.00
Committed tokens:                        320
Denoising steps:                         50
Canvas positions evaluated:              1600
==================================================";
        assert_eq!(
            tail(result).lines().map(str::trim_end).collect::<Vec<_>>().join("\n"),
            expected
        );
    }

    #[test]
    fn conversations_are_counted_and_their_turns_told_apart() {
        let result = json!({
            "conversations_completed": 2, "conversations_failed": 1, "avg_turns_completed": 2.5,
            "avg_conversation_duration_ms": null, "per_turn_metrics": [{"mean_ttft_ms": 9.0}, {"mean_ttft_ms": 4.0}],
        });
        let lines: Vec<String> = tail(result)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "------------------Conversations-------------------",
            "Conversations completed: 2",
            "Conversations failed: 1",
            "Mean turns completed: 2.50",
            "Turn 1: mean TTFT (ms): 9.00",
            "Turn 2: mean TTFT (ms): 4.00",
            "==================================================",
        ];
        assert_eq!(lines, expected);
    }
}
