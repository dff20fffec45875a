//! The plan's text: TOML, laid out as a person would write it.

use super::records::{Kept, PERCENTILE_METRICS, Sides};
use super::{Loads, ReadSweep, startup};
use crate::plan::{Offline, is_name, spelling};
use crate::printable::printable;
use crate::shell::shell_line;
use serde_json::{Value, json};
use std::fmt::Write;

/// The highest load that vLLM's searches try.
const HIGHEST_LOAD: u64 = 8192;

/// The plan without its notes; adds to them what has no key.
pub(super) fn write(read: &ReadSweep<'_>, sides: &Sides, notes: &mut Vec<String>) -> String {
    let sweep = read.sweep;
    let mut text = Text(String::new());
    text.key("version", json!(1));
    match &sweep.experiment_name {
        Some(name) if is_name(name) => text.key("name", json!(name)),
        Some(name) => notes.push(format!(
            "the name `{name}` cannot name a directory; the plan has that of its file"
        )),
        None => {}
    }
    if !matches!(sweep.loads, Loads::Searched { .. }) {
        text.key("runs", json!(sweep.num_runs));
    } else if sweep.num_runs > 1 {
        notes.push(format!(
            "--num-runs {} is left out: a search repeats what noise demands",
            sweep.num_runs
        ));
    }
    let on_failure = if sweep.continue_on_error { "continue" } else { "stop" };
    text.key("on_failure", json!(on_failure));

    text.table("[serve]");
    text.key("command", command(&sweep.serve_cmd, &read.serve_command));
    let is_startup = matches!(sweep.loads, Loads::Startup { .. });
    if !is_startup {
        text.key("ready_timeout", json!(format!("{}s", sweep.ready_timeout_s)));
    }
    if let Some(reset) = &read.reset {
        text.key("reset", json!(reset));
        notes.push(
            "--after-bench-cmd is `reset`: it runs between runs, and one that fails marks the run that follows".into(),
        );
    }
    text.combos("[[serve.combos]]", &sides.serve);

    text.table("[bench]");
    let (words, had_percentiles) = without_percentile_metrics(&read.bench_command);
    if had_percentiles {
        notes.push(format!("--bench-cmd: {PERCENTILE_METRICS}"));
    }
    match is_startup {
        true => text.key("runner", json!(Offline::Startup.name())),
        false => text.key("command", command(&sweep.bench_cmd, &words)),
    }
    // vLLM's sweep has no limit for a run, its client one of 6 h for a request.
    text.key("timeout", json!("6h"));
    if !is_startup {
        text.key("warmup_prompts", json!(sweep.warmup_num_prompts));
    }
    let own = startup::own_params(&read.bench_command);
    if is_startup && !own.is_empty() {
        text.table("[bench.params]");
        own.into_iter().for_each(|(name, value)| text.key(&name, value));
    }
    text.combos("[[bench.combos]]", &sides.bench);

    if !read.links.is_empty() {
        text.table("[link]");
        let links = read.links.iter();
        let links = links.map(|(serve, bench)| {
            let serve = spelling::long_name(serve).unwrap_or(serve);
            json!([format!("serve.{serve}"), format!("bench.{bench}")])
        });
        text.key("equal", links.collect());
    }
    let prompts = read.bench.iter().map(|bench| read.num_prompts(&bench.params));
    match &sweep.loads {
        Loads::Listed | Loads::Startup { .. } => {}
        Loads::Explored { vary, levels } => {
            let most = prompts.max().unwrap_or_default().max(2);
            text.table("[explore]");
            text.key("vary", json!(vary));
            text.key("levels", json!(levels));
            text.key("spacing", json!("linear"));
            text.key("max_concurrency", json!(most));
            notes.push(
                "the second half of the levels goes where the curve bends, not to even distances (docs/search.md)"
                    .into(),
            );
        }
        Loads::Searched { vary, .. } => {
            // So many requests never bring more in flight.
            let reached = prompts.min().filter(|_| vary == "max_concurrency");
            text.table("[sla]");
            text.key("vary", json!(vary));
            text.key("min", json!(1));
            text.key(
                "max",
                json!(reached.map_or(HIGHEST_LOAD, |reached| reached.min(HIGHEST_LOAD))),
            );
            for criteria in &read.criteria {
                text.table("[[sla.target]]");
                criteria.iter().for_each(|(name, bound)| text.key(name, bound.clone()));
            }
            notes.push(
                "the search is vsweep's own (docs/search.md): other loads are tried, and the answer has an interval"
                    .into(),
            );
        }
    }
    text.0
}

/// The plan with its notes as comments before it.
pub(super) fn with_notes(body: &str, notes: &[String]) -> String {
    let mut text = String::from("# A sweep of `vllm bench sweep` as a plan, made by `vsweep import`.\n");
    if !notes.is_empty() {
        text += "# What differs, or has no key:\n";
    }
    for note in notes {
        writeln!(text, "# - {}", printable(note)).expect("written to memory");
    }
    text + "\n" + body
}

/// A command as it was typed, where a plan takes it for the same words.
fn command(typed: &str, words: &[String]) -> Value {
    let is_same = |line: &str| shell_words::split(line).is_ok_and(|read| read == words);
    let joined = || shell_line(words);
    match typed {
        typed if is_same(typed) && !typed.contains('\n') => json!(typed),
        _ if is_same(&joined()) && !joined().contains('\n') => json!(joined()),
        _ => json!(words),
    }
}

/// The words without a flag that vLLM's sweep overrides, and whether it was there.
pub(super) fn without_percentile_metrics(words: &[String]) -> (Vec<String>, bool) {
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.iter().peekable();
    let mut was_there = false;
    while let Some(word) = words.next() {
        if spelling::parameter(word).as_deref() != Some("percentile_metrics") {
            kept.push(word.clone());
            continue;
        }
        was_there = true;
        if !word.contains('=') {
            words.next_if(|value| !value.starts_with("--"));
        }
    }
    (kept, was_there)
}

#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn table(&mut self, header: &str) {
        self.0.push_str(&format!("\n{header}\n"));
    }

    pub(super) fn key(&mut self, name: &str, value: Value) {
        let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = match !name.is_empty() && name.chars().all(is_bare) {
            true => name.to_owned(),
            false => toml_text(&json!(name)),
        };
        self.0
            .push_str(&format!("{name} = {}\n", toml_text(&without_references(value))));
    }

    fn combos(&mut self, header: &str, combos: &[Kept]) {
        for Kept { combo, .. } in combos {
            if combo.name.is_none() && combo.params.is_empty() && combos.len() == 1 {
                return;
            }
            self.table(header);
            if let Some(name) = &combo.name {
                self.key("name", json!(name));
            }
            for (name, value) in &combo.params {
                let value = match value {
                    Value::Object(_) => json!({ "value": value }),
                    value => value.clone(),
                };
                self.key(name, value);
            }
        }
    }
}

/// A value on one line. There is none that TOML lacks: nulls became texts.
fn toml_text(value: &Value) -> String {
    toml::Value::try_from(value).expect("TOML has all of it").to_string()
}

/// vLLM replaces no variables.
fn without_references(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.into_iter().map(without_references).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(name, value)| (name, without_references(value))).collect()
        }
        plain => plain,
    }
}
