//! The status of a sweep: the runs that are done, failed (with causes) and left, and the remaining time, which a caller predicts.

mod away;

pub use away::{Cluster, TaskStatus, Worker, limit_of_time};

use super::align::terminal_room;
use super::brief;
use super::template::plain;
use super::words::short_label;
use crate::findings::cautions::short_runs;
use crate::findings::compared;
use crate::findings::failures::{Group, Reason, group_recorded};
use crate::output::starts::SweepUsage;
use crate::output::{basis, duplicates, sla};
use crate::sentences::optimization;
use itertools::Itertools;
use jiff::Timestamp;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use vsweep_answer::Answer;
use vsweep_base::cause::Outcome;
use vsweep_base::error::Result;
use vsweep_base::shell::shell_line;
use vsweep_base::units::{duration_of, is_zero, show_duration, show_many};
use vsweep_base::validity::Validity;
use vsweep_record::journal::{self, ALONE_SLOT, Directory, Manifest, Nonce, RunRecord, ServerRecord, State};

/// The state of an experiment. Its JSON form is what `vsweep status --format json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// Name of the experiment.
    pub experiment: String,
    /// Servers that an optimisation has started, and those that it chooses among.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<(usize, usize)>,
    /// Runs of the plan.
    pub planned: u64,
    /// Runs with an outcome.
    pub done: u64,
    /// Good runs.
    pub ok: u64,
    /// Runs measured with a doubt.
    pub suspect: u64,
    /// Number of suspect runs whose figures mean nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub invalid: u64,
    /// Measured runs of starts without neighbours, which count in addition to the planned ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub alone: u64,
    /// Runs without figures.
    pub failed: u64,
    /// Number of failed runs that were not tried, because the failure of another implied theirs.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Probes of searches that ended as soon as their verdict was certain.
    pub cut: u64,
    /// Runs of the plan without an outcome.
    pub left: u64,
    /// True if a server was simulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// Recorded runs whose file is missing or damaged: they are measured again, so they count among those left.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// Lost and damaged records, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// Results that are in no table because their server was replaced or is measured anew, one sentence per reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<String>,
    /// Planned starts of each server.
    #[serde(skip)]
    pub starts: u32,
    /// True if any work is left, finals included. Filled in by a caller that can read the plan.
    #[serde(skip)]
    pub has_work: Option<bool>,
    /// Searches of the plan. A search decides on its own runs, so these runs are not counted before they are done.
    #[serde(skip_serializing_if = "is_zero")]
    pub searches: u64,
    /// Searches that have not ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub searches_left: u64,
    /// The answer so far, as `answer.json` has it; `None` before the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Seconds since the last line of the record that the answer was made from; `None` if the answer is outdated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_age_s: Option<u64>,
    /// True if the last report was not made from the record as it is now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answer_outdated: bool,
    /// A sentence about that answer, unless it is the final one.
    #[serde(skip)]
    about_answer: Option<String>,
    /// The state of the plan's own comparison, in a few sentences.
    #[serde(skip)]
    compared: Vec<String>,
    /// The table of the searches so far; empty if none has begun.
    #[serde(skip)]
    search_table: String,
    /// The time, GPU-hours and money that the sweep took so far. Filled in by a caller that knows the price.
    pub usage: SweepUsage,
    /// Causes of failed runs, most frequent first.
    pub causes: Vec<Group>,
    /// Doubts about measured runs, invalid ones first.
    pub doubts: Vec<Group>,
    /// Text about the runs that were too short, if any were.
    #[serde(skip)]
    short: Option<String>,
    /// Estimate for the remaining runs, in seconds. Filled in by a caller that can predict it, once a run is done.
    pub seconds_left: Option<f64>,
    /// The command that continues with the plan, if the plan's file or a usable copy of it is still there.
    #[serde(skip)]
    pub again: Option<String>,
    /// True if a session was ever begun.
    #[serde(skip)]
    pub has_begun: bool,
    /// Process ids of the vsweeps that work on the directory now.
    pub running: Vec<u32>,
    /// The servers that are up, if a vsweep works on the directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers_up: Vec<RunningServer>,
    /// Workers that were active recently. Filled in by a caller that can read leases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
    /// The cluster's report about its tasks, if any were submitted. Filled in by a caller that can ask it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// End of the last session, such as `finished`, `interrupted` or `out_of_time`; `null` if it was killed or still runs.
    pub ended: Option<String>,
    /// Process ids and start times of the vsweeps of all sessions.
    #[serde(skip)]
    pub vsweeps: Vec<(u32, u64)>,
    /// Processes that a killed vsweep left on this machine and that nothing supervises. Filled in by a caller that can inspect processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Orphan>,
}

/// A server that is up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunningServer {
    /// Its settings, for people.
    pub name: String,
    /// The GPUs that it was given, if any were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
}

impl RunningServer {
    /// Servers that have not ended, of the last session of each running process.
    fn of(state: &State, running: &[u32]) -> Vec<RunningServer> {
        let open = state.sessions().iter().filter(|session| session.ended.is_none());
        let open = open.filter(|session| running.contains(&session.pid));
        let last: HashMap<u32, Nonce> = open.map(|session| (session.pid, session.nonce())).collect();
        let open: HashSet<Nonce> = last.into_values().collect();
        let up = |server: &ServerRecord| {
            let mut launches = server.launches.iter().rev();
            let last = launches.find(|last| last.exited_at.is_none() && open.contains(&last.launch.session))?;
            Some(RunningServer {
                name: short_label(&server.name),
                gpus: last.gpus.clone(),
            })
        };
        state.servers.values().filter_map(up).collect()
    }
}

/// A process that nothing supervises.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Orphan {
    /// Its id.
    pub pid: i32,
    /// The name of its program.
    pub program: String,
}

impl Status {
    /// The status from the journals of a directory, with the processes that work on it now.
    pub fn now(directory: &Directory, state: &State) -> Result<Status> {
        let mut status = Status::of(&directory.name(), state);
        status.running = journal::holders(directory)?;
        status.read_answer(directory, state);
        status.search_table = sla::to_text(state, status.answer.as_ref(), terminal_room());
        let root = directory.root().display().to_string();
        status.again = Manifest::continuing(directory).map(|options| {
            let command = ["vsweep".to_owned(), "run".to_owned()].into_iter();
            shell_line(command.chain(options).chain(["-o".to_owned(), root]))
        });
        if !status.running.is_empty() {
            status.servers_up = RunningServer::of(state, &status.running);
        }
        Ok(status)
    }

    fn read_answer(&mut self, directory: &Directory, state: &State) {
        let anew = format!("`vsweep report {}` makes it anew", directory.root().display());
        let Some(answer) = brief::read_answer(directory) else {
            let is_there = directory.answer_json().exists();
            self.about_answer = is_there.then(|| format!("answer.json is damaged or of another version; {anew}"));
            return;
        };
        // While servers run, answers are written without a report, so the last report says nothing about them.
        self.answer_outdated = self.running.is_empty() && !basis::is_of_last_report(directory, state);
        // A file's time is that of its copy. The record from which an outdated answer was made is not known.
        let recorded = state.latest_moment().filter(|_| !self.answer_outdated);
        let age = recorded.and_then(|moment| Duration::try_from(Timestamp::now().duration_since(moment)).ok());
        self.answer_age_s = age.map(|age| age.as_secs());
        let recorded = age.map_or(String::new(), |age| format!(", recorded {} ago", show_duration(age)));
        self.about_answer = match self.answer_outdated {
            // Without figures, nothing of the answer follows.
            _ if answer.estimates.is_empty() => None,
            true => Some(format!("the answer so far ({anew}):")),
            false if self.ended.as_deref() == Some("finished") => None,
            false => Some(format!("the answer so far{recorded}:")),
        };
        self.answer = Some(answer);
    }

    /// The status from the journals alone.
    pub fn of(experiment: &str, state: &State) -> Status {
        let (alone, together): (Vec<&RunRecord>, Vec<&RunRecord>) =
            state.measured().partition(|run| run.slot == ALONE_SLOT);
        let count = |outcome| together.iter().filter(|run| run.outcome == outcome).count() as u64;
        let alone = alone.len() as u64;
        let [ok, suspect, failed, cut] = [Outcome::Ok, Outcome::Suspect, Outcome::Failed, Outcome::Cut].map(count);
        let failed = failed + state.unlisted_runs();
        let done = ok + suspect + failed + cut + alone;
        let skipped = state.skipped_runs();
        let is_invalid = |run: &&RunRecord| run.outcome == Outcome::Suspect && run.validity == Validity::Invalid;
        let optimized = state.optimization();
        let planned = match compared::is_decided(state) {
            // The number of runs that an optimisation takes is not known.
            None if optimized.is_some() => done,
            Some(true) => done,
            Some(false) => state.planned_runs().max(done + 1),
            None => state.planning_session().map_or(done, |_| state.planned_runs()),
        };
        let is_failure = |group: &Group| matches!(group.reason, Reason::Failed(_));
        let (causes, doubts) = group_recorded(state).into_iter().partition(is_failure);
        Status {
            experiment: experiment.to_owned(),
            started: optimized.map(|optimization| {
                let servers = optimization.contestants.iter().map(|own| &own.server);
                let launched = servers.filter(|server| !state.launches_of(server).is_empty());
                (launched.count(), optimization.contestants.len())
            }),
            planned,
            done,
            ok,
            suspect,
            invalid: together.iter().copied().filter(is_invalid).count() as u64,
            alone,
            failed,
            skipped,
            cut,
            left: planned.saturating_sub(done),
            simulated: state.servers.values().any(|server| server.is_simulated() == Some(true)),
            damaged: state.lost() as u64,
            damage: state.damage.clone(),
            retired: duplicates::retired(state),
            starts: state.planning_session().map_or(1, |planned| planned.starts),
            searches: state.planning_session().map_or(0, |planned| planned.searches),
            searches_left: state.searches_left(),
            compared: compared::in_brief(state),
            causes,
            doubts,
            short: short_runs(state),
            has_begun: state.last_session().is_some(),
            ended: state.last_session().and_then(|session| session.ended.clone()),
            vsweeps: state.processes(),
            ..Status::default()
        }
    }

    /// Returns true if anybody works on the directory or will, as far as is known.
    pub fn is_at_work(&self) -> bool {
        !self.running.is_empty() || !self.workers.is_empty() || self.cluster.as_ref().is_some_and(Cluster::is_at_work)
    }

    /// Progress of the sweep: `22 of 24 runs done (16 ok, 6 suspect), 2 left`.
    pub fn progress(&self) -> String {
        let mut text = match self.started {
            Some((started, all)) => format!(
                "started {started} of {}; {} done",
                show_many(all as u64, "server"),
                show_many(self.done - self.skipped, "run")
            ),
            None => format!("{} of {} runs done", self.done - self.skipped, self.planned),
        };
        let parts = [
            (self.ok, "ok"),
            (self.suspect - self.invalid, "suspect"),
            (self.invalid, "invalid"),
            (self.alone, "alone"),
            (self.failed - self.skipped, "failed"),
            (self.cut, "cut"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, name)| format!("{count} {name}")).join(", ");
        if !parts.is_empty() {
            text += &format!(" ({parts})");
        }
        text += &match self.searches {
            _ if self.started.is_some() => String::new(),
            0 if self.skipped > 0 => format!(", {} skipped, {} left", self.skipped, self.left),
            0 => format!(", {} left", self.left),
            all => format!("; {} of {all} searches ended", all - self.searches_left.min(all)),
        };
        let usage = self.usage.in_words();
        if !usage.is_empty() {
            text += &format!(", took {usage}");
        }
        if let Some(seconds) = self.seconds_left.filter(|_| self.left > 0) {
            text += &format!(", about {} to go", show_duration(duration_of(seconds)));
        }
        text
    }

    /// The state in words, for a terminal.
    pub fn to_text(&self) -> String {
        let is_finished = self.ended.as_deref() == Some("finished");
        let is_done = match self.started {
            Some(_) => is_finished || self.has_work == Some(false),
            // With several starts, finalists may start again after the last planned run.
            None => {
                let has_more = self.has_work.unwrap_or(self.starts > 1 && !is_finished);
                self.left == 0 && self.searches_left == 0 && !has_more
            }
        };
        let answer = self.answer.as_ref();
        let brief = brief::parts(answer, self.causes.iter().chain(&self.doubts), self.short.clone());
        let parts = context! {
            progress => self.progress(),
            standing => self.standing(is_done),
            tasks => self.cluster.as_ref().map(|cluster| cluster.to_text(is_done)),
            about_answer => self.about_answer.as_deref(),
            compared => &self.compared,
            optimized => answer.map(optimization),
            search_table => &self.search_table,
            is_searched => !self.search_table.is_empty(),
            ..context! { ..brief, ..Value::from(Serde(self)) }
        };
        plain(&(include_str!("status.txt.jinja").to_owned() + brief::TEMPLATE), parts)
    }
}

/// The remaining part of the plan and the next step, for a report before its end; `None` if nothing is left.
pub(crate) fn unfinished(state: &State) -> Option<String> {
    let ended = state.last_session().and_then(|session| session.ended.as_deref());
    let next = match ended {
        Some("finished") => "run the whole plan, or its other shards, to continue",
        Some("out_of_time") => "run the plan again with a larger --budget or max_time to continue",
        _ => "run the plan again to continue",
    };
    left(state, ended).map(|left| format!("{left}; {next}"))
}

fn left(state: &State, ended: Option<&str>) -> Option<String> {
    if state.optimization().is_some() {
        let is_open = ended != Some("finished");
        return is_open.then(|| "the optimisation has not ended".to_owned());
    }
    if let Some(is_decided) = compared::is_decided(state) {
        return (!is_decided).then(|| "the comparison is not decided yet".to_owned());
    }
    let (left, planned) = (state.open_work(), state.planning_session()?);
    let all = match planned.searches {
        0 => show_many(planned.runs, "run"),
        all => show_many(all, "search"),
    };
    let how = ended.map_or("the sweep still runs or was killed", end_in_words);
    (left > 0).then(|| format!("{how}; left: {left} of {all}"))
}

/// The end of a session that left work.
fn end_in_words(reason: &str) -> &str {
    match reason {
        "finished" => "a part of the plan was run",
        "out_of_time" => "stopped at its time limit",
        "stopped" => "stopped at a failed run",
        "superseded" => "another session began with a newer plan",
        reason => reason,
    }
}
