//! A real Slurm with two nodes on this machine. Whatever happens to its tasks, together they measure what one machine would. Both nodes
//! share processes and ports, which is harder than on a real cluster. Containers, accounting and cgroups are not tested.

use crate::deadline::{PATIENCE, ended};
use crate::harness::{Harness, journals, recorded_outcomes, rows, said, skip, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/slurm.sh");

/// Twelve servers: six with one GPU and six with two.
const PLAN: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve tiny-8b --sim-start 500ms --sim-speed 6"
stop_grace = "2s"
[serve.params]
tensor_parallel_size = [1, 2]
max_num_seqs = [4, 8, 12, 16, 32, 64]
[bench.params]
random_input_len = 32
random_output_len = 16
max_concurrency = 2
num_prompts = 100
"#;

struct Cluster {
    harness: Harness,
    folder: PathBuf,
}

impl Cluster {
    /// Returns `None`, with a message, if Slurm is not installed.
    fn up() -> Option<Cluster> {
        let is_there = ["slurmctld", "slurmd", "sbatch", "munged"].iter().all(|program| {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .output();
            found.is_ok_and(|output| output.status.success())
        });
        if !is_there || !Uid::effective().is_root() {
            skip(
                "nothing is tried with a Slurm: it needs root and the packages slurmctld, slurmd, slurm-client and munge",
            );
            return None;
        }
        let harness = Harness::new();
        let folder = harness.folder.path().join("slurm");
        let port = ports();
        let slurm = Cluster { harness, folder };
        slurm.script(&["up", slurm.folder.to_str()?, &port.to_string()]);
        Some(slurm)
    }

    fn script(&self, args: &[&str]) {
        let output = crate::deadline::output(Command::new(SCRIPT).args(args));
        assert!(output.status.success(), "{args:?}: {}", said(&output));
    }

    fn again(&self, args: &[&str]) {
        let folder = self.folder.to_str().expect("plain");
        self.script(&[&args[..1], &[folder], &args[1..]].concat());
    }

    fn command(&self, program: &str, args: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = crate::deadline::output(command.args(args).env("SLURM_CONF", self.folder.join("slurm.conf")));
        assert!(output.status.success(), "{program} {args:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn vsweep(&self, args: &[&str]) -> Command {
        let mut vsweep = self.harness.vsweep(args);
        vsweep.env("SLURM_CONF", self.folder.join("slurm.conf"));
        vsweep
    }

    fn run(&self, args: &[&str]) -> Output {
        crate::deadline::output(&mut self.vsweep(args))
    }

    /// Runs vsweep, and checks its exit code and a part of its output.
    fn says(&self, args: &[&str], code: i32, expected: &str) -> Output {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", said(&output));
        assert!(said(&output).contains(expected), "{args:?} {}", said(&output));
        output
    }

    fn out(&self, name: &str) -> PathBuf {
        self.harness.folder.path().join(name)
    }

    fn plan(&self, name: &str, plan: &str, slurm: &str) {
        // Each node has its own ledger of GPUs.
        let ledger = self.harness.folder.path().join("gpus").display().to_string();
        let bin = self.harness.folder.path().join("smi");
        if fs::create_dir(&bin).is_ok() {
            let vsweep = env!("CARGO_BIN_EXE_vsweep");
            let smi = self.harness.write(
                "smi/nvidia-smi",
                &format!("#!/bin/sh\nexec {vsweep} sim nvidia-smi \"$@\"\n"),
            );
            fs::set_permissions(smi, fs::Permissions::from_mode(0o755)).expect("ours");
        }
        let bin = bin.display();
        let lines = format!("\"export VSWEEP_SIM_GPUS={ledger}-$SLURMD_NODENAME\", \"export PATH={bin}:$PATH\"");
        let setup = format!("[slurm]\nmemory_per_gpu = \"1G\"\n{slurm}\nsetup = [{lines}]\n");
        self.harness.write(name, &format!("{plan}{setup}"));
    }

    /// State and node of every task of a submitted experiment. The keys are the array with the task's index, and the job's number.
    fn tasks(&self, out: &str) -> BTreeMap<String, (String, String)> {
        let names: Vec<String> = submissions(&self.out(out))
            .into_iter()
            .map(|array| text(&array["name"]))
            .collect();
        if names.is_empty() {
            return BTreeMap::new();
        }
        let name = format!("--name={}", names.join(","));
        let lines = self.command("squeue", &["-h", "-r", "-t", "all", "-o", "%A|%F_%K|%T|%N", &name]);
        let task = |line: &str| {
            let fields: Vec<&str> = line.split('|').collect();
            (
                format!("{} {}", fields[1], fields[0]),
                (fields[2].to_owned(), fields[3].to_owned()),
            )
        };
        lines.lines().map(task).collect()
    }

    fn count(&self, out: &str, state: &str) -> usize {
        self.tasks(out).values().filter(|(other, _)| other == state).count()
    }

    /// Waits until every task has ended. Slurm has many names for the states before that, among them `SIGNALING` for a moment.
    fn wait_until_over(&self, out: &str) {
        let over = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"];
        let deadline = Instant::now() + PATIENCE;
        while self.tasks(out).values().any(|(state, _)| !over.contains(&&**state)) {
            self.check_gpus();
            assert!(
                Instant::now() < deadline,
                "tasks do not end: {}",
                self.command("squeue", &["-r", "-t", "all"])
            );
            sleep(Duration::from_millis(100));
        }
    }

    /// Processes of a job by its number: its worker, and everything that the worker started.
    fn processes_of(&self, job: &str) -> Vec<i32> {
        let of_job = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environ.split(|&byte| byte == 0);
            variables.any(|variable| variable == format!("SLURM_JOB_ID={job}").as_bytes())
        };
        self.harness
            .processes()
            .into_iter()
            .map(|(pid, _)| pid)
            .filter(of_job)
            .collect()
    }

    /// Kills the worker of a task, and leaves its guard alive to clean up.
    fn kill_worker(&self, job: &str) {
        for (pid, command) in self.harness.processes() {
            if command.contains(" worker ") && self.processes_of(job).contains(&pid) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    fn end_daemon(&self, name: &str, signal: Signal) {
        let pid = fs::read_to_string(self.folder.join("run").join(format!("{name}.pid"))).expect("a pid");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number"));
        kill(pid, signal).expect("it lives");
        // A killed daemon may stay a zombie, because no process may reap it.
        wait_for("the daemon to end", || !Path::new(&format!("/proc/{pid}/exe")).exists());
    }

    /// Kills all processes of a node at once, as a power failure does.
    fn kill_node(&self, node: &str) {
        self.end_daemon(node, Signal::SIGKILL);
        let tasks: Vec<String> = ["out", "other"]
            .iter()
            .flat_map(|out| self.tasks(out))
            .filter(|(_, task)| task.1 == node)
            .map(|(job, _)| job)
            .collect();
        for task in tasks {
            let job = task.split(' ').next_back().expect("a number").to_owned();
            let signal_all = |signal: Signal| {
                for pid in self.processes_of(&job) {
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            };
            // First all are stopped, because no worker may see that its server died before it.
            signal_all(Signal::SIGSTOP);
            for (pid, command) in all_processes() {
                if command.starts_with(&format!("slurmstepd: [{job}.")) {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
            }
            signal_all(Signal::SIGKILL);
        }
    }

    /// Panics if two engines hold one GPU of a node. Returns the number of engines.
    fn check_gpus(&self) -> usize {
        let mut engines = 0;
        for node in ["n0", "n1"] {
            let folder = self.out(&format!("gpus-{node}"));
            let notes = fs::read_dir(folder).into_iter().flatten().flatten();
            let notes = notes.filter_map(|file| serde_json::from_slice::<Value>(&fs::read(file.path()).ok()?).ok());
            // A later process may have the same pid.
            let is_alive = |note: &Value| start_of(&note["pid"]).is_some_and(|started| started == note["started"]);
            let notes = notes.filter(is_alive);
            let mut held = BTreeSet::new();
            for note in notes {
                engines += 1;
                for gpu in note["devices"].as_array().into_iter().flatten() {
                    assert!(held.insert(gpu.to_string()), "GPU {gpu} of {node} is held twice");
                }
            }
        }
        engines
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(SCRIPT).arg("down").arg(&self.folder).output();
    }
}

/// Returns the first of three free ports in a row.
fn ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
        if first < u16::MAX - 2 && (first..first + 3).all(is_free) {
            return first;
        }
    }
}

fn all_processes() -> Vec<(i32, String)> {
    let entries = fs::read_dir("/proc").expect("a proc file system").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.map(|pid: i32| {
        (
            pid,
            fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .replace('\0', " "),
        )
    })
    .collect()
}

/// Start time of a process that is not a zombie, in clock ticks since the boot.
fn start_of(pid: &Value) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(") ")?.1;
    (!fields.starts_with('Z'))
        .then(|| fields.split(' ').nth(19)?.parse().ok())
        .flatten()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn submissions(directory: &Path) -> Vec<Value> {
    let files = fs::read_dir(directory.join("submissions"))
        .into_iter()
        .flatten()
        .flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "json"));
    files
        .map(|file| serde_json::from_slice(&fs::read(file.path()).expect("readable")).expect("JSON"))
        .collect()
}

/// (point, run, outcome) of every row, in a fixed order.
fn table(cluster: &Cluster, out: &str) -> Vec<(String, String, String)> {
    cluster.says(&["report", out], 0, "");
    let row = |row: BTreeMap<String, String>| {
        let outcome = row["outcome"].replace("suspect", "ok");
        (row["point"].clone(), row["run"].clone(), outcome)
    };
    let mut table: Vec<_> = rows(&cluster.out(out).join("summary.csv"))
        .into_iter()
        .map(row)
        .collect();
    table.sort();
    table
}

/// Every journal line that names a cause of failure.
fn causes(directory: &Path) -> Vec<String> {
    let lines = journals(directory).concat();
    lines
        .lines()
        .filter(|line| line.contains("\"cause\":\""))
        .map(str::to_owned)
        .collect()
}

/// The beginning of each line of a journal.
fn beginnings_of_lines(journal: &str) -> String {
    let lines = journal.lines().map(|line| line.chars().take(300).collect());
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
#[ignore = "takes minutes; .ci/run runs it"]
fn whatever_happens_to_tasks_the_table_is_that_of_one_machine() {
    let Some(cluster) = Cluster::up() else { return };
    cluster.plan("plan.toml", PLAN, "cpus_per_gpu = 1\ntime = \"20m\"");
    let submit = ["submit", "plan.toml", "-o", "out", "--slurm"];

    // First vsweep is killed right after Slurm has accepted its first array.
    let shown = cluster.says(
        &["submit", "plan.toml", "-o", "out", "--slurm", "--dry-run"],
        0,
        "--gres=gpu:2",
    );
    assert!(!cluster.out("out").exists(), "{}", said(&shown));
    let bin = cluster.out("bin");
    fs::create_dir(&bin).expect("created");
    let wrapper = cluster
        .harness
        .write("bin/sbatch", "#!/bin/sh\n/usr/bin/sbatch \"$@\"\nkill -9 $PPID\n");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let mut crashed = cluster.vsweep(&submit).env("PATH", path).spawn().expect("it starts");
    assert_eq!(ended(&mut crashed).code(), None, "it was killed");
    // The arrays of this Slurm are limited, so six servers of one size make two arrays.
    cluster.says(&submit, 0, "5 server starts, 1 GPU each");
    cluster.says(&submit, 0, "nothing to submit: 12 server starts under way");
    assert_eq!(cluster.tasks("out").len(), 12, "each server start is one task");
    wait_for("tasks that measure", || {
        cluster.check_gpus() > 2 && journals(&cluster.out("out")).concat().contains("\"run_started\"")
    });
    cluster.says(&["status", "out"], 0, "at work");

    // A worker dies, one node loses its daemon while its tasks live on, and the other node loses everything.
    let running: Vec<String> = cluster
        .tasks("out")
        .into_iter()
        .filter(|(_, (state, _))| state == "RUNNING")
        .map(|(job, _)| job)
        .collect();
    let victim = running
        .first()
        .and_then(|job| job.split(' ').next_back())
        .expect("one runs")
        .to_owned();
    cluster.kill_worker(&victim);
    cluster.end_daemon("n0", Signal::SIGKILL);
    cluster.kill_node("n1");
    wait_for("Slurm to see that the nodes are gone", || {
        cluster.count("out", "RUNNING") == 0
    });
    cluster.again(&["node", "n0"]);
    cluster.again(&["node", "n1"]);
    cluster.wait_until_over("out");

    // The task of the dead worker has ended, so exactly that start is submitted again.
    let left = recorded_outcomes(&cluster.out("out")).len();
    if left < 24 {
        cluster.says(&submit, 0, "server start");
        cluster.wait_until_over("out");
    }
    cluster.says(&submit, 0, "nothing left to do");

    // A finished task that Slurm starts again has nothing to do.
    let lines = journals(&cluster.out("out")).concat().len();
    let done = cluster
        .tasks("out")
        .into_iter()
        .find(|(_, (state, _))| state == "COMPLETED")
        .expect("one")
        .0;
    cluster.command("scontrol", &["requeue", done.split(' ').next().expect("a job")]);
    cluster.wait_until_over("out");
    assert_eq!(
        journals(&cluster.out("out")).concat().len(),
        lines,
        "nothing is recorded again"
    );

    cluster.says(&["run", "plan.toml", "-o", "alone", "--quiet"], 0, "");
    let table_of_cluster = table(&cluster, "out");
    assert_eq!(table_of_cluster.len(), 24);
    let failures = causes(&cluster.out("out"));
    assert_eq!(table_of_cluster, table(&cluster, "alone"), "{failures:#?}");
    cluster.says(&["verify", "out"], 0, "every number agrees");
    let journal = journals(&cluster.out("out")).concat();
    assert!(!journal.contains("\"port_taken\""), "two servers were given one port");
    cluster.harness.wait_until_alone();
}

#[test]
#[ignore = "takes minutes; .ci/run runs it"]
fn limits_preemption_and_a_silent_controller_lose_nothing() {
    let Some(cluster) = Cluster::up() else { return };
    // The runs take seconds, and there are so many that a minute is too short for them.
    let plan = PLAN
        .replace("[4, 8, 12, 16, 32, 64]", "[4, 8]")
        .replace("[1, 2]", "1")
        .replace("runs = 2", "runs = 60");
    cluster.plan(
        "short.toml",
        &plan.replace("num_prompts = 100", "num_prompts = 300"),
        "time = \"1m\"",
    );
    cluster.says(
        &[
            "submit",
            "short.toml",
            "-o",
            "short",
            "--slurm",
            "--sbatch-arg=--nodelist=n0",
            "--sbatch-arg=--partition=urgent",
        ],
        0,
        "2 server starts",
    );

    // Slurm may start a task without GPUs of its own. The GPUs that it sees then belong to others.
    cluster.plan("bare.toml", &plan, "time = \"1m\"");
    let bare = fs::read_to_string(cluster.out("bare.toml")).expect("written");
    cluster
        .harness
        .write("bare.toml", &bare.replace("memory_per_gpu", "# memory_per_gpu"));
    let submit = [
        "submit",
        "bare.toml",
        "-o",
        "bare",
        "--slurm",
        "--sbatch-arg=--gres=none",
    ];
    cluster.says(&submit, 0, "2 server starts");
    wait_for("tasks that refuse", || cluster.count("bare", "FAILED") == 2);
    assert!(
        recorded_outcomes(&cluster.out("bare")).is_empty(),
        "nothing is measured"
    );
    cluster.says(&submit, 0, "2 server starts");
    cluster.says(&[&submit[..5], &["--cancel"]].concat(), 0, "cancelled");

    // Tasks that ask for too much time never start, and `status` says why. Of those, only the one that was cancelled is submitted again.
    let plan = PLAN
        .replace("runs = 2", "runs = 1")
        .replace("[4, 8, 12, 16, 32, 64]", "[4, 8, 12]")
        .replace("[1, 2]", "1");
    cluster.plan("other.toml", &plan, "time = \"3h\"");
    let submit = ["submit", "other.toml", "-o", "other", "--slurm"];
    cluster.says(&submit, 0, "3 server starts");
    wait_for("Slurm's reason", || {
        said(&cluster.run(&["status", "other"])).contains("will not start by itself (PartitionTimeLimit)")
    });
    let pending = cluster.tasks("other").into_keys().next().expect("a task");
    cluster.command("scancel", &[pending.split(' ').next().expect("a job")]);
    wait_for("it to be gone", || cluster.count("other", "PENDING") == 2);
    cluster.says(
        &[&submit[..], &["--sbatch-arg=--time=20"]].concat(),
        0,
        "1 server start,",
    );
    cluster.says(&[&submit[..], &["--cancel"]].concat(), 0, "cancelled");
    cluster.wait_until_over("other");
    assert!(
        recorded_outcomes(&cluster.out("other")).len() < 3,
        "the test has lost its meaning"
    );

    // A task gives way to an urgent job, and goes on after it.
    cluster.says(
        &[&submit[..], &["--sbatch-arg=--time=20", "--sbatch-arg=--nodelist=n1"]].concat(),
        0,
        "server start",
    );
    wait_for("tasks", || cluster.count("other", "RUNNING") > 0);
    cluster.command(
        "sbatch",
        &[
            "-p",
            "urgent",
            "-w",
            "n1",
            "--exclusive",
            "--mem=0",
            "--gres=gpu:8",
            "-t",
            "1",
            "-o",
            "/dev/null",
            "--wrap",
            "sleep 2",
        ],
    );
    wait_for("the tasks to give way", || cluster.count("other", "RUNNING") == 0);

    // No run was begun that could not end before the time limit, and all that were begun were finished. A controller that is down warns of
    // no limit, so this is checked before it is ended.
    cluster.wait_until_over("short");
    let journal = journals(&cluster.out("short")).concat();
    let count = |event: &str| journal.matches(&format!("\"{event}\"")).count();
    let (begun, finished) = (count("run_started"), count("run_finished"));
    // A busy controller may take a node for dead and start its tasks again.
    let again = count("session_started").saturating_sub(3);
    assert!(
        begun - finished <= again && finished > 0 && finished < 120,
        "{begun} runs begun, {finished} finished, {again} tasks started again: {:?}\n{}",
        cluster.tasks("short"),
        beginnings_of_lines(&journal)
    );
    assert_eq!(cluster.count("short", "TIMEOUT"), 0, "the tasks ended by themselves");
    cluster.says(&["status", "short"], 0, "2 ended early");

    // Nobody answers: that says nothing of tasks.
    // Killed at once, it would go on with what it knew some time ago.
    cluster.end_daemon("slurmctld", Signal::SIGTERM);
    cluster.says(&["status", "short"], 0, "is unknown: squeue refused");
    cluster.says(&submit, 1, "nothing was submitted");
    cluster.again(&["controller"]);
    wait_for("the controller", || {
        let mut ping = Command::new("scontrol");
        let ping = ping
            .arg("ping")
            .env("SLURM_CONF", cluster.folder.join("slurm.conf"))
            .output();
        ping.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("UP"))
    });
    cluster.wait_until_over("other");
    cluster.says(&submit, 0, "");
    cluster.wait_until_over("other");
    cluster.says(&submit, 0, "nothing left to do");
    let results = recorded_outcomes(&cluster.out("other"));
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!(table(&cluster, "other").len(), 3);

    cluster.harness.wait_until_alone();
}

/// A server on two nodes: an engine without a port runs on the second one, as a step of the allocation.
const WIDE: &str = r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 500ms --sim-speed 6 --nnodes 2 --master-addr {head}"
nodes = 2
members = ["srun --overlap --nodes=1 --ntasks=1 -w {node} {command} --headless --node-rank {rank}"]
stop_grace = "5s"
[serve.params]
tensor_parallel_size = 4
max_num_seqs = [4, 8]
[bench.params]
random_input_len = 32
random_output_len = 16
max_concurrency = 2
num_prompts = 200
"#;

/// Pids of engines that hold GPUs of a node.
fn engines(cluster: &Cluster, node: &str) -> Vec<i32> {
    let notes = fs::read_dir(cluster.out(&format!("gpus-{node}")))
        .into_iter()
        .flatten()
        .flatten();
    let notes = notes.filter_map(|file| serde_json::from_slice::<Value>(&fs::read(file.path()).ok()?).ok());
    let pids = notes.filter_map(|note| i32::try_from(note["pid"].as_i64()?).ok());
    pids.filter(|pid| Path::new(&format!("/proc/{pid}/exe")).exists())
        .collect()
}

#[test]
fn a_server_on_two_nodes_is_started_watched_and_stopped_as_one() {
    let Some(cluster) = Cluster::up() else { return };
    // The ledger of GPUs shows on which node an engine runs.
    let vsweep = Path::new(env!("CARGO_BIN_EXE_vsweep"));
    let step = cluster.harness.write(
        "step",
        &format!(
            "#!/bin/sh\nexport VSWEEP_SIM_GPUS={}-$SLURMD_NODENAME PATH={}:$PATH\nexec \"$@\"\n",
            cluster.out("gpus").display(),
            vsweep.parent().expect("a folder").display()
        ),
    );
    fs::set_permissions(&step, fs::Permissions::from_mode(0o755)).expect("ours");
    let wide = WIDE.replace("{command}", &format!("{} {{command}}", step.display()));
    cluster.plan("wide.toml", &wide, "time = \"10m\"");
    let submit = ["submit", "wide.toml", "-o", "wide", "--slurm"];
    cluster.says(
        &[&submit[..], &["--dry-run"]].concat(),
        0,
        "'--nodes=2' '--ntasks-per-node=1'",
    );
    cluster.says(&submit, 0, "2 server starts, 2 GPUs each");
    wait_for("an engine on each node", || {
        ["n0", "n1"].iter().all(|node| !engines(&cluster, node).is_empty())
    });
    cluster.wait_until_over("wide");
    let summary = rows_after_report(&cluster, "wide", 0);
    assert_eq!(summary.len(), 2, "{summary:?}");
    assert!(summary.iter().all(|row| row["outcome"] != "failed"), "{summary:?}");
    cluster.harness.wait_until_alone();

    // A member dies under load: all of the server is stopped, started again for its other point, and nothing is left.
    let lossy = wide
        .replace("[4, 8]", "4")
        .replace("max_concurrency = 2", "max_concurrency = [2, 3]");
    cluster.plan(
        "lossy.toml",
        &lossy.replace("num_prompts = 200", "num_prompts = 3000"),
        "time = \"10m\"",
    );
    cluster.says(&["submit", "lossy.toml", "-o", "lossy", "--slurm"], 0, "1 server start");
    wait_for("a run", || {
        journals(&cluster.out("lossy")).concat().contains("\"run_started\"")
    });
    let [remote] = engines(&cluster, "n1")[..] else {
        panic!("one engine")
    };
    kill(Pid::from_raw(remote), Signal::SIGKILL).expect("it lives");
    wait_for("the death to be told", || {
        journals(&cluster.out("lossy"))
            .concat()
            .contains("which runs with the server, ended")
    });
    // Then the worker is killed, with nothing left on its node to clean up after it.
    wait_for("the next start", || {
        journals(&cluster.out("lossy"))
            .concat()
            .matches("\"server_ready\"")
            .count()
            == 2
    });
    let job = cluster.tasks("lossy").into_keys().next().expect("a task");
    cluster.kill_worker(job.split(' ').next_back().expect("a number"));
    cluster.wait_until_over("lossy");
    cluster.harness.wait_until_alone();
    assert!(engines(&cluster, "n0").is_empty() && engines(&cluster, "n1").is_empty());

    // This machine is one node.
    cluster.says(
        &["run", "wide.toml", "-o", "here"],
        1,
        "each server takes 2 nodes (serve.nodes), and there is 1 node",
    );
}

fn rows_after_report(cluster: &Cluster, out: &str, code: i32) -> Vec<BTreeMap<String, String>> {
    cluster.says(&["report", out], code, "");
    rows(&cluster.out(out).join("summary.csv"))
}

/// Fake Slurm commands. `sbatch` takes a second to accept an array.
const QUEUE: [(&str, &str); 3] = [
    (
        "sbatch",
        "#!/bin/sh\nfor word; do case $word in --job-name=*) name=${word#*=};; --array=*) last=${word##*-};; esac; done\nsleep 1\n\
         for index in $(seq 0 $last); do echo \"$$|$index|PENDING|None||$name\"; done >>QUEUE\necho $$\n",
    ),
    ("squeue", "#!/bin/sh\ncat QUEUE\n"),
    ("scontrol", "#!/bin/sh\necho 'MaxArraySize = 100'\n"),
];

#[test]
fn of_two_who_submit_at_once_the_second_finds_all_under_way() {
    let harness = Harness::new();
    harness.write("plan.toml", PLAN);
    let queue = harness.write("queue", "");
    let bin = harness.folder.path().join("bin");
    fs::create_dir(&bin).expect("created");
    for (name, script) in QUEUE {
        let script = script.replace("QUEUE", queue.to_str().expect("plain"));
        let path = harness.write(&format!("bin/{name}"), &script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let submit = || {
        let mut submit = harness.vsweep(&["submit", "plan.toml", "-o", "out", "--slurm"]);
        submit.env("PATH", &path).stdout(std::process::Stdio::piped());
        submit.spawn().expect("it starts")
    };
    let both = [submit(), submit()].map(|submit| submit.wait_with_output().expect("it ends"));
    let told = both.each_ref().map(said).concat();
    assert!(both.iter().all(|output| output.status.success()), "{told}");
    assert!(told.contains("nothing to submit: 12 server starts under way"), "{told}");
    let queued = fs::read_to_string(queue).expect("readable");
    assert_eq!(
        queued.lines().count(),
        12,
        "each server start was handed over once: {queued}"
    );
}
