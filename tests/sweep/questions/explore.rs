//! Explorations end to end on the simulated server: the two ends are measured first, every other level lies between them, and an
//! exploration that was killed continues where it was.

use crate::harness::{Harness, journal_lines, rows, said, wait_for};
use std::path::Path;
use vsweep::journal::{self, Check, Directory, State};
use vsweep::matrix::{LoadExploration, Matrix};
use vsweep::plan;
use vsweep::search::{Exploration, ExplorationRun};

const PLAN: &str = r#"
version = 1
runs = 2

[serve]
command = "vsweep sim serve tiny-8b --sim-start 20ms --sim-speed 8"
stop_grace = "2s"

[serve.params]
max_num_seqs = [4, 32]

[bench.params]
random_input_len = 16
random_output_len = 16
num_prompts = 40

[explore]
vary = "VARY"
levels = 5
max_concurrency = 32
"#;

fn explorations(path: &Path) -> Vec<LoadExploration> {
    let plan = plan::load(path, &[]).expect("a valid plan");
    let matrix = Matrix::expand(&plan).expect("it expands");
    let servers = matrix.servers().collect::<Vec<_>>();
    servers
        .iter()
        .flat_map(|server| matrix.explorations_of(server).collect::<Vec<_>>())
        .collect()
}

fn state(directory: &Path) -> State {
    journal::load(&Directory::open(directory).expect("an experiment"), Check::Lengths).expect("sound")
}

/// Asserts that each level was the one to ask for after the levels before it.
fn assert_levels_follow(state: &State, planned: &[LoadExploration], ended: bool) {
    for planned in planned {
        let mut exploration = Exploration::new(planned.settings.clone());
        for level in state.levels(&planned.id, 0) {
            assert_eq!(exploration.ask(), Some(level.load));
            exploration.add(level);
        }
        assert!(!ended || exploration.ask().is_none());
    }
}

#[test]
fn each_start_explores_anew() {
    let harness = Harness::new();
    let plan = PLAN
        .replace("VARY", "max_concurrency")
        .replace("runs = 2", "runs = 1\nstarts = 2");
    harness.write("plan.toml", &plan.replace("[4, 32]", "4"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let directory = harness.folder.path().join("out");
    let planned = explorations(&harness.folder.path().join("plan.toml"));
    let state = state(&directory);
    for slot in 0..2 {
        let mut exploration = Exploration::new(planned[0].settings.clone());
        let levels: Vec<&ExplorationRun> = state.levels(&planned[0].id, slot).collect();
        assert!(levels.len() >= 5, "{levels:?}");
        for level in levels {
            assert_eq!(exploration.ask(), Some(level.load));
            exploration.add(level);
        }
        assert!(exploration.ask().is_none());
    }
    // Without targets there is no table of loads that meet them.
    let page = std::fs::read_to_string(directory.join("report.html")).expect("written");
    assert!(!page.contains("Highest load that meets each target"), "{page}");
    assert!(!directory.join("sla.csv").exists());
    let report = std::fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(!report.contains("Target"), "{report}");
    assert!(report.contains("start 1") && report.contains("start 2"), "{report}");
    assert!(
        said(&output).contains("the best points were not confirmed on fresh starts"),
        "{}",
        said(&output)
    );
}

#[test]
fn killed_between_its_levels_an_exploration_goes_on() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", &PLAN.replace("VARY", "max_concurrency"));
    let planned = explorations(&path);
    assert_eq!(planned.len(), 2);
    let path = path.to_str().expect("a plain path");
    let directory = harness.folder.path().join("out");
    for _ in 0..3 {
        let before = journal_lines(&directory);
        let mut vsweep = harness.start(&["run", path, "-o", "out", "--quiet"]);
        wait_for("the next events", || journal_lines(&directory) >= before + 9);
        vsweep.kill().expect("alive until now");
        vsweep.wait().expect("reaped");
        harness.wait_until_alone();
        assert_levels_follow(&state(&directory), &planned, false);
    }
    let output = harness.run(&["run", path, "-o", "out", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let state = state(&directory);
    assert_levels_follow(&state, &planned, true);
    for planned in &planned {
        let levels: Vec<&ExplorationRun> = state.levels(&planned.id, 0).collect();
        let loads: Vec<Option<u64>> = levels.iter().map(|level| level.load.max_concurrency).collect();
        assert_eq!(loads[..4], [Some(1), Some(1), Some(32), Some(32)]);
        assert!(
            loads[4..].iter().all(|load| *load > Some(1) && *load < Some(32)),
            "{loads:?}"
        );
        assert!(levels.iter().all(|level| level.figures.is_some()), "{levels:?}");
    }
    // Explored levels are points like any other, each with its two runs.
    let points = rows(&directory.join("points.csv"));
    assert_eq!(points.len(), state.runs().count() / 2);
    assert!(
        points
            .iter()
            .all(|point| point["runs_failed"] == "0" && !point["output_throughput"].is_empty()),
        "{points:?}"
    );
    assert!(directory.join("charts/explored.png").exists());
    assert!(!directory.join("sla.csv").exists());
    let again = harness.run(&["run", path, "-o", "out"]);
    assert!(
        String::from_utf8_lossy(&again.stdout).contains("nothing left to do"),
        "{}",
        said(&again)
    );
    harness.wait_until_alone();
}

#[test]
fn explored_rates_lie_between_what_the_ends_reached() {
    let harness = Harness::new();
    let path = harness.write(
        "plan.toml",
        &PLAN.replace("VARY", "request_rate").replace("runs = 2", "runs = 1"),
    );
    let planned = explorations(&path);
    let output = harness.run(&["run", path.to_str().expect("a plain path"), "-o", "out", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let state = state(&harness.folder.path().join("out"));
    assert_levels_follow(&state, &planned, true);
    let levels: Vec<&ExplorationRun> = state.levels(&planned[0].id, 0).collect();
    let reached = |level: &ExplorationRun| level.figures.expect("measured").throughput;
    let (serial, saturated) = (reached(levels[0]), reached(levels[1]));
    for level in &levels[2..] {
        let rate = level.load.request_rate.expect("a rate");
        assert!(
            rate > serial && rate < saturated && level.load.max_concurrency.is_none(),
            "{level:?}"
        );
    }
    harness.wait_until_alone();
}
