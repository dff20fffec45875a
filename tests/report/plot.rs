//! `vsweep plot` and `vsweep plot pareto` as processes, on an experiment of vsweep and on a result tree that `vllm bench sweep serve` 0.32 wrote
//! (`tests/data/vllm-sweep`).

use crate::deadline::output;
use crate::experiment::{Experiment, times};
use crate::harness::rows;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use vsweep::journal::{self, Check, Directory};
use vsweep::plan::ReportOptions;
use vsweep::report::chart::Mark;
use vsweep::report::charts::grid::Grid;
use vsweep::report::{estimate_by_table, read_runs, write_all};
use vsweep::table::Points;

fn vsweep(args: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command.args(args[0].split(' ')).arg(directory).args(&args[1..]);
    output(&mut command)
}

fn succeed(args: &[&str], directory: &Path) -> String {
    let output = vsweep(args, directory);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    text.replace(&directory.display().to_string(), "DIR")
}

fn refuse(args: &[&str], directory: &Path) -> String {
    let output = vsweep(args, directory);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// A copy of vLLM's tree, to write pictures into.
fn vllm_tree() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("tiny");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vllm-sweep");
    for combination in fs::read_dir(source).expect("the tree is there") {
        let combination = combination.expect("readable");
        let target = root.join(combination.file_name());
        fs::create_dir_all(&target).expect("created");
        fs::copy(combination.path().join("summary.json"), target.join("summary.json")).expect("copied");
    }
    (folder, root)
}

/// Three servers and three loads. One of the servers leaves a parameter unset that the others set.
fn experiment() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("demo");
    let mut servers = times(
        &[json!({"tensor_parallel_size": 1})],
        "max_num_seqs",
        &[json!(16), json!(128)],
    );
    servers.push(json!({"tensor_parallel_size": 2}));
    let loads = times(&[json!({})], "max_concurrency", &[json!(2), json!(10), json!(64)]);
    let experiment = Experiment {
        servers,
        loads,
        runs: 2,
        ..Experiment::default()
    };
    experiment.write(&root);
    (folder, root)
}

fn size(path: &Path) -> (u32, u32) {
    let file = std::io::BufReader::new(fs::File::open(path).expect("readable"));
    png::Decoder::new(file).read_info().expect("a PNG").info().size()
}

#[test]
fn a_tree_of_vllm_is_drawn_in_facets() {
    let (_folder, root) = vllm_tree();
    let args = [
        "plot",
        "--var-x",
        "max_concurrency",
        "--row-by",
        "max_num_seqs",
        "--fig-dpi",
        "30",
    ];
    assert_eq!(
        succeed(&args, &root),
        "wrote DIR/FIGURE.png (2 rows x 1 column, 4 points)\n"
    );
    let (width, height) = size(&root.join("FIGURE.png"));
    assert!(width > 200 && height > 2 * 192, "{width} x {height}");
    let by = [
        "plot",
        "--fig-by",
        "max_num_seqs",
        "--fig-dir",
        "figs",
        "--fig-name",
        "a/b",
        "--fig-height",
        "2",
    ];
    let said = succeed(&by, &root);
    let expected = "wrote DIR/figs/a_b-max_num_seqs=8.png (1 row x 1 column, 2 points; max_num_seqs = 8)\n\
                    wrote DIR/figs/a_b-max_num_seqs=64.png (1 row x 1 column, 2 points; max_num_seqs = 64)\n";
    assert_eq!(said, expected);
}

#[test]
fn an_experiment_is_drawn_with_filters_bins_and_missing_values() {
    let (_folder, root) = experiment();
    let plot = |more: &[&str]| {
        let args: Vec<&str> = ["plot", "--dry-run", "--var-x", "max_concurrency"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        succeed(&args, &root)
    };
    let points = |count: usize| format!("would write DIR/charts/FIGURE.png (1 row x 1 column, {count} points)\n");
    assert_eq!(plot(&[]), points(9));
    assert_eq!(plot(&["--curve-by", ""]), points(3));
    // Two servers have the same size. If only the size distinguishes curves, they share one.
    assert_eq!(plot(&["--curve-by", "tensor_parallel_size"]), points(6));
    assert_eq!(plot(&["--curve-by", "tensor_parallel_size,max_num_seqs"]), points(9));
    // vLLM also accepts its options with underscores.
    assert_eq!(
        plot(&["--curve_by", "", "--filter_by", "max_concurrency<=10"]),
        points(2)
    );
    assert_eq!(
        plot(&["--only", "max-concurrency <= 10, max_num_seqs == 16"]),
        points(2)
    );
    assert_eq!(plot(&["--bin-by", "max_concurrency%50"]), points(6));
    let facets = plot(&["--fig-by", "tensor_parallel_size", "--col-by", "max_num_seqs"]);
    let expected = "would write DIR/charts/FIGURE-tensor_parallel_size=1.png (1 row x 2 columns, 6 points; tensor_parallel_size = 1)\n\
                    would write DIR/charts/FIGURE-tensor_parallel_size=2.png (1 row x 1 column, 3 points; tensor_parallel_size = 2)\n";
    assert_eq!(facets, expected);
    assert!(plot(&["--fig-by", "max_num_seqs"]).starts_with("would write DIR/charts/FIGURE-max_num_seqs=unset.png"));
    assert!(!root.join("FIGURE.png").exists());
}

#[test]
fn what_cannot_be_drawn_is_refused_with_what_there_is() {
    let (folder, root) = vllm_tree();
    let refusals = [
        (
            vec!["plot", "--var-y", "failed", "--scale-y", "log"],
            "no run has values of total_token_throughput and failed that such axes can show",
        ),
        (vec!["plot", "--fig-dpi", "-3"], "-3 is not in 30..=1200"),
        (
            vec!["plot pareto", "--price-per-gpu-hour", "-1"],
            "must be a positive number",
        ),
        (
            vec!["plot", "--var-x", "max_concurency"],
            "did you mean `max_concurrency`?",
        ),
        (vec!["plot", "--var-y", "backend"], "columns with numbers are:"),
        (
            vec!["plot", "--only", "max_concurrency=<8"],
            "--only: `=<` is not a comparison; write `<=`",
        ),
        (
            vec!["plot", "--only", "max_concurrency>100"],
            "holds for none of 8 runs",
        ),
        (vec!["plot", "--bin-by", "max_concurrency%0"], "positive number"),
        (vec!["plot", "--row-by", "zz"], "there is no column `zz`"),
        (vec!["plot", "--x", "zz"], "there is no column `zz`"),
        (
            vec!["plot pareto", "--x", "p99_ttft_ms:down"],
            "write p99_ttft_ms:higher or p99_ttft_ms:lower",
        ),
        (
            vec!["plot pareto", "--label-by", "max_num_seq"],
            "did you mean `max_num_seqs`?",
        ),
        (
            vec!["plot pareto", "--gpu-count-var", "gpus"],
            "there is no column `gpus`",
        ),
    ];
    for (args, expected) in refusals {
        let said = refuse(&args, &root);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let empty = folder.path().join("empty");
    assert!(refuse(&["plot"], &empty).contains("there is no directory"));
    fs::create_dir(&empty).expect("created");
    assert!(refuse(&["plot pareto"], &empty).contains("there are no results"));
    fs::write(empty.join("summary.json"), "[{\"a\": Nan}]").expect("written");
    assert!(refuse(&["plot pareto"], &empty).contains("is not a list of runs"));
}

#[test]
fn a_frontier_is_a_picture_json_and_csv() {
    let (_folder, root) = vllm_tree();
    let said = succeed(&["plot pareto"], &root);
    let (drawn, table) = said.split_once('\n').expect("two parts");
    assert_eq!(
        drawn,
        "wrote DIR/pareto/PARETO.png (1 row x 1 column, 4 points; 2 on the frontier)"
    );
    assert!(table.contains("settings") && table.lines().count() == 3, "{table}");
    assert_eq!(size(&root.join("pareto/PARETO.png")).0, 1600);
    let json: Value = serde_json::from_str(&succeed(&["plot pareto", "--format", "json"], &root)).expect("JSON");
    assert_eq!(json["x"], json!({"metric": "tokens_per_user", "better": "higher"}));
    let points = json["points"].as_array().expect("points");
    let front: Vec<&Value> = points
        .iter()
        .filter(|point| point["frontier"] == true)
        .map(|point| &point["params"]["max_concurrency"])
        .collect();
    assert_eq!(front, [&json!(2), &json!(8)]);
    assert_eq!(points[0]["runs"], 2);
    let keys: Vec<&String> = points[0].as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "id", "validity", "codes", "params", "x", "y", "runs", "frontier", "knee"
        ]
    );
    let csv = succeed(&["plot pareto", "--format", "csv"], &root);
    assert_eq!(csv.lines().count(), 5);
    assert!(
        csv.lines()
            .next()
            .is_some_and(|line| line.ends_with("tokens_per_gpu_max,runs,frontier,knee")),
        "{csv}"
    );
}

#[test]
fn pictures_of_a_file_are_in_its_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("result.json");
    let results = [1, 8].map(|load| json!({"completed": 8, "max_concurrency": load, "output_throughput": 9.0}));
    fs::write(&file, json!(results).to_string()).expect("written");
    succeed(&["plot pareto"], &file);
    assert!(folder.path().join("pareto/PARETO.png").is_file());
}

#[test]
fn each_workload_has_its_own_frontier() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("demo");
    let lengths = times(&[json!({})], "random_output_len", &[json!(16), json!(256)]);
    let experiment = Experiment {
        servers: vec![json!({"tensor_parallel_size": 1})],
        loads: times(&lengths, "max_concurrency", &[json!(2), json!(64)]),
        ..Experiment::default()
    };
    experiment.write(&root);
    let json: Value = serde_json::from_str(&succeed(&["plot pareto", "--format", "json"], &root)).expect("JSON");
    let best_of = |length: u32| {
        let points = json["points"].as_array().expect("points").iter();
        let own = points.filter(|point| point["params"]["random_output_len"] == length);
        own.filter(|point| point["frontier"] == true).count()
    };
    assert!(best_of(16) > 0 && best_of(256) > 0, "{json}");
    let said = succeed(&["plot pareto", "--dry-run"], &root);
    for picture in ["PARETO-random_output_len=16.png", "PARETO-random_output_len=256.png"] {
        assert!(said.contains(&format!("would write DIR/pareto/{picture}")), "{said}");
    }
}

#[test]
fn any_two_figures_make_a_frontier_and_counts_can_be_chosen() {
    let (_folder, root) = experiment();
    let json = |args: &[&str]| -> Value {
        let args: Vec<&str> = ["plot pareto", "--format", "json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        serde_json::from_str(&succeed(&args, &root)).expect("JSON")
    };
    let latency = json(&["--x", "p99_ttft_ms", "--y", "output_throughput"]);
    assert_eq!(latency["x"]["better"], "lower");
    assert_eq!(latency["points"].as_array().map(Vec::len), Some(9));
    let usual = json(&[]);
    let best = |frontier: &Value| {
        let points = frontier["points"].as_array().expect("points").iter();
        points.filter(|point| point["frontier"] == true).count()
    };
    let part = json(&["--only", "max_concurrency=10"]);
    assert_eq!(part["points"].as_array().map(Vec::len), Some(3), "{part}");
    assert!(best(&usual) > 0 && best(&part) > 0, "{part}");
    let chosen = json(&[
        "--gpu-count-var",
        "tensor_parallel_size",
        "--user-count-var",
        "max_num_seqs",
    ]);
    let per_user = |frontier: &Value| frontier["points"][0]["x"].as_f64().expect("a number");
    let ratio = per_user(&chosen) * 16.0 / (per_user(&usual) * 2.0);
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn a_tree_of_vllm_may_hold_bare_infinity_and_numbers_as_texts() {
    let (_folder, root) = vllm_tree();
    let frontier = |root: &Path| -> Value {
        serde_json::from_str(&succeed(&["plot pareto", "--format", "json"], root)).expect("JSON")
    };
    let usual = frontier(&root);
    for entry in fs::read_dir(&root).expect("the tree") {
        let file = entry.expect("readable").path().join("summary.json");
        let text = fs::read_to_string(&file).expect("readable");
        let odd = text
            .replace(
                "\"burstiness\": 1.0",
                "\"burstiness\": Infinity, \"rtfx_of_nothing\": NaN",
            )
            .replace("\"max_concurrency\": 8", "\"max_concurrency\": \"8\"")
            .replace(
                "\"run_number\"",
                "\"tp\": \"8\", \"tensor_parallel_size\": \"2\", \"run_number\"",
            );
        assert_ne!(odd, text);
        fs::write(&file, odd).expect("written");
    }
    let odd = frontier(&root);
    let counts = |frontier: &Value| -> Vec<(f64, f64)> {
        let points = frontier["points"].as_array().expect("points").iter();
        let of = |point: &Value, axis: &str| point[axis].as_f64().expect("a number");
        points.map(|point| (of(point, "x"), of(point, "y"))).collect()
    };
    let assert_halved = |frontier: &Value| {
        let (halved, whole) = (counts(frontier), counts(&usual));
        assert_eq!(halved.len(), whole.len());
        for ((x, y), (own_x, own_y)) in whole.into_iter().zip(halved) {
            let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
            assert!(
                is_near(own_x, x) && is_near(own_y, y / 2.0),
                "the same users and two GPUs"
            );
        }
    };
    assert_halved(&odd);
    let drawn = succeed(&["plot", "--dry-run"], &root);
    assert!(drawn.contains("4 points"), "{drawn}");
    let args = [
        "plot pareto",
        "--format",
        "json",
        "--gpu-count-var",
        "tensor_parallel_size",
    ];
    let chosen: Value = serde_json::from_str(&succeed(&args, &root)).expect("JSON");
    assert_halved(&chosen);
}

#[test]
fn a_price_makes_costs_that_can_be_compared() {
    let (_folder, root) = vllm_tree();
    let args = [
        "plot pareto",
        "--y",
        "cost_per_million_output_tokens",
        "--format",
        "json",
    ];
    assert!(refuse(&args, &root).contains("there is no column `cost_per_million_output_tokens`"));
    let priced = [&args[..], &["--price-per-gpu-hour", "3.6"]].concat();
    let json: Value = serde_json::from_str(&succeed(&priced, &root)).expect("JSON");
    assert_eq!(json["y"]["better"], "lower");
    // One GPU at 3.6 per hour costs 0.001 per second. The median of two runs differs a little from that of their reciprocals.
    for point in json["points"].as_array().expect("points") {
        let at = |name: &str| point[name].as_f64().expect("a number");
        let throughput = at("x") * point["params"]["max_concurrency"].as_f64().expect("users");
        assert!((at("y") * throughput / 1000.0 - 1.0).abs() < 0.05, "{point}");
    }
    assert!(refuse(&["plot pareto", "--price-per-gpu-hour", "0"], &root).contains("the price per GPU-hour"));
}

#[test]
fn several_directories_share_a_picture_and_stay_apart() {
    let (_ours, ours) = experiment();
    let (_theirs, theirs) = vllm_tree();
    let alone: usize = [&ours, &theirs]
        .into_iter()
        .map(|root| succeed(&["plot pareto", "--format", "csv"], root).lines().count() - 1)
        .sum();
    let theirs = theirs.to_str().expect("plain");
    let both = succeed(&["plot pareto", theirs, "--format", "csv"], &ours);
    assert_eq!(both.lines().count() - 1, alone, "{both}");
    assert!(both.contains(",demo,") && both.contains(",tiny,"), "{both}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let elsewhere = folder.path().to_str().expect("plain");
    let plot = [
        "plot",
        theirs,
        "--var-x",
        "max_concurrency",
        "--fig-dir",
        elsewhere,
        "--fig-by",
        "experiment",
    ];
    let said = succeed(&plot, &ours);
    assert!(
        said.contains("FIGURE-experiment=demo.png") && said.contains("FIGURE-experiment=tiny.png"),
        "{said}"
    );
    let twice = refuse(&["plot pareto", ours.join(".").to_str().expect("plain")], &ours);
    assert!(twice.contains("is given twice"), "{twice}");
}

#[test]
fn a_picture_of_shapes_holds_its_words_and_is_well_formed() {
    let (_folder, root) = experiment();
    succeed(&["plot pareto", "--format", "svg"], &root);
    let svg = fs::read_to_string(root.join("pareto/PARETO.svg")).expect("written");
    let marks = svg.matches("<circle").count();
    assert!(marks > 3 && svg.contains(">Pareto frontier</text>"), "{marks} marks");
    // Each element ends on its own line, and no text begins another element.
    let body = svg.lines().skip(1).filter(|line| *line != "</svg>");
    for line in body {
        let is_text = line.starts_with("<text ") && line.ends_with("</text>") && line.matches('<').count() == 2;
        assert!(
            is_text || (line.ends_with("/>") && line.matches('<').count() == 1),
            "{line}"
        );
    }
    assert!(refuse(&["plot", "--format", "pdf"], &root).contains("[possible values: png, svg]"));
}

#[test]
fn a_mark_of_plot_is_the_answers_estimate_with_its_interval() {
    let (_folder, root) = experiment();
    let directory = Directory::at(&root);
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    write_all(&directory, &state, &ReportOptions::default()).expect("written");
    let of_report: Vec<BTreeMap<String, String>> = rows(&directory.points_csv());
    let number = |row: &BTreeMap<String, String>, name: &str| row[name].parse::<f64>().expect("a number");
    let table = read_runs(&directory, &state).table;
    let mut points = Points::of(&table);
    points.adopt(&estimate_by_table(&state, &table, &["p99_ttft_ms"]));
    let column = |name: &str| table.known_column(name).expect("a column");
    let draw = |curve_by: Vec<&str>| {
        let grid = Grid {
            points: &points,
            x: column("max_concurrency"),
            x_is_setting: true,
            y: column("p99_ttft_ms"),
            fig_by: Vec::new(),
            row_by: Vec::new(),
            col_by: Vec::new(),
            curve_by: curve_by.into_iter().map(column).collect(),
            over: Vec::new(),
            scales: (None, None),
            has_estimates: true,
            error_bars: true,
            name: "FIGURE".to_owned(),
            footer: String::new(),
        };
        let all: Vec<usize> = (0..table.rows()).collect();
        let mut pictures = grid.draw(&all);
        let panels = pictures.remove(0).chart.panels.into_iter();
        panels
            .flat_map(|panel| panel.series)
            .flat_map(|series| series.points)
            .collect::<Vec<Mark>>()
    };
    let marks = draw(vec!["tensor_parallel_size", "max_num_seqs"]);
    assert_eq!(marks.len(), of_report.len());
    let mut differ_from_runs = 0;
    for row in &of_report {
        let (value, interval) = (
            number(row, "p99_ttft_ms"),
            (number(row, "p99_ttft_ms_low"), number(row, "p99_ttft_ms_high")),
        );
        let is_it = |mark: &&Mark| mark.y == value && mark.x == number(row, "max_concurrency");
        let mark = marks
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{row:?} in {marks:?}"));
        // An interval that spans more than a factor of ten is not drawn.
        if interval.1 <= 10.0 * interval.0 {
            assert_eq!(mark.bar, Some(interval));
        }
        differ_from_runs += usize::from(interval.0 != number(row, "p99_ttft_ms_min"));
    }
    assert!(differ_from_runs > 0, "the experiment has lost its meaning");
    // Points that share a curve and a load are drawn as their median.
    let merged = draw(Vec::new());
    assert_eq!(merged.len(), 3);
    for mark in merged {
        let mut own: Vec<f64> = of_report
            .iter()
            .filter(|row| number(row, "max_concurrency") == mark.x)
            .map(|row| number(row, "p99_ttft_ms"))
            .collect();
        own.sort_by(f64::total_cmp);
        assert_eq!((own.len(), mark.y, mark.bar), (3, own[1], Some((own[0], own[2]))));
    }
}
