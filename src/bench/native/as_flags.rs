//! Converts a plan's parameters to flags of `vsweep bench`. Values are spelt as a command line allows, which is stricter than a plan. The
//! metrics in the result are always given, because a plan and the command line have different defaults for them.

use super::figures::{PLAN_METRICS, PLAN_PERCENTILES};
use super::settings::{NativeSettings, TABLE};
use super::warmup::Amount;
use crate::bench::params::Takes;
use crate::plan::{Params, Warmup, show};
use serde_json::{Value, json};

/// Returns the flags of `vsweep bench` that give the benchmark of these parameters.
pub fn to_flags(params: &Params, warmup: Warmup) -> Params {
    let mut flags = Params::new();
    for (name, value) in params {
        let Some(flag) = TABLE.find(name).filter(|_| !value.is_null()) else {
            continue;
        };
        let value = match (flag.takes, value) {
            (Takes::Nothing, Value::Bool(false)) => continue,
            (Takes::Nothing, Value::String(text)) if text == "false" => continue,
            (Takes::Nothing, _) => json!(true),
            (Takes::Text, Value::Array(items)) => json!(items.iter().map(show).collect::<Vec<_>>().join(",")),
            (Takes::Texts, Value::String(text)) => text.split_whitespace().collect(),
            (Takes::Texts, Value::Object(pairs)) => {
                let pairs = pairs.iter().map(|(key, value)| format!("{key}={}", show(value)));
                pairs.collect()
            }
            (_, value) => value.clone(),
        };
        flags.insert(flag.name.to_owned(), value);
    }
    for (name, value) in [
        ("percentile_metrics", PLAN_METRICS),
        ("metric_percentiles", PLAN_PERCENTILES),
    ] {
        flags.entry(name).or_insert_with(|| json!(value));
    }
    if let Ok(settings) = NativeSettings::read(params) {
        let warmups = Amount::of(warmup, &settings, settings.requests(), &[]).count();
        flags.insert("num_warmups".to_owned(), json!(warmups));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_what_a_command_line_can_say() {
        let plan = json!({
            "save-detailed": false, "disable_tqdm": "true", "seed": null, "header": {"X": "1"},
            "metric_percentiles": [50, 99.9], "goodput": "ttft:5 tpot:6", "num_prompts": 4,
        });
        let flags = to_flags(plan.as_object().expect("an object"), Warmup::Requests(3));
        let wanted = json!({
            "disable_tqdm": true, "header": ["X=1"], "metric_percentiles": "50,99.9",
            "goodput": ["ttft:5", "tpot:6"], "num_prompts": 4, "percentile_metrics": PLAN_METRICS, "num_warmups": 3,
        });
        assert_eq!(Value::Object(flags), wanted);
    }
}
