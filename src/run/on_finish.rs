//! The command of `[on_finish]`, after a sweep has ended. It runs under a guard like every program, and its outcome does not change the
//! outcome of the sweep.

use crate::error::Exit;
use crate::journal::Directory;
use crate::plan::{OnFinish, Secrets};
use crate::run::live::hide_in_log;
use crate::server::create_log;
use crate::server::process::guarded::{self, Order};
use std::path::{Path, absolute};
use std::time::Duration;
use std::{env, fs};

/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the command to its end, but not beyond its time limit, and ends it once `interrupted` resolves. Secrets are hidden in its log in
/// any case.
///
/// # Errors
///
/// The reason why the command failed, with a remedy.
pub async fn perform(
    hook: &OnFinish,
    secrets: &Secrets,
    directory: &Directory,
    (ending, exit): (&str, Exit),
    interrupted: impl Future<Output = ()>,
) -> Result<(), String> {
    let log = directory.on_finish_log();
    let root = text(directory.root())?;
    let argv: Vec<String> = hook.command.iter().map(|word| word.replace("{dir}", &root)).collect();
    let facts = [
        ("VSWEEP_DIR", root),
        ("VSWEEP_ANSWER", text(&directory.answer_json())?),
        ("VSWEEP_EXIT_CODE", (exit as u8).to_string()),
        ("VSWEEP_ENDING", ending.to_owned()),
    ];
    // This is the log of an earlier session. If it cannot be removed, creating the new one fails.
    let _ = fs::remove_file(&log);
    let output = create_log(&log).map_err(|error| {
        format!(
            "the command of [on_finish] was not run: cannot write {}: {error}; make room, or run it by hand",
            log.display()
        )
    })?;
    let env = facts
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
    let order = Order {
        argv: &argv,
        env: &env,
        without: &withheld(hook, secrets),
        cpus: None,
        log: output,
        grace: GRACE,
        stop: &[],
    };
    let ended = guarded::run_to_end(order, hook.timeout, interrupted).await;
    let hidden = hide_in_log(&log, secrets);
    hidden.map_err(|error| format!("{error}; remove {}, which may hold secrets", log.display()))?;
    ended.map_err(|why| format!("the command of [on_finish] {why}; see {}", log.display()))
}

/// Returns the variables of vsweep's environment that are secrets, and that the command does not ask for.
fn withheld(hook: &OnFinish, secrets: &Secrets) -> Vec<String> {
    let all = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let secret =
        all.filter(|(name, value)| !hook.secrets.contains(name) && secrets.is_secret(name, &value.to_string_lossy()));
    secret.map(|(name, _)| name).collect()
}

fn text(path: &Path) -> Result<String, String> {
    let whole = absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.into_os_string().into_string().map_err(|path| {
        format!(
            "the command of [on_finish] was not run: {} is not UTF-8; choose another directory with -o",
            path.to_string_lossy()
        )
    })
}
