//! Imports `vllm bench sweep startup`: converts the benchmark's command to the command of the server whose engine it starts, and removes
//! the parameters that vLLM does not pass on.

use super::{ReadSweep, Remarks};
use crate::{Combo, Offline, Params, ServeCommand, spelling};
use itertools::Itertools;
use serde_json::Value;
use std::collections::BTreeSet;

/// Option for the result file, which a sweep sets for each run.
const RESULT: &str = "output_json";

/// Returns `vllm serve MODEL …` for `vllm bench startup --model MODEL …`, without the benchmark's own options. Any other command is
/// returned unchanged; it is refused later, when the plan is read.
pub(super) fn serve_command(startup: &[String]) -> Vec<String> {
    let command = ServeCommand::of(startup);
    let Some(launcher) = command
        .before()
        .strip_suffix(&["bench", Offline::Startup.subcommand()].map(String::from))
    else {
        return startup.to_vec();
    };
    let is_dropped = |name: &&String| own_flag(name).is_some() || ["model", RESULT].contains(&name.as_str());
    let rest = command.without(|flag| flag.name.as_ref().filter(is_dropped).map(|_| 1));
    let model = command.value("model").map(str::to_owned);
    [launcher, &["serve".to_owned()], model.as_slice(), &rest].concat()
}

/// Returns the benchmark's own options in the command, which become parameters of the load.
pub(super) fn own_params(startup: &[String]) -> Params {
    let command = ServeCommand::of(startup);
    let given = command.flags().filter_map(|flag| own_flag(flag.name.as_deref()?));
    let params = given.filter_map(|name| {
        let value = command.value(name)?;
        let value = value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from);
        Some((name.to_owned(), value))
    });
    params.collect()
}

/// Returns the name of the benchmark's own option that is meant, in any spelling.
fn own_flag(name: &str) -> Option<&'static str> {
    Offline::Startup.own_flags().find(|flag| spelling::same(flag, name))
}

/// Removes the parameter for the result file, and parameters for which `vllm bench startup` has no option: vLLM's sweep does not pass them
/// on either. With `is_strict`, a parameter without an option is an error.
pub(super) fn leave_out(read: &mut ReadSweep<'_>, has: fn(&str) -> bool, is_strict: bool, remarks: &mut Remarks) {
    for (side, records) in [
        ("--serve-params", &mut read.serve),
        ("--startup-params", &mut read.bench),
    ] {
        let (mut left_out, mut has_result) = (BTreeSet::new(), false);
        for Combo { params, .. } in records {
            let before = params.len();
            params.retain(|name, _| !spelling::same(name, RESULT));
            has_result |= params.len() < before;
            left_out.extend(params.keys().filter(|name| !has(name)).cloned());
            params.retain(|name, _| has(name));
        }
        if has_result {
            remarks.notes.push(format!(
                "{side}: {RESULT} left out: vLLM's sweep replaces it too, as each run has a file of its own"
            ));
        }
        if left_out.is_empty() {
            continue;
        }
        let names = left_out.iter().join(", ");
        match is_strict {
            true => remarks.object(
                format!("{side}: `vllm bench startup` has no option {names}"),
                "remove it, or leave --strict-params out",
            ),
            false => remarks.notes.push(format!(
                "{side}: {names} left out, as vLLM's sweep does: `vllm bench startup` has no such option"
            )),
        }
    }
}
