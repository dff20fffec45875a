//! Messages of `vsweep run`: its current action, and at last how the sweep ended, with the command that continues it.

use crate::agenda::{Action, Ending, Schedule};
use crate::cause::{Cause, Outcome};
use crate::journal::{Directory, RunRecord, Shard, State};
use crate::report::texts::status::limit_of_time;
use crate::report::texts::words::show_some;
use crate::run::Sweep;
use crate::shell::shell_line;
use crate::units::{show_count, show_many};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most shards that are named.
const MOST_SHARDS: usize = 4;

/// Describes a reset of a server or its end; `None` for other actions. Starts and runs have events of their own.
pub fn doing(action: &Action) -> Option<&'static str> {
    match action {
        Action::Reset => Some("resetting its caches"),
        Action::Stop => Some("stopping"),
        Action::Kill => Some("ending it at once"),
        Action::Await | Action::Start(_) | Action::Check | Action::Run(_) => None,
    }
}

/// Names the report, or the directory of the results until there is one.
pub fn results(directory: &Directory) -> String {
    let page = directory.report_html();
    match page.exists() {
        true => format!("Report: {}", page.display()),
        false => format!("Results: {}", directory.root().display()),
    }
}

/// Names the other shards that have work left: `; run the other shards: --shard 2/3, --shard 3/3`; empty if there are none.
fn other_shards(sweep: &Sweep<'_>, state: &State) -> String {
    let Shard { index: own, count } = sweep.shard;
    let others = (1..=count).filter(|index| *index != own);
    let has_work = |index: &u32| {
        let shard = Shard { index: *index, count };
        Schedule::new(sweep.plan, sweep.wanted, shard, false).has_work(state)
    };
    let named = others.filter(has_work).map(|index| format!("--shard {index}/{count}"));
    match show_some(named, MOST_SHARDS).as_str() {
        "" => String::new(),
        named => format!("; run the other shards: {named}"),
    }
}

/// Describes how the sweep ended, and how to continue.
pub fn last(ending: Ending, directory: &Directory, state: &State, sweep: &Sweep<'_>) -> String {
    let schedule = sweep.schedule();
    let recorded = state.recorded_runs();
    let root = directory.root().display();
    // Measured again, the failed run would stop the sweep again.
    let is_kept = |arg: &OsString| ending != Ending::StoppedOnFailure || arg != "--retry-failed";
    let again = again(std::env::args_os().skip(1).filter(is_kept), directory.root());
    let again = format!("vsweep {}", shell_line(again));
    let retry = match (state.failures(), state.searches_given_up() as u64) {
        (0, 0) => String::new(),
        (0, lost) => format!(
            "; given up: {}; --retry-failed searches again",
            show_many(lost, "search")
        ),
        (failed, _) => {
            let run = match state.skipped_runs() {
                0 => "failed run",
                _ => "failed or skipped run",
            };
            let failed_runs = show_many(failed, run);
            match failed.saturating_sub(hopeless(state)) {
                0 => String::new(),
                may if may < failed => format!(
                    "; --retry-failed measures {failed_runs} again, of which {} may succeed",
                    show_count(may)
                ),
                _ => format!("; --retry-failed measures {failed_runs} again"),
            }
        }
    };
    match ending {
        Ending::Superseded => format!(
            "stopped: another session began here with a newer plan; runs that are in both plans are kept: see `vsweep status {root}`"
        ),
        Ending::NothingLeft => format!(
            "nothing left to do: {} recorded in {root}{retry}{}",
            show_many(recorded, "run"),
            other_shards(sweep, state)
        ),
        Ending::Finished => results(directory) + &retry + &other_shards(sweep, state),
        Ending::Interrupted => format!("interrupted; {}, continue with: {again}", progress(state, schedule)),
        Ending::OutOfTime => {
            let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
            let more = match limit_of_time(&words) {
                Some(limit) => format!("run the same command with a larger {limit} to continue"),
                None => "raise max_time in the plan and run the same command again to continue".to_owned(),
            };
            format!(
                "stopped at its time limit: {} in {root}{retry}; {more}",
                progress(state, schedule)
            )
        }
        Ending::StoppedOnFailure => {
            format!(
                "stopped at a failed run, as on_failure = \"stop\" asks; continue after it with: {again} (add --retry-failed to measure it again)"
            )
        }
    }
}

/// Returns the number of failed runs that only another plan would change.
fn hopeless(state: &State) -> u64 {
    let is_asked = |run: &&RunRecord| run.probe().is_none() && run.level().is_none();
    let failed = state
        .runs()
        .filter(|run| run.outcome == Outcome::Failed)
        .filter(is_asked);
    let listed = failed.filter(|run| run.cause.is_some_and(Cause::needs_another_plan));
    let unlisted = state.unlisted().filter(|(lost, _)| lost.cause.needs_another_plan());
    listed.count() as u64 + unlisted.map(|(_, runs)| runs).sum::<u64>()
}

/// Describes the recorded part of the plan and its finals.
fn progress(state: &State, schedule: Schedule<'_>) -> String {
    let recorded = state.recorded_runs();
    match state.searches_left() {
        _ if state.optimization().is_some() => format!("{} recorded", show_many(recorded, "run")),
        0 => format!(
            "{} of {} recorded",
            show_count(recorded),
            show_many(state.planned_runs() + schedule.runs_of_finals(state), "run")
        ),
        left => format!(
            "{} recorded; left: {}",
            show_many(recorded, "run"),
            show_many(left, "search")
        ),
    }
}

/// Returns the arguments that continue in this directory. `-o` replaces `--fresh`, which would begin another directory.
fn again(args: impl Iterator<Item = OsString>, root: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let Some(fresh) = args.iter().position(|arg| arg == "--fresh") else {
        return args;
    };
    args.remove(fresh);
    if let Some(output) = args.iter().position(|arg| arg == "-o" || arg == "--output") {
        args.drain(output..(output + 2).min(args.len()));
    }
    args.retain(|arg| {
        let arg = arg.as_bytes();
        !arg.starts_with(b"--output=") && (!arg.starts_with(b"-o") || arg.starts_with(b"--"))
    });
    args.extend(["-o".into(), root.into()]);
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_on_with_a_fresh_directory_stays_in_it() {
        let go_on = |line: &str| {
            let args = line.split(' ').map(OsString::from);
            shell_line(again(args, Path::new("r/x-2")))
        };
        assert_eq!(go_on("run p.toml -o r/x --quiet"), "run p.toml -o r/x --quiet");
        assert_eq!(go_on("run p.toml --fresh"), "run p.toml -o r/x-2");
        for output in ["-o r/x", "--output r/x", "--output=r/x", "-or/x"] {
            assert_eq!(
                go_on(&format!("run p.toml {output} --fresh --only a=1")),
                "run p.toml --only 'a=1' -o r/x-2"
            );
        }
    }
}
