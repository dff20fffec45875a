//! Slurm: the command line and the script of an array, and the state of its tasks in the queue. Only formats that are the same in every
//! release are read. States and reasons are passed on in Slurm's words.

use super::Array;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::report::texts::status::TaskStatus;
use crate::shell::{shell_line, shell_word};
use itertools::Itertools;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Maximum number of tasks of an array if the site does not say: Slurm's default.
const USUAL_ARRAY: usize = 1001;
/// Time that a run under way has to end after the warning of the time limit. The server's grace period is added to it.
const LAST_RUN: Duration = Duration::from_secs(120);

/// Ends a task that asked for GPUs if Slurm named none, because the task would measure on GPUs of others. This happens after the loss of a
/// node, or if gres.conf names no devices.
const WITHOUT_GPUS: &str = r#"if [ -z "$SLURM_JOB_GPUS$CUDA_VISIBLE_DEVICES$ROCR_VISIBLE_DEVICES" ]; then
  echo "Slurm gave this task no GPU, so nothing is measured; check the site's gres.conf, and submit it again" >&2
  exit 1
fi"#;

/// Returns Slurm's name for the GPU resource.
fn resource(plan: &Plan) -> &str {
    plan.slurm.gres.as_deref().unwrap_or("gpu")
}

/// Returns the arguments of sbatch for an array, with `further` ones of the user. The script comes from standard input.
pub fn arguments(array: &Array, plan: &Plan, folder: &Path, further: &[String]) -> Vec<String> {
    let slurm = &plan.slurm;
    let last = array.groups.len().saturating_sub(1);
    let at_once = slurm.at_once.map(|tasks| format!("%{tasks}")).unwrap_or_default();
    let mut arguments = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", array.name),
        format!("--array=0-{last}{at_once}"),
        // Slurm replaces `%` and a letter, also in the name of the folder.
        format!(
            "--output={}/%x_%A_%a.log",
            folder.display().to_string().replace('%', "%%")
        ),
        // A task that is started again appends to its log.
        "--open-mode=append".to_owned(),
        "--requeue".to_owned(),
        "--export=ALL".to_owned(),
        format!("--nodes={}", plan.serve.protocol.members.nodes),
        "--ntasks-per-node=1".to_owned(),
        format!("--signal=B:USR1@{}", warning(plan).as_secs()),
    ];
    let mut add = |flag: &str, value: Option<String>| {
        arguments.extend(value.map(|value| format!("--{flag}={value}")));
    };
    add("partition", slurm.partition.clone());
    add("account", slurm.account.clone());
    add("time", slurm.time.map(|time| time.as_secs().div_ceil(60).to_string()));
    let memory = match array.gpus {
        0 => "mem",
        gpus => {
            add("gres", Some(format!("{}:{gpus}", resource(plan))));
            "mem-per-gpu"
        }
    };
    add(memory, slurm.memory_per_gpu.clone());
    let cpus = slurm.cpus_per_gpu.map(|cpus| cpus * array.gpus.max(1));
    add("cpus-per-task", cpus.map(|cpus| cpus.to_string()));
    arguments.extend_from_slice(further);
    arguments
}

/// Returns the reason why a job cannot use a directory, with the remedy; `None` if it can.
pub fn unusable(plan: &Plan, directory: &Path) -> Option<String> {
    let path = directory.display().to_string();
    let why = match plan.slurm.image.is_some() && path.contains([',', ':']) {
        true => "has a comma or a colon, which separates the mounts of a container",
        false if path.contains('\\') => "has a backslash, after which Slurm puts no job's name into the names of logs",
        false => return None,
    };
    Some(format!("{path} {why}; choose another directory with -o"))
}

/// Time between the warning signal and the time limit. After the signal a worker begins nothing more.
fn warning(plan: &Plan) -> Duration {
    let warning = plan.serve.stop_grace + LAST_RUN;
    plan.slurm.time.map_or(warning, |time| warning.min(time / 3))
}

/// Returns the script of an array. Each task runs `program` with the arguments `worker`, followed by the name of its server start.
pub fn script(array: &Array, plan: &Plan, directory: &Path, program: &Path, worker: &str) -> String {
    let slurm = &plan.slurm;
    let mut lines = vec![
        "#!/bin/bash".to_owned(),
        format!("groups=({})", shell_line(&array.groups)),
    ];
    if array.gpus > 0 && resource(plan).starts_with("gpu") {
        lines.push(WITHOUT_GPUS.to_owned());
    }
    if slurm.cpus_per_gpu.is_some() {
        // Since Slurm 22.05, srun does not take over --cpus-per-task.
        lines.push("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK".to_owned());
    }
    lines.extend(slurm.setup.iter().cloned());
    let directory = directory.display();
    let program = match &slurm.image {
        None => shell_word(program),
        Some(image) => {
            let mut mounts = [format!("{directory}:{directory}")]
                .into_iter()
                .chain(slurm.mounts.clone());
            let container = [
                format!("--container-image={image}"),
                format!("--container-mounts={}", mounts.join(",")),
            ];
            // One worker for the task, even if its server uses several nodes.
            format!("srun --nodes=1 --ntasks=1 {} vsweep", shell_line(container))
        }
    };
    lines.push(format!("exec {program} {worker} \"${{groups[$SLURM_ARRAY_TASK_ID]}}\""));
    lines.join("\n") + "\n"
}

/// Returns the maximum number of tasks of an array on this site.
pub fn most_tasks() -> Result<usize> {
    let config = output_of("scontrol", &["show", "config"], "")?;
    let lines = config.lines().filter_map(|line| line.split_once('='));
    let mut sizes = lines.filter(|(name, _)| name.trim() == "MaxArraySize");
    let size = sizes.find_map(|(_, value)| value.trim().parse().ok());
    Ok(size.unwrap_or(USUAL_ARRAY))
}

/// Submits an array and returns its job id.
pub fn submit(arguments: &[String], script: &str) -> Result<String> {
    let said = output_of("sbatch", arguments, script)?;
    let id = said.trim().split(';').next().unwrap_or_default();
    match id.is_empty() {
        false => Ok(id.to_owned()),
        true => Err(Error::Fatal("sbatch gave no job id; see `squeue --me`".into())),
    }
}

/// Returns the tasks of these arrays in Slurm's queue. An error means that their state is unknown.
pub fn queue(arrays: &[Array]) -> Result<Vec<TaskStatus>> {
    if arrays.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = arrays.iter().map(|array| &*array.name).collect();
    let names = format!("--name={}", names.join(","));
    let lines = output_of(
        "squeue",
        &["-h", "-r", "-t", "all", "-o", "%F|%K|%T|%r|%N|%j", &names],
        "",
    )?;
    Ok(tasks(arrays, &lines))
}

/// Cancels jobs by their ids.
pub fn cancel(jobs: &[&str]) -> Result<()> {
    output_of("scancel", jobs, "").map(drop)
}

/// Returns the tasks in squeue's output, in the order of their arrays.
fn tasks(arrays: &[Array], lines: &str) -> Vec<TaskStatus> {
    let task = |line: &str| {
        let fields: Vec<&str> = line.splitn(6, '|').collect();
        let [job, index, state, reason, node, name] = fields[..] else {
            return None;
        };
        let position = arrays.iter().position(|array| array.name == name)?;
        let group = arrays[position].groups.get(index.parse::<usize>().ok()?)?;
        let none = |text: &str| if text == "None" { String::new() } else { text.to_owned() };
        let is_live = !is_over(state);
        let task = TaskStatus {
            job: format!("{job}_{index}"),
            group: group.clone(),
            state: state.to_owned(),
            is_live,
            reason: none(reason),
            node: node.to_owned(),
            remedy: is_live.then(|| remedy(reason)).flatten(),
        };
        Some((position, task))
    };
    let mut tasks: Vec<(usize, TaskStatus)> = lines.lines().filter_map(task).collect();
    tasks.sort_by_key(|(position, _)| *position);
    tasks.into_iter().map(|(_, task)| task).collect()
}

/// Returns true if a task in this state will not run again by itself. An unknown state is not over.
fn is_over(state: &str) -> bool {
    const OVER: &str =
        "COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY REVOKED";
    OVER.split(' ').any(|over| over == state)
}

/// Beginnings of the reasons for which a task may wait until somebody acts, each with its meaning and remedy.
const REMEDIES: &str = "\
PartitionTimeLimit: it asks for more time than its partition allows: lower slurm.time
PartitionNodeLimit: it asks for more nodes than its partition has: choose another slurm.partition
PartitionDown: the partition is down: choose another slurm.partition, or ask the site
PartitionInactive: the partition takes no jobs: choose another slurm.partition, or ask the site
ReqNodeNotAvail: a node that it asks for is down or reserved: see `sinfo`
BadConstraints: no node has what it asks for: see slurm.gres and --sbatch-arg
DependencyNeverSatisfied: the job that it waits for failed
JobHeld: it is held: `scontrol release` lets it go
launch failed: its node could not start it, and Slurm holds it now: `scontrol release` lets it go
Invalid: the site does not know the account or the quality of service: see slurm.account
AccountNotAllowed: the partition does not take this account: see slurm.account
QOSNotAllowed: the partition does not take this quality of service
Assoc: a limit of the account is reached: ask the site, or wait if it is shared
QOS: a limit of the quality of service is reached: ask the site, or wait if it is shared";

/// Returns the remedy for a task that waits for this reason.
fn remedy(reason: &str) -> Option<&'static str> {
    let known = REMEDIES.lines().filter_map(|line| line.split_once(": "));
    let mut known = known.filter(|(start, _)| reason.starts_with(start));
    known.next().map(|(_, remedy)| remedy)
}

/// Runs a command of Slurm with this input and returns its output.
fn output_of(program: &str, arguments: &[impl AsRef<OsStr>], input: &str) -> Result<String> {
    let not_started = |error: io::Error| {
        Error::Fatal(match error.kind() {
            ErrorKind::NotFound => format!("there is no {program} here; give the command on a machine of the cluster"),
            _ => format!("{program} cannot be started: {error}"),
        })
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    // sbatch itself reports input that it did not read.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(not_started)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut errors = errors.lines().map(str::trim).filter(|line| !line.is_empty());
    Err(Error::Fatal(format!("{program} refused: {}", errors.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Format, World, parse};

    fn array(name: &str, groups: &[&str]) -> Array {
        Array {
            name: name.into(),
            number: 0,
            gpus: 2,
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            job: None,
        }
    }

    #[test]
    fn steps_of_a_task_get_its_cores() {
        let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[slurm]\ncpus_per_gpu = 4\n";
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::real()).expect("valid");
        let script = script(
            &array("a", &["g"]),
            &plan,
            Path::new("/out"),
            Path::new("/vsweep"),
            "worker",
        );
        assert!(
            script.contains("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"),
            "{script}"
        );
    }

    #[test]
    fn a_directory_with_a_backslash_is_refused() {
        let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n";
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::real()).expect("valid");
        let said = unusable(&plan, Path::new("/a\\b")).unwrap_or_default();
        assert!(said.starts_with("/a\\b has a backslash"), "{said}");
        assert_eq!(unusable(&plan, Path::new("/a,b:c")), None, "no container mounts it");
    }

    /// Output of Slurm 22.05.
    #[test]
    fn the_queue_is_read_by_name_and_index() {
        let arrays = [array("vsweep-a-0", &["g0", "g1"]), array("vsweep-b-1", &["g2"])];
        let lines = "7|0|RUNNING|None|vs1|vsweep-b-1\n3|0|COMPLETED|None|vs0|vsweep-a-0\n3|1|PENDING|PartitionTimeLimit||vsweep-a-0\n\
                     9|N/A|RUNNING|None|vs0|vsweep-a-0\n4|0|RUNNING|None|vs0|other\n3|9|RUNNING|None|vs0|vsweep-a-0\n";
        let listed = tasks(&arrays, lines);
        let listed: Vec<(&str, &str, bool, &str)> = listed
            .iter()
            .map(|task| (&*task.job, &*task.group, task.is_live, &*task.reason))
            .collect();
        let expected = [
            ("3_0", "g0", false, ""),
            ("3_1", "g1", true, "PartitionTimeLimit"),
            ("7_0", "g2", true, ""),
        ];
        assert_eq!(listed, expected);
        assert!(
            remedy("PartitionTimeLimit").is_some() && remedy("Resources").is_none() && remedy("Priority").is_none()
        );
        assert!(!is_over("REQUEUED") && !is_over("SOMETHING_NEW"));
    }
}
