//! `vsweep check`: validates plans.

use super::plan::rehearse::failures_in_words;
use super::plan::table::describe_work;
use crate::bench::native::settings::TABLE;
use crate::bench::params::Takes;
use crate::cause::Failure;
use crate::cli::forecast::misfits;
use crate::cli::output::{self, OutputFormat, print_json, say};
use crate::cli::plan_file::{PlanFile, show, show_all};
use crate::error::{Exit, Result};
use crate::lint::{CheckedPlan, Objections, SlowChecks};
use crate::matrix::Matrix;
use crate::plan::{Axis, Plan, Problems, Reset, Side, Target};
use crate::server::find_program;
use crate::units::show_many;
use itertools::Itertools;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most servers whose programs are looked for.
const MOST_SERVERS: usize = 1000;
/// Most programs that are looked for.
const MOST_PROGRAMS: usize = 8;

/// Check plans, and print every problem with its place
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plans to read: TOML, or JSON if they end in .json; - is standard input
    #[arg(value_name = "PLAN", required = true)]
    plans: Vec<PathBuf>,
    /// Change a key of each plan, e.g. --set serve.params.max_num_seqs=[8,64] (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut exit = Exit::Done;
    let mut checked = Vec::new();
    let mut shown = BTreeSet::new();
    for path in args.plans.into_iter().unique() {
        let file = PlanFile {
            plan: path,
            overrides: args.overrides.clone(),
            budget: None,
        };
        let read = file.read(SlowChecks::Always, |_| ());
        let misfits = read
            .as_ref()
            .map_or_else(|_| Vec::new(), |read| misfits(&read.plan, &read.matrix));
        exit = exit.or(match &read {
            Err(_) => Exit::Usage,
            Ok(read) if read.warnings.is_some() || !misfits.is_empty() => Exit::SomeFailed,
            Ok(_) => Exit::Done,
        });
        match args.format {
            OutputFormat::Text => print_verdict(&file.plan, read, &misfits, &mut shown),
            OutputFormat::Json => checked.push(to_json(&file.plan, read, &misfits)),
        }
    }
    match args.format {
        OutputFormat::Text => Ok(exit),
        OutputFormat::Json => print_json(&checked).map(|_| exit),
    }
}

/// Prints a plan's problems, except those that are in `shown`, or else its verdict and size. `misfits` are servers that cannot start here.
fn print_verdict(
    path: &Path,
    read: Result<CheckedPlan, Objections>,
    misfits: &[(String, Failure)],
    shown: &mut BTreeSet<String>,
) {
    let (plan, matrix, warnings) = match read {
        Ok(read) => (read.plan, read.matrix, read.warnings),
        Err(mut objections) => {
            objections.errors.leave_out(shown);
            if objections.errors.list.is_empty() {
                let path = path.display();
                output::print_note(format_args!(
                    "{path}: its problems are those of a shared file, shown above"
                ));
                objections.warnings.map(show);
            } else {
                show_all(objections);
            }
            return;
        }
    };
    let verdict = match (&warnings, misfits.len() as u64) {
        (None, 0) => "ok".to_owned(),
        (Some(_), 0) => "not ok, see the warnings".to_owned(),
        (_, count) => format!("not ok, {} will likely fail", show_many(count, "server")),
    };
    warnings.map(show);
    for misfit in failures_in_words(misfits) {
        output::print_note(format_args!("warning: {misfit}"));
    }
    let counts = matrix.counts();
    let servers = show_many(counts.servers, "server");
    say(format_args!(
        "{verdict}: {}: {servers}, {}",
        plan.name,
        describe_work(&counts)
    ));
    for note in notes(&plan, &matrix) {
        say(format_args!("note: {note}"));
    }
}

/// Returns the verdict as JSON.
fn to_json(path: &Path, read: Result<CheckedPlan, Objections>, misfits: &[(String, Failure)]) -> Value {
    let path = path.to_string_lossy();
    match read {
        Err(objections) => {
            let problems = [Some(objections.errors), objections.warnings];
            let problems = problems.iter().flatten().map(Problems::to_json);
            let problems = problems.flat_map(|problems| problems.as_array().cloned().unwrap_or_default());
            json!({"plan": path, "valid": false, "problems": problems.collect::<Vec<Value>>()})
        }
        Ok(CheckedPlan { plan, matrix, warnings }) => {
            let will_fail = misfits
                .iter()
                .map(|(name, failure)| json!({"server": name, "cause": failure.cause, "detail": failure.detail}));
            let counts = matrix.counts();
            json!({
                "plan": path,
                "valid": true,
                "name": plan.name,
                "servers": counts.servers,
                "points": counts.points,
                "searches": counts.searches,
                "runs": counts.runs,
                "problems": warnings.map_or_else(|| json!([]), |warnings| warnings.to_json()),
                "will_fail": will_fail.collect::<Vec<Value>>(),
                "notes": notes(&plan, &matrix),
            })
        }
    }
}

/// Returns notes about settings that are valid but probably a mistake.
fn notes(plan: &Plan, matrix: &Matrix) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.sla.is_some() && plan.origin.has(&["runs"]) {
        notes.push("`runs` has no effect in a search; set `sla.confirmations` instead");
    }
    if matches!(plan.serve.target, Target::Attach(_)) && plan.serve.reset == Reset::Caches {
        notes.push(
            "the caches of a server behind `url` can be reset only if it was started with VLLM_SERVER_DEV_MODE=1; otherwise \
             every run is suspect. Set `serve.reset = \"none\"` to leave the caches alone",
        );
    }
    if matrix.counts().keeps_defaults == Some(false) {
        notes.push("links leave no load to the server with the default settings, so [optimize] does not measure it");
    }
    let lists = plan
        .params(Side::Bench)
        .iter()
        .filter(|(name, axis)| is_split(name, axis));
    let lists = lists.map(|(name, _)| {
        format!("`{name}` is a list, so each item is a load of its own; write all into one string, separated by spaces")
    });
    let notes = notes.into_iter().map(String::from).chain(lists);
    let notes = notes.chain(matrix.remarks());
    notes.chain(absent_programs(matrix)).collect()
}

/// Returns true for a parameter that takes several texts and whose values look like these texts: bounds of several latencies, or pairs of
/// several keys.
fn is_split(name: &str, axis: &Axis) -> bool {
    let Axis::Values(values) = axis else { return false };
    let takes_texts = TABLE
        .find(name)
        .is_some_and(|param| matches!(param.takes, Takes::Texts));
    let key = |value: &Value| Some(value.as_str()?.split([':', '=']).next()?.to_owned());
    let keys: Vec<Option<String>> = values.iter().map(key).collect();
    takes_texts && keys.len() > 1 && keys.iter().all(Option::is_some) && keys.iter().all_unique()
}

/// Returns notes about programs that this machine lacks. Another machine may run the plan.
fn absent_programs(matrix: &Matrix) -> impl Iterator<Item = String> {
    let servers = matrix
        .servers()
        .take(MOST_SERVERS)
        .filter(|server| !server.argv.is_empty());
    let programs = servers.unique_by(|server| server.argv[0].clone()).take(MOST_PROGRAMS);
    programs.filter_map(|server| {
        let failure = find_program(&server.argv, &server.env).err()?;
        Some(format!(
            "{} on this machine; this matters only if the plan runs here",
            failure.detail
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_belong_together_are_no_loads_of_their_own() {
        let is_split = |name, values: [&str; 2]| super::is_split(name, &Axis::Values(values.map(Value::from).to_vec()));
        assert!(is_split("goodput", ["ttft:100", "e2el:300"]));
        assert!(is_split("header", ["A=1", "B=2"]));
        assert!(is_split("lora-modules", ["a", "b"]));
        assert!(!is_split("goodput", ["ttft:100", "ttft:200"]));
        assert!(!is_split("dataset_name", ["random", "sonnet"]));
    }
}
