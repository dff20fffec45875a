//! The suites of vLLM's performance CI (`tests/serving-tests.json`, `latency-tests.json`, `throughput-tests.json`) as plans, one for each
//! test: its server with its rates and concurrencies, or the offline benchmark that its name begins with.

use super::plan_text;
use crate::matrix::argv::json_word;
use crate::plan::{Offline, Params, show, spelling};
use serde_json::{Map, Value, json};

/// A test of a suite as a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The plan, as TOML.
    pub text: String,
}

/// The tests of a suite. The error is a sentence.
pub fn read(json: &str) -> Result<Vec<Test>, String> {
    let suite: Value = serde_json::from_str(json).map_err(|error| format!("is no JSON: {error}"))?;
    let nothing = Map::new();
    let (defaults, tests) = match &suite {
        Value::Array(tests) => (&nothing, tests),
        Value::Object(suite) => (
            suite.get("defaults").and_then(Value::as_object).unwrap_or(&nothing),
            suite
                .get("tests")
                .and_then(Value::as_array)
                .ok_or("has neither a list of tests nor the key \"tests\"")?,
        ),
        _ => return Err("is no list of tests".to_owned()),
    };
    let tests: Vec<Test> = tests
        .iter()
        .map(|test| plan_of(test, defaults))
        .collect::<Result<_, _>>()?;
    match tests.is_empty() {
        true => Err("has no tests".to_owned()),
        false => Ok(tests),
    }
}

fn plan_of(test: &Value, defaults: &Map<String, Value>) -> Result<Test, String> {
    let name = test["test_name"].as_str().ok_or("has a test without a \"test_name\"")?;
    // A test's own values win over the defaults, key by key.
    let table = |key: &str| -> Params {
        let both = [defaults.get(key), test.get(key)];
        let both = both.into_iter().flatten().filter_map(Value::as_object);
        both.flat_map(|table| table.clone()).collect()
    };
    let list = |key: &str| {
        test.get(key)
            .or_else(|| defaults.get(key))
            .filter(|list| !list.is_null())
            .cloned()
    };
    let offline = Offline::ALL
        .into_iter()
        .find(|offline| name.starts_with(offline.name()));
    let (server, mut load, env) = match offline {
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
    let mut server = server;
    let model = server.shift_remove("model").or_else(|| load.get("model").cloned());
    let model = model.as_ref().and_then(Value::as_str).ok_or_else(|| {
        format!("says of the test {name} no model; give \"model\" in its parameters, and \"test_name\" as serving_…, latency_… or throughput_…")
    })?;
    if offline.is_none() {
        let most = load.get("num_prompts").cloned();
        let swept = [
            ("request_rate", list("qps_list")),
            ("max_concurrency", list("max_concurrency_list").or(most)),
        ];
        load.extend(
            swept
                .into_iter()
                .filter_map(|(name, values)| Some((name.to_owned(), values?))),
        );
    }
    let plan = json!({
        "name": name,
        "runs": 1,
        "serve": {
            "command": ["vllm", "serve", model],
            // The suite's runner waits so long.
            "ready_timeout": "1200s",
            "env": env.iter().map(|(name, value)| (name.clone(), json!(show(value)))).collect::<Params>(),
            "params": passed(server),
        },
        "bench": {
            "runner": offline.map(Offline::name),
            "command": offline.is_none().then_some("vllm bench serve"),
            "timeout": offline.is_none().then_some("6h"),
            "warmup_prompts": offline.is_none().then_some(0),
            "params": passed(load),
        },
    });
    Ok(Test {
        name: name.to_owned(),
        text: format!(
            "# A test of vLLM's performance CI, made by `vsweep import`.\n\n{}",
            plan_text::toml(plan)
        ),
    })
}

/// Parameters as a plan passes them: an empty text or null stands for a flag without a value.
fn passed(params: Params) -> Params {
    let passed = params.into_iter().map(|(name, value)| match value {
        Value::String(text) if text.is_empty() => (name, json!(true)),
        Value::Null => (name, json!(true)),
        Value::Object(_) => (name, json_word(&value).into()),
        value => (name, value),
    });
    passed.collect()
}
