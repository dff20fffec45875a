//! Servers side by side that slow each other down, by the simulator's cross-talk, and servers that are to be alone.

use crate::harness::{journal_lines, journals, rows, said, wait_for};
use crate::packing::{Node, launches};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Eight servers, four at a time. A simulator whose steps take real time hardly needs the processor.
const PLAN: &str = r#"
version = 1
runs = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 300ms CROSS-TALK"
answer_check = false
stop_grace = "2s"

[serve.params]
max_num_seqs = [1, 2, 3, 4, 5, 6, 7, 8]

[exec]
parallel = 4

[bench.params]
random_input_len = 32
random_output_len = 16
max_concurrency = [1, 2, 4]
num_prompts = 10
"#;

fn plan(cross_talk: &str) -> String {
    PLAN.replace("CROSS-TALK", cross_talk)
}

/// Events of one kind, in the order of their lines.
fn events(directory: &Path, kind: &str) -> Vec<Value> {
    let journals = journals(directory);
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["event"].get(kind).cloned()).collect()
}

/// Rows by whether anything ran beside them, and whether they are marked.
fn marked(directory: &Path) -> BTreeMap<(bool, bool), usize> {
    let finished = events(directory, "run_finished");
    let share = |line: &Value| line["beside"]["servers"].as_f64().unwrap_or(0.0);
    let beside = finished.iter().filter(|line| share(line) >= 0.05).count();
    let rows = rows(&directory.join("summary.csv"));
    let is_marked = |row: &&BTreeMap<String, String>| row["codes"].contains("servers_interfere");
    let marks = rows.iter().filter(is_marked).count();
    [
        ((true, true), marks),
        ((true, false), beside - marks),
        ((false, false), rows.len() - beside),
    ]
    .into()
}

#[test]
fn servers_that_slow_each_other_down_run_one_after_the_other_from_then_on() {
    let node = Node::new(&plan("--sim-cross-talk 0.5"));
    let ended = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let told = said(&ended);
    assert!(told.contains("from now on they run one after the other"), "{told}");
    let directory = node.out("out");
    let samples = events(&directory, "interference_sampled");
    let alone = samples.iter().filter(|sample| sample["alone"] == true);
    assert!(
        alone.clone().all(|sample| sample["beside"]["servers"] == 0.0),
        "{samples:?}"
    );
    assert!(alone.count() >= 4 && samples.len() >= 8, "{samples:?}");
    let marked = marked(&directory);
    assert!(marked[&(true, true)] >= 4 && marked[&(false, false)] >= 8, "{marked:?}");
    assert_eq!(marked[&(true, false)], 0, "every affected run is marked");
    for shown in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(directory.join(shown)).expect("written");
        assert!(text.contains("slower than alone"), "{shown}");
    }
    let status = said(&node.run(&["status", "out"]));
    assert!(status.contains("slower than alone (99 % interval"), "{status}");
    // What was found holds for whoever goes on.
    let first_session = launches(&directory);
    let longer = plan("--sim-cross-talk 0.5").replace("[1, 2, 4]", "[1, 2, 4, 5]");
    node.0.write("plan.toml", &longer);
    let again = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(events(&directory, "interference_sampled").len(), samples.len());
    // Each session has a journal of its own, and journals are read in no order of time.
    let (mut up, mut most) = (0, 0);
    let is_new = |launch: &_| !first_session.contains(launch);
    for (begins, _, _) in launches(&directory).into_iter().filter(is_new) {
        up = if begins { up + 1 } else { up - 1 };
        most = most.max(up);
    }
    assert_eq!(most, 1, "servers of the second session");
    node.0.wait_until_alone();
}

#[test]
fn a_harmless_neighbour_changes_nothing_and_a_kill_loses_no_sample() {
    // However busy the machine of this test is, it does not make servers three times as slow.
    let text = plan("").replace("parallel = 4", "parallel = 4\ninterference = \"200 %\"");
    let node = Node::new(&text);
    let directory = node.out("out");
    let mut vsweep = node.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    let mut ended = None;
    wait_for("some samples", || {
        ended = vsweep.try_wait().expect("a child");
        ended.is_some() || journals(&directory).concat().matches("interference_sampled").count() >= 3
    });
    vsweep.kill().expect("it has work for longer");
    vsweep.wait().expect("reaped");
    node.0.wait_until_alone();
    let (lines, before) = (
        journal_lines(&directory),
        events(&directory, "interference_sampled").len(),
    );
    let again = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(journal_lines(&directory) > lines && before >= 3);
    let told = said(&again);
    assert!(told.contains("less than 200 %"), "{told}");
    let table = rows(&directory.join("summary.csv"));
    assert_eq!(table.len(), 24, "what is repeated is in no table");
    assert!(table.iter().all(|row| !row["codes"].contains("servers_interfere")));
    let verified = node.run(&["verify", "out"]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
}

#[test]
fn an_exclusive_server_runs_beside_nobody() {
    let exclusive = "parallel = 4\ninterference = false\nexclusive = { max_num_seqs = [\">=7\"] }";
    let text = plan("--sim-speed 50").replace("parallel = 4", exclusive);
    let node = Node::new(&text);
    let refused = node.run(&["check", "plan.toml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    node.0.write("plan.toml", &text.replace("[\">=7\"]", "\">=7\""));
    let ended = node.run(&["run", "plan.toml", "-o", "out", "--quiet"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let directory = node.out("out");
    let is_exclusive = |begun: &Value| {
        begun["config"]["params"]["max_num_seqs"]
            .as_u64()
            .is_some_and(|seqs| seqs >= 7)
    };
    let begun = events(&directory, "group_begun");
    let alone: BTreeSet<&str> = begun
        .iter()
        .filter(|begun| is_exclusive(begun))
        .filter_map(|begun| begun["server"].as_str())
        .collect();
    assert_eq!(alone.len(), 2);
    let (mut up, mut most): (BTreeSet<(String, u64)>, usize) = (BTreeSet::new(), 0);
    for (begins, launch, gpus) in launches(&directory) {
        assert_eq!(gpus.len(), 1, "it sees no more GPUs than it needs");
        if begins {
            up.insert(launch);
        } else {
            up.remove(&launch);
        }
        let exclusive = up.iter().filter(|(server, _)| alone.contains(server.as_str())).count();
        assert!(exclusive == 0 || up.len() == 1, "{up:?}");
        most = most.max(up.len());
    }
    assert!(most > 1, "the others run side by side");
    for broken in [
        "exclusive = { max_concurrency = 4 }",
        "exclusive = 3",
        "interference = 5",
        "interference = \"0 %\"",
    ] {
        node.0.write(
            "broken.toml",
            &plan("").replace("parallel = 4", &format!("parallel = 4\n{broken}")),
        );
        let refused = node.run(&["check", "broken.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{broken}: {}", said(&refused));
    }
}

#[test]
fn servers_of_another_vsweep_are_told_and_nothing_is_repeated_beside_them() {
    let node = Node::new(&plan("").replace("[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2, 3, 4]"));
    let endless = plan("--sim-fault hang-after:1").replace("[1, 2, 3, 4, 5, 6, 7, 8]", "8");
    node.0
        .write("other.toml", &endless.replace("parallel = 4", "parallel = \"gpus\""));
    let mut other = node.start(&["run", "other.toml", "-o", "other", "--quiet"]);
    wait_for("the other one to measure", || {
        journals(&node.out("other")).concat().contains("\"run_started\"")
    });
    let ended = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let told = "12 runs had servers of other vsweep sessions beside them";
    assert!(said(&ended).contains(told), "{}", said(&ended));
    let directory = node.out("out");
    let table = rows(&directory.join("summary.csv"));
    assert!(table.iter().all(|row| row["other_servers_beside"] == "1"), "{table:?}");
    assert_eq!(events(&directory, "interference_sampled").len(), 0);
    for shown in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(directory.join(shown)).expect("written");
        assert!(text.contains("of other vsweep sessions"), "{shown}");
    }
    // A killed one has nothing up.
    other.kill().expect("it has work for ever");
    other.wait().expect("reaped");
    node.0.wait_until_alone();
    let again = node.run(&["run", "plan.toml", "-o", "again", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    let table = rows(&node.out("again").join("summary.csv"));
    assert!(table.iter().all(|row| !row.contains_key("other_servers_beside")));
    assert!(!events(&node.out("again"), "interference_sampled").is_empty());
}

/// Twenty-four servers, eight at a time. Steps of some 40 ms are long against what a busy machine of few cores adds to each.
const CAMPAIGN: &str = r#"
version = 1
runs = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 2s --sim-speed 0.3 --sim-cross-talk CROSS-TALK"
answer_check = false
stop_grace = "2s"

[serve.params]
max_num_seqs = { from = 1, to = 24, step = 1 }

[exec]
parallel = "gpus"

[bench.params]
random_input_len = 32
random_output_len = 24
max_concurrency = [1, 2, 4]
num_prompts = 8
"#;

/// Whether a real sweep takes its servers for ones that slow each other down; none if it does not decide. What it found, in words.
fn found(cross_talk: &str) -> (Option<bool>, String) {
    let node = Node::new(&CAMPAIGN.replace("CROSS-TALK", cross_talk));
    let directory = node.out("out");
    let mut vsweep = node.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    let mut told = String::new();
    let decided = loop {
        let is_over = vsweep.try_wait().expect("a child").is_some();
        if directory.join("plan.toml").exists() || is_over {
            told = said(&node.run(&["status", "out"]));
        }
        let line = told.lines().find(|line| line.contains("servers beside others are"));
        match line {
            Some(line) if line.contains("less than 5 %") && !line.contains("too few") => break Some(false),
            Some(line) if !line.contains("too few") => break Some(true),
            _ if is_over => break None,
            _ => std::thread::sleep(std::time::Duration::from_secs(1)),
        }
    };
    // What is left of the sweep says nothing more.
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(vsweep.id() as i32),
        nix::sys::signal::Signal::SIGINT,
    );
    let _ = crate::deadline::ended(&mut vsweep);
    node.0.wait_until_alone();
    let line = told.lines().find(|line| line.contains("servers beside others are"));
    (decided, line.unwrap_or("nothing").trim().to_owned())
}

/// The real version of the campaigns in virtual time: `.ci/night interference`.
#[test]
#[ignore = "takes minutes to hours; .ci/night runs it"]
fn cross_talk_of_five_percent_trips_real_sweeps_and_none_does_not() {
    let rounds = std::env::var("VSWEEP_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: usize = rounds.unwrap_or(50);
    let [mut without, mut with] = [0, 0];
    for round in 1..=rounds {
        for (cross_talk, tripped) in [("0", &mut without), ("0.05", &mut with)] {
            let (slows, words) = found(cross_talk);
            *tripped += usize::from(slows == Some(true));
            println!("round {round}, cross-talk {cross_talk}: {slows:?}: {words}");
        }
    }
    println!("{rounds} sweeps each: {without} trip without cross-talk, {with} with 5 %");
    assert!(without * 50 <= rounds && with * 50 >= rounds * 49);
}
