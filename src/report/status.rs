//! Where a sweep stands: done, failed with causes, left, and the time that will take, learned from what is done.

use super::failures::{Group, group_recorded};
use crate::cause::{Cause, Outcome};
use crate::error::Result;
use crate::journal::{self, Directory, RunRecord, State};
use crate::units::{show_duration, show_many};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// The state of an experiment. Its JSON form is what `vsweep status --format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Name of the experiment.
    pub experiment: String,
    /// Runs of the plan.
    pub planned: u64,
    /// Runs with an outcome.
    pub done: u64,
    /// Good runs.
    pub ok: u64,
    /// Runs measured with a doubt.
    pub suspect: u64,
    /// Runs without figures.
    pub failed: u64,
    /// Probes of searches that ended as soon as their verdict was certain.
    pub cut: u64,
    /// Runs of the plan without an outcome.
    pub left: u64,
    /// Recorded runs whose file is missing or damaged: they are measured again, so they count among those left.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// Searches of the plan; they decide on their runs themselves, so those are not counted before they are done.
    #[serde(skip_serializing_if = "is_zero")]
    pub searches: u64,
    /// Searches that have not ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub searches_left: u64,
    /// What failed or is in doubt, most frequent first.
    pub causes: Vec<CauseCount>,
    /// Estimate for the runs left, in seconds; `None` before the first run is done.
    pub seconds_left: Option<f64>,
    /// Process ids of the vsweeps that work on the directory now.
    pub running: Vec<u32>,
    /// How the last session ended: `finished`, `interrupted`, `stopped`, or `null` if it was killed or still runs.
    pub ended: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How often a cause occurred.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseCount {
    /// What went wrong.
    pub cause: Cause,
    /// Whether the runs failed or are only in doubt.
    pub outcome: Outcome,
    /// Number of runs.
    pub runs: u64,
    /// What most of them saw.
    pub example: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl Status {
    /// Reads the state of an experiment directory.
    pub fn read(directory: &Directory) -> Result<Status> {
        let state = journal::inspect(directory)?;
        let mut status = Status::of(&directory.name(), &state);
        status.running = journal::holders(directory)?;
        Ok(status)
    }

    /// The state that a journal tells, by itself.
    pub fn of(experiment: &str, state: &State) -> Status {
        let count = |outcome| state.measured().filter(|run| run.outcome == outcome).count() as u64;
        let (ok, suspect, failed) = (count(Outcome::Ok), count(Outcome::Suspect), count(Outcome::Failed));
        let cut = count(Outcome::Cut);
        let done = ok + suspect + failed + cut;
        let planned = state.planned.map_or(done, |_| state.planned_runs());
        Status {
            experiment: experiment.to_owned(),
            planned,
            done,
            ok,
            suspect,
            failed,
            cut,
            left: planned.saturating_sub(done),
            damaged: state.disowned.len() as u64,
            searches: state.planned.map_or(0, |planned| planned.searches),
            searches_left: state.searches_left(),
            causes: count_causes(state),
            seconds_left: seconds_left(state),
            running: Vec::new(),
            ended: state.sessions.last().and_then(|session| session.ended.clone()),
        }
    }

    /// The state in words, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {} of {} runs done", self.experiment, self.done, self.planned);
        let parts = [
            (self.ok, "ok"),
            (self.suspect, "suspect"),
            (self.failed, "failed"),
            (self.cut, "cut"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, name)| format!("{count} {name}")).collect();
        if !parts.is_empty() {
            text += &format!(" ({})", parts.join(", "));
        }
        text += &match self.searches {
            0 => format!(", {} left", self.left),
            all => format!("; {} of {all} searches ended", all - self.searches_left.min(all)),
        };
        if let (Some(seconds), true) = (self.seconds_left, self.left > 0) {
            text += &format!(", about {} to go", show_duration(Duration::from_secs_f64(seconds)));
        }
        text.push('\n');
        if self.damaged > 0 {
            let (are, those) = if self.damaged == 1 {
                ("is", "it is")
            } else {
                ("are", "they are")
            };
            let runs = show_many(self.damaged, "recorded run");
            text += &format!("{runs} {are} missing or damaged on disk: {those} measured again\n");
        }
        text += &match (self.running.as_slice(), &self.ended) {
            ([], _) if self.left == 0 && self.searches_left == 0 => "nothing is left to do\n".to_owned(),
            ([], Some(reason)) => format!("not running: {reason}; run the plan again to continue\n"),
            ([], None) => "not running: the last vsweep was killed; run the plan again to continue\n".to_owned(),
            (pids, _) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!("running now (pid {})\n", pids.join(", "))
            }
        };
        text += &describe_causes(&self.causes);
        text
    }
}

/// One paragraph a cause: how many runs, what was seen, what to do.
pub fn describe_causes(causes: &[CauseCount]) -> String {
    let mut text = String::new();
    for cause in causes {
        let plural = if cause.runs == 1 { "" } else { "s" };
        let counted = format!("{} run{plural} {}: {}", cause.runs, cause.outcome, cause.cause);
        let example: String = cause.example.chars().take(160).collect();
        let seen = if example.is_empty() {
            String::new()
        } else {
            format!(" ({example})")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{counted}{seen}\n    {}", cause.advice);
    }
    text
}

/// The causes of all failed and doubtful runs, failures and frequent ones first.
pub fn count_causes(state: &State) -> Vec<CauseCount> {
    let count = |group: Group| CauseCount {
        cause: group.cause,
        outcome: group.outcome,
        runs: group.runs as u64,
        example: group
            .details
            .first()
            .map_or_else(String::new, |(detail, _)| one_line(detail)),
        advice: group.cause.advice(),
    };
    group_recorded(state).into_iter().map(count).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Time for the runs and server starts left, at the median of those done so far.
pub fn seconds_left(state: &State) -> Option<f64> {
    let planned = state.planned.filter(|planned| planned.searches == 0)?;
    let measured = |run: &&RunRecord| matches!(run.outcome, Outcome::Ok | Outcome::Suspect);
    let run = median(state.runs().filter(measured).map(|run| run.seconds))?;
    let starts = state.servers.values().flat_map(|server| &server.starts);
    let start = median(starts.filter_map(|start| start.ready_seconds)).unwrap_or(0.0);
    let runs = planned.runs.saturating_sub(state.runs().count() as u64);
    let servers = planned.servers.saturating_sub(state.servers.len() as u64);
    Some(runs as f64 * run + servers as f64 * start)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite() && *value >= 0.0).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
