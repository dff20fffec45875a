//! Runs with neighbours on the same machine: starts of other servers, which may be kept apart from runs; servers that must run alone; and
//! servers of other sessions.

use crate::harness::{journals, rows, said, wait_for};
use crate::machines::packing::{Node, launches};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Eight servers, four at a time.
const PLAN: &str = r#"
version = 1
runs = 1

[serve]
command = "vsweep sim serve tiny-8b --sim-start 300ms"
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

/// Events of one kind, in the order of their lines.
fn events(directory: &Path, kind: &str) -> Vec<Value> {
    let journals = journals(directory);
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["event"].get(kind).cloned()).collect()
}

/// Returns three numbers of runs: those during which another server was starting, by their journal lines and by their rows, and those
/// during which another server was measured.
fn met(directory: &Path) -> [usize; 3] {
    let finished = events(directory, "run_finished");
    let by_line = |what: &str| {
        let shares = finished.iter().filter_map(|line| line["beside"][what].as_f64());
        shares.filter(|share| *share > 0.0).count()
    };
    let rows = rows(&directory.join("summary.csv"));
    let counts = rows.iter().filter_map(|row| row["starts_beside"].parse::<u32>().ok());
    let by_row = counts.filter(|count| *count > 0).count();
    [by_line("starts"), by_row, by_line("servers")]
}

#[test]
fn no_start_meets_a_run_if_they_are_kept_apart() {
    // Two loads, so that the server that dies is started only once more, next to the others.
    let with = |exec: &str, fault: &str| {
        let combo = |seqs: u32| format!("[[serve.combos]]\nmax_num_seqs = {seqs}\n");
        let combos: String = (1..=6).map(combo).collect();
        let text = PLAN.replace("max_num_seqs = [1, 2, 3, 4, 5, 6, 7, 8]", &(combos + fault));
        text.replace("parallel = 4", exec).replace("[1, 2, 4]", "[1, 2]")
    };
    let node = Node::new(&with(
        "parallel = 4\nstarts_apart = true",
        "sim_fault = \"engine-death-after:12\"\n",
    ));
    let ended = node.run(&["run", "plan.toml", "-o", "apart", "--quiet"]);
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let [by_line, by_row, runs] = met(&node.out("apart"));
    assert_eq!((by_line, by_row), (0, 0));
    assert!(runs > 0, "runs still go on side by side");
    node.0.wait_until_alone();

    // The simulator's starts use little of the machine, so by default no run waits for them.
    node.0.write("plan.toml", &with("parallel = 4", ""));
    let ended = node.run(&["run", "plan.toml", "-o", "together", "--quiet"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let [by_line, by_row, _] = met(&node.out("together"));
    assert!(by_line > 0 && by_row > 0, "{by_line}, {by_row}");
    node.0.wait_until_alone();
}

#[test]
fn an_exclusive_server_runs_beside_nobody() {
    let exclusive = "parallel = 4\nexclusive = { max_num_seqs = [\">=7\"] }";
    let text = PLAN
        .replace("--sim-start", "--sim-speed 50 --sim-start")
        .replace("parallel = 4", exclusive);
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
        "starts_apart = \"yes\"",
    ] {
        node.0.write(
            "broken.toml",
            &PLAN.replace("parallel = 4", &format!("parallel = 4\n{broken}")),
        );
        let refused = node.run(&["check", "broken.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{broken}: {}", said(&refused));
    }
}

#[test]
fn servers_of_another_vsweep_are_told() {
    let node = Node::new(&PLAN.replace("[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2, 3, 4]"));
    let endless = PLAN
        .replace("--sim-start", "--sim-fault hang-after:1 --sim-start")
        .replace("[1, 2, 3, 4, 5, 6, 7, 8]", "8");
    node.0
        .write("other.toml", &endless.replace("parallel = 4", "parallel = \"gpus\""));
    let mut other = node.start(&["run", "other.toml", "-o", "other", "--quiet"]);
    wait_for("the other one to measure", || {
        journals(&node.out("other")).concat().contains("\"run_started\"")
    });
    let ended = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let directory = node.out("out");
    let table = rows(&directory.join("summary.csv"));
    let told = format!(
        "{} runs shared the machine with servers of other vsweep sessions",
        table.len()
    );
    assert!(said(&ended).contains(&told), "{}", said(&ended));
    assert!(table.iter().all(|row| row["other_servers_beside"] == "1"), "{table:?}");
    for shown in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(directory.join(shown)).expect("written");
        assert!(text.contains("of other vsweep sessions"), "{shown}");
    }
    // A killed vsweep has no servers left.
    other.kill().expect("it has work for ever");
    other.wait().expect("reaped");
    node.0.wait_until_alone();
    let again = node.run(&["run", "plan.toml", "-o", "again", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    let table = rows(&node.out("again").join("summary.csv"));
    assert!(table.iter().all(|row| !row.contains_key("other_servers_beside")));
}
