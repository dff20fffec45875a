//! `vllm bench sweep startup`: its command as that of the server whose engine is started, and the parameters that vLLM leaves out.

use super::{ReadSweep, plain};
use crate::plan::{Combo, Diagnostics, Offline, Params, ServeCommand, spelling};
use serde_json::Value;

/// `vllm serve MODEL …` for `vllm bench startup --model MODEL …`, without the benchmark's own options. A command that is something
/// else stays as it is, which the plan then refuses.
pub(super) fn serve_command(startup: &[String]) -> Vec<String> {
    let Some(place) = place(startup) else {
        return startup.to_vec();
    };
    let mut argv = startup[..place].to_vec();
    argv.push("serve".to_owned());
    let mut words = startup[place + 2..].iter().peekable();
    while let Some(word) = words.next() {
        let name = spelling::parameter(word).unwrap_or_default();
        let is_dropped = own(&name).is_some() || name == "output_json";
        if !is_dropped && name != "model" {
            argv.push(word.clone());
            continue;
        }
        let attached = word.split_once('=').map(|(_, value)| value.to_owned());
        let value = attached.or_else(|| words.next_if(|word| !spelling::is_flag(word)).cloned());
        if let (false, Some(model)) = (is_dropped, value) {
            argv.insert(place + 1, model);
        }
    }
    argv
}

/// The benchmark's own options in the command, which become parameters of the load.
pub(super) fn own_params(startup: &[String]) -> Params {
    let command = ServeCommand::of(startup);
    let given = command
        .args()
        .iter()
        .filter_map(|word| own(&spelling::parameter(word)?));
    let params = given.filter_map(|name| {
        let value = command.value(name)?;
        let value = value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from);
        Some((name.to_owned(), value))
    });
    params.collect()
}

fn place(startup: &[String]) -> Option<usize> {
    startup
        .windows(2)
        .position(|pair| pair[0] == "bench" && pair[1] == Offline::Startup.word())
}

fn own(name: &str) -> Option<&'static str> {
    Offline::Startup.own_flags().find(|own| spelling::same(own, name))
}

/// Removes what vLLM's sweep does not pass on, because `vllm bench startup` has no such option.
pub(super) fn leave_out(
    read: &mut ReadSweep<'_>,
    has: fn(&str) -> bool,
    is_strict: bool,
    notes: &mut Vec<String>,
    found: &mut Diagnostics,
) {
    for (side, records) in [
        ("--serve-params", &mut read.serve),
        ("--startup-params", &mut read.bench),
    ] {
        let mut left_out: Vec<String> = Vec::new();
        for Combo { params, .. } in records {
            let (kept, others): (Params, Params) = params.clone().into_iter().partition(|(name, _)| has(name));
            left_out.extend(others.into_iter().map(|(name, _)| name));
            *params = kept;
        }
        left_out.sort();
        left_out.dedup();
        if left_out.is_empty() {
            continue;
        }
        let names = left_out.join(", ");
        match is_strict {
            true => found.add(plain(
                format!("{side}: `vllm bench startup` has no option {names}"),
                "remove it, or leave --strict-params out",
            )),
            false => notes.push(format!(
                "{side}: {names} left out, as vLLM's sweep does: `vllm bench startup` has no such option"
            )),
        }
    }
}
