//! Several starts of each config: they are spread over the sweep, survive a kill and decide the winner, and a server that cannot start gets
//! only one.

use crate::agreement::assert_sweep_agreed;
use crate::harness::{Harness, journal_lines, journals, rows, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// A plan of servers that differ in one parameter, with one load.
fn plan(top: &str, flags: &str, axis: &str) -> String {
    format!(
        "version = 1\n{top}\n[serve]\ncommand = \"vsweep sim serve tiny-8b --sim-start 10ms --sim-speed 10 {flags}\"\nstop_grace = \
         \"1s\"\n[serve.params]\n{axis}\n[bench]\ntelemetry = false\n[bench.params]\nrandom_input_len = 16\nrandom_output_len = \
         16\nmax_concurrency = 1\nnum_prompts = 100\n"
    )
}

/// Events of one kind, in the order of their Lamport clocks.
fn events(harness: &Harness, name: &str) -> Vec<Value> {
    let journals = journals(&harness.folder.path().join("out"));
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let mut lines: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    // The names of journals are random, so the order of files means nothing.
    lines.sort_by_key(|line| line["lamport"].as_u64());
    let events = lines.iter().filter_map(|line| line["event"].get(name));
    events.cloned().collect()
}

fn points(harness: &Harness) -> Vec<std::collections::BTreeMap<String, String>> {
    rows(&harness.folder.path().join("out/points.csv"))
}

#[test]
fn all_configs_are_started_once_before_any_is_started_again() {
    let harness = Harness::new();
    harness.write("plan.toml", &plan("starts = 2\nruns = 2", "", "sim_seed = [1, 2]"));
    let output = harness.run(&["run", "plan.toml", "-o", "out", "--dry-run"]);
    assert!(
        said(&output).contains("left to do: 4 server starts, 8 runs"),
        "{}",
        said(&output)
    );
    let output = harness.run(&["plan", "plan.toml", "--rehearse", "-o", "out"]);
    assert!(
        said(&output).contains("for 4 server starts and 8 runs"),
        "{}",
        said(&output)
    );
    let mut child = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    wait_for("the sweep to be amid its second start", || {
        journal_lines(&harness.folder.path().join("out")) >= 21
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("alive");
    child.wait().expect("reaped");
    harness.wait_until_alone();
    let output = harness.run(&["status", "out"]);
    assert!(said(&output).contains("of 8 runs done"), "{}", said(&output));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let begun: Vec<(String, u64)> = events(&harness, "group_begun")
        .iter()
        .map(|begun| (begun["server"].to_string(), begun["slot"].as_u64().expect("a number")))
        .collect();
    let slots: Vec<u64> = begun.iter().map(|(_, slot)| *slot).filter(|slot| *slot < 2).collect();
    assert!(
        slots.is_sorted(),
        "every config has its first start before any has its second: {begun:?}"
    );
    let runs = rows(&harness.folder.path().join("out/summary.csv"));
    let planned: BTreeSet<(&str, &str, &str)> = runs
        .iter()
        .filter(|run| ["0", "1"].contains(&run["start"].as_str()))
        .map(|run| (run["point"].as_str(), run["start"].as_str(), run["run"].as_str()))
        .collect();
    assert_eq!(planned.len(), 8, "each run of each point on each start once");
    for point in points(&harness) {
        assert!(point["starts"].parse::<u32>().expect("a number") >= 2, "{point:?}");
        let figure = |name: &str| point[name].parse::<f64>().expect("a number");
        let (low, high) = (figure("output_throughput_low"), figure("output_throughput_high"));
        assert!(
            low < figure("output_throughput") && figure("output_throughput") < high,
            "{point:?}"
        );
    }
    assert!(harness.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&harness, "out");
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&output).contains("nothing left to do"), "{}", said(&output));
}

#[test]
fn finalists_are_measured_on_fresh_starts_and_the_plainer_of_equals_wins() {
    let harness = Harness::new();
    let combos = "[[serve.combos]]\nname = \"fancy\"\nmax_num_seqs = 64\nsim_seed = 3\n[[serve.combos]]\nname = \
                  \"plain\"\nsim_seed = 3\n";
    let text = plan("starts = 3\nruns = 1", "", "").replace("[bench]\n", &format!("{combos}[bench]\n"));
    harness.write("plan.toml", &text);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let fresh = events(&harness, "server_starting");
    let fresh = fresh.iter().filter(|start| start["slot"].as_u64() >= Some(3));
    let fresh: BTreeSet<String> = fresh.map(|start| start["server"].to_string()).collect();
    // In one of a hundred cases, noise makes two equal configs look different. Then there is no final.
    assert!([0, 2].contains(&fresh.len()), "both or none: {}", said(&output));
    let told = said(&output).contains("these get 3 fresh starts each");
    assert_eq!(told, !fresh.is_empty(), "{}", said(&output));
    // Once the final begins, its runs are part of the total.
    let counted = said(&output).contains("(run 7 of 12");
    assert_eq!(counted, !fresh.is_empty(), "{}", said(&output));
    let best = fs::read_to_string(harness.folder.path().join("out/best/highest-throughput.yaml")).expect("a winner");
    // Where noise makes one look better by more than the margin, it wins although the other may be as good.
    let answer = fs::read_to_string(harness.folder.path().join("out/answer.json")).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let entrants = answer["questions"][0]["entrants"].as_array().expect("both").iter();
    let values: Vec<f64> = entrants
        .map(|entrant| entrant["value"]["value"].as_f64().expect("a number"))
        .collect();
    let is_equal = (values[0] / values[1]).ln().abs() < 0.003;
    assert!(
        !(is_equal && best.contains("max-num-seqs: 64")),
        "the plainer of two equals wins: {best}"
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&output).contains("nothing left to do"), "{}", said(&output));
}

#[test]
fn a_config_that_cannot_start_is_tried_on_its_first_start_only() {
    let harness = Harness::new();
    let text = plan("starts = 3\nruns = 2", "--sim-fault oom-at-load", "sim_seed = [1]");
    harness.write("plan.toml", &text);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(events(&harness, "server_starting").len(), 1);
    let status = said(&harness.run(&["status", "out"]));
    assert!(
        status.contains("3 of 6 runs done (3 failed), 3 skipped, 0 left"),
        "{status}"
    );
    harness.run(&["run", "plan.toml", "-o", "out", "--retry-failed"]);
    assert_eq!(
        events(&harness, "server_starting").len(),
        2,
        "a retry begins with the first start"
    );
}

#[test]
fn a_point_is_repeated_until_its_interval_is_narrow() {
    let harness = Harness::new();
    let runs = |metric: &str, until: &str| {
        format!("runs = {{ min = 3, max = 5, metric = \"{metric}\", until = \"{until}\" }}")
    };
    // No interval is as narrow as 0.1 %. And all runs complete the same number of requests, whatever the load on the machine.
    for (metric, until, expected, folder) in [
        ("output_throughput", "0.1 %", 5, "out"),
        ("completed", "100 %", 3, "wide"),
    ] {
        let text = plan(&runs(metric, until), "", "sim_seed = [1]");
        harness.write("plan.toml", &text);
        let output = harness.run(&["run", "plan.toml", "-o", folder]);
        assert!(output.status.success(), "{}", said(&output));
        // The terminal shows only the first doubts.
        let report = fs::read_to_string(harness.folder.path().join(folder).join("report.md")).expect("a report");
        let is_wide = report.contains("is still wider than ±0.1 % at 1 of 1 point after all 5 runs");
        assert_eq!(is_wide, folder == "out", "{}", said(&output));
        // A run that load on the machine disturbed is measured again.
        let count = rows(&harness.folder.path().join(folder).join("summary.csv")).len();
        assert!((expected..=5).contains(&count), "{metric}: {count} runs");
        let output = harness.run(&["run", "plan.toml", "-o", folder]);
        assert!(said(&output).contains("nothing left to do"), "{}", said(&output));
    }
    let one = harness.run(&["report", "wide"]);
    assert!(one.status.success(), "{}", said(&one));
    let answer = fs::read_to_string(harness.folder.path().join("wide/answer.json")).expect("an answer");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("a document");
    assert_eq!(answer["noise"][0]["start"]["basis"], "assumed", "{answer}");
}

#[test]
fn a_server_with_very_many_loads_that_does_not_start_is_recorded_in_brief() {
    let harness = Harness::new();
    let loads = "[bench.params]\nrandom_input_len = 16\nrandom_output_len = 16\nnum_prompts = 100\nmax_concurrency = { from = 1, to = 60, step = 1 }\nseed = { from = 1, to = 1000, step = 1 }\n";
    harness.write(
        "plan.toml",
        &format!("version = 1\nruns = 1\n[serve]\ncommand = \"sleep 0 --x\"\n{loads}"),
    );
    let ended = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let text = said(&ended);
    assert!(
        text.contains("60,000 runs lost") && text.contains("1 failed, 59,999 skipped"),
        "{text}"
    );
    let bytes: usize = journals(&harness.folder.path().join("out"))
        .iter()
        .map(String::len)
        .sum();
    assert!(bytes < 60_000 * 90, "the journal has {bytes} bytes");
    assert_eq!(rows(&harness.folder.path().join("out/summary.csv")).len(), 10_000);
    let status = said(&harness.run(&["status", "out"]));
    assert!(
        status.contains("1 of 60000 runs done (1 failed), 59999 skipped, 0 left"),
        "{status}"
    );
    let again = said(&harness.run(&["run", "plan.toml", "-o", "out"]));
    assert!(again.contains("nothing left to do: 60,000 runs recorded"), "{again}");
    assert!(said(&harness.run(&["verify", "out"])).contains("every number agrees"));
}
