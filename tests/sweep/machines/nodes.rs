//! Results of several nodes: each row says where it was measured, and the report names nodes that differ.

use crate::harness::{Harness, journals, rows, said, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PLAN: &str = r#"
version = 1
runs = 2
[serve]
command = "vsweep sim serve tiny-8b --sim-start 100ms --sim-speed 20"
stop_grace = "2s"
[serve.params]
max_num_seqs = [4, 8]
[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = 2
num_prompts = 32
"#;

/// A node with one GPU, as its fake `nvidia-smi` describes it.
struct Node<'a> {
    name: &'a str,
    driver: &'a str,
    clock: u32,
}

fn submitted(plan: &str) -> (Harness, Vec<String>) {
    let harness = Harness::new();
    harness.write("plan.toml", plan);
    let submit = harness.run(&["submit", "plan.toml", "-o", "out"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    let listed = harness.run(&["submit", "plan.toml", "-o", "out", "--dry-run"]);
    let listed = String::from_utf8(listed.stdout).expect("text");
    let groups = listed.lines().filter_map(|line| line.split_once("  "));
    (harness, groups.map(|(group, _)| group.to_owned()).collect())
}

/// Runs one group by a worker on a node.
fn work(harness: &Harness, node: &Node<'_>, group: &str) {
    let folder = harness.folder.path().join(node.name);
    fs::create_dir_all(&folder).expect("ours");
    let (driver, clock) = (node.driver, node.clock);
    let smi = harness.write(
        &format!("{}/nvidia-smi", node.name),
        &format!(
            "#!/bin/sh\ncase \"$1\" in\n*clocks*) echo '0, {clock}, 2619, 700.00';;\n*query-gpu*) echo 'GPU-{}, 0, {driver}, 81559, 4, \
             NVIDIA H100 80GB HBM3';;\nesac\n",
            node.name
        ),
    );
    fs::set_permissions(smi, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("there is one"));
    let mut worker = harness.vsweep(&["worker", "out", "--group", group]);
    let output = crate::deadline::output(worker.env("PATH", path).env("NODE_NAME", node.name));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

fn report(harness: &Harness) -> String {
    let report = harness.run(&["report", "out"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    fs::read_to_string(harness.folder.path().join("out/report.md")).expect("written")
}

fn column(directory: &Path, table: &str, name: &str) -> BTreeSet<String> {
    let rows = rows(&directory.join(table)).into_iter();
    rows.map(|row: BTreeMap<String, String>| row.get(name).cloned().unwrap_or_default())
        .collect()
}

#[test]
fn rows_of_unlike_nodes_are_told_apart() {
    let (harness, groups) = submitted(PLAN);
    let directory = harness.folder.path().join("out");
    let one = Node {
        name: "n0",
        driver: "550.54",
        clock: 1980,
    };
    let other = Node {
        name: "n1",
        driver: "570.12",
        clock: 1755,
    };
    work(&harness, &one, &groups[0]);
    let alone = report(&harness);
    assert!(
        !alone.contains("different nodes") && !alone.contains("measured on"),
        "{alone}"
    );
    assert_eq!(
        column(&directory, "summary.csv", "node"),
        [String::new()].into(),
        "one node needs no column"
    );

    work(&harness, &other, &groups[1]);
    let text = report(&harness);
    for expected in [
        "measured on different nodes, n0 and n1: GPU NVIDIA H100 80GB HBM3 (1980 MHz, memory 2619 MHz, 700 W) and NVIDIA H100",
        "GPU driver 550.54 and 570.12",
        "measured on 2 nodes (n0, n1)",
    ] {
        assert!(text.replace('\\', "").contains(expected), "{expected}: {text}");
    }
    let nodes = ["n0", "n1"].map(str::to_owned).into();
    assert_eq!(column(&directory, "summary.csv", "node"), nodes);
    assert_eq!(column(&directory, "points.csv", "node"), nodes);
    assert_eq!(
        column(&directory, "points.csv", "node_gpu_driver"),
        ["550.54", "570.12"].map(str::to_owned).into()
    );
    let page = fs::read_to_string(directory.join("report.html")).expect("written");
    assert!(page.contains("Several nodes."));
    let best: Vec<_> = fs::read_dir(directory.join("best"))
        .expect("written")
        .flatten()
        .collect();
    assert!(!best.is_empty());
    for best in best {
        let best = fs::read_to_string(best.path()).expect("readable");
        assert!(best.contains("nodes: n") && !best.contains("\n# host: "), "{best}");
        assert_eq!(best.matches(", driver ").count(), 1, "its own node alone: {best}");
    }
    let verify = harness.run(&["verify", "out"]);
    assert_eq!(verify.status.code(), Some(0), "{}", said(&verify));

    let again = harness.run(&["worker", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    harness.wait_until_alone();
}

#[test]
fn alike_nodes_are_named() {
    let (harness, groups) = submitted(PLAN);
    for (name, group) in ["n0", "n1"].into_iter().zip(&groups) {
        let (driver, clock) = ("550.54", 1980);
        work(&harness, &Node { name, driver, clock }, group);
    }
    let text = report(&harness);
    assert!(text.contains("measured on 2 nodes (n0, n1)"), "{text}");
    assert!(!text.contains("different nodes"), "{text}");
    let copy = std::process::Command::new("cp")
        .args(["-r", "out", "copy"])
        .current_dir(harness.folder.path())
        .status();
    assert!(copy.is_ok_and(|status| status.success()));
    let compared = harness.run(&["compare", "out", "copy"]);
    assert_eq!(compared.status.code(), Some(2), "{}", said(&compared));
    assert!(
        said(&compared).contains("one is a copy of the other"),
        "{}",
        said(&compared)
    );

    let (other, groups) = submitted(PLAN);
    for group in &groups {
        let (driver, clock) = ("570.12", 1980);
        work(
            &other,
            &Node {
                name: "n1",
                driver,
                clock,
            },
            group,
        );
    }
    let other = other.folder.path().join("out");
    for format in ["text", "markdown", "html", "json"] {
        let compared = harness.run(&["compare", "out", other.to_str().expect("plain"), "--format", format]);
        let told = "2 of 2 points were measured on different nodes (n0, n1: GPU driver 550.54 and 570.12)";
        assert!(said(&compared).contains(told), "{format}: {}", said(&compared));
    }
}

/// A worker is killed between the two starts of a pair, and a worker on another node continues.
#[test]
fn arms_that_ran_on_different_nodes_are_no_pair() {
    let plan = PLAN.replace("runs = 2", "runs = 1") + "[compare]\nmetrics = [\"output_throughput\"]\nmax_starts = 8\n";
    let (harness, _) = submitted(&plan.replace("--sim-speed 20", "--sim-speed 4"));
    let directory = harness.folder.path().join("out");
    let mut first = harness.vsweep(&["worker", "out"]);
    let mut first = first.env("NODE_NAME", "n0").spawn().expect("the binary starts");
    wait_for("the first start to be measured", || {
        journals(&directory).concat().contains("\"server_exited\"")
    });
    first.kill().expect("it has more to do");
    first.wait().expect("reaped");
    harness.wait_until_alone();
    let mut second = harness.vsweep(&["worker", "out"]);
    let output = crate::deadline::output(second.env("NODE_NAME", "n1"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = report(&harness);
    assert!(
        text.contains("2 starts not counted: the two sides ran on different nodes"),
        "{text}"
    );
    assert!(text.contains("undecided"), "{text}");
}
