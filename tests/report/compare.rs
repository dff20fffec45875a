//! Comparisons of results with planted differences: which points are matched, what is decided, and the exit code.

use crate::agreement::{assert_comparison_agreed, plain};
use crate::deadline::output;
use crate::experiment::Experiment;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use vsweep::cause::Outcome;
use vsweep::plan::{Limit, Params};
use vsweep::report::Runs;
use vsweep::report::compare::{Comparison, Question, Side, to_bmf, to_html, to_junit, to_markdown, to_text};
use vsweep::stats::{Margins, RequirementVerdict, Verdict};
use vsweep::table::{Cell, Filter, RunRow, TableBuilder};
use vsweep::validity::{Code, Validity};

/// Writes a result tree of `vllm bench sweep` with one folder for each load. Each run has a throughput and a p99 TTFT.
fn write_tree(root: &Path, flag: &str, loads: &[(u64, &[(f64, f64)])]) {
    for (load, runs) in loads {
        let run = |(i, (throughput, ttft)): (usize, &(f64, f64))| {
            json!({
                "completed": 100, "failed": 0, "max_concurrency": load, "output_throughput": throughput,
                "p99_ttft_ms": ttft, "run_number": i, "attention_backend": flag,
            })
        };
        let runs: Vec<_> = runs.iter().enumerate().map(run).collect();
        let folder = root.join(format!("load-{load:03}"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("summary.json"), json!(runs).to_string()).expect("written");
    }
}

const STEADY: [(f64, f64); 3] = [(1000.0, 100.0), (1004.0, 101.0), (997.0, 99.5)];
const SLOWER: [(f64, f64); 3] = [(900.0, 100.2), (904.0, 101.2), (897.0, 99.0)];

/// Returns both sides, with a separate start for each run, and a folder with their trees, which name no starts.
fn sides() -> (TempDir, Side, Side) {
    let folder = TempDir::new().expect("a folder");
    write_tree(
        &folder.path().join("base"),
        "fa2",
        &[(8, &STEADY), (16, &STEADY), (32, &STEADY)],
    );
    write_tree(
        &folder.path().join("new"),
        "fa3 <b>",
        &[(8, &SLOWER), (16, &STEADY), (64, &STEADY)],
    );
    let base = side("base", "fa2", &[(8, &STEADY), (16, &STEADY), (32, &STEADY)], true);
    let new = side("new", "fa3 <b>", &[(8, &SLOWER), (16, &STEADY), (64, &STEADY)], true);
    (folder, base, new)
}

/// Makes the runs of such a tree. With `has_starts` each run has a start of its own. A figure that is no number is left out.
fn side(name: &str, flag: &str, loads: &[(u64, &[(f64, f64)])], has_starts: bool) -> Side {
    let mut builder = TableBuilder::new();
    let serve = Params::from_iter([("attention_backend".to_owned(), json!(flag))]);
    for (load, runs) in loads {
        for (run, (throughput, ttft)) in runs.iter().enumerate() {
            let metrics = [("output_throughput", *throughput), ("p99_ttft_ms", *ttft)];
            let metrics = metrics.into_iter().filter(|(_, value)| !value.is_nan());
            let metrics = metrics.map(|(name, value)| (name, Cell::Float(value)));
            builder.push(RunRow {
                point: &load.to_string(),
                run: run as u32,
                validity: Some(Validity::Valid),
                serve: Some(&serve),
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(load))])),
                metrics: Some(&metrics.collect()),
                gpus: Some(1.0),
                launch: has_starts.then(|| format!("{load}-{run}")),
                ..RunRow::default()
            });
        }
    }
    let runs = Runs {
        table: builder.finish(),
        damaged: Vec::new(),
        state: None,
    };
    Side::of(name.to_owned(), runs)
}

fn question(limits: &[&str]) -> Question {
    let limits = limits.iter().map(|text| Limit::parse(text).expect("a limit"));
    Question {
        metrics: Vec::new(),
        margins: Margins::default(),
        limits: limits.collect(),
    }
}

fn verdict(comparison: &Comparison, settings: &str, metric: &str) -> Verdict {
    let pair = comparison.points.iter().find(|pair| pair.settings == settings);
    let figures = &pair.expect("a common point").figures;
    figures
        .iter()
        .find(|figure| figure.metric == metric)
        .expect("its figure")
        .verdict
}

#[test]
fn starts_decide_and_everything_else_is_told() {
    let (_folder, base, new) = sides();
    let limits = ["output_throughput:-5%", "p99_ttft_ms:+5%"];
    let found = Comparison::of(&base, &new, &question(&limits)).expect("common points");
    assert_eq!(
        verdict(&found, "concurrency 8", "output_throughput"),
        Verdict::Regressed
    );
    assert_eq!(verdict(&found, "concurrency 8", "p99_ttft_ms"), Verdict::Same);
    assert_eq!(verdict(&found, "concurrency 16", "output_throughput"), Verdict::Same);
    assert_eq!(
        (&found.only_base[..], &found.only_new[..]),
        (&["concurrency 32".to_owned()][..], &["concurrency 64".to_owned()][..])
    );
    let broken: Vec<_> = found
        .limits
        .iter()
        .map(|judged| (judged.settings.as_str(), judged.requirement))
        .collect();
    assert_eq!(
        broken,
        [
            ("concurrency 8", RequirementVerdict::Broken),
            ("concurrency 8", RequirementVerdict::Met),
            ("concurrency 16", RequirementVerdict::Met),
            ("concurrency 16", RequirementVerdict::Met),
        ]
    );
    assert_eq!(found.requirement(), Some(RequirementVerdict::Broken));
    let changed: Vec<_> = found
        .changes
        .iter()
        .map(|change| (change.base.as_str(), change.new.as_str()))
        .collect();
    assert_eq!(changed, [("fa2", "fa3 <b>")]);
    // The same comparison the other way round shows an improvement, and breaks no limit.
    let back = Comparison::of(&new, &base, &question(&limits)).expect("common points");
    assert_eq!(verdict(&back, "concurrency 8", "output_throughput"), Verdict::Improved);
    assert_eq!(back.requirement(), Some(RequirementVerdict::Met));
    let text = to_text(&found);
    assert!(
        text.contains("1 regressed, 3 same; changes within 3 % do not matter"),
        "{text}"
    );
    assert!(
        text.contains("limit output_throughput:-5% at concurrency 8: broken (-10.0 %"),
        "{text}"
    );
    let page = to_markdown(&found);
    assert!(
        page.contains("| concurrency 8 | output\\_throughput | 1,000 | 900 | -10.0 % |"),
        "{page}"
    );
    assert!(
        page.contains("- Output throughput: worse at concurrency 8 (-10.0 %)"),
        "{page}"
    );
    assert!(!page.contains("<b>") && page.lines().count() <= 30, "{page}");
}

#[test]
fn many_points_are_read_in_thirty_lines() {
    let steady: &[(f64, f64)] = &STEADY;
    let slow: &[(f64, f64)] = &[(800.0, 100.2), (804.0, 101.2), (797.0, 99.0)];
    let base: Vec<(u64, &[(f64, f64)])> = (1..=120).map(|load| (load, steady)).collect();
    let new = base
        .iter()
        .map(|(load, _)| (*load, if load % 40 == 0 { slow } else { steady }));
    let new: Vec<(u64, &[(f64, f64)])> = new.collect();
    let (base, new) = (side("base", "fa2", &base, true), side("new", "fa3", &new, true));
    let limits = ["output_throughput:-5%", "p99_ttft_ms:+5%"];
    let found = Comparison::of(&base, &new, &question(&limits)).expect("common points");
    let all = "240 figures at 120 points";
    let (text, markdown) = (to_text(&found), to_markdown(&found));
    for (form, limit) in [
        (
            &text,
            "\nlimit output_throughput:-5% at concurrency 40: broken (-20.0 %, p < 0.001)\n",
        ),
        (
            &markdown,
            "\n| output\\_throughput:-5% | concurrency 40 | -20.0 % | &lt; 0.001 | broken |\n",
        ),
    ] {
        assert!(form.lines().count() <= 30 && form.contains(all), "{form}");
        let (before, after) = form.split_once(limit).expect(form);
        assert!(before.to_lowercase().contains("limits: 3 broken"), "{form}");
        assert!(after.contains("Output throughput: worse at 3 of 120 points"), "{form}");
    }
    let json = serde_json::to_value(&found).expect("JSON");
    assert_eq!(json["requirement"], "broken");
    let found = [found];
    assert!(to_junit(&found).contains("failures=\"3\""));
    let page = to_html(&found, &[base, new]).expect("drawn");
    let (_, limits) = page.split_once("<h3>Limits</h3>").expect("limits");
    assert!(limits.contains("<p class=\"note\">3 broken, "), "{limits}");
    let first = limits.split("<td class=\"").nth(1).expect("a result");
    assert!(first.starts_with("broken"), "{first}");
}

#[test]
fn limits_and_figures_that_are_left_out_are_counted() {
    let steady: &[(f64, f64)] = &STEADY;
    let slow: &[(f64, f64)] = &[(800.0, 100.2), (804.0, 101.2), (797.0, 99.0)];
    let all = |runs: &'static [(f64, f64)]| (1..=60).map(|load| (load, runs)).collect::<Vec<_>>();
    let (base, new) = (
        side("base", "fa2", &all(steady), true),
        side("new", "fa3", &all(slow), true),
    );
    let found = Comparison::of(&base, &new, &question(&[])).expect("common points");
    for form in [to_text(&found), to_markdown(&found)] {
        let is_row = |line: &&str| line.contains("regressed") && line.contains("concurrency ");
        let rest = format!("{} more figures on the page", 60 - form.lines().filter(is_row).count());
        assert!(form.contains(&rest) && form.lines().count() <= 30, "{form}");
    }
    let found = Comparison::of(&base, &new, &question(&["output_throughput:-5%"])).expect("common points");
    let (text, markdown) = (to_text(&found), to_markdown(&found));
    for (form, row, rest) in [
        (&text, "limit output_throughput", "limit"),
        (&markdown, "| output\\_throughput:-5%", "- Limits"),
    ] {
        let rows = form.lines().filter(|line| line.starts_with(row)).count();
        let rest = format!("\n{rest}: {} more not met\n", 60 - rows);
        assert!(rows > 0 && form.contains(&rest), "{form}");
    }
}

/// Writes an experiment with these loads and reads it.
fn measured(folder: &TempDir, journal: u64, loads: &[serde_json::Value]) -> Side {
    let experiment = Experiment {
        loads: loads.to_vec(),
        journal,
        ..Experiment::default()
    };
    Side::read(&experiment.write(&folder.path().join(journal.to_string()))).expect("an experiment")
}

#[test]
fn settings_that_differ_within_a_pair_are_told() {
    let folder = TempDir::new().expect("a folder");
    let side = |journal, prompts: [u32; 2]| {
        let load = |(users, prompts)| json!({"max_concurrency": users, "num_prompts": prompts});
        let loads: Vec<_> = [8, 16].into_iter().zip(prompts).map(load).collect();
        measured(&folder, journal, &loads)
    };
    let base = side(1, [80, 160]);
    let changes = |new: &Side| {
        let found = Comparison::of(&base, new, &question(&[])).expect("common points");
        let changes = found.changes.into_iter();
        changes
            .map(|change| (change.name, change.base, change.new))
            .collect::<Vec<_>>()
    };
    assert_eq!(changes(&side(2, [80, 160])), []);
    let name = "bench.num_prompts at concurrency 8 and 1 more point".to_owned();
    assert_eq!(
        changes(&side(3, [160, 80])),
        [(name, "80".to_owned(), "160".to_owned())]
    );
}

#[test]
fn points_of_different_workloads_are_no_pairs() {
    let folder = TempDir::new().expect("a folder");
    let side = |journal, lengths: [[u32; 3]; 2]| {
        let load = |[users, input, output]: [u32; 3]| json!({"max_concurrency": users, "random_input_len": input, "random_output_len": output});
        measured(&folder, journal, &lengths.map(load))
    };
    let linked = side(1, [[8, 64, 8], [8, 256, 64]]);
    let swapped = side(2, [[8, 64, 64], [8, 256, 8]]);
    let refused = Comparison::of(&linked, &swapped, &question(&[])).expect_err("nothing in common");
    let keys = "points must agree in bench.random_input_len, bench.random_output_len";
    assert!(refused.contains(keys), "{refused}");
    let edited = side(3, [[8, 64, 8], [8, 256, 32]]);
    let found = Comparison::of(&linked, &edited, &question(&[])).expect("a common point");
    assert_eq!(found.points.len(), 1);
    assert_eq!(
        (found.only_base, found.only_new),
        (vec!["256 in, 64 out".to_owned()], vec!["256 in, 32 out".to_owned()])
    );
    let (short, long) = (side(4, [[8, 64, 8], [16, 64, 8]]), side(5, [[8, 512, 8], [16, 512, 8]]));
    let refused = Comparison::of(&short, &long, &question(&[])).expect_err("nothing in common");
    assert!(
        refused.contains("bench.max_concurrency, bench.random_input_len"),
        "{refused}"
    );
}

#[test]
fn combinations_are_paired_by_their_settings() {
    let folder = TempDir::new().expect("a folder");
    let side = |journal, names: [&str; 2]| {
        let load = |(name, [input, output]): (&str, [u32; 2])| json!({"_benchmark_name": name, "random_input_len": input, "random_output_len": output});
        let loads: Vec<_> = names.into_iter().zip([[64, 8], [512, 32]]).map(load).collect();
        measured(&folder, journal, &loads)
    };
    let base = side(1, ["chat", "rag"]);
    for (journal, names) in [(2, ["chat", "rag"]), (3, ["rag", "chat"]), (4, ["talk", "rag"])] {
        let found = Comparison::of(&base, &side(journal, names), &question(&[])).expect("common points");
        let figures: Vec<_> = found.points.iter().flat_map(|pair| &pair.figures).collect();
        assert!(
            found.points.len() == 2 && figures.iter().all(|figure| (figure.ratio - 1.0).abs() < 1e-6),
            "{names:?}: {figures:?}"
        );
        let is_renamed = found
            .changes
            .iter()
            .any(|change| change.name.starts_with("bench.combo"));
        assert_eq!(is_renamed, journal > 2, "{:?}", found.changes);
    }
}

#[test]
fn runs_that_both_sides_hold_count_once() {
    let folder = TempDir::new().expect("a folder");
    let side = |name: &str, runs| {
        let experiment = Experiment {
            runs,
            ..Experiment::default()
        };
        Side::read(&experiment.write(&folder.path().join(name))).expect("an experiment")
    };
    let (earlier, copy, later) = (side("earlier", 3), side("copy", 3), side("later", 6));
    let compared = |base: &Side, new: &Side| Comparison::of(base, new, &question(&[]));
    let refused = compared(&earlier, &copy).expect_err("the same runs");
    assert!(refused.contains("hold the same 3 runs"), "{refused}");
    let own = later
        .only(&Filter::parse_list("run>=3").expect("a condition"))
        .expect("runs");
    let figures = |found: &Comparison| format!("{:?}", found.points[0].figures);
    for (base, new, expected, kept) in [
        (&earlier, &later, (&earlier, &own), "base"),
        (&later, &earlier, (&own, &earlier), "new"),
    ] {
        let found = compared(base, new).expect("a common point");
        assert_eq!(
            figures(&found),
            figures(&compared(expected.0, expected.1).expect("a common point"))
        );
        let note = format!("the sides share 3 runs, which count in {kept} alone");
        assert!(to_text(&found).contains(&note), "{}", to_text(&found));
    }
}

#[test]
fn points_that_rest_on_runs_in_doubt_are_told() {
    let folder = TempDir::new().expect("a folder");
    let side = |name: &str, journal, doubts| {
        let experiment = Experiment {
            loads: vec![json!({"max_concurrency": 8}), json!({"max_concurrency": 16})],
            doubts,
            journal,
            ..Experiment::default()
        };
        Side::read(&experiment.write(&folder.path().join(name))).expect("an experiment")
    };
    let sound = side("sound", 1, |_, _| None);
    let doubtful = side("doubtful", 2, |_, load| (load == 1).then_some(Code::GeneratorSaturated));
    let told = |new: &Side| {
        let found = Comparison::of(&sound, new, &question(&[])).expect("common points");
        (found.doubts.clone(), to_text(&found) + &to_markdown(&found))
    };
    let (doubts, text) = told(&doubtful);
    assert_eq!(doubts, ["1 of 2 points rests on suspect runs: generator saturated"]);
    assert_eq!(text.matches("1 of 2 points rests on suspect runs").count(), 2, "{text}");
    assert!(told(&side("again", 3, |_, _| None)).0.is_empty());
}

#[test]
fn flags_driver_and_clocks_that_differ_are_told() {
    let folder = TempDir::new().expect("a folder");
    let side = |name: &str, command, manifest: serde_json::Value, clock: f64| {
        let servers = vec![json!({"max_num_seqs": 8})];
        let directory = Experiment {
            command,
            servers,
            clock_mhz: Some(clock),
            ..Experiment::default()
        }
        .write(&folder.path().join(name));
        fs::write(directory.manifest(), manifest.to_string()).expect("written");
        Side::read(&directory).expect("an experiment")
    };
    let base = side(
        "base",
        "vllm serve m --dtype bfloat16 --port 8000 --max-num-batched-tokens=4096",
        json!({"gpu_driver": "580.65", "host": "a"}),
        1980.0,
    );
    let command = "vllm serve m --port 9000 --max-num-batched-tokens 4096 --async-scheduling";
    let new = side("new", command, json!({"gpu_driver": "590.10", "host": "a"}), 1410.0);
    let told = |new: &Side| -> Vec<String> {
        let found = Comparison::of(&base, new, &question(&[])).expect("a common point");
        let changes = found.changes.iter();
        changes
            .map(|change| format!("{}: {} -> {}", change.name, change.base, change.new))
            .collect()
    };
    assert_eq!(
        told(&new),
        [
            "GPU clock, SM: 1980 MHz -> 1410 MHz",
            "GPU driver: 580.65 -> 590.10",
            "serve.async_scheduling:  -> true",
            "serve.dtype: bfloat16 -> ",
        ]
    );
    let near = side(
        "near",
        "vllm serve m --dtype bfloat16 --max-num-batched-tokens 4096",
        json!({"gpu_driver": "580.65", "host": "a"}),
        1975.0,
    );
    assert_eq!(told(&near), [""; 0], "a clock wanders by less than 1 %");
    let silent = side(
        "silent",
        "vllm serve m --dtype bfloat16 --max-num-batched-tokens 4096",
        json!({"host": "a"}),
        1982.0,
    );
    assert_eq!(told(&silent), [""; 0], "a driver that is not recorded has not changed");
    let mut tree = near.clone();
    tree.servers.clear();
    assert_eq!(told(&tree), [""; 0], "a tree does not show the flags of its servers");
}

#[test]
fn one_start_has_a_wider_interval_and_says_what_is_assumed() {
    let (_folder, many, new) = sides();
    let one = side("base", "fa2", &[(8, &STEADY), (16, &STEADY), (32, &STEADY)], false);
    let width = |base: &Side| {
        let found = Comparison::of(base, &new, &question(&["output_throughput:-5%"])).expect("common points");
        let figures = found.points.iter().flat_map(|pair| &pair.figures);
        let widths = figures
            .map(|figure| figure.interval.1 / figure.interval.0)
            .collect::<Vec<f64>>();
        (widths, to_text(&found))
    };
    let ((wide, text), (narrow, _)) = (width(&one), width(&many));
    assert!(
        wide.iter().zip(&narrow).all(|(wide, narrow)| wide > narrow),
        "{wide:?} {narrow:?}"
    );
    assert!(text.contains("note: noise between starts is assumed (about "), "{text}");
}

fn compare(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = output(
        Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .current_dir(folder)
            .args(["compare", "base"])
            .args(args),
    );
    let said = String::from_utf8(stdout).expect("text") + &String::from_utf8(stderr).expect("text");
    (status.code(), said)
}

#[test]
fn loads_are_in_the_order_of_their_numbers() {
    let loads: [(u64, &[(f64, f64)]); 3] = [(16, &STEADY), (4, &STEADY), (64, &STEADY)];
    let [base, new] = ["base", "new"].map(|name| side(name, name, &loads, true));
    let found = Comparison::of(&base, &new, &question(&[])).expect("common points");
    let listed: Vec<&str> = found.points.iter().map(|pair| pair.settings.as_str()).collect();
    assert_eq!(listed, ["concurrency 4", "concurrency 16", "concurrency 64"]);
}

#[test]
fn some_points_are_compared_and_written_to_a_file() {
    let (folder, ..) = sides();
    let args = [
        "new",
        "--only",
        "max_concurrency<=8",
        "--format",
        "markdown",
        "-o",
        "changes.md",
    ];
    let (code, said) = compare(folder.path(), &args);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let text = fs::read_to_string(folder.path().join("changes.md")).expect("written");
    let (_, all) = compare(folder.path(), &["new", "--format", "markdown"]);
    assert!(text.contains("900") && !text.contains("concurrency 16"), "{text}");
    assert!(all.contains("concurrency 16"), "{all}");
    let (code, said) = compare(folder.path(), &["new", "--only", "max_concurrency=7"]);
    assert!(code == Some(2) && said.contains("holds for no run of base"), "{said}");
}

/// Each sweep of vLLM writes a folder of its own, named after its time.
#[test]
fn runs_of_a_point_in_several_sweeps_of_a_tree_belong_together() {
    let (folder, ..) = sides();
    for (sweep, runs) in [("20260101_120000", &STEADY), ("20260102_120000", &SLOWER)] {
        write_tree(
            &folder.path().join("twice").join(sweep),
            "fa2",
            &[(8, runs), (16, runs)],
        );
    }
    let (code, said) = compare(folder.path(), &["twice", "--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let found: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let points = found["points"].as_array().expect("points");
    assert_eq!(points.len(), 2, "{said}");
    for point in points {
        let figures = point["figures"].as_array().expect("figures");
        let throughput = figures.iter().find(|figure| figure["metric"] == "output_throughput");
        // The figure comes from all six runs of the new side.
        let new = throughput.expect("a throughput")["new"].as_f64().expect("a figure");
        assert!((940.0..960.0).contains(&new), "{said}");
    }
}

#[test]
fn exit_codes_and_wrong_inputs() {
    let (folder, ..) = sides();
    write_tree(&folder.path().join("other"), "fa2", &[(5, &STEADY)]);
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    fs::create_dir(folder.path().join("results")).expect("a folder");
    Experiment::default().write(&folder.path().join("results/k"));
    let cases: [(&[&str], i32, &str); 15] = [
        (&["results"], 2, "give one that is below it, such as results/k"),
        (&["new"], 0, "noise between starts is assumed"),
        (
            &["new", "--fail-on", "p99_ttft_ms:+2%"],
            5,
            "p99_ttft_ms:+2% at concurrency 8: undecided",
        ),
        (
            &["new", "--fail-on", "output_throughput:-2%"],
            4,
            "output_throughput:-2% at concurrency 8: broken",
        ),
        (&["new", "--format", "json"], 0, "\"verdict\": \"regressed\""),
        (&["new", "--metric", "mbu"], 2, "write mbu:higher or mbu:lower"),
        (&["new", "--metric", "p99_tft_ms"], 2, "did you mean `p99_ttft_ms`?"),
        (
            &["new", "--fail-on", "p98_ttft_ms:+5%"],
            2,
            "there is no column `p98_ttft_ms`",
        ),
        (
            &["new", "--fail-on", "p99_ttft_ms:5%"],
            2,
            "write a metric and a signed change",
        ),
        (
            &["new", "--fail-on", "output_throughput:+3%"],
            2,
            "forbids an improvement, since more output_throughput is better; write output_throughput:-3%",
        ),
        (
            &["new", "--fail-on", "p99_ttft_ms:-5%"],
            2,
            "forbids an improvement, since less p99_ttft_ms is better; write p99_ttft_ms:+5%",
        ),
        (&["new", "--margin", "0"], 2, "a percentage above 0"),
        (&["empty"], 2, "there are no results in empty"),
        (&["base"], 2, "base is named twice"),
        (&["other"], 2, "no measured point in common"),
    ];
    for (args, code, said) in cases {
        let found = compare(folder.path(), args);
        assert_eq!(found.0, Some(code), "{args:?}: {}", found.1);
        assert!(found.1.contains(said), "{args:?}: {}", found.1);
    }
}

#[test]
fn a_point_where_the_new_side_loses_requests_meets_no_limit() {
    let folder = TempDir::new().expect("a folder");
    write_tree(&folder.path().join("base"), "fa2", &[(8, &STEADY)]);
    let judged = |failed: u64| {
        let new = folder.path().join("new/load-008");
        fs::create_dir_all(&new).expect("a folder");
        let run = |number: u64| {
            json!({
                "completed": 100 - failed, "failed": failed, "max_concurrency": 8, "output_throughput": 1000.0,
                "p99_ttft_ms": 50.0, "run_number": number, "attention_backend": "fa2",
            })
        };
        let runs = json!([run(0), run(1), run(2)]);
        fs::write(new.join("summary.json"), runs.to_string()).expect("written");
        compare(folder.path(), &["new", "--fail-on", "p99_ttft_ms:+5%"])
    };
    assert_eq!(judged(0).0, Some(0));
    // One lost request of a hundred may be chance.
    assert_eq!(judged(1).0, Some(0));
    for (failed, expected) in [
        (5, ", new loses requests that base answers: every limit"),
        (50, "1 point of base without a valid run in new"),
    ] {
        let (code, said) = judged(failed);
        assert!(code == Some(4) && said.contains(expected), "{said}");
    }
}

#[test]
fn a_point_that_the_new_side_fails_breaks_every_limit() {
    let (_folder, base, mut new) = sides();
    for (limits, required) in [
        (&["output_throughput:-30%"][..], Some(RequirementVerdict::Met)),
        (&[], None),
    ] {
        let found = Comparison::of(&base, &new, &question(limits)).expect("common points");
        assert_eq!(
            found.requirement(),
            required,
            "a point that the new side lacks says nothing"
        );
    }
    let serve = Params::from_iter([("attention_backend".to_owned(), json!("fa3 <b>"))]);
    // One run at concurrency 8, and one with another outcome at 16, which has this figure or none.
    let table = |other: Outcome, figure: Option<f64>| {
        let mut builder = TableBuilder::new();
        for (load, outcome, value) in [(8, Outcome::Ok, Some(1000.0)), (16, other, figure)] {
            let metrics = value.map(|value| [("output_throughput", Cell::Float(value))].into_iter().collect());
            builder.push(RunRow {
                point: &load.to_string(),
                outcome,
                validity: (outcome == Outcome::Ok).then_some(Validity::Valid),
                serve: Some(&serve),
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(load))])),
                metrics: metrics.as_ref(),
                ..RunRow::default()
            });
        }
        builder.finish()
    };
    let shown = |new: &Side| to_text(&Comparison::of(&base, new, &question(&[])).expect("common points"));
    new.table = table(Outcome::Failed, Some(0.0));
    let with_zero = shown(&new);
    new.table = table(Outcome::Failed, None);
    assert_eq!(shown(&new), with_zero, "a failed run's figures are none");
    let found = Comparison::of(&base, &new, &question(&["output_throughput:-30%"])).expect("common points");
    assert_eq!(
        (found.failed_new.len(), found.requirement()),
        (1, Some(RequirementVerdict::Broken))
    );
    assert!(
        to_text(&found).contains("1 point of base without a valid run in new: concurrency 16"),
        "{}",
        to_text(&found)
    );
    let limit = "limit (all) at concurrency 16: broken (no valid run in new)";
    assert!(to_text(&found).contains(limit), "{}", to_text(&found));
    let row = "| (all) | concurrency 16 | no valid run in new |";
    assert!(to_markdown(&found).contains(row), "{}", to_markdown(&found));
    assert!(to_junit(&[found]).contains("failures=\"1\""));

    let found = Comparison::of(&new, &base, &question(&["output_throughput:-30%"])).expect("common points");
    let required = Some(RequirementVerdict::Undecided);
    assert_eq!(found.requirement(), required, "nothing is known of the base there");
    assert!(to_junit(&[found]).contains("skipped=\"1\""));

    new.table = table(Outcome::Cut, None);
    let found = Comparison::of(&base, &new, &question(&["output_throughput:-30%"])).expect("common points");
    assert!(found.failed_new.is_empty(), "a probe that was cut has not failed");
    assert_ne!(found.requirement(), Some(RequirementVerdict::Broken));
}

#[test]
fn a_limit_without_a_ratio_is_not_met() {
    let base = side("base", "fa2", &[(8, &STEADY), (16, &STEADY)], true);
    let side_of = |at_16: (f64, f64)| side("new", "fa2", &[(8, &STEADY), (16, &[at_16; 3])], true);
    let (zero, lacking) = (side_of((0.0, 100.0)), side_of((1000.0, f64::NAN)));
    let (throughput, latency) = ("output_throughput:-5%", "p99_ttft_ms:+5%");
    for (base, new, limit, requirement, why) in [
        (&base, &zero, throughput, RequirementVerdict::Broken, "0 in new"),
        (&zero, &base, throughput, RequirementVerdict::Undecided, "0 in base"),
        (
            &base,
            &lacking,
            latency,
            RequirementVerdict::Undecided,
            "no figure in new",
        ),
        (
            &lacking,
            &base,
            latency,
            RequirementVerdict::Undecided,
            "no figure in base",
        ),
    ] {
        let found = Comparison::of(base, new, &question(&[limit])).expect("common points");
        assert_eq!(found.requirement(), Some(requirement), "{}", to_text(&found));
        for text in [
            to_text(&found),
            to_markdown(&found),
            to_junit(std::slice::from_ref(&found)),
        ] {
            assert!(text.contains(why), "{why}: {text}");
        }
    }
}

#[test]
fn an_unfinished_side_and_a_lower_target_meet_no_limit() {
    let (_folder, mut base, mut new) = sides();
    let shown = |base: &Side, new: &Side| {
        let found = Comparison::of(base, new, &question(&["output_throughput:-30%"])).expect("common points");
        assert_eq!(found.requirement(), Some(RequirementVerdict::Undecided));
        let junit = to_junit(std::slice::from_ref(&found));
        assert!(junit.contains("skipped=\"1\""), "{junit}");
        to_text(&found) + &junit
    };
    new.unfinished = Some("20 of 24 runs left".to_owned());
    let text = shown(&base, &new);
    let limit = "limit (all) at concurrency 32: undecided (not measured in new, which is not finished)";
    assert!(text.contains(limit), "{text}");
    assert_eq!(
        text.matches("new is not finished: 20 of 24 runs left").count(),
        2,
        "{text}"
    );
    new.unfinished = None;
    base.targets.insert("chat".to_owned(), 101.0);
    new.targets.insert("chat".to_owned(), 74.0);
    let text = shown(&base, &new);
    let note = "targets are not compared: chat up to 101 in base, 74 in new";
    assert_eq!(text.matches(note).count(), 2, "{text}");
}

#[test]
fn runs_that_fail_in_the_new_side_alone_meet_no_limit() {
    let side_with = |failed: u32| {
        let mut builder = TableBuilder::new();
        for run in 0..6 {
            let is_ok = run >= failed;
            let metrics = [("output_throughput", Cell::Float(1000.0))].into_iter().collect();
            builder.push(RunRow {
                point: "p",
                run,
                outcome: if is_ok { Outcome::Ok } else { Outcome::Failed },
                validity: is_ok.then_some(Validity::Valid),
                bench: Some(&Params::from_iter([("max_concurrency".to_owned(), json!(8))])),
                metrics: is_ok.then_some(&metrics),
                ..RunRow::default()
            });
        }
        let runs = Runs {
            table: builder.finish(),
            damaged: Vec::new(),
            state: None,
        };
        Side::of(format!("{failed} failed"), runs)
    };
    let sound = side_with(0);
    for (failed, requirement) in [
        (0, RequirementVerdict::Met),
        (1, RequirementVerdict::Undecided),
        (4, RequirementVerdict::Broken),
    ] {
        let new = side_with(failed);
        let found = Comparison::of(&sound, &new, &question(&["output_throughput:-30%"])).expect("common points");
        let text = to_text(&found);
        assert_eq!(found.requirement(), Some(requirement), "{text}");
        let why = format!("{failed} of 6 runs in new gave no valid result");
        assert_eq!(text.contains(&why), failed > 0, "{text}");
        let back = Comparison::of(&new, &sound, &question(&["output_throughput:-30%"])).expect("common points");
        assert_eq!(back.requirement(), Some(RequirementVerdict::Met));
    }
}

#[test]
fn ci_systems_get_cases_and_values() {
    let (_folder, base, new) = sides();
    let limits = ["output_throughput:-5%", "p99_ttft_ms:+5%"];
    let found = Comparison::of(&base, &new, &question(&limits)).expect("common points");
    let junit = to_junit(std::slice::from_ref(&found));
    for part in [
        "<testcase name=\"output_throughput:-5% at concurrency 8\" classname=\"limit\">",
        "<failure message=\"-10.0 % (-1",
        "tests=\"4\" skipped=\"0\" errors=\"0\" failures=\"1\"",
    ] {
        assert!(junit.contains(part), "{part} is not in:\n{junit}");
    }
    let unlimited = to_junit(&[Comparison::of(&base, &new, &question(&[])).expect("common points")]);
    assert!(
        unlimited.contains("verdict: regressed") && unlimited.contains("failures=\"0\""),
        "{unlimited}"
    );
    let hostile = "a\"<b>&'\u{1b}[31m\n]]>";
    let (base, new) = (
        side(hostile, hostile, &[(8, &STEADY)], true),
        side("new", "x", &[(8, &STEADY)], true),
    );
    let junit = to_junit(&[Comparison::of(&base, &new, &question(&limits)).expect("common points")]);
    let read = roxmltree::Document::parse(&junit).expect("XML");
    let suite = read
        .descendants()
        .find(|node| node.has_tag_name("testsuite"))
        .expect("a suite");
    assert_eq!(suite.attribute("name"), Some("new against a\"<b>&'\\u{1b}[31m\\n]]>"));
    let passed = read.descendants().filter(|node| node.has_tag_name("testcase"));
    assert!(
        passed.clone().count() == 2
            && passed
                .clone()
                .all(|case| case.children().all(|each| !each.has_tag_name("failure")))
    );
    let bmf: serde_json::Value = serde_json::from_str(&to_bmf(&found)).expect("JSON");
    let measure = &bmf["concurrency 8"]["output_throughput"];
    let number = |name: &str| measure[name].as_f64().expect(name);
    assert!(number("lower_value") < number("value") && number("value") < number("upper_value"));
    assert!((number("value") / 900.3 - 1.0).abs() < 0.001, "{measure}");
}

#[test]
fn a_page_shows_changes_and_frontiers_and_takes_nothing_for_markup() {
    let (_folder, base, new) = sides();
    let found = Comparison::of(&base, &new, &question(&["output_throughput:-5%"])).expect("common points");
    let sides = [base, new];
    let page = to_html(&[found], &sides).expect("drawn");
    for part in [
        "<td class=\"broken\">broken</td>",
        "<td data-head=\"verdict\" class=\"regressed\">regressed</td>",
        "fa3 &lt;b&gt;",
        "1 point in base only",
        "Output throughput: worse at concurrency 8 (-10.0 %)",
        "The same at every point: p99 TTFT",
        ">Changes at each point</text>",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(!page.contains("fa3 <b>"));
    // The legend names both sides, and the line below each chart begins with the base.
    let drawn = [">base: ", ">new: "].map(|side| page.matches(side).count());
    assert_eq!(drawn, [3, 1]);
}

#[test]
fn several_results_are_compared_with_one_base() {
    let folder = TempDir::new().expect("a folder");
    write_tree(&folder.path().join("base"), "fa2", &[(8, &STEADY), (16, &STEADY)]);
    write_tree(&folder.path().join("slower"), "fa3", &[(8, &SLOWER)]);
    write_tree(&folder.path().join("alike"), "fa3", &[(8, &STEADY)]);
    let all = ["slower", "alike"];
    let with = |options: &[&'static str]| compare(folder.path(), &[&all[..], options].concat());
    let (code, text) = with(&[]);
    assert_eq!((code, text.matches("\nbase: base\n").count()), (Some(0), 2), "{text}");
    let (_, page) = with(&["--format", "html"]);
    for part in [
        "<h1>slower, alike against base</h1>",
        "<h2>Every point, alike</h2>",
        "new: alike",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let (_, junit) = with(&["--format", "junit"]);
    assert_eq!(junit.matches("<testsuite ").count(), 2, "{junit}");
    let (_, json) = with(&["--format", "json"]);
    let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(read.as_array().map(Vec::len), Some(2));
    let (code, said) = with(&["--format", "bmf"]);
    assert!(code == Some(2) && said.contains("name one NEW"), "{said}");
}

/// Writes experiments of one machine. Each is slower than usual by a factor.
fn experiments(folder: &Path, host: &str, slowness: &[f64]) {
    noisy_experiments(folder, host, slowness, Experiment::default().noise);
}

fn noisy_experiments(folder: &Path, host: &str, slowness: &[f64], noise: f64) {
    for (at, slowness) in slowness.iter().enumerate() {
        let root = folder.join(format!("day{at}"));
        let experiment = Experiment {
            loads: vec![json!({"max_concurrency": 8}), json!({"max_concurrency": 64})],
            slowness: *slowness,
            noise,
            journal: at as u64 + 1,
            ..Experiment::default()
        };
        experiment.write(&root);
        fs::write(root.join("manifest.json"), json!({"host": host}).to_string()).expect("written");
    }
}

fn vsweep(folder: &Path, args: &[&str]) -> String {
    let output: Output = output(
        Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .args(args)
            .current_dir(folder),
    );
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn what_a_machine_showed_before_is_the_margin() {
    let folder = TempDir::new().expect("a folder");
    let days = [1.0, 1.004, 0.997, 1.003, 0.999, 1.001, 0.998];
    experiments(folder.path(), "node7", &days);
    let compared = vsweep(folder.path(), &["compare", "day0", "day1"]);
    assert!(
        compared.contains("below this machine's noise count as equal ("),
        "{compared}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&vsweep(folder.path(), &["compare", "day0", "day1", "--format", "json"])).expect("JSON");
    let own = json["own_margins"]["output_throughput"].as_f64().expect("a margin");
    // Each of the two starts has three runs that scatter by 4 %.
    assert!((0.5..=5.0).contains(&own), "{json}");
    let stated = vsweep(folder.path(), &["compare", "day0", "day1", "--margin", "2"]);
    assert!(stated.contains("changes within 2 % do not matter"), "{stated}");

    // Another machine says nothing about the noise of this one.
    fs::write(folder.path().join("day1/manifest.json"), r#"{"host": "node8"}"#).expect("written");
    let other = vsweep(folder.path(), &["compare", "day0", "day1"]);
    assert!(other.contains("changes within 3 % do not matter"), "{other}");
}

#[test]
fn the_difference_between_the_sides_is_not_noise_of_the_machine() {
    let folder = TempDir::new().expect("a folder");
    experiments(folder.path(), "node7", &[1.0, 1.03, 1.0, 1.0, 1.0]);
    // Without the two sides, three experiments are left, of five that are needed.
    let compared = vsweep(folder.path(), &["compare", "day0", "day1"]);
    assert!(compared.contains("changes within 3 % do not matter"), "{compared}");
}

#[test]
fn runs_that_disagree_are_noise_of_the_machine() {
    let folder = TempDir::new().expect("a folder");
    let days = [1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.998];
    noisy_experiments(folder.path(), "node7", &days, 0.5);
    let told = vsweep(folder.path(), &["report", "day0"]);
    assert!(told.contains("disagree"), "{told}");
    let compared = vsweep(folder.path(), &["compare", "day0", "day1"]);
    assert!(
        compared.contains("below this machine's noise count as equal (5 % for"),
        "{compared}"
    );
}

#[test]
fn every_format_of_a_comparison_has_the_same_figures() {
    let folder = TempDir::new().expect("a folder");
    experiments(folder.path(), "node7", &[1.0, 1.08]);
    let with = |format: &str| vsweep(folder.path(), &["compare", "day0", "day1", "--format", format]);
    let json: serde_json::Value = serde_json::from_str(&with("json")).expect("JSON");
    let page = plain(&with("html"));
    assert_comparison_agreed(&json, (&with("text"), &page, &with("markdown")));
    // Each side's figures are those of its own report.
    for (day, side) in [("day0", "base"), ("day1", "new")] {
        vsweep(folder.path(), &["report", day]);
        let points = crate::harness::rows(&folder.path().join(day).join("points.csv"));
        let mut own: Vec<f64> = points
            .iter()
            .map(|row| row["output_throughput"].parse().expect("a number"))
            .collect();
        let figures = json["points"].as_array().expect("points").iter();
        let figures = figures.flat_map(|point| point["figures"].as_array().expect("figures"));
        let throughput = figures.filter(|figure| figure["metric"] == "output_throughput");
        let mut compared: Vec<f64> = throughput
            .map(|figure| figure[side].as_f64().expect("a number"))
            .collect();
        own.sort_by(f64::total_cmp);
        compared.sort_by(f64::total_cmp);
        // Sums of the same figures in another order may differ in the last digit.
        let is_same = |(one, other): (&f64, &f64)| (one / other - 1.0).abs() < 1e-12;
        assert!(
            own.len() == compared.len() && own.iter().zip(&compared).all(is_same),
            "{day}: {own:?} {compared:?}"
        );
    }
}
