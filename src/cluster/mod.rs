//! Submission to a cluster: arrays of tasks, each of which is a worker with one server start. Owns the description of tasks, and the record
//! of submissions, which keeps a start from being submitted twice. Results are in the journals; this room does not interpret them.

pub mod slurm;

use crate::error::{Error, Result};
use crate::files::{self, write_atomic};
use crate::journal::{Directory, Nonce};
use crate::report::texts::status::TaskStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::time::{Duration, Instant};

/// Server starts with equal numbers of GPUs that are submitted together. An array is recorded before it is submitted. So every array that
/// may have been submitted is known, and none is submitted again without asking the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Unique name of the array in the cluster.
    pub name: String,
    /// Number of the array in its directory, from 0.
    pub number: u64,
    /// Number of GPUs of each task.
    pub gpus: u32,
    /// The group of each task, by its index.
    pub groups: Vec<String>,
    /// Id of the job in the cluster, once it is known.
    pub job: Option<String>,
}

impl Array {
    /// Writes the record of the array.
    pub fn write(&self, directory: &Directory) -> Result<()> {
        let path = directory.submissions().join(format!("{}.json", self.name));
        let text = serde_json::to_vec_pretty(self).expect("plain data always serialises");
        write_atomic(&path, &text)
    }
}

/// Divides groups, each with its number of GPUs, into arrays of at most `most` groups with equal numbers of GPUs. The arrays are numbered
/// on from those of `before`.
pub fn arrays(groups: &[(String, u32)], most: usize, before: &[Array]) -> Vec<Array> {
    let mut sizes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (name, gpus) in groups {
        sizes.entry(*gpus).or_default().push(name.clone());
    }
    let first = before.iter().map(|array| array.number + 1).max().unwrap_or(0);
    let of_size = |(gpus, names): (&u32, &Vec<String>)| {
        let parts = names.chunks(most.max(1)).map(|part| (*gpus, part.to_vec()));
        parts.collect::<Vec<_>>()
    };
    // The widest groups wait longest for resources, so they are submitted first.
    let all = sizes.iter().rev().flat_map(of_size).zip(first..);
    all.map(|((gpus, groups), number)| Array {
        name: format!("vsweep-{}-{number}", Nonce::random()),
        number,
        gpus,
        groups,
        job: None,
    })
    .collect()
}

/// Time limit for waiting until another command has submitted or cancelled tasks. Such a command takes as long as Slurm needs to answer.
const LONGEST_TURN: Duration = Duration::from_secs(300);
/// Time between two tries to take the lock.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until no other command submits or cancels tasks of the experiment, and makes others wait as long as the returned file is open. Two
/// commands that look at the queue at once would submit the same starts. If the file system has no locks, no command waits.
pub fn take_turn(directory: &Directory) -> Result<File> {
    let folder = directory.submissions();
    // Without the folder for its logs, Slurm ends a task without an error.
    directory.create_folder(&folder)?;
    let path = folder.join("lock");
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let file = files::open_with(&path, &mut options).map_err(Error::io("create", &path))?;
    let began = Instant::now();
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if began.elapsed() >= LONGEST_TURN {
            return Err(Error::Fatal(format!(
                "another vsweep has held {} for {} s; end it if it hangs, and give the command again",
                path.display(),
                LONGEST_TURN.as_secs()
            )));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(file)
}

/// Returns the submissions of an experiment, the earliest first.
pub fn submissions(directory: &Directory) -> Result<Vec<Array>> {
    let folder = directory.submissions();
    let mut arrays: Vec<Array> = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = files::read(&path, files::MOST_TEXT).map_err(Error::io("read", &path))?;
            arrays.push(serde_json::from_slice(&text).map_err(|error| {
                let path = path.display();
                Error::Fatal(format!(
                    "{path} is damaged ({error}), so what was handed over is not known; see the queue for jobs of its name, cancel \
                     them, and remove the file"
                ))
            })?);
        }
    }
    arrays.sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
    Ok(arrays)
}

/// Selects the most relevant task of each group: one that may still run, else the last.
pub fn latest(mut tasks: Vec<TaskStatus>) -> Vec<TaskStatus> {
    tasks.sort_by_key(|task| task.is_live);
    let latest: BTreeMap<String, TaskStatus> = tasks.into_iter().map(|task| (task.group.clone(), task)).collect();
    latest.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_of_one_size_and_no_larger_than_the_site_allows() {
        let groups: Vec<(String, u32)> = [2, 1, 2, 1, 1]
            .into_iter()
            .zip(0..)
            .map(|(gpus, i)| (format!("g{i}"), gpus))
            .collect();
        let made = arrays(&groups, 2, &[]);
        let shapes: Vec<(u32, &[String])> = made.iter().map(|array| (array.gpus, &*array.groups)).collect();
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            (2, texts(&["g0", "g2"])),
            (1, texts(&["g1", "g3"])),
            (1, texts(&["g4"])),
        ];
        assert_eq!(shapes.len(), 3);
        assert!(
            shapes
                .iter()
                .zip(&expected)
                .all(|(made, expected)| made.0 == expected.0 && made.1 == expected.1)
        );
        let more = arrays(&groups, 9, &made);
        assert_eq!(more.iter().map(|array| array.number).collect::<Vec<_>>(), [3, 4]);
        assert!(
            made.iter()
                .all(|array| more.iter().all(|other| other.name != array.name))
        );
    }

    #[test]
    fn a_task_that_may_still_run_tells_more_than_a_later_one_that_ended() {
        let task = |job: &str, is_live| TaskStatus {
            job: job.into(),
            group: "g".into(),
            state: String::new(),
            is_live,
            reason: String::new(),
            node: String::new(),
            remedy: None,
        };
        let latest_job = |tasks: Vec<TaskStatus>| latest(tasks).remove(0).job;
        assert_eq!(latest_job(vec![task("1", true), task("2", false)]), "1");
        assert_eq!(latest_job(vec![task("1", false), task("2", false)]), "2");
        assert_eq!(latest_job(vec![task("1", false), task("2", true)]), "2");
    }
}
