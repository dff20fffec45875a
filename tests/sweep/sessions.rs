//! Several sessions on one directory, copies of it, and what vsweep 1.x left: no result is lost, mixed or counted twice.

use crate::deadline::ended;
use crate::harness::{Harness, journal_files, journals, recorded_outcomes, rows, run_files, said, wait_for};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vsweep::journal::{self, Check, Directory};
use vsweep::plan::ReportOptions;
use vsweep::report::LiveTables;

const PLAN: &str = r#"
version = 1
runs = 3
[serve]
command = "vsweep sim serve tiny-8b --sim-start 50ms --sim-speed 20"
[serve.params]
max_num_seqs = [4, 16]
[bench.params]
random_input_len = 32
random_output_len = 8
max_concurrency = [1, 2]
num_prompts = 32
"#;

/// Point and repetition of each row; every one is sound.
fn sound_rows(directory: &Path) -> Vec<(String, String)> {
    let rows = rows(&directory.join("summary.csv"));
    assert!(rows.iter().all(|row| row["outcome"] != "failed"), "{rows:?}");
    let mut keys: Vec<_> = rows
        .iter()
        .map(|row| (row["point"].clone(), row["run"].clone()))
        .collect();
    keys.sort();
    keys
}

fn finished(directory: &Path) -> usize {
    journals(directory).concat().matches("\"run_finished\"").count()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // A half-written file may be renamed meanwhile.
            let _ = fs::copy(entry.path(), target);
        }
    }
}

#[test]
fn two_sessions_at_once_waste_work_and_lose_nothing() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", PLAN);
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let mut first = harness.start(&args);
    wait_for("a result", || finished(&directory) > 0);
    fs::remove_file(directory.join("lock")).expect("it is there");
    let second = harness.run(&args);
    assert!(second.status.success(), "{}", said(&second));
    assert!(ended(&mut first).success());
    assert_eq!(journal_files(&directory).len(), 2);
    let results = recorded_outcomes(&directory);
    assert_eq!(results.len(), 12);
    assert_eq!(
        run_files(&directory).len(),
        results.values().sum::<usize>(),
        "each result has its own file"
    );

    let again = harness.run(&args);
    assert!(
        again.status.success() && said(&again).contains("nothing left to do"),
        "{}",
        said(&again)
    );
    let keys = sound_rows(&directory);
    assert_eq!(keys.len(), 12);
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
    let spare = run_files(&directory).len() - 12;
    let duplicates = directory.join("duplicates.csv");
    let listed = if duplicates.exists() {
        rows(&duplicates).len()
    } else {
        0
    };
    assert_eq!(listed, spare, "every other result is listed");
    let verified = harness.run(&["verify", "out"]);
    assert!(verified.status.success(), "{}", said(&verified));
}

#[test]
fn a_report_of_an_earlier_state_is_made_anew_however_young_it_is() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", PLAN);
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let part = harness.run(&[&args[..], &["--only", "max_concurrency=2"]].concat());
    assert!(part.status.success(), "{}", said(&part));
    let report = directory.join("report.md");
    let early = fs::read(&report).expect("a report");
    let rest = harness.run(&args);
    assert!(rest.status.success(), "{}", said(&rest));
    let whole = fs::read(&report).expect("a report");
    fs::write(&report, &early).expect("written");
    let named = harness.run(&["verify", "out"]);
    assert_eq!(named.status.code(), Some(1), "{}", said(&named));

    assert!(harness.run(&args).status.success());
    assert!(fs::read(&report).expect("a report") == whole);
    let verified = harness.run(&["verify", "out"]);
    assert!(verified.status.success(), "{}", said(&verified));

    let inode = |path: &Path| fs::metadata(path).expect("it is there").ino();
    let tables = ["report.md", "report.html", "points.csv", "charts/pareto.png"].map(|name| directory.join(name));
    let before = tables.each_ref().map(|path| inode(path));
    assert!(harness.run(&args).status.success());
    let after = tables.each_ref().map(|path| inode(path));
    assert_eq!(before, after, "what is up to date is not written again");
}

#[test]
fn a_session_ends_where_a_later_one_has_another_plan() {
    let harness = Harness::new();
    let text = PLAN.replace("[4, 16]", "[2, 4, 6, 8, 10, 12, 14, 16]");
    let path = harness.write("plan.toml", &text.replace("runs = 3", "runs = 1"));
    let args = ["run", path.to_str().expect("plain"), "-o", "out"];
    let directory = harness.folder.path().join("out");
    let mut first = harness.start(&args);
    wait_for("a result", || finished(&directory) > 0);
    fs::remove_file(directory.join("lock")).expect("it is there");
    let edited = [&args[..], &["--set", "bench.params.max_concurrency=[1, 2, 4]"]].concat();
    let second = harness.run(&[&edited[..], &["--only", "max_num_seqs=16"]].concat());
    assert!(second.status.success(), "{}", said(&second));
    assert_eq!(ended(&mut first).code(), Some(1));
    assert!(journals(&directory).concat().contains("\"superseded\""));
    let rest = harness.run(&edited);
    assert!(rest.status.success(), "{}", said(&rest));
    assert_eq!(sound_rows(&directory).len(), 24);
}

#[test]
fn a_copy_taken_during_a_sweep_is_read_and_goes_on() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", PLAN);
    let plan = path.to_str().expect("plain");
    let directory = harness.folder.path().join("out");
    let mut first = harness.start(&["run", plan, "-o", "out"]);
    wait_for("some results", || finished(&directory) > 2);
    let copied = harness.folder.path().join("copy");
    // Files before the lines that name them.
    for part in ["runs", "servers", "journal"] {
        copy(&directory.join(part), &copied.join(part));
    }
    let before = journals(&copied);
    let status = harness.run(&["status", "copy"]);
    assert!(said(&status).contains("of 12 runs done"), "{}", said(&status));
    let continued = harness.run(&["run", plan, "-o", "copy"]);
    assert!(matches!(continued.status.code(), Some(0 | 3)), "{}", said(&continued));
    assert!(ended(&mut first).success());
    assert_eq!(sound_rows(&copied), sound_rows(&directory));
    assert!(
        before.iter().all(|journal| journals(&copied).contains(journal)),
        "journals of others are never touched"
    );
    let kept = before.concat().matches("\"run_finished\"").count();
    // Of the one whose line came after its file was looked for, only the line was copied.
    let measured = recorded_outcomes(&copied).values().sum::<usize>();
    assert!((12..=13).contains(&measured) && kept > 2, "{measured} {kept}");
}

#[test]
fn plan_of_another_does_not_replace_the_tables() {
    let harness = Harness::new();
    let own = harness.write("plan.toml", PLAN);
    let args = [
        "run",
        own.to_str().expect("plain"),
        "-o",
        "out",
        "--only",
        "max_concurrency=1",
    ];
    assert!(harness.run(&args).status.success());
    let before = fs::read(harness.folder.path().join("out/summary.csv")).expect("a table");
    let other = harness.write("other.toml", &PLAN.replace("[4, 16]", "32"));
    let refused = harness.run(&["run", other.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("holds the results of another plan, plan"),
        "{}",
        said(&refused)
    );
    assert_eq!(
        fs::read(harness.folder.path().join("out/summary.csv")).expect("a table"),
        before
    );
}

#[test]
fn a_figure_that_was_changed_is_named() {
    let harness = Harness::new();
    let path = harness.write("plan.toml", PLAN);
    let args = [
        "run",
        path.to_str().expect("plain"),
        "-o",
        "out",
        "--only",
        "max_concurrency=2",
    ];
    assert!(harness.run(&args).status.success());
    let sound = harness.run(&["verify", "out"]);
    assert!(sound.status.success(), "{}", said(&sound));
    for (file, from, to) in [
        ("summary.csv", ",32,", ",33,"),
        ("points.csv", ",32,", ",33,"),
        ("report.md", "1", "7"),
        ("report.html", "\"each\":[", "\"each\":[7"),
    ] {
        let path = harness.folder.path().join("out").join(file);
        let before = fs::read_to_string(&path).expect("text");
        let after = before.replacen(from, to, 1);
        assert_ne!(before, after, "{file}");
        fs::write(&path, after).expect("written");
        let named = harness.run(&["verify", "out"]);
        assert_eq!(named.status.code(), Some(1), "{file}: {}", said(&named));
        assert!(said(&named).contains(&format!("{file}: ")), "{}", said(&named));
        fs::write(&path, before).expect("written");
    }
    fs::remove_file(harness.folder.path().join("out/points.csv")).expect("it is there");
    let missing = harness.run(&["verify", "out"]);
    assert!(said(&missing).contains("points.csv: is missing"), "{}", said(&missing));
}

/// Directories that vsweep 1.6 wrote, each with the tables that it made of it.
fn directories_of_1() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record-1");
    let mut directories: Vec<PathBuf> = fs::read_dir(folder)
        .expect("there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    directories.sort();
    directories
}

/// The rows of a table by these columns.
fn keyed(path: &Path, key: &[&str]) -> BTreeMap<Vec<String>, BTreeMap<String, String>> {
    let rows = rows(path).into_iter();
    rows.map(|row| (key.iter().map(|column| row[*column].clone()).collect(), row))
        .collect()
}

fn is_cold(run: &BTreeMap<String, String>) -> bool {
    run["codes"].contains("cold_server")
}

#[test]
fn the_first_runs_of_vsweep_1_on_each_start_are_cold() {
    let harness = Harness::new();
    let grid = directories_of_1().into_iter().find(|path| path.ends_with("grid"));
    let new = harness.folder.path().join("grid");
    copy(&grid.expect("there"), &new);
    let told = || {
        let output = harness.run(&["report", "grid"]);
        assert!(output.status.success(), "{}", said(&output));
        let rows = rows(&new.join("summary.csv"))
            .into_iter()
            .filter(|row| row["outcome"] != "failed");
        let mut told: Vec<(String, String, bool)> = rows
            .map(|row| (row["combo"].clone(), row["run"].clone(), is_cold(&row)))
            .collect();
        told.sort();
        told.dedup();
        told
    };
    let row = |combo: &str, run: &str, cold: bool| (combo.to_owned(), run.to_owned(), cold);
    // The server that dies was started again for the second runs.
    let expected = [
        row("dies", "0", true),
        row("dies", "1", true),
        row("good", "0", true),
        row("good", "1", false),
    ];
    assert_eq!(told(), expected);
    // Without the plan, the points' identities tell.
    let plan = fs::read_to_string(new.join("plan.toml")).expect("text");
    fs::write(
        new.join("plan.toml"),
        plan.replace("[bench.params]", "[bench]\nwarmup_prompts = 5\n[bench.params]"),
    )
    .expect("written");
    assert_eq!(told(), expected);
}

#[test]
fn the_tables_of_vsweep_1_stay_the_same() {
    let harness = Harness::new();
    for old in directories_of_1() {
        let name = old
            .file_name()
            .and_then(|name| name.to_str())
            .expect("plain")
            .to_owned();
        let new = harness.folder.path().join(&name);
        copy(&old, &new);
        let directory = Directory::open(&new).expect("an experiment");
        let state = journal::load(&directory, Check::Hashes).expect("sound");
        // Of a line that was torn, a whole file is left.
        assert_eq!(
            state.damage.len(),
            usize::from(name == "torn"),
            "{name}: {:?}",
            state.damage
        );
        LiveTables::of(&directory, &ReportOptions::default())
            .write(&state)
            .expect("written");
        for (table, key) in [
            ("summary.csv", &["point", "run"][..]),
            ("points.csv", &["point"]),
            ("sla.csv", &["server", "target"]),
        ] {
            if !old.join(table).exists() {
                assert!(!new.join(table).exists(), "{name}: {table}");
                continue;
            }
            let (before, after) = (keyed(&old.join(table), key), keyed(&new.join(table), key));
            assert_eq!(
                before.keys().collect::<Vec<_>>(),
                after.keys().collect::<Vec<_>>(),
                "{name}: {table}"
            );
            let runs = keyed(&new.join("summary.csv"), &["point", "run"]);
            for (key, row) in before {
                let cold = runs
                    .iter()
                    .filter(|(run, row)| run[0] == key[0] && is_cold(row))
                    .count();
                let warm: Vec<_> = runs
                    .iter()
                    .filter(|(run, row)| run[0] == key[0] && !is_cold(row))
                    .collect();
                // It warmed nothing up, so the first run of each point on each start is marked, and a point is made of its others.
                let marked: &[&str] = match table {
                    "summary.csv" if is_cold(&after[&key]) => &["outcome", "detail", "advice"],
                    "points.csv" if cold > 0 => &["outcome", "runs_ok", "runs_suspect"],
                    _ => &[],
                };
                let is_made_of_others = table == "points.csv" && cold > 0 && !warm.is_empty();
                for (column, cell) in row {
                    // What validity says today has columns of its own, and users were counted by slots that stayed empty.
                    let was_wrong = marked.contains(&column.as_str())
                        || ["user_count_estimate", "tokens_per_user"]
                            .iter()
                            .any(|wrong| column.starts_with(wrong));
                    let cell = match warm.as_slice() {
                        [(_, only)] if is_made_of_others => {
                            let name = ["_min", "_max"].iter().find_map(|end| column.strip_suffix(end));
                            let of_run = only.get(&column).or_else(|| only.get(name?));
                            of_run.cloned().unwrap_or(cell)
                        }
                        _ if is_made_of_others => continue,
                        _ => cell,
                    };
                    let is_same = was_wrong || after[&key].get(&column).is_none_or(|now| *now == cell);
                    assert!(
                        is_same,
                        "{name}: {table}: {key:?}: {column}: {cell} became {}",
                        after[&key][&column]
                    );
                }
            }
        }
    }
}

#[test]
fn a_directory_of_vsweep_1_goes_on() {
    let harness = Harness::new();
    let old = directories_of_1();
    let old = old.iter().find(|path| path.ends_with("shards")).expect("there");
    let new = harness.folder.path().join("old");
    copy(old, &new);
    let before = journals(&new);
    let args = ["run", "old/plan.toml", "-o", "old", "--set", "runs=2", "--retry-failed"];
    let output = harness.run(&args);
    assert!(output.status.success(), "{}", said(&output));
    let after = journals(&new);
    assert!(before.iter().all(|journal| after.contains(journal)));
    assert_eq!(sound_rows(&new).len(), 8);
    let again = harness.run(&args[..4]);
    assert!(
        again.status.success() && said(&again).contains("nothing left to do"),
        "{}",
        said(&again)
    );
    let (before, after) = (
        keyed(&old.join("summary.csv"), &["point", "run"]),
        keyed(&new.join("summary.csv"), &["point", "run"]),
    );
    let is_kept = |key: &Vec<String>| before[key]["output_throughput"] == after[key]["output_throughput"];
    let mut measured = before.keys().filter(|key| before[*key]["outcome"] == "ok");
    assert!(measured.all(is_kept));
}
