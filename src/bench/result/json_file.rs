//! The name of a result's file, as `vllm bench serve` would call it.

use crate::bench::native::settings::NativeSettings;
use crate::plan::Params;
use serde_json::Value;

/// The name that a result gets unless the user chose one:
/// `{label or backend}-{rate}qps{-concurrencyN}-{model}-{date}.json`.
pub fn name(settings: &NativeSettings, result: &Params) -> String {
    let text = |key: &str| match result.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // A slash would create a folder.
    let label = settings.figures.label.as_deref().filter(|label| !label.is_empty());
    let label = label.unwrap_or(&settings.api.backend_name).replace('/', "-");
    let load = match settings.arrival.arrivals().ramp {
        Some(ramp) => format!("ramp-up-{}-{}qps-{}qps", ramp.shape.name(), ramp.start, ramp.end),
        None => format!("{}qps", text("request_rate")),
    };
    let limit = settings
        .concurrency()
        .map(|limit| format!("-concurrency{limit}"))
        .unwrap_or_default();
    let model_id = text("model_id");
    let model = model_id.rsplit('/').next().unwrap_or_default();
    format!("{label}-{load}{limit}-{model}-{}.json", text("date"))
}
