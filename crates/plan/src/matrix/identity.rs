//! Computes the ids of servers and points. Ids never depend on secrets, so a changed password causes no new measurement, and an id reveals
//! no secret.

use crate::{BenchRunner, MIX, Members, Params, Plan, Reset, Secrets, Serve, Target, Warmup, spelling};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vsweep_base::files::open_named_file;
use vsweep_base::ids::{Hash256, PointId, ServerId, canonical_json, short_digest};

/// Id of a server. An attached server is identified by its URL and its parameters.
pub(super) fn server_id(
    serve: &Serve,
    argv: &[String],
    env: &BTreeMap<String, String>,
    params: &Params,
    secrets: &Secrets,
) -> ServerId {
    let mut content = match &serve.target {
        Target::Launch(_) => json!({"argv": secrets.redact_argv(argv), "env": env_without_secrets(env, secrets)}),
        Target::Attach(url) => json!({"url": secrets.redact(url), "params": secrets.redact_params(params)}),
    };
    let members = &serve.protocol.members;
    if *members != Members::default() {
        let commands = members.commands.iter().map(|words| secrets.redact_argv(words));
        content["members"] = json!({"nodes": members.nodes, "commands": commands.collect::<Vec<_>>()});
    }
    ServerId(short_digest(&canonical_json(&content)).into())
}

/// Load settings common to all points of a plan.
#[derive(Debug, Clone)]
pub(super) struct SharedLoad {
    /// Members of the content between the parameters and the server's id, in the order of their names, each after a comma.
    between: String,
    env: BTreeMap<String, String>,
    /// Number of warm-up requests; `None` for as many as the load keeps in flight.
    warmup_prompts: Option<u32>,
    /// SHA-256 of each dataset file that can be read, by its path.
    datasets: BTreeMap<String, String>,
}

impl SharedLoad {
    /// Returns the settings of a plan. Reads the dataset files that it names.
    pub fn of_plan(plan: &Plan) -> SharedLoad {
        let bench = &plan.bench;
        let of_params = bench.params.iter().filter(|(name, _)| spelling::same(name, DATASET));
        let of_combos = bench.combos.iter().filter_map(|combo| dataset_path(&combo.params));
        let mixes = bench.params.iter().filter(|(name, _)| name == MIX);
        let mixes = mixes.flat_map(|(_, axis)| axis.values());
        let of_classes = mixes.chain(bench.combos.iter().filter_map(|combo| combo.params.get(MIX)));
        let of_classes = of_classes.flat_map(paths_of_classes);
        let paths = of_params.flat_map(|(_, axis)| axis.values()).filter_map(Value::as_str);
        let paths: BTreeSet<&str> = paths.chain(of_combos).chain(of_classes).collect();
        let digest = |path: &str| {
            let file = open_named_file(Path::new(path)).ok()?;
            Some((path.to_owned(), Hash256::of_all(file).ok()?.to_string()))
        };
        let is_command = matches!(bench.runner, BenchRunner::Command(_));
        SharedLoad {
            between: between(plan),
            env: if is_command { bench.env.clone() } else { BTreeMap::new() },
            warmup_prompts: match bench.warmup {
                Warmup::Automatic => None,
                Warmup::Requests(count) => Some(count),
            },
            datasets: paths.into_iter().filter_map(digest).collect(),
        }
    }

    pub fn content(&self, params: &Params, argv: Option<&[String]>, secrets: &Secrets) -> LoadContent {
        let members = members(params, secrets);
        self.frame(params, argv, secrets).with([Cow::from(members)])
    }

    /// Returns the content of a load without its parameters, which [`LoadContent::with`] adds. Here `params` only decide the dataset files.
    pub fn frame(&self, params: &Params, argv: Option<&[String]>, secrets: &Secrets) -> LoadContent {
        let of_classes = params.get(MIX).into_iter().flat_map(paths_of_classes);
        let datasets = of_classes.filter_map(|path| Some((path, self.datasets.get(path)?)));
        let datasets: BTreeMap<&str, &String> = datasets.collect();
        // The fields before the parameters, in the order of their names.
        let mut fields = json!({
            "argv": argv.map(|argv| secrets.redact_argv(argv)),
            "dataset": dataset_path(params).and_then(|path| self.datasets.get(path)),
        });
        if !datasets.is_empty() {
            fields["datasets"] = json!(datasets);
        }
        fields["env"] = json!(env_without_secrets(&self.env, secrets));
        let mut before = fields.to_string();
        before.truncate(before.len() - "}".len());
        before.push_str(r#","params":{"#);
        LoadContent {
            before,
            after_params: format!(r#"}}{},"server":""#, self.between),
            after: format!(r#"","warmup_prompts":{}}}"#, json!(self.warmup_prompts)),
        }
    }

    /// Returns true if a parameter names the file that requests are read from.
    pub fn decides_dataset(&self, name: &str) -> bool {
        spelling::same(name, DATASET)
    }
}

/// The text from which the ids of one load's points are made: the canonical JSON before and after the server's id. The text is made once
/// for each load, because a plan with a million points often has only a thousand loads.
#[derive(Debug, Clone)]
pub(super) struct LoadContent {
    before: String,
    /// Text between the parameters and the server's id; empty once the parameters are part of `before`.
    after_params: String,
    after: String,
}

impl LoadContent {
    /// Returns the content with these parameters, given as members of a JSON object in the order of their names.
    pub fn with<'a>(&self, members: impl IntoIterator<Item = Cow<'a, str>>) -> LoadContent {
        let mut before = self.before.clone();
        for (at, member) in members.into_iter().enumerate() {
            before.push_str(if at > 0 { "," } else { "" });
            before.push_str(&member);
        }
        before.push_str(&self.after_params);
        LoadContent {
            before,
            after_params: String::new(),
            after: self.after.clone(),
        }
    }

    /// Returns the id of the load's point on this server.
    pub fn point_id(&self, server: &ServerId) -> PointId {
        PointId(short_digest(&[&self.before, &*server.0, &self.after].concat()).into())
    }
}

/// Returns parameters as members of a JSON object, in the order of their names and without secrets.
pub(super) fn members(params: &Params, secrets: &Secrets) -> String {
    let mut object = Value::Object(secrets.redact_params(params));
    object.sort_all_objects();
    let mut text = object.to_string();
    text.pop();
    text.split_off(1)
}

/// Returns a plan's way of resetting caches, the places of its figures and its runner, as members of a JSON object. Defaults are left out.
fn between(plan: &Plan) -> String {
    let runner = &plan.bench.runner;
    let reset = match plan.serve.reset {
        Reset::Nothing => Some(json!("none")),
        Reset::Restart if runner.offline().is_none() => Some(json!("restart")),
        // A reset by a route or a command leaves the same empty caches as the default.
        _ => None,
    };
    let places = plan.bench.result.iter();
    let places: BTreeMap<_, _> = places.map(|(name, place)| (name, (&place.at, place.times))).collect();
    let result = (!places.is_empty()).then(|| json!(places));
    let runner = runner.name().filter(|_| *runner != BenchRunner::Native);
    let members = [
        ("reset", reset),
        ("result", result),
        ("runner", runner.map(Value::from)),
    ];
    let written = members
        .into_iter()
        .filter_map(|(name, value)| Some(format!(r#","{name}":{}"#, value?)));
    written.collect()
}

/// The parameter that names the file from which a dataset is read.
const DATASET: &str = "dataset_path";

fn dataset_path(params: &Params) -> Option<&str> {
    spelling::find(params, DATASET).and_then(Value::as_str)
}

/// The files that the classes of a mix name.
fn paths_of_classes(mix: &Value) -> impl Iterator<Item = &str> {
    let classes = mix.as_array().into_iter().flatten().filter_map(Value::as_object);
    classes.filter_map(dataset_path)
}

/// Returns the environment without the variables whose names announce secrets, and with the secrets in other values hidden.
fn env_without_secrets(env: &BTreeMap<String, String>, secrets: &Secrets) -> BTreeMap<String, String> {
    let kept = env.iter().filter(|(name, _)| !secrets.announces(name));
    kept.map(|(name, value)| (name.clone(), secrets.redact(value)))
        .collect()
}
