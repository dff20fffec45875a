//! Work on an experiment elsewhere: active workers, and the tasks of a cluster. Callers gather the facts; this file describes them.

use super::{Status, end_in_words};
use crate::ordered::Ordered;
use crate::texts::words::show_some;
use itertools::Itertools;
use serde::Serialize;
use vsweep_answer::{CandidateState, EndReason};
use vsweep_base::shell::shlex;

/// Most tasks that are named.
const MOST_NAMED: usize = 4;

/// A worker that was active recently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its machine.
    pub host: String,
    /// The server start that it works on. A worker of several servers at a time has an entry for each.
    pub group: String,
    /// Identifies its process among all others.
    #[serde(skip)]
    pub owner: String,
}

/// The cluster's report about its submitted tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Reason why it cannot be asked; its tasks are then unknown.
    pub unknown: Option<String>,
    /// One for each server start that the cluster still knows of.
    pub tasks: Vec<TaskStatus>,
}

/// A task of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskStatus {
    /// Its id in the cluster.
    pub job: String,
    /// The server start that it works on.
    pub group: String,
    /// Its state in the cluster's words.
    pub state: String,
    /// True if it may still run.
    pub is_live: bool,
    /// Reason for waiting, in the cluster's words; empty if it does not wait.
    pub reason: String,
    /// Its node.
    pub node: String,
    /// Remedy if it will not start by itself.
    pub remedy: Option<&'static str>,
}

impl Cluster {
    /// Returns true if a task is waiting or running, as far as is known.
    pub fn is_at_work(&self) -> bool {
        self.tasks.iter().any(|task| task.is_live)
    }

    /// Describes the tasks. If nothing is left to do (`is_done`), it does not matter how they ended.
    pub fn to_text(&self, is_done: bool) -> String {
        if let Some(why) = &self.unknown {
            return match is_done {
                true => String::new(),
                false => format!("whether tasks wait or run in Slurm is unknown: {why}\n"),
            };
        }
        let live = || self.tasks.iter().filter(|task| task.is_live);
        let by_state = live()
            .into_group_map_by(|task| &task.state)
            .into_iter()
            .ordered_by_key(|(state, _)| *state);
        let count = |(state, tasks): (&String, Vec<&TaskStatus>)| {
            let about = tasks.iter().map(|task| match task.reason.as_str() {
                "" => &task.node,
                _ => &task.reason,
            });
            let about = about.filter(|about| !about.is_empty()).ordered().dedup().join(", ");
            let about = if about.is_empty() { about } else { format!(" ({about})") };
            format!("{} {}{about}", tasks.len(), state.to_lowercase())
        };
        let mut counts: Vec<String> = by_state.map(count).collect();
        let is_early = |task: &&TaskStatus| !task.is_live && task.state != "COMPLETED" && !is_done;
        let early = self.tasks.iter().filter(is_early);
        let early = early.map(|task| format!("{} {}", task.job, task.state)).collect_vec();
        if !early.is_empty() {
            let named = show_some(early.iter(), MOST_NAMED);
            counts.push(format!("{} ended early ({named})", early.len()));
        }
        if counts.is_empty() {
            return String::new();
        }
        let mut text = format!("tasks in Slurm: {}\n", counts.join("; "));
        let stuck = live().filter_map(|task| Some(((&task.reason, task.remedy?), task.job.clone())));
        for ((reason, remedy), jobs) in stuck.into_group_map().into_iter().ordered() {
            let jobs = show_some(jobs.iter(), MOST_NAMED);
            text += &format!("  will not start by itself ({reason}): {jobs}; {remedy}\n");
        }
        text
    }
}

impl Status {
    /// The processes that work on the directory, or the reason why there are none.
    pub(super) fn standing(&self, is_done: bool) -> String {
        match (self.running.as_slice(), &self.ended) {
            ([], _) if !self.workers.is_empty() => at_work(&self.workers),
            ([], _) if !self.has_begun => "nothing has been started here yet; run the plan\n".to_owned(),
            ([], _) if is_done && self.not_ruled_out() > 0 => format!(
                "not running: the budget is spent and {} not ruled out; run the plan again with a larger one to go on\n",
                match self.not_ruled_out() {
                    1 => "1 server is".to_owned(),
                    several => format!("{several} servers are"),
                }
            ),
            ([], _) if is_done => "nothing left to do\n".to_owned(),
            ([], _) if self.cluster.as_ref().is_some_and(|cluster| cluster.unknown.is_some()) => String::new(),
            ([], _) if self.cluster.as_ref().is_some_and(Cluster::is_at_work) => {
                "no worker is at work yet\n".to_owned()
            }
            ([], _) if self.cluster.is_some() => {
                "no task waits or runs; submit the plan again to finish what is left\n".to_owned()
            }
            ([], Some(reason)) if reason == "submitted" => {
                "no worker is at work; start some with `vsweep worker`\n".to_owned()
            }
            ([], Some(reason)) if reason == "out_of_time" => {
                format!(
                    "not running: {}; {}\n",
                    end_in_words(reason),
                    self.step_with_more_time()
                )
            }
            ([], Some(reason)) => format!("not running: {}; {}\n", end_in_words(reason), self.next_step()),
            ([], None) => format!("not running: the last vsweep was killed; {}\n", self.next_step()),
            (pids, _) => {
                let pids = pids.iter().join(", ");
                let what = if self.has_begun {
                    ""
                } else {
                    ": making the points of the plan"
                };
                format!("running now (pid {pids}){what}\n")
            }
        }
    }

    fn next_step(&self) -> String {
        match &self.again {
            Some(command) => format!("continue with: {command}"),
            None => "run the plan again to continue".to_owned(),
        }
    }

    /// Like `next_step`, with the advice to allow more time.
    fn step_with_more_time(&self) -> String {
        let words = self.again.as_deref().and_then(shlex);
        match words.and_then(|words| limit_of_time(&words)) {
            Some(limit) => format!("run the plan again with a larger {limit} to continue"),
            None => format!("raise max_time in the plan, then {}", self.next_step()),
        }
    }

    /// Servers that an optimisation has neither started nor ruled out when its budget is spent.
    fn not_ruled_out(&self) -> usize {
        let found = self.answer.as_ref().and_then(|answer| answer.optimization.as_deref());
        let spent = found.filter(|found| found.ended == Some(EndReason::Budget));
        spent.map_or(0, |found| found.count(CandidateState::Open))
    }
}

/// Returns the option of a command line that limits the time of a sweep, in words; `None` if only the plan limits it.
pub fn limit_of_time(words: &[String]) -> Option<&'static str> {
    let is_budget = |word: &String| word == "--budget" || word.starts_with("--budget=");
    let is_max_time = |setting: &str| setting.split_once('=').is_some_and(|(key, _)| key.trim() == "max_time");
    let is_set = |(before, word): (&String, &String)| {
        let after_set = (before == "--set").then_some(word.as_str());
        after_set
            .or_else(|| word.strip_prefix("--set="))
            .is_some_and(is_max_time)
    };
    if words.iter().any(is_budget) {
        return Some("--budget");
    }
    words
        .iter()
        .tuple_windows()
        .any(is_set)
        .then_some("max_time after --set")
}

/// Counts the workers by host: `3 workers are at work: vs0 (2), vs1`.
pub fn at_work(workers: &[Worker]) -> String {
    let workers: Vec<&Worker> = workers
        .iter()
        .unique_by(|worker| (&worker.host, &worker.owner))
        .collect();
    let hosts = workers.iter().map(|worker| &worker.host).counts();
    let host = |(host, count): (&String, usize)| match count {
        1 => host.clone(),
        _ => format!("{host} ({count})"),
    };
    let many = if workers.len() == 1 { " is" } else { "s are" };
    let hosts = hosts.into_iter().ordered().map(host).join(", ");
    format!("{} worker{many} at work: {hosts}\n", workers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: &str, state: &str, is_live: bool, reason: &str, remedy: Option<&'static str>) -> TaskStatus {
        let node = if state == "RUNNING" {
            "n1".to_owned()
        } else {
            String::new()
        };
        let (group, reason) = (job.to_owned(), reason.to_owned());
        let (job, state) = (job.to_owned(), state.to_owned());
        TaskStatus {
            job,
            group,
            state,
            is_live,
            reason,
            node,
            remedy,
        }
    }

    #[test]
    fn what_waits_runs_and_never_starts_is_told_with_the_remedy() {
        let tasks = vec![
            task("1_0", "RUNNING", true, "", None),
            task("1_1", "PENDING", true, "Resources", None),
            task("1_2", "PENDING", true, "PartitionTimeLimit", Some("lower slurm.time")),
            task("1_3", "TIMEOUT", false, "", None),
            task("1_4", "COMPLETED", false, "", None),
        ];
        let cluster = Cluster { unknown: None, tasks };
        assert_eq!(
            cluster.to_text(false),
            "tasks in Slurm: 2 pending (PartitionTimeLimit, Resources); 1 running (n1); 1 ended early (1_3 TIMEOUT)\n  \
             will not start by itself (PartitionTimeLimit): 1_2; lower slurm.time\n"
        );
        let unknown = Cluster {
            unknown: Some("squeue refused: no answer".into()),
            tasks: Vec::new(),
        };
        assert!(unknown.to_text(false).contains("is unknown: squeue refused"));
        assert_eq!(unknown.to_text(true), "");
    }

    #[test]
    fn what_is_left_counts_and_not_how_the_last_session_ended() {
        let status = |has_work: bool, ended: Option<&str>| {
            let status = Status {
                has_begun: true,
                starts: 2,
                has_work: Some(has_work),
                ended: ended.map(str::to_owned),
                ..Status::default()
            };
            status.to_text()
        };
        let killed = status(false, None);
        assert!(killed.contains("nothing left to do"), "{killed}");
        let finals = status(true, Some("finished"));
        assert!(!finals.contains("nothing left to do"), "{finals}");
    }

    #[test]
    fn more_time_comes_from_where_it_was_limited() {
        let standing = |again: Option<&str>| {
            let status = Status {
                has_begun: true,
                ended: Some("out_of_time".to_owned()),
                again: again.map(str::to_owned),
                ..Status::default()
            };
            status.standing(false)
        };
        assert_eq!(
            standing(Some("vsweep run p.toml -o r")),
            "not running: stopped at its time limit; raise max_time in the plan, then continue with: vsweep run p.toml -o r\n"
        );
        assert_eq!(
            standing(Some("vsweep run p.toml --budget 3s -o r")),
            "not running: stopped at its time limit; run the plan again with a larger --budget to continue\n"
        );
        assert_eq!(
            standing(Some("vsweep run p.toml --set 'max_time=3s' -o r")),
            "not running: stopped at its time limit; run the plan again with a larger max_time after --set to continue\n"
        );
        for elsewhere in [
            "--set compare.max_time=3s",
            "--set 'name=max_time=3s'",
            "max_time=3s/p.toml",
        ] {
            let command = format!("vsweep run p.toml {elsewhere}");
            assert_eq!(
                standing(Some(&command)),
                format!(
                    "not running: stopped at its time limit; raise max_time in the plan, then continue with: {command}\n"
                )
            );
        }
    }
}
