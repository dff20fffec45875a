//! A result as the text block that `vllm bench serve` prints, followed by our own block about the reliability of the figures.

use crate::plan::Params;
use crate::stats::split_class;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, UndefinedBehavior, Value, context};

const BLOCK: &str = include_str!("console.txt.jinja");

/// Returns the text for a result, with the metrics that the result holds.
pub fn console(result: &Params) -> String {
    let mut blocks = Environment::new();
    let tags_leave_no_line = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    blocks.set_syntax(tags_leave_no_line.expect("the default tags are valid"));
    blocks.set_undefined_behavior(UndefinedBehavior::Chainable);
    blocks.add_function("line", line);
    blocks.add_function("word", word);
    blocks.add_function("percent", percent);
    blocks.add_function("class_of", class_of);
    blocks.add_function("two_decimals", |number: f64| format!("{number:.2}"));
    let block = blocks.render_str(BLOCK, context! { r => Serde(result) });
    block.expect("the template is sound")
}

/// A line with a number: a whole number as it is, any other with two decimals. Empty if the value is missing.
fn line(label: &str, value: &Value) -> String {
    match f64::try_from(value.clone()) {
        _ if value.kind() != ValueKind::Number => String::new(),
        Ok(number) if !value.is_integer() => format!("{label:<40} {number:<10.2}\n"),
        _ => format!("{label:<40} {:<10}\n", value.to_string()),
    }
}

/// A line with a text. Empty if the value is missing.
fn word(label: &str, value: &Value) -> String {
    let text = value.as_str();
    text.map_or(String::new(), |text| format!("{label:<40} {text}\n"))
}

/// Returns the percentile in a key of a metric: `99` in `p99_ttft_ms` for `ttft`.
fn percent(key: &str, metric: &str) -> Option<String> {
    let percent = key.strip_prefix('p')?.strip_suffix("_ms")?.strip_suffix(metric)?;
    let percent = percent.strip_suffix('_')?;
    percent.parse::<f64>().is_ok().then(|| percent.to_owned())
}

/// The class of a figure such as `chat.p99_ttft_ms`.
fn class_of(figure: &str) -> Option<String> {
    split_class(figure).0.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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

    #[test]
    fn each_class_has_its_lines() {
        let result = json!({
            "chat.completed": 7, "chat.share": 0.7, "chat.p99_ttft_ms": 1.25, "docs.completed": 3, "docs.share": 0.3,
            "confidence_95": {"chat.share": [0.6, 0.8]}, "generator_lag_p99_ms": 1.0,
        });
        let text = tail(result);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = ["chat: completed: 7", "chat: P99 TTFT (ms): 1.25", "docs: completed: 3"];
        assert_eq!(lines[1..4], expected, "{text}");
        assert!(!text.contains("95 %"), "{text}");
    }

    fn written(result: Value) -> String {
        let text = console(result.as_object().expect("an object"));
        let (_, own) = text.split_once(&format!("\n{}\n", "=".repeat(50))).expect("a rule");
        own.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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
