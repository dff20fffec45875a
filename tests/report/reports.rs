//! Tables and charts made from written experiments.

use crate::agreement::assert_agreed;
use crate::experiment::{Experiment, times};
use crate::harness::rows;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use vsweep::cause::Cause;
use vsweep::journal::{self, Check, Directory, Lock, Shard};
use vsweep::plan::{Assertion, Plot, ReportOptions, Requirement, Runs, ServerCondition, Servers};
use vsweep::report::chart::{Chart, MOST_CURVES, Panel, Style};
use vsweep::report::charts::{ChartContext, make_charts};
use vsweep::report::output::verify::verify;
use vsweep::report::texts::status::Status;
use vsweep::report::{LiveTables, ReportOutput, judge, read_runs, write_all};
use vsweep::search::Criterion;
use vsweep::stats::{Repeats, RequirementVerdict as Verdict};
use vsweep::table::Points;
use vsweep::validity::Code;

/// Two servers and two loads, with two runs each. The larger load is too much for the smaller server.
fn small() -> Experiment {
    Experiment {
        servers: times(&[json!({"seed": 0})], "tensor_parallel_size", &[json!(1), json!(2)]),
        loads: times(&[json!({"seed": 7})], "max_concurrency", &[json!(4), json!(64)]),
        runs: 2,
        fails: |server, load| (server == 0 && load == 1).then_some(Cause::OomUnderLoad),
        simulated: true,
        ..Experiment::default()
    }
}

fn write(experiment: &Experiment) -> (TempDir, Directory) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = experiment.write(&folder.path().join("demo"));
    (folder, directory)
}

fn status_of(directory: &Directory) -> Status {
    let state = journal::load(directory, Check::Lengths).expect("readable");
    Status::now(directory, &state).expect("readable")
}

fn report(directory: &Directory, options: &ReportOptions) -> ReportOutput {
    let state = journal::load(directory, Check::Hashes).expect("a sound journal");
    let written = write_all(directory, &state, options).expect("written");
    assert_agreed(directory.root(), &written.summary);
    written
}

fn charts_in(directory: &Directory) -> Vec<String> {
    let entries = fs::read_dir(directory.charts()).expect("readable");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Makes the charts of a report.
fn charts_of(directory: &Directory, options: &ReportOptions) -> Vec<Chart> {
    let state = journal::load(directory, Check::Hashes).expect("a sound journal");
    let runs = read_runs(directory, &state);
    let subject = ChartContext {
        experiment: "demo",
        points: &Points::of(&runs.table),
    };
    make_charts(&subject, options, &[]).charts
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("readable")
}

/// Returns the number of different colours of a picture, and its size.
fn decode(path: &Path) -> (usize, u32, u32) {
    let file = std::io::BufReader::new(fs::File::open(path).expect("readable"));
    let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("pixels");
    let colours: std::collections::HashSet<&[u8]> = pixels.chunks(3).collect();
    (colours.len(), info.width, info.height)
}

#[test]
fn tables_are_what_they_were() {
    let (_folder, directory) = write(&small());
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    LiveTables::of(&directory, &ReportOptions::default())
        .write(&state)
        .expect("written");
    insta::assert_snapshot!("summary_csv", text(&directory.summary_csv()));
    insta::assert_snapshot!("points_csv", text(&directory.points_csv()));
}

#[test]
fn chart_data_is_what_it_was() {
    let (_folder, directory) = write(&small());
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let runs = read_runs(&directory, &state);
    let points = Points::of(&runs.table);
    let subject = ChartContext {
        experiment: "demo",
        points: &points,
    };
    let charts = make_charts(&subject, &ReportOptions::default(), &[]);
    assert_eq!(charts.missing, Vec::<String>::new());
    let wanted = ["pareto", "throughput"];
    let charts: Vec<_> = charts
        .charts
        .into_iter()
        .filter(|chart| wanted.contains(&chart.name.as_str()))
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&charts).expect("JSON"));
}

#[test]
fn every_picture_decodes_shows_something_and_is_drawn_alike_again() {
    let (_folder, directory) = write(&small());
    let written = report(&directory, &ReportOptions::default());
    let pictures: Vec<_> = written
        .files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "png"))
        .collect();
    assert_eq!(pictures.len(), 7, "{written:?}");
    let before: Vec<Vec<u8>> = pictures.iter().map(|file| fs::read(file).expect("readable")).collect();
    for picture in &pictures {
        let (colours, width, height) = decode(picture);
        assert!(
            colours > 50 && width == 1600 && height >= 1000,
            "{picture:?}: {colours} colours, {width}x{height}"
        );
    }
    report(&directory, &ReportOptions::default());
    let after: Vec<Vec<u8>> = pictures.iter().map(|file| fs::read(file).expect("readable")).collect();
    assert!(before == after);
}

#[test]
fn a_changed_run_file_is_not_believed() {
    let (_folder, directory) = write(&small());
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let run = state.runs().next().expect("a run");
    let path = directory.root().join(&*run.file.as_ref().expect("a file").path);
    let whole = LiveTables::of(&directory, &ReportOptions::default())
        .write(&state)
        .expect("written");
    assert_eq!(whole.problems, Vec::<String>::new());
    let changed = text(&path).replacen("\"completed\":16", "\"completed\":17", 1);
    fs::write(&path, changed).expect("written");
    let written = LiveTables::of(&directory, &ReportOptions::default())
        .write(&state)
        .expect("written");
    assert_eq!(written.problems.len(), 1, "{written:?}");
    let row = text(&directory.summary_csv());
    let row = row.lines().nth(1).expect("a row");
    assert!(row.contains(",failed,,,result_damaged,"), "{row}");
    fs::remove_file(&path).expect("removed");
    let written = LiveTables::of(&directory, &ReportOptions::default())
        .write(&state)
        .expect("written");
    assert!(written.problems[0].contains("cannot be read"), "{written:?}");
}

#[test]
fn charts_that_no_longer_apply_are_removed() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| Some(Cause::OomAtLoad),
        ..small()
    });
    fs::write(directory.charts().join("pareto.png"), "old").expect("written");
    fs::write(directory.written(), "charts/pareto.png\n").expect("written");
    fs::write(directory.charts().join("mine.txt"), "mine").expect("written");
    let written = report(&directory, &ReportOptions::default());
    assert_eq!(charts_in(&directory), ["mine.txt"]);
    assert_eq!(
        written.notes,
        ["no run was measured to its end, or all are invalid, so there is nothing to draw"]
    );
    assert_eq!(text(&directory.summary_csv()).lines().count(), 9);
}

#[test]
fn plots_of_the_plan_are_drawn_and_one_that_cannot_be_does_not_stop_the_others() {
    let (_folder, directory) = write(&small());
    let plot = |y: &str| Plot {
        x: "bench.max-concurrency".into(),
        y: y.into(),
        curve_by: vec!["tensor_parallel_size".into()],
    };
    let options = ReportOptions {
        pareto_label_by: Vec::new(),
        plots: vec![plot("nonsense"), plot("p99_itl_ms"), plot("label")],
        ..ReportOptions::default()
    };
    let written = report(&directory, &options);
    assert!(charts_in(&directory).contains(&"plot_2.png".to_owned()), "{written:?}");
    let expected = [
        "plot 1 of the plan (nonsense against bench.max-concurrency) left out: there is no column `nonsense`; \
         the first line of summary.csv has the names",
        "plot 3 of the plan (label against bench.max-concurrency) left out: no run has a number for label",
    ];
    assert_eq!(written.notes, expected);
}

/// Two servers, and two loads of each of two workloads. The shorter output is answered faster on every server.
fn workloads() -> Experiment {
    let lengths = times(&[json!({"seed": 7})], "random_output_len", &[json!(256), json!(16)]);
    Experiment {
        loads: times(&lengths, "max_concurrency", &[json!(4), json!(64)]),
        fails: |_, _| None,
        ..small()
    }
}

#[test]
fn points_compete_within_their_workload() {
    let (_folder, directory) = write(&workloads());
    let written = report(&directory, &ReportOptions::default());
    let charts = charts_in(&directory);
    let frontiers: Vec<&String> = charts.iter().filter(|name| name.starts_with("pareto")).collect();
    assert_eq!(frontiers, ["pareto_1.png", "pareto_2.png"]);
    let (short, long) = written
        .summary
        .split_once("workload: 256 out\n")
        .expect("both workloads");
    assert!(short.starts_with("workload: 16 out\n"), "{}", written.summary);
    // Rows on a terminal of 80 columns, where the rows that continue a line are indented.
    let rows = written.ending.lines().map(|line| 1 + line.len().saturating_sub(5) / 76);
    assert!(rows.sum::<usize>() <= 10, "{}", written.ending);
    for table in [short, long] {
        let is_best = |line: &str| line.starts_with('>') && line.ends_with("  concurrency 64, TP 2");
        assert!(table.lines().any(is_best), "{}", written.summary);
    }
    for workload in ["16-out", "256-out"] {
        let best = text(&directory.best().join(format!("lowest-latency--{workload}.yaml")));
        assert!(
            best.starts_with(&format!(
                "# Lowest latency, {}: For the lowest latency",
                workload.replace('-', " ")
            )),
            "{best}"
        );
    }
    let page = text(&directory.report_html());
    let (_, policy) = page
        .split_once("Content-Security-Policy\" content=\"")
        .expect("a policy");
    let (policy, _) = policy.split_once("\">").expect("its end");
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "style-src 'sha256-",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    // Each workload has a recommendation, and a heading above its cards.
    assert_eq!(page.matches("<div class=\"pick\"").count(), 2);
    assert_eq!(page.matches("<h3 class=\"workload\">").count(), 2);
    assert_eq!(text(&directory.report_markdown()).matches(" out\n").count(), 2);
}

/// Options with an `[[assert]]` of this name.
fn asserted(name: &str, limit_ms: f64) -> ReportOptions {
    let criterion = Criterion::metric("p99_ttft_ms", &format!("<={limit_ms}")).expect("a criterion");
    let assertion = Assertion {
        name: Some(name.into()),
        criteria: vec![criterion],
        ..Assertion::default()
    };
    ReportOptions {
        requirements: vec![Requirement {
            what: ServerCondition::Points(assertion),
            servers: Servers::Any,
        }],
        ..ReportOptions::default()
    }
}

#[test]
fn only_points_that_meet_what_is_asked_are_recommended() {
    let (_folder, directory) = write(&Experiment {
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(16), json!(64)]),
        fails: |_, _| None,
        ..small()
    });
    let before = report(&directory, &ReportOptions::default());
    assert!(before.summary.contains("concurrency 64") && !before.summary.contains("meets"));
    let points = || rows(&directory.points_csv());
    let ttft = |point: &BTreeMap<String, String>| point["p99_ttft_ms"].parse::<f64>().expect("a number");
    let of_load = |load: &str| {
        points()
            .into_iter()
            .filter(|point| point["max_concurrency"] == load)
            .map(|point| ttft(&point))
            .collect::<Vec<f64>>()
    };
    let limit = of_load("16").into_iter().fold(0.0, f64::max);
    assert!(
        of_load("64").into_iter().all(|ttft| ttft > limit),
        "the experiment has lost its meaning"
    );

    let written = report(&directory, &asserted("chat", limit));
    let summary = &written.summary;
    assert!(summary.contains("  chat  concurrency 16, TP 2"), "{summary}");
    assert!(!summary.contains("concurrency 64"), "{summary}");
    assert!(summary.contains("2 points left out: chat not met"), "{summary}");
    for point in points() {
        assert_eq!(point["meets_chat"], (ttft(&point) <= limit).to_string());
    }
    let best = text(&directory.best().join("highest-throughput.yaml"));
    assert!(best.contains("# Meets: chat\n") && best.contains("<- this"), "{best}");
    let winner = best.lines().find(|line| line.contains("<- this")).expect("a winner");
    assert!(!winner.starts_with("#               64"), "{best}");
    let markdown = text(&directory.report_markdown());
    assert!(markdown.contains("| Settings | Meets |"), "{markdown}");
    let is_verdict = |line: &&str| line.starts_with("- **requirement");
    assert!(
        markdown
            .lines()
            .any(|line| is_verdict(&line) && line.contains(" at concurrency 64")),
        "{markdown}"
    );
    let mut others = markdown.lines().filter(|line| !is_verdict(line));
    assert!(others.all(|line| !line.contains("concurrency 64")), "{markdown}");
    assert!(text(&directory.report_html()).contains("<p class=\"what\">Meets chat</p>"));

    let none = report(&directory, &asserted("chat", 0.001));
    assert!(
        none.summary
            .contains("no server meets p99 TTFT <= 0.001 ms. The nearest is "),
        "{}",
        none.summary
    );
    assert!(!directory.best().join("highest-throughput.yaml").exists());
    let page = text(&directory.report_html());
    assert!(page.contains("no server meets p99 TTFT") && !page.contains("Highest throughput</h3>"));
}

#[test]
fn points_of_which_nothing_is_known_are_not_counted_as_missing_what_is_asked() {
    let (_folder, directory) = write(&Experiment {
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(16), json!(64)]),
        fails: |_, _| None,
        figures: |_, load| match load["max_concurrency"] == 16 {
            true => json!({"p99_ttft_ms": null}),
            false => json!({}),
        },
        ..small()
    });
    let ttft = |row: &BTreeMap<String, String>| row["p99_ttft_ms"].parse::<f64>().ok();
    report(&directory, &ReportOptions::default());
    let known = rows(&directory.points_csv());
    let known = known
        .iter()
        .filter(|row| row["max_concurrency"] == "4")
        .filter_map(ttft);
    let limit = known.fold(0.0, f64::max);
    let summary = report(&directory, &asserted("chat", limit)).summary;
    assert!(
        summary.contains("2 points left out: chat not met; see points.csv"),
        "{summary}"
    );
    assert!(
        summary.contains("2 points left out: not known whether chat is met; see points.csv"),
        "{summary}"
    );
    let markdown = text(&directory.report_markdown());
    assert!(
        markdown.contains("2 points left out: not known whether chat is met"),
        "{markdown}"
    );
}

#[test]
fn a_requirement_is_judged_alike_whether_or_not_a_report_is_written() {
    let (_folder, directory) = write(&Experiment {
        servers: vec![json!({"seed": 0})],
        loads: vec![json!({"max_concurrency": 4})],
        runs: 3,
        fails: |_, _| None,
        ..small()
    });
    report(&directory, &ReportOptions::default());
    let number = |row: &BTreeMap<String, String>| row["p99_ttft_ms"].parse::<f64>().expect("a number");
    let mut runs: Vec<f64> = rows(&directory.summary_csv()).iter().map(number).collect();
    runs.sort_by(f64::total_cmp);
    let (median, estimate) = (runs[1], number(&rows(&directory.points_csv())[0]));
    assert_ne!(median, estimate, "the experiment has lost its meaning");
    let options = asserted("chat", (median + estimate) / 2.0);
    let written = report(&directory, &options).requirements;
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    assert_eq!(judge(&directory, &state, &options), written);
}

#[test]
fn a_plot_never_joins_points_of_different_settings() {
    let (_folder, directory) = write(&workloads());
    let plot = |x: &str| Plot {
        x: x.into(),
        y: "median_ttft_ms".into(),
        curve_by: vec!["tensor_parallel_size".into()],
    };
    let options = ReportOptions {
        plots: vec![plot("max_concurrency"), plot("output_throughput")],
        ..ReportOptions::default()
    };
    let charts = charts_of(&directory, &options);
    for name in ["plot_1_1", "plot_1_2", "plot_2_1", "plot_2_2"] {
        let chart = charts.iter().find(|chart| chart.name == name).expect("the plot");
        assert!(
            chart
                .title
                .ends_with(if name.ends_with('1') { ", 16 out" } else { ", 256 out" }),
            "{}",
            chart.title
        );
        let series = &chart.panels[0].series;
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["TP 1", "TP 2"]);
        assert!(series.iter().all(|series| series.points.len() == 2), "{series:?}");
    }
}

/// Servers that differ in three settings, so many that their curves do not fit in one panel.
fn crowded() -> Experiment {
    let sizes = [json!(1), json!(2), json!(4)];
    let servers = times(&[json!({})], "tensor_parallel_size", &sizes);
    let servers = times(&servers, "max_num_seqs", &[32, 64, 128, 256].map(|seqs| json!(seqs)));
    Experiment {
        servers: times(&servers, "kv_cache_dtype", &[json!("auto"), json!("fp8")]),
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(64), json!(512)]),
        ..Experiment::default()
    }
}

#[test]
fn what_a_plot_is_not_asked_for_is_a_median_in_a_band() {
    let (_folder, directory) = write(&crowded());
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let runs = read_runs(&directory, &state);
    let points = Points::of(&runs.table);
    let options = ReportOptions {
        plots: vec![Plot {
            x: "max_concurrency".into(),
            y: "p99_ttft_ms".into(),
            curve_by: vec!["tensor_parallel_size".into()],
        }],
        ..ReportOptions::default()
    };
    let charts = charts_of(&directory, &options);
    let chart = charts.iter().find(|chart| chart.name == "plot_1").expect("the plot");
    assert!(chart.note.contains("medians over seqs and KV cache"), "{}", chart.note);
    let series = &chart.panels[0].series;
    let told: Vec<(&str, Style)> = series
        .iter()
        .map(|series| (series.name.as_str(), series.style))
        .collect();
    let bands = (0..3).map(|number| ("", Style::Band(number)));
    let curves = ["TP 1", "TP 2", "TP 4"].into_iter().zip((0..3).map(Style::Curve));
    assert_eq!(told, bands.chain(curves).collect::<Vec<_>>());
    // The points of the curve of TP 2 are checked against medians made here.
    for mark in &series[4].points {
        let own = points.points.iter().filter(|point| {
            points.param(point, "tensor_parallel_size").number() == Some(2.0)
                && points.param(point, "max_concurrency").number() == Some(mark.x)
        });
        let figures = own.map(|point| points.spread(point, "p99_ttft_ms").expect("measured").value);
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        assert_eq!(figures.len(), 8);
        assert_eq!(mark.y, f64::midpoint(figures[3], figures[4]));
        let band = series[1]
            .points
            .iter()
            .find(|other| other.x == mark.x)
            .expect("a place of the band");
        assert_eq!(band.bar.unwrap_or((mark.y, mark.y)), (figures[0], figures[7]));
    }

    // Of many curves, those that agree are merged. Here the KV cache makes no difference.
    let throughput = |charts: &[Chart]| {
        let mut charts = charts.iter();
        charts
            .find(|chart| chart.name == "throughput")
            .cloned()
            .expect("the chart")
    };
    let chart = throughput(&charts);
    assert!(chart.note.contains("medians over KV cache"), "{}", chart.note);
    let names = chart
        .panels
        .iter()
        .flat_map(|panel| &panel.series)
        .map(|series| &series.name);
    let mut titles = chart.panels.iter().map(|panel| &panel.title).chain(names);
    assert!(titles.all(|name| !name.contains("KV cache")));
    // Twelve curves are left, too many to be readable in one panel.
    let curves = |panel: &Panel| {
        panel
            .series
            .iter()
            .filter(|series| matches!(series.style, Style::Curve(_)))
            .count()
    };
    assert!(
        chart.panels.iter().all(|panel| (1..=6).contains(&curves(panel))),
        "{chart:?}"
    );
}

#[test]
fn servers_that_are_alike_have_one_curve_and_few_have_a_colour() {
    let (_folder, directory) = write(&crowded());
    let charts = charts_of(&directory, &ReportOptions::default());
    let chart = charts.iter().find(|chart| chart.name == "families").expect("drawn");
    let series = chart.panels[0].series.iter();
    let curves = series
        .filter(|series| matches!(series.style, Style::Curve(_)))
        .collect::<Vec<_>>();
    assert!(!curves.is_empty(), "{chart:?}");
    for curve in curves {
        assert!(matches!(curve.style, Style::Curve(..=5)), "{curve:?}");
        let is_alike = curve.name.contains("(alike: ") || curve.name.ends_with(", other settings");
        assert!(is_alike, "{curve:?}");
    }
    assert!(chart.note.contains("Alike: "), "{}", chart.note);
    let marks = |is_ring: bool| {
        let series = chart.panels[0].series.iter();
        let series = series.filter(move |series| (series.style == Style::Ring) == is_ring);
        series.flat_map(|series| &series.points)
    };
    for ring in marks(true) {
        let is_drawn = marks(false).any(|mark| (mark.x, mark.y) == (ring.x, ring.y));
        assert!(is_drawn, "a ring around nothing: {ring:?}");
    }
}

#[test]
fn curves_that_differ_have_panels_and_lose_no_point() {
    let (_folder, directory) = write(&Experiment {
        figures: |server, load| {
            let number = |own: &Value, name: &str| own[name].as_f64().expect("a number");
            let cache = if server["kv_cache_dtype"] == "fp8" { 2.0 } else { 1.0 };
            let slots = number(server, "max_num_seqs").sqrt() * number(load, "max_concurrency").sqrt();
            let speed = cache * slots * number(server, "tensor_parallel_size");
            json!({"output_throughput": 100.0 * speed, "request_throughput": speed})
        },
        ..crowded()
    });
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let runs = read_runs(&directory, &state);
    let points = Points::of(&runs.table);
    let charts = charts_of(&directory, &ReportOptions::default());
    let chart = charts
        .iter()
        .find(|chart| chart.name == "throughput")
        .expect("the chart");
    let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(
        titles.len(),
        2 * titles.iter().collect::<BTreeSet<_>>().len(),
        "{titles:?}"
    );
    let of_throughput = chart.panels.iter().step_by(2).flat_map(|panel| &panel.series);
    assert_eq!(
        of_throughput.map(|series| series.points.len()).sum::<usize>(),
        points.points.len()
    );
    for panel in &chart.panels {
        assert!(panel.series.len() <= MOST_CURVES && panel.y.covers.is_some());
    }
}

#[test]
fn the_setting_that_matters_is_told() {
    let (_folder, directory) = write(&crowded());
    report(&directory, &ReportOptions::default());
    assert!(charts_in(&directory).contains(&"effects.png".to_owned()));
    let told = text(&directory.report_markdown());
    assert!(
        told.contains("Effect of each setting at the recommended point, Output throughput:"),
        "{told}"
    );
    let effect = |line: &str| line.starts_with("- TP ") && line.ends_with("better");
    assert!(told.lines().any(effect), "{told}");
}

#[test]
fn combinations_are_called_by_their_names() {
    let (_folder, directory) = write(&Experiment {
        servers: vec![
            json!({"_benchmark_name": "plain"}),
            json!({"_benchmark_name": "eager", "enforce_eager": true}),
            json!({"_benchmark_name": "small", "max_num_seqs": 8}),
        ],
        fails: |_, _| None,
        ..small()
    });
    let written = report(&directory, &ReportOptions::default());
    assert!(
        written.summary.contains("concurrency 64, eager\n"),
        "{}",
        written.summary
    );
    assert!(!written.summary.contains("eager unset"), "{}", written.summary);
    let best = text(&directory.best().join("lowest-latency.yaml"));
    assert!(!best.contains("unset") && best.contains("# experiment"), "{best}");
    for table in [directory.summary_csv(), directory.points_csv()] {
        let table = text(&table);
        let named = ["plain", "eager", "small"].map(|name| table.matches(&format!(",{name},")).count());
        assert!(named.iter().all(|count| *count >= 2), "{named:?}");
        assert!(
            table.lines().next().is_some_and(|head| head.contains(",combo,")),
            "{table}"
        );
    }
    let charts = charts_of(&directory, &ReportOptions::default());
    let throughput = charts
        .iter()
        .find(|chart| chart.name == "throughput")
        .expect("it is there");
    let names: Vec<&str> = throughput.panels[0]
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    assert_eq!(names, ["eager", "plain", "small"]);
}

#[test]
fn panels_of_one_picture_share_their_scale() {
    let (_folder, directory) = write(&small());
    for chart in charts_of(&directory, &ReportOptions::default()) {
        let scales = chart.panels.iter().map(|panel| panel.y.scale);
        assert!(
            scales.clone().all(|scale| scale == chart.panels[0].y.scale),
            "{}",
            chart.name
        );
    }
}

#[test]
fn a_server_looks_alike_in_every_chart_of_lines() {
    let (_folder, directory) = write(&Experiment {
        servers: times(&[json!({})], "max_num_seqs", &[json!(16), json!(64)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(64)]),
        runs: 2,
        ..Experiment::default()
    });
    let charts = charts_of(&directory, &ReportOptions::default());
    let looks = |name: &str| -> BTreeMap<String, Style> {
        let chart = charts.iter().find(|chart| chart.name == name).expect("drawn");
        let series = chart.panels.iter().flat_map(|panel| &panel.series);
        let curves = series.filter(|series| matches!(series.style, Style::Curve(_)));
        curves.map(|series| (series.name.clone(), series.style)).collect()
    };
    assert_eq!(looks("families").len(), 2);
    assert_eq!(looks("families"), looks("latency_ttft"));
}

#[test]
fn nothing_that_can_be_written_in_a_plan_stops_a_chart() {
    let nasty: Vec<Value> = vec![
        json!("ﷺ ✗ 日本語 \u{202e} \n\t"),
        json!("x".repeat(5000)),
        json!(null),
        json!(-0.0),
        json!(1e308),
        json!([1, {"a": []}]),
        json!(""),
    ];
    let (_folder, directory) = write(&Experiment {
        servers: times(&[json!({})], "max_model_len", &nasty),
        loads: times(
            &[json!({})],
            "request_rate",
            &[json!(0), json!(-3.5), json!("inf"), json!("fast")],
        ),
        runs: 1,
        ..Experiment::default()
    });
    let written = report(&directory, &ReportOptions::default());
    assert!(
        charts_in(&directory).contains(&"throughput.png".to_owned()),
        "{written:?}"
    );
}

#[test]
fn a_folder_with_another_name_verifies() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let before = small().write(&folder.path().join("a <night> & 'b' *c*"));
    let options = ReportOptions::default();
    report(&before, &options);
    let renamed = folder.path().join("later");
    fs::rename(before.root(), &renamed).expect("renamed");
    let directory = Directory::at(renamed);
    let differences = || {
        verify(&directory, |_| options.clone())
            .expect("a sound journal")
            .1
            .differences
    };
    assert_eq!(differences(), [""; 0]);
    let page = text(&directory.report_markdown());
    fs::write(directory.report_markdown(), page.replacen("night", "day", 1)).expect("written");
    assert_eq!(differences().len(), 1);
}

#[test]
fn a_file_in_another_form_does_not_verify() {
    let (_folder, directory) = write(&small());
    let options = ReportOptions::default();
    report(&directory, &options);
    let verified = || verify(&directory, |_| options.clone()).expect("a sound journal").1;
    let differences = || verified().differences;
    let (path, page) = (directory.report_html(), text(&directory.report_html()));
    let with_member = page.replacen("id=\"data\">{", "id=\"data\">{\"added\":null,", 1);
    assert_ne!(with_member, page);
    fs::write(&path, with_member).expect("written");
    assert!(differences()[0].contains("in another form"), "{:?}", differences());
    fs::write(&path, page).expect("written");
    let (path, table) = (directory.summary_csv(), text(&directory.summary_csv()));
    fs::write(&path, table.replace('\n', "\r\n")).expect("written");
    assert!(differences()[0].contains("in another form"), "{:?}", differences());
    fs::write(&path, table).expect("written");
    for name in ["summary.csv", "summary.parquet", "answer.json"] {
        let path = directory.root().join(name);
        fs::rename(&path, path.with_extension("kept")).expect("there");
        std::os::unix::fs::symlink(path.with_extension("kept"), &path).expect("linked");
        let found = differences();
        let wanted = format!("{name}: cannot be read: it is a link");
        assert!(found.len() == 1 && found[0].starts_with(&wanted), "{found:?}");
        assert!(!verified().files.contains(&name.to_owned()), "{name}");
        fs::rename(path.with_extension("kept"), &path).expect("ours");
    }
}

#[test]
fn files_of_an_earlier_record_are_named_once_and_not_checked_during_a_sweep() {
    let (_folder, directory) = write(&small());
    let options = ReportOptions::default();
    report(&directory, &options);
    let page = text(&directory.report_markdown());
    let (rest, last) = page.rsplit_once("<!-- made of the record ").expect("its last line");
    let earlier = format!("{rest}<!-- made of the record x{}", &last[1..]);
    fs::write(directory.report_markdown(), earlier.replacen("Report", "Rapport", 1)).expect("written");
    let table = text(&directory.summary_csv());
    fs::write(directory.summary_csv(), table.replace('1', "7")).expect("written");
    let verified = || verify(&directory, |_| options.clone()).expect("a sound journal").1;
    let differences = verified().differences;
    assert_eq!(differences, ["summary.csv, report.md: were not made from this record"]);
    let _lock = Lock::take(&directory, Shard::WHOLE).expect("free");
    let verified = verified();
    assert_eq!(
        (verified.running, verified.differences.len()),
        (Some(std::process::id()), 0)
    );
}

#[test]
fn a_lost_run_has_one_line_and_the_files_that_it_changes_another() {
    let (_folder, directory) = write(&small());
    let options = ReportOptions::default();
    report(&directory, &options);
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let lost = state.runs().next().expect("a run").file.as_ref().expect("a file");
    fs::remove_file(directory.root().join(&*lost.path)).expect("removed");
    let (state, found) = verify(&directory, |_| options.clone()).expect("a sound journal");
    let said = &found.differences;
    assert_eq!((state.damage.len(), said.len()), (1, 1), "{said:?}");
    assert!(
        said[0].contains("summary.csv, ") && said[0].ends_with(": were not made from this record"),
        "{said:?}"
    );
}

#[test]
fn the_terminal_gets_the_answer() {
    let (_folder, directory) = write(&Experiment {
        servers: times(&[json!({})], "tensor_parallel_size", &[json!(1), json!(2), json!(4)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(16), json!(256)]),
        ..small()
    });
    let written = report(&directory, &ReportOptions::default());
    insta::assert_snapshot!(written.summary);
}

#[test]
fn without_runs_no_outcomes_are_announced() {
    let (_folder, directory) = write(&small());
    let journal = directory.journals().expect("readable").remove(0);
    let whole = text(&journal);
    let first = whole.find("\"run_started\"").expect("a run");
    let begin = whole[..first].rfind('\n').expect("a line before") + 1;
    fs::write(&journal, &whole[..begin]).expect("cut");
    let ending = report(&directory, &ReportOptions::default()).ending;
    let counts = ending.lines().find(|line| line.starts_with("0 runs of 0 points"));
    assert!(counts.is_some_and(|line| !line.trim_end().ends_with(':')), "{ending}");
}

#[test]
fn an_unfinished_sweep_answers_so_far() {
    let (_folder, directory) = write(&Experiment {
        servers: times(&[json!({})], "tensor_parallel_size", &[json!(1), json!(2)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(1), json!(4)]),
        ..small()
    });
    let best = || {
        let files = fs::read_dir(directory.root().join("best")).expect("a folder");
        files
            .map(|file| text(&file.expect("readable").path()))
            .collect::<Vec<String>>()
    };
    let written = report(&directory, &ReportOptions::default());
    assert!(!written.summary.contains("so far"), "{}", written.summary);
    assert!(best().iter().all(|file| !file.contains("NOT FINISHED")));
    // The journal is cut before the last run, as after a kill.
    let journal = directory.journals().expect("readable").remove(0);
    let whole = text(&journal);
    let last = whole.rfind("\"run_started\"").expect("a run");
    let begin = whole[..last].rfind('\n').expect("a line before") + 1;
    fs::write(&journal, &whole[..begin]).expect("written");
    let written = report(&directory, &ReportOptions::default());
    assert!(
        written.summary.contains("of the best of 2 servers so far"),
        "{}",
        written.summary
    );
    let answer: Value = serde_json::from_str(&text(&directory.answer_json())).expect("JSON");
    assert_eq!(answer["open"], 1);
    assert!(
        !best().is_empty() && best().iter().all(|file| file.contains("NOT FINISHED")),
        "{:?}",
        best()
    );
}

#[test]
fn a_run_whose_file_is_lost_is_still_to_be_measured() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| None,
        doubts: |_, _| Some(Code::ColdServer),
        ..small()
    });
    let options = asserted("never", 1e-3);
    assert_eq!(report(&directory, &options).requirements[0].verdict, Verdict::Broken);
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let lost = state.runs().next().expect("a run").file.as_ref().expect("a file");
    fs::remove_file(directory.root().join(&*lost.path)).expect("removed");
    let written = report(&directory, &options);
    assert_eq!(written.requirements[0].verdict, Verdict::Undecided);
    assert!(
        written.summary.contains("7 runs of 4 points") && written.summary.contains(": 7 suspect"),
        "{}",
        written.summary
    );
    let page = text(&directory.report_html());
    assert!(page.contains(" · 7 runs · 7 suspect · 1 still to do"));
    let answer: Value = serde_json::from_str(&text(&directory.answer_json())).expect("JSON");
    let status = status_of(&directory);
    assert_eq!((answer["open"].as_u64(), status.left, status.damaged), (Some(1), 1, 1));
    assert_eq!(status.doubts[0].runs, 7, "{:?}", status.doubts);
}

#[test]
fn the_first_server_of_several_is_named() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| None,
        ..small()
    });
    let journal = directory.journals().expect("readable").remove(0);
    let whole = text(&journal);
    let next = whole
        .match_indices("\"group_begun\"")
        .nth(1)
        .expect("a second server")
        .0;
    let begin = whole[..next].rfind('\n').expect("a line before") + 1;
    fs::write(&journal, &whole[..begin]).expect("written");
    let written = report(&directory, &ReportOptions::default());
    for line in ["Run: seed 0, TP 1: ", "Sure: no other server was measured so far"] {
        assert!(written.summary.contains(line), "{}", written.summary);
    }
    let markdown = text(&directory.report_markdown());
    assert!(
        markdown.contains("Highest throughput, **seed 0, TP 1**: ")
            && markdown.contains("No other server was measured so far."),
        "{markdown}"
    );
}

#[test]
fn status_and_ending_count_and_doubt_alike() {
    let (_folder, directory) = write(&Experiment {
        fails: |server, load| (server == 0 && load == 1).then_some(Cause::OomUnderLoad),
        doubts: |server, load| match (server, load) {
            (1, 0) => Some(Code::ColdServer),
            (1, 1) => Some(Code::LoadNotReached),
            _ => None,
        },
        noise: 0.9,
        ..small()
    });
    let ending = report(&directory, &ReportOptions::default()).ending;
    let status = status_of(&directory).to_text();
    let line = |text: &str, begin: &str| text.lines().find(|line| line.starts_with(begin)).map(str::to_owned);
    let (_, counts) = ending
        .lines()
        .next()
        .and_then(|line| line.split_once(": "))
        .expect("counts");
    let counts = counts.strip_suffix(", simulated").expect("simulated servers");
    assert!(
        status.contains(&format!("({counts}), 0 left, simulated")),
        "{counts}: {status}"
    );
    let doubts = line(&ending, "Doubts: ");
    assert!(
        doubts.as_ref().is_some_and(|doubts| doubts.contains("disagree")),
        "{ending}"
    );
    assert_eq!(line(&status, "Doubts: "), doubts);
}

#[test]
fn runs_that_are_too_short_are_counted() {
    let (_folder, directory) = write(&Experiment {
        doubts: |_, load| (load == 0).then_some(Code::RunTooShort),
        ..small()
    });
    let ending = report(&directory, &ReportOptions::default()).ending;
    let status = status_of(&directory).to_text();
    for text in [ending, status] {
        assert!(text.contains("4 of 6 runs are too short: raise num_prompts"), "{text}");
    }
}

#[test]
fn status_says_if_its_answer_is_outdated_or_cannot_be_read() {
    let (_folder, directory) = write(&small());
    let options = ReportOptions::default();
    report(&directory, &options);
    let status = || status_of(&directory);
    assert!(!status().answer_outdated && !status().to_text().contains("answer"));
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let lost = state.runs().next().expect("a run").file.as_ref().expect("a file");
    fs::remove_file(directory.root().join(&*lost.path)).expect("removed");
    let remedy = format!("`vsweep report {}` makes it anew", directory.root().display());
    let said = status().to_text();
    assert!(
        status().answer_outdated && said.contains(&format!("the answer so far ({remedy}):\n")),
        "{said}"
    );
    report(&directory, &options);
    assert!(!status().answer_outdated && !status().to_text().contains("answer"));
    let answer = text(&directory.answer_json());
    for other in [
        answer.replacen("\"version\": 1", "\"version\": 99", 1),
        answer[..99].to_owned(),
    ] {
        fs::write(directory.answer_json(), other).expect("written");
        let said = status().to_text();
        assert!(
            status().answer.is_none()
                && said.contains(&format!("answer.json is damaged or of another version; {remedy}")),
            "{said}"
        );
    }
}

#[test]
fn numbers_beyond_all_bounds_end_no_report() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| None,
        figures: |_, load| match load["max_concurrency"].as_u64() {
            Some(4) => json!({}),
            _ => json!({"completed": 1e19, "failed": 1e19, "output_throughput": 1.5e308, "p99_ttft_ms": 1.5e308}),
        },
        ..small()
    });
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    write_all(&directory, &state, &ReportOptions::default()).expect("written");
}

#[test]
fn intervals_wider_than_the_plan_asks_are_told() {
    let (_folder, directory) = write(&Experiment { runs: 3, ..small() });
    let rule = Repeats {
        min: 2,
        max: 3,
        until: 0.001,
    };
    let metric = "p99_ttft_ms".to_owned();
    let options = ReportOptions {
        runs: Some(Runs::Until { metric, rule }),
        ..ReportOptions::default()
    };
    let ending = report(&directory, &options).ending;
    assert!(
        ending.contains("the interval of p99 TTFT is still wider than ±0.1 % at 3 of 3 points after all 3 runs"),
        "{ending}"
    );
}

#[test]
fn a_met_requirement_names_the_recommended_server() {
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| None,
        ..small()
    });
    let written = report(&directory, &asserted("chat", 1e6));
    assert_eq!(written.requirements.len(), 1);
    let why = &written.requirements[0].why;
    assert!(why.starts_with("TP 2: "), "{why}");
}

#[test]
fn goals_without_a_name_are_called_by_their_bounds() {
    let (_folder, directory) = write(&small());
    let mut options = asserted("", 0.001);
    let long = Criterion::metric("output_throughput", ">=100000000").expect("a criterion");
    options.requirements.extend(options.requirements.clone());
    for (required, more) in options.requirements.iter_mut().zip([None, Some(long)]) {
        if let ServerCondition::Points(assertion) = &mut required.what {
            assertion.name = None;
            assertion.criteria = more.map_or_else(|| assertion.criteria.clone(), |more| vec![more]);
        }
    }
    let summary = report(&directory, &options).summary;
    assert!(
        summary.contains("left out: p99 TTFT <= 0.001 ms and output throughput >= 100M tokens/s not met"),
        "{summary}"
    );
}

#[test]
fn status_tells_where_a_sweep_stands() {
    let (_folder, directory) = write(&small());
    let journal = directory.journals().expect("readable").remove(0);
    let whole = text(&journal);
    let status = status_of(&directory);
    insta::assert_snapshot!("status_done", status.to_text());
    // The journal is cut in the middle of the sweep, as after a kill.
    let lines: Vec<&str> = whole.lines().take(9).collect();
    fs::write(&journal, lines.join("\n") + "\n").expect("written");
    let is_recorded = |path: &Path| {
        lines
            .iter()
            .any(|line| line.contains(path.file_name().and_then(OsStr::to_str).expect("text")))
    };
    let points = fs::read_dir(directory.root().join("runs")).expect("runs").flatten();
    let files = points.flat_map(|point| fs::read_dir(point.path()).expect("runs").flatten());
    for file in files.map(|file| file.path()).filter(|path| !is_recorded(path)) {
        fs::remove_file(file).expect("it is there");
    }
    let status = status_of(&directory);
    insta::assert_snapshot!("status_killed", status.to_text());
    insta::assert_snapshot!("status_json", serde_json::to_string_pretty(&status).expect("JSON"));
    let lock = Lock::take(&directory, Shard::WHOLE).expect("free");
    let status = status_of(&directory);
    assert_eq!(status.running, [std::process::id()]);
    drop(lock);
}
