//! The winner of a packed sweep is measured once more without neighbours, and the answer says how much they slowed it down.

use crate::agreement::assert_sweep_agreed;
use crate::deadline::ended;
use crate::harness::{journals, rows, said};
use crate::machines::packing::Node;
use serde_json::Value;
use std::path::Path;

/// A plan of two servers at once. They slow each other down by the share `cross_talk`.
fn plan((speed, cross_talk): (f64, f64), rest: &str) -> String {
    format!(
        "version = 1\nruns = 1\n[serve]\ncommand = \"vsweep sim serve tiny-8b --sim-start 10ms --sim-speed {speed} --sim-cross-talk {cross_talk}\"\nstop_grace = \
         \"2s\"\n[serve.params]\nmax_num_seqs = [1, 8]\n[exec]\nparallel = 2\nwait = \"1s\"\nstarts_apart = true\n[bench]\ntelemetry = \
         false\n[bench.params]\nrandom_input_len = 16\nrandom_output_len = 64\n{rest}"
    )
}

fn answer(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("answer.json")).expect("an answer");
    serde_json::from_str(&text).expect("JSON")
}

/// The slots of the groups, in the order in which they began.
fn slots(directory: &Path) -> Vec<u64> {
    let journals = journals(directory);
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| line["event"].get("group_begun")?["slot"].as_u64())
        .collect()
}

#[test]
fn neighbours_that_slow_the_winner_are_found_and_its_figures_stay() {
    let node = Node::new(&plan((4.0, 1.0), "max_concurrency = 4\nnum_prompts = 40\n"));
    let output = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let out = node.out("out");
    assert_eq!(slots(&out), [0, 0, 100_000], "{}", said(&output));
    let own = answer(&out);
    let question = &own["questions"][0];
    let figure = &question["alone"][0];
    assert_eq!(figure["config"], question["winner"]["config"]);
    assert_eq!(figure["verdict"], "improved", "{figure}");
    assert!(said(&output).contains("differ without them"), "{}", said(&output));
    let table = rows(&out.join("summary.csv"));
    let alone = table.iter().filter(|row| row["start"] == "alone").count();
    assert_eq!((table.len(), alone), (3, 1));
    let runs = own["estimates"].as_array().expect("estimates").iter();
    assert!(runs.clone().all(|point| point["runs"] == 1), "{own}");
    let again = node.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    assert!(node.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&node.0, "out");
    node.0.wait_until_alone();
}

#[test]
fn the_load_of_a_search_is_measured_alone() {
    let rest = "num_prompts = 20\n[sla]\nvary = \"max_concurrency\"\nmax = 8\n[[sla.target]]\nname = \"t\"\np99_ttft_ms = \"<=1000\"\n";
    let two_workloads = plan((20.0, 0.0), rest).replace("input_len = 16", "input_len = [16, 32]");
    let node = Node::new(&two_workloads);
    let output = node.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let out = node.out("out");
    assert!(slots(&out).contains(&100_000), "{}", said(&output));
    let own = answer(&out);
    let has_winner_alone = |question: &Value| {
        let mut figures = question["alone"].as_array().into_iter().flatten();
        figures.any(|figure| figure["config"] == question["winner"]["config"])
    };
    let mut questions = own["questions"].as_array().expect("questions").iter();
    assert!(questions.any(has_winner_alone), "{own}");
    assert_sweep_agreed(&node.0, "out");
    node.0.wait_until_alone();
}

#[test]
fn workers_on_one_machine_measure_alone_one_after_the_other() {
    measure_alone([["worker", "out"]; 2]);
}

#[test]
fn shards_on_one_machine_measure_alone_one_after_the_other() {
    measure_alone(["1/2", "2/2"].map(|shard| ["run", "plan.toml", "-o", "out", "--shard", shard]));
}

/// Leaves only the starts without neighbours to these commands, which run at the same time.
fn measure_alone<const WORDS: usize>(commands: [[&str; WORDS]; 2]) {
    let four =
        plan((20.0, 0.1), "max_concurrency = 1\nnum_prompts = 60\n").replace("[1, 8]", "[4, 8]\nsim_seed = [1, 2]");
    let node = Node::new(&four);
    // Parts of the plan leave out the starts without neighbours.
    for part in ["sim_seed=1", "sim_seed=2"] {
        let output = node.run(&["run", "plan.toml", "-o", "out", "--only", part]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let submit = node.run(&["submit", "plan.toml", "-o", "out"]);
    assert_eq!(submit.status.code(), Some(0), "{}", said(&submit));
    for sweep in &mut commands.map(|command| node.start(&command)) {
        assert_eq!(ended(sweep).code(), Some(0));
    }
    let journals = journals(&node.out("out"));
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let mut lines: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    lines.sort_by_key(|line| line["lamport"].as_u64());
    let (mut up, mut alone) = (0, 0);
    for event in lines.iter().map(|line| &line["event"]) {
        if event["server_starting"]["slot"] == 100_000 {
            assert_eq!(up, 0, "the start before has ended: {lines:?}");
            (up, alone) = (1, alone + 1);
        } else if event.get("server_exited").is_some() {
            up = 0;
        }
    }
    assert!(alone > 1, "the test has lost its meaning");
    node.0.wait_until_alone();
}
