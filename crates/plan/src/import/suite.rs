//! The suites of vLLM's performance CI (`tests/serving-tests.json`, `latency-tests.json`, `throughput-tests.json`) as plans, one for each
//! test: its server with its rates and concurrencies, or the offline benchmark that its name begins with.

use super::plan_text;
use crate::matrix::argv::json_word;
use crate::{Offline, Params, show, spelling};
use serde_json::{Value, json};

/// A test of a suite as a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Name of the test, which is also the plan's.
    pub name: String,
    /// The plan, as TOML.
    pub text: String,
}

/// Reads the tests of a suite. The error continues a sentence that begins with the file's name.
pub fn read(json: &str) -> Result<Vec<Test>, String> {
    let suite: Value = serde_json::from_str(json).map_err(|error| format!("is not JSON: {error}"))?;
    let tests = match &suite {
        Value::Array(tests) => tests,
        Value::Object(_) => suite["tests"]
            .as_array()
            .ok_or("has neither a list of tests nor the key \"tests\"")?,
        _ => return Err("is not a list of tests".to_owned()),
    };
    if tests.is_empty() {
        return Err("has no tests".to_owned());
    }
    let tests = tests.iter().map(|test| with_defaults(test, suite.get("defaults")));
    tests.map(|test| plan_of(&test)).collect()
}

/// Returns a test with the defaults of its suite. The test's own values take precedence; tables are merged key by key.
fn with_defaults(test: &Value, defaults: Option<&Value>) -> Params {
    let table = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut all = table(defaults);
    for (key, value) in table(Some(test)) {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(all)), Value::Object(own)) => all.extend(own),
            (_, value) => drop(all.insert(key, value)),
        }
    }
    all
}

fn plan_of(test: &Params) -> Result<Test, String> {
    let name = test.get("test_name").and_then(Value::as_str);
    let name = name.ok_or("has a test without a \"test_name\"")?;
    let table = |key: &str| -> Params { test.get(key).and_then(Value::as_object).cloned().unwrap_or_default() };
    let list = |key: &str| test.get(key).filter(|list| !list.is_null()).cloned();
    let mut offline = Offline::ALL.into_iter();
    let offline = offline.find(|offline| name.starts_with(offline.name()));
    let (mut server, mut load, env) = match offline {
        None => (
            table("server_parameters"),
            table("client_parameters"),
            table("server_environment_variables"),
        ),
        Some(offline) => {
            let is_own = |name: &String| offline.own_flags().any(|own| spelling::same(own, name));
            let (own, engine) = table("parameters").into_iter().partition(|(name, _)| is_own(name));
            (engine, own, table("environment_variables"))
        }
    };
    let most = load.get("num_prompts").cloned();
    let model = server.shift_remove("model").or_else(|| load.get("model").cloned());
    let model = model.as_ref().and_then(Value::as_str).ok_or_else(|| {
        format!("says of the test {name} no model; give \"model\" in its parameters, and \"test_name\" as serving_…, latency_… or throughput_…")
    })?;
    load = passed(load);
    if offline.is_none() {
        let rates = list("qps_list").map(|rates| ("request_rate".to_owned(), rates));
        let most = list("max_concurrency_list")
            .or(most)
            .map(|most| ("max_concurrency".to_owned(), most));
        load.extend(rates.into_iter().chain(most));
    }
    let plan = json!({
        "name": name,
        "runs": 1,
        "serve": {
            "command": ["vllm", "serve", model],
            // The suite's runner has the same limit.
            "ready_timeout": "1200s",
            "env": env.iter().map(|(name, value)| (name.clone(), json!(show(value)))).collect::<Params>(),
            "params": passed(server),
        },
        "bench": {
            "runner": offline.map(Offline::name),
            "command": offline.is_none().then_some("vllm bench serve"),
            "timeout": offline.is_none().then_some("6h"),
            "warmup_prompts": offline.is_none().then_some(0),
            "params": load,
        },
    });
    let text = "# A test of vLLM's performance CI, made by `vsweep import`.\n\n".to_owned() + &plan_text::toml(plan);
    let name = name.to_owned();
    Ok(Test { name, text })
}

/// Converts parameters to a plan's form: an empty text or null becomes `true`, a flag without a value. A list is one value, not an axis.
fn passed(params: Params) -> Params {
    let passed = params.into_iter().map(|(name, value)| match value {
        Value::String(text) if text.is_empty() => (name, json!(true)),
        Value::Null => (name, json!(true)),
        Value::Array(_) => (name, json!({"value": value})),
        Value::Object(_) => (name, json_word(&value).into()),
        value => (name, value),
    });
    passed.collect()
}
