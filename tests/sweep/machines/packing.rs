//! Server groups side by side on a node with eight simulated GPUs. The simulators' own ledger shows which engine holds which GPU, so the
//! test does not depend on what vsweep says about itself.

use crate::harness::{Harness, journal_lines, journals, recorded_outcomes, rows, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Six servers: two each with one, two and four GPUs.
const PLAN: &str = r#"
version = 1
runs = 2

[serve]
command = "vsweep sim serve tiny-8b --sim-start 200ms --sim-speed 50"
stop_grace = "2s"

[serve.params]
tensor_parallel_size = [1, 2, 4]
max_num_seqs = [4, 16]

[exec]
parallel = 4
wait = "1s"

[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 8
"#;

/// Returns the plan with servers that never answer, so that their runs never end.
fn endless(plan: &str) -> String {
    plan.replace("--sim-speed 50", "--sim-speed 50 --sim-fault hang-after:1")
        .replace("[serve]\n", "[serve]\nanswer_check = false\n")
}

/// A node with simulated GPUs, which a fake `nvidia-smi` shows.
pub struct Node(pub Harness);

impl Node {
    pub fn new(plan: &str) -> Node {
        let harness = Harness::new();
        harness.write("plan.toml", plan);
        std::fs::create_dir(harness.folder.path().join("bin")).expect("created");
        let vsweep = env!("CARGO_BIN_EXE_vsweep");
        let smi = harness.write(
            "bin/nvidia-smi",
            &format!("#!/bin/sh\nexec {vsweep} sim nvidia-smi \"$@\"\n"),
        );
        std::fs::set_permissions(smi, std::fs::Permissions::from_mode(0o755)).expect("ours");
        Node(harness)
    }

    /// Makes this process hold memory of a GPU. Returns the file to remove in order to release it.
    fn occupy(&self, gpu: u32) -> std::path::PathBuf {
        std::fs::create_dir(self.ledger()).expect("created");
        let note = format!(
            r#"{{"pid": {}, "started": 0, "gpu": "h100", "devices": [{gpu}], "mib": 70000, "late_ms": 3600000}}"#,
            std::process::id()
        );
        let path = self.ledger().join("1.json");
        std::fs::write(&path, note).expect("written");
        path
    }

    fn ledger(&self) -> std::path::PathBuf {
        self.0.folder.path().join("gpus")
    }

    pub fn out(&self, name: &str) -> std::path::PathBuf {
        self.0.folder.path().join(name)
    }

    fn vsweep(&self, args: &[&str]) -> Command {
        let mut command = self.0.vsweep(args);
        let path = std::env::var("PATH").expect("a path");
        let path = format!("{}:{path}", self.0.folder.path().join("bin").display());
        command.env("PATH", path).env("VSWEEP_SIM_GPUS", self.ledger());
        command
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("HIP_VISIBLE_DEVICES");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        crate::deadline::output(&mut self.vsweep(args))
    }

    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = self.vsweep(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the binary starts")
    }

    /// Pid and GPUs of each engine that holds some now.
    fn holders(&self) -> Vec<(u64, Vec<u64>)> {
        let files = std::fs::read_dir(self.ledger()).into_iter().flatten().flatten();
        let notes = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "json"));
        let notes = notes.filter_map(|file| serde_json::from_str(&std::fs::read_to_string(file.path()).ok()?).ok());
        let holder = |note: Value| {
            let gpus = note["devices"].as_array()?.iter().filter_map(Value::as_u64);
            Some((note["pid"].as_u64()?, gpus.collect()))
        };
        let is_alive = |(pid, _): &(u64, Vec<u64>)| Path::new(&format!("/proc/{pid}/exe")).exists();
        notes.filter_map(holder).filter(is_alive).collect()
    }
}

/// Returns (point, run, outcome) of every row in a fixed order, without the runs of the winner alone at the end of a packed sweep.
fn table(directory: &Path) -> Vec<(String, String, String)> {
    let row = |row: BTreeMap<String, String>| {
        // Load on the machine decides whether so short a run is suspect.
        let outcome = row["outcome"].replace("suspect", "ok");
        (row["point"].clone(), row["run"].clone(), outcome)
    };
    let rows = rows(&directory.join("summary.csv")).into_iter();
    let planned = rows.filter(|row| row.get("start").is_none_or(|start| start != "alone"));
    let mut table: Vec<_> = planned.map(row).collect();
    table.sort();
    table
}

/// Returns the launches of a directory in the order of their lines: true for a start and false for an end, the server with the launch's
/// number, and its GPUs.
pub fn launches(directory: &Path) -> Vec<(bool, (String, u64), BTreeSet<u64>)> {
    let mut launches = Vec::new();
    for journal in journals(directory) {
        let mut gpus_of = BTreeMap::new();
        for line in journal.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let key = |event: &Value| {
                let server = event["server"].as_str().expect("an id").to_owned();
                (server, event["launch"].as_u64().expect("a number"))
            };
            if let Some(starting) = line["event"].get("server_starting") {
                let gpus = starting["gpus"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_u64);
                let gpus: BTreeSet<u64> = gpus.collect();
                gpus_of.insert(key(starting), gpus.clone());
                launches.push((true, key(starting), gpus));
            } else if let Some(exited) = line["event"].get("server_exited") {
                let gpus = gpus_of[&key(exited)].clone();
                launches.push((false, key(exited), gpus));
            }
        }
    }
    launches
}

/// Returns the number of planned starts of each server, without that of the winner alone at the end.
fn servers_started(directory: &Path) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for line in journals(directory).concat().lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let starting = line["event"].get("server_starting");
        if let Some(starting) = starting.filter(|starting| starting["slot"] != 100_000) {
            let server = starting["server"].as_str().expect("an id").to_owned();
            *starts.entry(server).or_default() += 1;
        }
    }
    starts
}

#[test]
fn groups_side_by_side_share_no_gpu_and_measure_what_one_after_the_other_would() {
    let node = Node::new(PLAN);
    let alone = node.run(&["run", "plan.toml", "-o", "alone", "--quiet", "--set", "exec.parallel=1"]);
    assert_eq!(alone.status.code(), Some(0), "{}", said(&alone));

    let mut packed = node.start(&["run", "plan.toml", "-o", "packed", "--quiet"]);
    let (mut most, mut ended) = (0, None);
    wait_for("the sweep to end", || {
        let holders = node.holders();
        let gpus: Vec<u64> = holders.iter().flat_map(|(_, gpus)| gpus.clone()).collect();
        let distinct: BTreeSet<&u64> = gpus.iter().collect();
        assert_eq!(distinct.len(), gpus.len(), "two engines on one GPU: {holders:?}");
        most = most.max(holders.len());
        ended = packed.try_wait().expect("a child");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    assert!(most > 1, "nothing ran side by side");
    assert_eq!(table(&node.out("packed")), table(&node.out("alone")));

    let beside = |out: &str| -> Vec<u32> {
        let rows = rows(&node.out(out).join("summary.csv")).into_iter();
        rows.map(|row| row["servers_beside"].parse().expect("a number"))
            .collect()
    };
    assert!(beside("alone").into_iter().all(|count| count == 0));
    assert!(beside("packed").into_iter().all(|count| count < 6) && beside("packed").into_iter().any(|count| count > 0));

    let mut held: BTreeSet<u64> = BTreeSet::new();
    for (begins, launch, gpus) in launches(&node.out("packed")) {
        assert!(!gpus.is_empty(), "{launch:?} says which GPUs it has");
        if begins {
            assert!(held.is_disjoint(&gpus), "{launch:?} takes {gpus:?} of {held:?}");
            held.extend(gpus);
        } else {
            held.retain(|gpu| !gpus.contains(gpu));
        }
    }
    let planned = servers_started(&node.out("packed"));
    assert_eq!(planned.len(), 6, "six servers");
    assert!(planned.values().all(|starts| *starts == 1), "{planned:?}");
    node.0.wait_until_alone();
}

/// A comparison of two servers that differ in speed and in the number of GPUs.
const ARMS: &str = r#"
version = 1
runs = 1

[serve]
stop_grace = "2s"

[serve.command]
base = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 20 --tensor-parallel-size 2"
new = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 8"

[compare]
fail_on = ["output_throughput:-5%"]

[exec]
parallel = "gpus"

[bench]
telemetry = false

[bench.params]
random_input_len = 16
random_output_len = 16
max_concurrency = 1
num_prompts = 60
"#;

#[test]
fn arms_of_a_comparison_run_at_once_and_swap_their_gpus() {
    let node = Node::new(ARMS);
    let out = node.out("out");
    let mut vsweep = node.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    wait_for("the third pair", || journal_lines(&out) >= 30);
    vsweep.kill().expect("alive until now");
    vsweep.wait().expect("reaped");
    node.0.wait_until_alone();
    let output = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(
        said(&output).contains("output throughput: regressed, -"),
        "{}",
        said(&output)
    );

    assert!(table(&out).len() >= 8 && table(&out).len().is_multiple_of(2));
    // GPUs of each start by server and slot, and which of the two servers were up when one ended.
    let mut gpus_of: BTreeMap<(bool, u64), BTreeSet<u64>> = BTreeMap::new();
    let mut beside: BTreeSet<(bool, bool)> = BTreeSet::new();
    let mut bases: BTreeSet<String> = BTreeSet::new();
    for journal in journals(&out) {
        let mut up: BTreeSet<bool> = BTreeSet::new();
        for line in journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let of = |event: &str| {
                Some((
                    &line["event"][event],
                    line["event"][event]["server"].as_str()?.to_owned(),
                ))
            };
            if let Some((begun, server)) = of("group_begun")
                && begun["config"]["name"] == "command=base"
            {
                bases.insert(server);
            }
            if let Some((starting, server)) = of("server_starting") {
                let slot = starting["slot"].as_u64().unwrap_or(0);
                let gpus = starting["gpus"].as_array().into_iter().flatten();
                let is_base = bases.contains(&server);
                gpus_of.insert((is_base, slot), gpus.filter_map(Value::as_u64).collect());
                up.insert(is_base);
            }
            if let Some((_, server)) = of("server_exited") {
                beside.insert((up.contains(&true), up.contains(&false)));
                up.remove(&bases.contains(&server));
            }
        }
    }
    assert!(beside.contains(&(true, true)), "the arms ran at once");
    for ((is_base, slot), gpus) in &gpus_of {
        // The second server gets the GPUs after those that the larger server would take as the first.
        let is_first = *is_base == slot.is_multiple_of(2);
        let expected: &[u64] = match (is_first, is_base) {
            (true, true) => &[0, 1],
            (true, false) => &[0],
            (false, true) => &[2, 3],
            (false, false) => &[2],
        };
        assert_eq!(gpus, &expected.iter().copied().collect(), "start {slot}: {gpus_of:?}");
    }
    let again = node.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    assert!(node.run(&["verify", "out"]).status.success());
    // Both arms get as many GPUs as the larger one needs.
    let shown = node.run(&["submit", "plan.toml", "-o", "slurm", "--slurm", "--dry-run"]);
    assert!(said(&shown).contains("--gres=gpu:4"), "{}", said(&shown));
    // Two servers of eight GPUs do not fit on eight GPUs.
    let large = node.run(&["run", "plan.toml", "-o", "large", "--set", "exec.gpus=8"]);
    assert_eq!(large.status.code(), Some(2), "{}", said(&large));
    assert!(
        said(&large).contains("two servers at once need 16 GPUs"),
        "{}",
        said(&large)
    );
    for (set, why) in [
        ("exec.parallel=1", "cannot run at once where one server runs at a time"),
        (
            "serve.params.max_num_seqs=[1,2]",
            "an axis is bisected one start after another",
        ),
    ] {
        let refused = node.run(&["check", "plan.toml", "--set", set]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(why), "{}", said(&refused));
    }
}

#[test]
fn a_comparison_leaves_gpus_in_use_alone() {
    let node = Node::new(ARMS);
    node.occupy(0);
    let output = node.run(&["run", "plan.toml", "-o", "out", "--set", "exec.wait=1s"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let used = launches(&node.out("out")).into_iter().flat_map(|(_, _, gpus)| gpus);
    assert_eq!(used.collect::<BTreeSet<u64>>(), BTreeSet::from([2, 3, 4, 5]));
}

#[test]
fn an_optimisation_goes_on_with_servers_that_fit() {
    let serve = "vsweep sim serve tiny-8b --sim-start 200ms --sim-speed 50";
    let commands = format!("{{ big = \"{serve} --tensor-parallel-size 8\", small = \"{serve}\" }}");
    let plan = PLAN
        .replace(&format!("\"{serve}\""), &commands)
        .replace("tensor_parallel_size = [1, 2, 4]\n", "");
    let node = Node::new(&(plan + "[optimize]\nstarts = 5\n"));
    node.occupy(0);
    let output = node.run(&["run", "plan.toml", "-o", "out"]);
    let used = launches(&node.out("out")).into_iter().map(|(_, _, gpus)| gpus.len());
    assert_eq!(
        used.collect::<BTreeSet<usize>>(),
        BTreeSet::from([1]),
        "{}",
        said(&output)
    );
}

#[test]
fn killed_in_the_middle_nothing_is_left_and_the_rest_is_done() {
    let node = Node::new(PLAN);
    let directory = node.out("out");
    let mut kills = 0;
    for reach in [14, 30, 55, usize::MAX] {
        let vsweep = node.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
        if !node.0.kill_when(vsweep, || journal_lines(&directory) >= reach) {
            break;
        }
        kills += 1;
    }
    assert!(kills > 1, "the test has lost its meaning");
    let outcomes = recorded_outcomes(&directory);
    assert_eq!(outcomes.len(), 24);
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    let again = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(table(&directory).len(), 24);
}

#[test]
fn an_interrupt_ends_every_group_and_a_second_one_at_once() {
    for presses in [1, 2] {
        let mut plan = endless(PLAN).replace("parallel = 4", "parallel = \"gpus\"");
        if presses == 2 {
            // A server that ignores the first signal is killed at the second interrupt.
            plan = plan.replace("hang-after:1", "hang-after:1 --sim-fault ignore-term");
            plan = plan.replace("stop_grace = \"2s\"", "stop_grace = \"1h\"");
        }
        let node = Node::new(&plan);
        let mut vsweep = node.vsweep(&["run", "plan.toml", "-o", "out", "--format", "plain"]);
        let told = node.out("told");
        let file = std::fs::File::create(&told).expect("created");
        let mut vsweep = vsweep.stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        let said = || {
            let told = std::fs::read_to_string(&told).expect("text");
            told.matches("interrupted: stopping the server").count()
        };
        let runs = || journals(&node.out("out")).concat().matches("\"run_started\"").count();
        wait_for("two groups of four GPUs", || runs() >= 2);
        for _ in 0..presses {
            kill(Pid::from_raw(vsweep.id() as i32), Signal::SIGINT).expect("it lives");
            wait_for("the runs to be given up", || said() > 0);
        }
        assert_eq!(vsweep.wait().expect("it ends").code(), Some(130));
        assert_eq!(said(), 1, "it is said once");
        let journal = journals(&node.out("out")).concat();
        let starting = journal.matches("\"server_starting\"").count();
        assert!(starting > 1, "{journal}");
        assert_eq!(journal.matches("\"server_exited\"").count(), starting, "{journal}");
        node.0.wait_until_alone();
    }
}

#[test]
fn gpus_are_those_that_vsweep_itself_may_use() {
    let node = Node::new(
        &PLAN
            .replace("[1, 2, 4]", "[1, 2]")
            .replace("parallel = 4", "parallel = \"gpus\""),
    );
    let mut vsweep = node.vsweep(&["run", "plan.toml", "-o", "out", "--quiet"]);
    let ended = crate::deadline::output(vsweep.env("CUDA_VISIBLE_DEVICES", "3,5,6"));
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let used: BTreeSet<u64> = launches(&node.out("out"))
        .into_iter()
        .flat_map(|(_, _, gpus)| gpus)
        .collect();
    assert_eq!(used, BTreeSet::from([3, 5, 6]));
    // The GPUs that a group gets are not part of its identity.
    let before = launches(&node.out("out")).len();
    let whole = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    assert_eq!(launches(&node.out("out")).len(), before, "nothing was measured again");
}

#[test]
fn gpus_of_somebody_else_are_waited_for_with_a_limit() {
    let node = Node::new(&PLAN.replace("[1, 2, 4]", "8").replace("[4, 16]", "4"));
    let stranger = node.occupy(5);
    let refused = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("GPU 5 has 70004 MiB in use"),
        "{}",
        said(&refused)
    );
    assert!(said(&refused).contains("exec.wait"), "{}", said(&refused));
    assert!(
        recorded_outcomes(&node.out("out")).is_empty(),
        "it says nothing of any config"
    );

    // A process that ends meanwhile is not an obstacle.
    let mut vsweep = node.start(&["run", "plan.toml", "-o", "out", "--quiet", "--set", "exec.wait=1h"]);
    let sessions = || {
        journals(&node.out("out"))
            .concat()
            .matches("\"session_started\"")
            .count()
    };
    wait_for("the second session", || sessions() == 2);
    std::fs::remove_file(stranger).expect("it is there");
    assert!(vsweep.wait().expect("a child").success());
    assert_eq!(recorded_outcomes(&node.out("out")).len(), 4);
}

#[test]
fn a_worker_waits_as_long_as_another_one_has_the_gpus() {
    let plan = PLAN
        .replace("runs = 2", "runs = 1")
        .replace("[1, 2, 4]", "8")
        .replace("max_concurrency = [1, 2]", "request_rate = 3");
    let node = Node::new(&plan);
    let submit = node.run(&["submit", "plan.toml", "-o", "out"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    let mut first = node.start(&["worker", "out"]);
    wait_for("its first run", || {
        journals(&node.out("out")).concat().contains("\"run_started\"")
    });
    let second = node.run(&["worker", "out"]);
    assert_eq!(second.status.code(), Some(0), "{}", said(&second));
    assert!(first.wait().expect("a child").success());
    let starts = servers_started(&node.out("out"));
    assert_eq!(starts.into_values().collect::<Vec<_>>(), [1, 1]);
    node.0.wait_until_alone();
}

#[test]
fn a_worker_leaves_what_is_too_large_for_its_gpus_to_others() {
    let node = Node::new(
        &PLAN
            .replace("version = 1", "version = 1\nname = \"packed\"")
            .replace("[4, 16]", "4")
            .replace("parallel = 4", "parallel = \"gpus\""),
    );
    let submit = node.run(&["submit", "plan.toml", "-o", "out"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    let small = || {
        let mut small = node.vsweep(&["worker", "out"]);
        crate::deadline::output(small.env("CUDA_VISIBLE_DEVICES", "1,2"))
    };
    let ended = small();
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let left = "too large for 2 GPUs: tensor_parallel_size=4;";
    assert!(said(&ended).contains(left), "{}", said(&ended));
    assert_eq!(servers_started(&node.out("out")).len(), 2);
    let refused = small();
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("needs 4 GPUs, and there are 2"),
        "{}",
        said(&refused)
    );
    assert!(said(&refused).contains("plan.toml:"), "{}", said(&refused));
    let ended = node.run(&["worker", "out"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    assert_eq!(servers_started(&node.out("out")).len(), 3);
    node.0.wait_until_alone();
}

/// Both vsweeps take GPUs before the servers of either have filled them.
#[test]
fn two_vsweeps_on_one_machine_take_no_gpu_twice() {
    let node = Node::new(
        &PLAN
            .replace("parallel = 4", "parallel = \"gpus\"")
            .replace("\"1s\"", "\"10m\""),
    );
    let mut both = ["one", "two"].map(|out| node.start(&["run", "plan.toml", "-o", out, "--quiet"]));
    for vsweep in &mut both {
        let status = vsweep.wait().expect("a child");
        assert_eq!(status.code(), Some(0), "a server that finds its GPU full fails");
    }
    let sizes = ["one", "two"].map(|out| table(&node.out(out)).len());
    assert_eq!(sizes, [24, 24]);
    node.0.wait_until_alone();
}

#[test]
fn after_a_failure_that_ends_the_sweep_the_other_groups_finish_their_run() {
    let plan = PLAN.replace("version = 1", "version = 1\non_failure = \"stop\"").replace(
        "max_num_seqs = [4, 16]",
        "max_num_seqs = 4\n[[serve.combos]]\nname = \"sound\"\nsim_speed = 2\n[[serve.combos]]\nname = \"broken\"\nsim_fault = \"oom-at-load\"",
    );
    let node = Node::new(&plan.replace(" --sim-speed 50", "").replace("[1, 2, 4]", "1"));
    let ended = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let journal = journals(&node.out("out")).concat();
    assert!(journal.contains(r#""session_ended":{"reason":"stopped"}"#), "{journal}");
    let starting = journal.matches("\"server_starting\"").count();
    assert_eq!(
        (starting, journal.matches("\"server_exited\"").count()),
        (2, 2),
        "{journal}"
    );
    let begun = journal.matches("\"run_started\"").count();
    assert!(begun < 4, "the rest is not begun: {journal}");
    assert_eq!(
        journal.matches("\"run_finished\"").count(),
        begun,
        "what was begun is finished: {journal}"
    );
    node.0.wait_until_alone();
}

#[test]
fn searches_side_by_side_find_their_answers() {
    let sla = "[sla]\nvary = \"max_concurrency\"\nmax = 16\nmax_probes = 4\n[[sla.target]]\nname = \"alive\"\np99_ttft_ms = \"<=5000\"\n";
    let plan = PLAN
        .replace("max_concurrency = [1, 2]\nnum_prompts = 8\n", sla)
        .replace("[1, 2, 4]", "[1, 2]");
    let node = Node::new(&plan);
    let ended = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let journal = journals(&node.out("out")).concat();
    assert_eq!(journal.matches("\"search_started\"").count(), 4);
    assert_eq!(journal.matches("\"search_finished\"").count(), 4);
    let status = node.run(&["verify", "out"]);
    assert_eq!(status.status.code(), Some(0), "{}", said(&status));
}

#[test]
fn what_cannot_run_side_by_side_is_refused_with_the_remedy() {
    let refused = |plan: &str, expected: &[&str]| {
        let node = Node::new(plan);
        let check = node.run(&["run", "plan.toml", "-o", "out"]);
        assert_eq!(check.status.code(), Some(2), "{}", said(&check));
        for text in expected {
            assert!(said(&check).contains(text), "no `{text}` in {}", said(&check));
        }
        assert!(!node.out("out").exists(), "nothing was begun");
    };
    let with = |from: &str, to: &str| PLAN.replace(from, to);
    refused(
        &with("serve tiny", "serve --port 8000 tiny"),
        &["cannot all listen on port 8000", "remove it"],
    );
    refused(
        &with("[1, 2, 4]", "[1, 16]"),
        &["needs 16 GPUs, and there are 8", "exec.gpus"],
    );
    refused(
        &with("parallel = 4", "parallel = 4\ngpus = 9"),
        &["needs 9 GPUs, and there are 8"],
    );
    let attached = with(
        "command = \"vsweep sim serve tiny-8b --sim-start 200ms --sim-speed 50\"",
        "url = \"http://127.0.0.1:9\"",
    );
    refused(
        &attached,
        &["a server that is already running has its GPUs", "attached here"],
    );
    refused(
        &with("parallel = 4", ""),
        &["[exec] does not say what runs side by side", "parallel = \"gpus\""],
    );
    refused(
        &with("stop_grace", "env = { CUDA_VISIBLE_DEVICES = \"1\" }\nstop_grace"),
        &["the plan sets CUDA_VISIBLE_DEVICES", "set it for vsweep itself"],
    );
    refused(
        &with("parallel = 4", "parallel = 0"),
        &["a whole number from 1 to 1024"],
    );
    refused(&with("parallel = 4", "parallel = \"gpu\""), &["did you mean", "gpus"]);
    refused(
        &with("parallel = 4", "parallel = \"gpus\"\ngpus = 0"),
        &["parallel = 4"],
    );
    refused(&with("wait = \"1s\"", "wait = 1"), &["`exec.wait` must be a duration"]);
}

#[test]
fn a_machine_without_gpus_runs_as_many_as_the_plan_says() {
    let harness = Harness::new();
    harness.write("plan.toml", &PLAN.replace("parallel = 4", "parallel = \"gpus\""));
    // A PATH without the fake nvidia-smi.
    let run = |args: &[&str]| {
        let mut command = harness.vsweep(args);
        command.env("PATH", "/usr/bin:/bin").env_remove("CUDA_VISIBLE_DEVICES");
        crate::deadline::output(command.env_remove("HIP_VISIBLE_DEVICES"))
    };
    if Path::new("/usr/bin/nvidia-smi").exists() {
        return;
    }
    let refused = run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("parallel = 4"), "{}", said(&refused));
    let ended = run(&["run", "plan.toml", "-o", "out", "--quiet", "--set", "exec.parallel=4"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let directory = harness.folder.path().join("out");
    assert_eq!(table(&directory).len(), 24);
    let launches = launches(&directory);
    let (mut up, mut most) = (0, 0);
    for (begins, _, gpus) in &launches {
        assert!(gpus.is_empty());
        up = if *begins { up + 1 } else { up - 1 };
        most = most.max(up);
    }
    assert_eq!(most, 4);
}

/// Each group is blamed for its own failures only.
#[test]
fn a_group_that_fails_costs_the_others_nothing() {
    let combos = "max_num_seqs = 4\n\
        [[serve.combos]]\nname = \"sound\"\n\
        [[serve.combos]]\nname = \"too large\"\nsim_fault = \"oom-at-load\"\n\
        [[serve.combos]]\nname = \"dies\"\nsim_fault = \"engine-death-after:20\"\n\
        [[serve.combos]]\nname = \"refuses\"\nsim_fault = \"error-rate:1\"\n";
    let plan = PLAN
        .replace("max_num_seqs = [4, 16]\n", combos)
        .replace("[1, 2, 4]", "2");
    let node = Node::new(&plan);
    let outcomes = |out: &str, more: &[&str]| {
        let ended = node.run(&[&["run", "plan.toml", "-o", out, "--quiet"], more].concat());
        assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
        let journal = journals(&node.out(out)).concat();
        let planned = |line: &&str| !line.contains("\"slot\":100000");
        let count = |what: &str| {
            journal
                .lines()
                .filter(planned)
                .filter(|line| line.contains(what))
                .count()
        };
        let starts = (count("\"server_starting\""), count("\"server_exited\""));
        let alone = journal
            .lines()
            .filter(|line| !planned(line) && line.contains("\"server_starting\""))
            .count();
        assert_eq!(starts.0 + alone, starts.1, "{journal}");
        (table(&node.out(out)), recorded_outcomes(&node.out(out)), starts.0)
    };
    let alone = outcomes("alone", &["--set", "exec.parallel=1"]);
    assert_eq!(outcomes("packed", &[]), alone);
    node.0.wait_until_alone();
}

/// The long test of kills. `.ci/night packing` runs it.
#[test]
#[ignore = "takes minutes; .ci/night runs it"]
fn killed_at_random_moments_with_eight_groups_under_way() {
    let wanted: u32 = std::env::var("VSWEEP_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(100);
    let plan = PLAN.replace(
        "tensor_parallel_size = [1, 2, 4]\nmax_num_seqs = [4, 16]",
        "max_num_seqs = [1, 2, 3, 4, 5, 6, 7, 8]",
    );
    let node = Node::new(&plan.replace("parallel = 4", "parallel = \"gpus\""));
    let whole = node.run(&["run", "plan.toml", "-o", "whole", "--quiet"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let expected = table(&node.out("whole"));
    let lines = journal_lines(&node.out("whole"));
    let (mut kills, mut sweeps, mut draw) = (0, 0, u64::from(std::process::id()));
    while kills < wanted {
        sweeps += 1;
        let name = format!("sweep-{sweeps}");
        let directory = node.out(&name);
        loop {
            let vsweep = node.start(&["run", "plan.toml", "-o", &name, "--quiet"]);
            // Any constants will do: the moments only need to differ.
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let reach = journal_lines(&directory) + (draw >> 33) as usize % lines;
            if !node.0.kill_when(vsweep, || journal_lines(&directory) >= reach) {
                break;
            }
            kills += 1;
            let outcomes = recorded_outcomes(&directory);
            assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
        }
        assert_eq!(table(&directory), expected, "sweep {sweeps}");
    }
    println!("{kills} kills over {sweeps} sweeps of eight groups: 0 lost, 0 double, 0 processes left");
}

/// Runs the plan, and returns the slots of its starts in the order in which they began.
fn started_slots(node: &Node) -> Vec<u64> {
    let output = node.run(&["run", "plan.toml", "-o", "out"]);
    assert!(matches!(output.status.code(), Some(0)), "{}", said(&output));
    let lines: Vec<Value> = journals(&node.out("out"))
        .iter()
        .flat_map(|journal| journal.lines())
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let slot = |line: &Value| line["event"]["server_starting"]["slot"].as_u64();
    lines.iter().filter_map(slot).collect()
}

#[test]
fn every_config_is_started_once_before_any_is_started_again_side_by_side() {
    let plan = PLAN
        .replace("runs = 2", "runs = 1\nstarts = 2")
        .replace("[1, 2, 4]", "[1, 4]");
    let node = Node::new(&plan);
    let slots = started_slots(&node);
    assert_eq!(slots[..8], [0, 0, 0, 0, 1, 1, 1, 1], "{slots:?}");
    assert!(
        slots[8..].iter().all(|slot| *slot >= 2),
        "a final may follow: {slots:?}"
    );
    node.0.wait_until_alone();
}

#[test]
fn finals_side_by_side_go_slot_by_slot() {
    let plan = PLAN
        .replace("runs = 2", "runs = 1\nstarts = 2")
        .replace("[1, 2, 4]", "1")
        .replace("parallel = 4", "parallel = 2");
    let node = Node::new(&plan);
    let slots = started_slots(&node);
    assert!(slots.is_sorted(), "{slots:?}");
    node.0.wait_until_alone();
}
