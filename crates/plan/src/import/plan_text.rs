//! Writes the plan's text as TOML, from a JSON value of the whole plan.

use super::records::{PERCENTILE_METRICS, Record, Sides};
use super::{Loads, ReadSweep, startup};
use crate::{Offline, ServeCommand, is_name, spelling};
use itertools::Itertools;
use serde_json::{Value, json};
use vsweep_base::printable::printable;
use vsweep_base::shell::shell_line;
use vsweep_strategy::search::BRIEF_S;

/// The highest load that vLLM's searches try.
const HIGHEST_LOAD: u64 = 8192;

/// Returns the plan's text without notes. Adds a note for each option that has no key, or that a plan treats differently.
pub(super) fn write(read: &ReadSweep<'_>, sides: &Sides<'_>, notes: &mut Vec<String>) -> String {
    let sweep = read.sweep;
    let name = sweep.experiment_name.as_ref();
    if let Some(name) = name.filter(|name| !is_name(name)) {
        notes.push(format!(
            "the name `{name}` cannot name a directory; the plan has that of its file"
        ));
    }
    let is_searched = matches!(sweep.loads, Loads::Searched { .. });
    if is_searched && sweep.num_runs > 1 {
        notes.push(format!(
            "--num-runs {} is left out: a search repeats what noise demands",
            sweep.num_runs
        ));
    }
    if read.reset.is_some() {
        let note = "--after-bench-cmd is `reset`: it runs between runs, and one that fails marks the run that follows";
        notes.push(note.to_owned());
    }
    let bench_command = without_percentile_metrics(&read.bench_command);
    if bench_command != read.bench_command {
        notes.push(format!("--bench-cmd: {PERCENTILE_METRICS}"));
    }
    let links = read.links.iter().map(|(serve, bench)| {
        let serve = spelling::long_name(serve).unwrap_or(serve);
        [format!("serve.{serve}"), format!("bench.{bench}")]
    });
    let links: Vec<[String; 2]> = links.collect();
    let is_startup = matches!(sweep.loads, Loads::Startup { .. });
    let mut plan = json!({
        "version": 1,
        "name": name.filter(|name| is_name(name)),
        "runs": (!is_searched).then_some(sweep.num_runs),
        // A run with many failed requests is a failure here, but not in vLLM's sweep.
        "on_failure": "continue",
        "serve": {
            "command": command(&sweep.serve_cmd, &read.serve_command),
            "ready_timeout": (!is_startup).then(|| format!("{}s", sweep.ready_timeout_s)),
            "reset": read.reset,
            "combos": combos(&sides.serve),
        },
        "bench": {
            "runner": is_startup.then(|| Offline::Startup.name()),
            "command": (!is_startup).then(|| command(&sweep.bench_cmd, &bench_command)),
            // vLLM's sweep has no time limit for a run. Its client has a limit of 6 h for a request.
            "timeout": "6h",
            "warmup_prompts": (!is_startup).then_some(sweep.warmup_num_prompts),
            "params": is_startup.then(|| startup::own_params(&read.bench_command)),
            "combos": combos(&sides.bench),
        },
        "link": (!links.is_empty()).then(|| json!({ "equal": links })),
    });
    let prompts = read.bench.iter().map(|bench| read.num_prompts(&bench.params));
    match &sweep.loads {
        Loads::Listed | Loads::Startup { .. } => {}
        Loads::Explored { vary, levels } => {
            let most = prompts.max().unwrap_or_default().max(2);
            plan["explore"] = json!({
                "vary": vary, "levels": levels, "spacing": "linear", "max_concurrency": most,
            });
            let note =
                "the second half of the levels goes where the curve bends, not to even distances (docs/search.md)";
            notes.push(note.to_owned());
        }
        Loads::Searched { vary, .. } => {
            // A run never has more requests in flight than it sends, so the search ends there.
            let fewest = prompts.min();
            let reached = fewest.filter(|_| vary == "max_concurrency");
            let most = reached.map_or(HIGHEST_LOAD, |reached| reached.min(HIGHEST_LOAD));
            plan["sla"] = json!({ "vary": vary, "min": 1, "max": most, "target": read.criteria });
            let note =
                "the search is vsweep's own (docs/search.md): other loads are tried, and the answer has an interval";
            notes.push(note.to_owned());
            notes.extend((most < HIGHEST_LOAD).then(|| {
                format!(
                    "the search ends at max_concurrency = {most}, the fewest requests of a load (num_prompts), because no run has more in \
                     flight than it sends; to search higher, write num_prompts = {{ per = \"max_concurrency\", times = 10 }} and raise \
                     sla.max"
                )
            }));
            let of_rate = fewest.filter(|_| vary == "request_rate");
            notes.extend(of_rate.map(|fewest| {
                format!(
                    "from request_rate = {:.0} on, the fewest requests of a load ({fewest}) are sent within {BRIEF_S} s, too short to show a \
                     lasting load; write num_prompts = {{ per = \"request_rate\", times = 10, min = {fewest} }}",
                    fewest as f64 / BRIEF_S
                )
            }));
        }
    }
    toml(plan)
}

/// Returns the plan's text with the notes as comments at its beginning.
pub(super) fn with_notes(body: &str, notes: &[String]) -> String {
    let mut text = String::from("# A sweep of `vllm bench sweep` as a plan, made by `vsweep import`.\n");
    if !notes.is_empty() {
        text += "# What differs, or has no key:\n";
    }
    text.extend(notes.iter().map(|note| format!("# - {}\n", printable(note))));
    text + "\n" + body
}

/// Returns a command as it was typed, if a plan splits it into the same words; else the words joined for a shell, or as a list.
fn command(typed: &str, words: &[String]) -> Value {
    let is_same = |line: &str| shell_words::split(line).is_ok_and(|read| read == words) && !line.contains('\n');
    let joined = shell_line(words);
    match [typed, &joined].into_iter().find(|line| is_same(line)) {
        Some(line) => json!(line),
        None => json!(words),
    }
}

/// Returns the words without `--percentile-metrics`, which vLLM's sweep overrides.
pub(super) fn without_percentile_metrics(words: &[String]) -> Vec<String> {
    let command = ServeCommand::of(words);
    let kept = command.without(|flag| flag.is("percentile_metrics").then_some(1));
    [command.before(), &kept].concat()
}

/// Returns the combinations of a side, or null if none of them has a name or a parameter.
fn combos(records: &[Record<'_>]) -> Value {
    let is_empty = |record: &Record<'_>| record.ours.name.is_none() && record.ours.params.is_empty();
    if records.iter().all(is_empty) {
        return Value::Null;
    }
    let combos = records.iter().map(|Record { ours, .. }| {
        let name = ours.name.iter().map(|name| ("name".to_owned(), json!(name)));
        name.chain(ours.params.clone()).collect::<Value>()
    });
    combos.collect()
}

/// Formats a plan as TOML and leaves out keys whose value is null. A `{ value = ... }` is written inline, because a table of its own would
/// come after all other parameters.
pub(super) fn toml(plan: Value) -> String {
    let mut whole = Vec::new();
    let plan = plain(set_aside(plan, &mut whole));
    let text = toml::to_string(&plan).expect("TOML has all that is left");
    let placeholders = (0..).map(|number| format!("\"{}\"", placeholder(number)));
    let restore = |text: String, (name, value): (String, &Value)| text.replacen(&name, &inline(value), 1);
    placeholders.zip(&whole).fold(text, restore)
}

/// Replaces each `{ value = ... }` by a placeholder, and adds it to `whole`.
fn set_aside(value: Value, whole: &mut Vec<Value>) -> Value {
    match value {
        Value::Object(members) if members.len() == 1 && members.contains_key("value") => {
            whole.push(Value::Object(members));
            placeholder(whole.len() - 1).into()
        }
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(name, value)| (name, set_aside(value, whole))).collect()
        }
        Value::Array(items) => items.into_iter().map(|item| set_aside(item, whole)).collect(),
        other => other,
    }
}

fn placeholder(number: usize) -> String {
    format!("<the whole value {number}>")
}

/// Returns a value, which holds no null, as one line of TOML.
fn inline(value: &Value) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let key =
        |name: &String| match name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) && !name.is_empty() {
            true => name.clone(),
            false => quoted(name),
        };
    match value {
        Value::String(text) => quoted(&escaped(text)),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).join(", ")),
        Value::Object(members) => {
            let mut members = members
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Escapes `${` for a plan, which would replace it. vLLM does not replace it.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// Removes nulls and empty tables from a value, and escapes its texts.
fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escaped(&text)),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(members) => {
            let given = members.into_iter().filter(|(_, value)| !value.is_null());
            let given = given.map(|(name, value)| (name, plain(value)));
            given.filter(|(_, value)| *value != json!({})).collect()
        }
        plain => plain,
    }
}
