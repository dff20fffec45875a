//! Several sessions in one directory, and copies of it: no result is lost, mixed up or counted twice.

use crate::deadline::ended;
use crate::harness::{Harness, journal_files, journals, recorded_outcomes, rows, run_files, said, wait_for};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// Returns point and repetition of each row. Panics if a run failed.
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
            // A temporary file may be renamed before it is copied.
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
    // The servers start so slowly that the first session has some left when the second begins.
    let text = PLAN
        .replace("[4, 16]", "[2, 4, 6, 8, 10, 12, 14, 16]")
        .replace("--sim-start 50ms", "--sim-start 1s");
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
    // The files are copied before the lines that name them.
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
    // A run that ended between the two copies has a line in the copy but no file, so it is measured again.
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
    let other = other.to_str().expect("plain");
    for args in [&["run"][..], &["run", "--dry-run"], &["plan"]] {
        let refused = harness.run(&[args, &[other, "-o", "out"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(
            said(&refused).contains("holds the results of another plan, plan"),
            "{}",
            said(&refused)
        );
    }
    assert!(harness.run(&["plan", other, "-o", "out", "--fresh"]).status.success());
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

#[test]
fn a_server_has_the_name_that_the_last_plan_gives_it() {
    let harness = Harness::new();
    let plan = |names: [&str; 2]| {
        let combos = names.iter().zip([1, 16]);
        let combos = combos.map(|(name, seqs)| format!("[[serve.combos]]\nname = \"{name}\"\nmax_num_seqs = {seqs}\n"));
        let (before, after) = PLAN.split_once("[serve.params]").expect("its axes");
        let (_, load) = after.split_once("[bench").expect("its load");
        let load = load.replace("[1, 2]", "8");
        format!("{before}{}[bench{load}", combos.collect::<String>())
    };
    let names = |directory: &Path| {
        let rows = rows(&directory.join("points.csv"));
        let name =
            |row: &std::collections::BTreeMap<String, String>| (row["max_num_seqs"].clone(), row["combo"].clone());
        rows.iter().map(name).collect::<std::collections::BTreeMap<_, _>>()
    };
    for given in [["small", "large"], ["large", "small"]] {
        harness.write("plan.toml", &plan(given));
        let output = harness.run(&["run", "plan.toml", "-o", "out", "-q"]);
        assert!(output.status.success(), "{}", said(&output));
        let found = names(&harness.folder.path().join("out"));
        assert_eq!([&found["1"], &found["16"]], given);
    }
    assert_eq!(
        finished(&harness.folder.path().join("out")),
        6,
        "nothing is measured again"
    );
}

#[test]
fn a_load_has_the_name_that_the_last_plan_gives_it() {
    let harness = Harness::new();
    let (servers, _) = PLAN.split_once("[bench.params]").expect("its load");
    for (names, runs) in [(["chat", "docs"], 1), (["docs", "chat"], 2)] {
        let combos = names.iter().zip([8, 16]);
        let combos =
            combos.map(|(name, len)| format!("[[bench.combos]]\nname = \"{name}\"\nrandom_output_len = {len}\n"));
        let load = format!(
            "[bench.params]\nrandom_input_len = 32\nnum_prompts = 32\nmax_concurrency = 2\n{}",
            combos.collect::<String>()
        );
        let servers = servers
            .replace("[4, 16]", "4")
            .replace("runs = 3", &format!("runs = {runs}"));
        harness.write("plan.toml", &(servers + &load));
        let output = harness.run(&["run", "plan.toml", "-o", "out", "-q"]);
        assert!(output.status.success(), "{}", said(&output));
        let directory = harness.folder.path().join("out");
        let rows = rows(&directory.join("summary.csv"));
        let name =
            |row: &std::collections::BTreeMap<String, String>| (row["random_output_len"].clone(), row["combo"].clone());
        let found: std::collections::BTreeSet<_> = rows.iter().map(name).collect();
        let expected = ["8", "16"].into_iter().zip(names);
        assert_eq!(
            found,
            expected.map(|(len, name)| (len.to_owned(), name.to_owned())).collect()
        );
    }
    assert_eq!(
        finished(&harness.folder.path().join("out")),
        4,
        "nothing is measured again"
    );
}
