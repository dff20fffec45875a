//! Benchmarks that do not send single requests are judged by metrics of their own. Terminal, page and Markdown name the same winners.

use crate::experiment::{Experiment, times};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use vsweep::answer::Answer;
use vsweep::journal::{self, Check, Directory};
use vsweep::plan::ReportOptions;
use vsweep::report::texts::words::show_together;
use vsweep::report::write_all;

/// An experiment of one server with a small batch and one with a large one.
fn experiment(loads: Vec<Value>, figures: fn(&Value, &Value) -> Value) -> Experiment {
    Experiment {
        servers: times(&[json!({})], "max_num_batched_tokens", &[json!(2048), json!(8192)]),
        loads,
        figures,
        simulated: true,
        ..Experiment::default()
    }
}

/// Returns the answers of the document as question, settings and figure, the text for the terminal, and the names of the charts. Panics if
/// terminal or page contradict the answers.
fn answers(experiment: &Experiment) -> (Vec<[String; 3]>, String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = experiment.write(&folder.path().join("demo"));
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let written = write_all(&directory, &state, &ReportOptions::default()).expect("written");
    let (summary, ending) = (written.summary, written.ending);
    let text = fs::read_to_string(directory.answer_json()).expect("an answer");
    let answer: Answer = serde_json::from_str(&text).expect("the document");
    let told = answer.questions.iter().filter_map(|answered| {
        let winner = answered.winner.as_ref()?;
        let settings = format!("{}, {}", winner.load, answer.name_of(&winner.config));
        let [figure, ..] = show_together([winner.value.value, winner.value.low, winner.value.high]);
        Some([answered.question.clone(), settings, figure])
    });
    let told: Vec<[String; 3]> = told.collect();
    for [_, settings, figure] in &told {
        let (load, server) = settings.split_once(", ").expect("a load and a server");
        let is_it = |line: &str| line.contains(load) && line.contains(server) && line.contains(figure);
        assert!(summary.lines().any(is_it), "{settings}, {figure}: {summary}");
    }
    agree(&told, &directory);
    let leading = answer
        .questions
        .iter()
        .find_map(|answered| answered.winner.as_ref())
        .expect("a winner");
    let is_it = |line: &str| line.starts_with("Run: ") && line.contains(answer.name_of(&leading.config));
    assert!(ending.lines().any(is_it) && ending.lines().count() <= 10, "{ending}");
    let charts = names(&directory.charts());
    (told, summary, charts)
}

/// Asserts that the page has exactly one card for each answer, and that the Markdown names each.
fn agree(told: &[[String; 3]], directory: &Directory) {
    let page = fs::read_to_string(directory.report_html()).expect("a page");
    let between = |text: &str, open: &str, close: &str| {
        let (_, rest) = text.split_once(open)?;
        Some(rest.split_once(close)?.0.to_owned())
    };
    let cards = page.split("<article class=\"card\">").skip(1).filter_map(|card| {
        let figure = between(card, "<p class=\"figure\"><b>", "</b>")?;
        Some([
            between(card, "<h3>", "</h3>")?,
            between(card, "<p class=\"settings\">", "</p>")?,
            figure,
        ])
    });
    let cards: Vec<[String; 3]> = cards.collect();
    let figure = |text: &String| text.split(',').next().unwrap_or_default().to_owned();
    let cut = |answers: &[[String; 3]]| {
        let cut = answers
            .iter()
            .map(|[question, settings, value]| [question.clone(), settings.clone(), figure(value)]);
        cut.collect::<Vec<[String; 3]>>()
    };
    assert_eq!(cut(told), cut(&cards));
    let markdown = fs::read_to_string(directory.report_markdown()).expect("a summary");
    let bests = bests(directory);
    for [question, settings, figure] in told {
        let (load, server) = settings.split_once(", ").expect("a load and a server");
        let is_it =
            |line: &&String| line.contains(&question.to_lowercase()) && line.contains(server) && line.contains(figure);
        assert!(
            bests.iter().any(|line| is_it(&line)),
            "{question}, {server}, {figure}: {bests:?}"
        );
        assert!(markdown.contains(&question.to_lowercase()), "{question}: {markdown}");
        assert!(
            markdown.contains(load) && markdown.contains(server),
            "{settings}: {markdown}"
        );
    }
}

/// Returns the first line of each file in `best/`.
fn bests(directory: &Directory) -> Vec<String> {
    let paths = names(&directory.best())
        .into_iter()
        .map(|name| directory.best().join(name));
    let text = paths.map(|path| fs::read_to_string(path).expect("readable"));
    text.map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn said<'a>(told: &'a [[String; 3]], question: &str) -> Vec<&'a str> {
    let asked = told.iter().filter(|[asked, ..]| asked == question);
    asked.map(|[_, settings, _]| settings.as_str()).collect()
}

#[test]
fn phases_are_judged_by_prefill_and_decode_throughput() {
    let phase = times(&[json!({})], "phase", &[json!("prefill"), json!("decode")]);
    let loads = times(&phase, "max_concurrency", &[json!(32), json!(128)]);
    // By output tokens, or by the time to the first token of a decode, the other server would win.
    let (told, summary, charts) = answers(&experiment(loads, |server, load| {
        let is_large = server["max_num_batched_tokens"] == 8192;
        let is_full = load["max_concurrency"] == 128;
        match load["phase"] == "prefill" {
            true => json!({
                "total_throughput": if is_large && !is_full { 40_000.0 } else { 30_000.0 },
                "output_throughput": if is_large { 10.0 } else { 80.0 },
                "p99_ttft_ms": if is_large { 900.0 } else { 700.0 + if is_full { 100.0 } else { 0.0 } },
            }),
            false => json!({
                "total_throughput": if is_large { 9_000.0 } else { 20_000.0 },
                "output_throughput": if is_large && is_full { 7_000.0 } else { 5_000.0 },
                "p99_itl_ms": if is_large { 30.0 } else { 12.0 + if is_full { 3.0 } else { 0.0 } },
                "p99_ttft_ms": if is_large { 50.0 } else { 90.0 },
            }),
        }
    }));
    let large_half = "concurrency 32, batched tokens 8192";
    assert_eq!(said(&told, "Highest prefill throughput"), [large_half]);
    let small_half = "concurrency 32, batched tokens 2048";
    assert_eq!(said(&told, "Soonest first token"), [small_half]);
    assert_eq!(
        said(&told, "Highest decode throughput"),
        ["concurrency 128, batched tokens 8192"]
    );
    // Latencies are compared at the load with the highest throughput.
    assert_eq!(
        said(&told, "Shortest gap between tokens"),
        ["concurrency 128, batched tokens 2048"]
    );
    assert_eq!(told.len(), 4, "{summary}");
    let (_, prefill) = summary.split_once("workload: phase prefill\n").expect("a workload");
    let heads = prefill.lines().next().expect("a table");
    assert!(
        heads.contains("prefill tokens/s") && !heads.contains("per user"),
        "{summary}"
    );
    // Output tokens of a prefill mean nothing, so there is only the frontier of the decodes.
    assert!(
        charts.contains(&"families.png".to_owned()) && !charts.contains(&"families_2.png".to_owned()),
        "{charts:?}"
    );
}

#[test]
fn iterations_are_judged_by_the_time_of_a_step_and_prefill_throughput() {
    let mode = times(&[json!({})], "mode", &[json!("prefill"), json!("decode")]);
    let loads = times(&mode, "batch_size", &[json!(1), json!(32)]);
    let (told, summary, charts) = answers(&experiment(loads, |server, load| {
        let is_large = server["max_num_batched_tokens"] == 8192;
        let batch = load["batch_size"].as_f64().expect("a number");
        let none = [
            "median_ttft_ms",
            "p99_ttft_ms",
            "median_itl_ms",
            "p99_itl_ms",
            "median_e2el_ms",
            "p99_e2el_ms",
        ];
        let mut figures = match load["mode"] == "prefill" {
            true => json!({
                "new_tokens_per_second": batch * if is_large { 900.0 } else { 1_200.0 },
                "first_token_ms": batch * if is_large { 4.0 } else { 3.0 },
                "output_throughput": if is_large { 90.0 } else { 10.0 },
            }),
            false => json!({
                "output_throughput": batch * if is_large { 150.0 } else { 120.0 },
                "step_ms": 4.0 + batch / 10.0 + if is_large { 0.5 } else { 0.0 },
                "total_latency_ms": if is_large { 100.0 } else { 200.0 },
            }),
        };
        figures["global_batch_size"] = json!(batch);
        for name in none {
            figures[name] = Value::Null;
        }
        figures
    }));
    assert_eq!(
        said(&told, "Highest prefill throughput"),
        ["batch 32, batched tokens 2048"]
    );
    assert_eq!(said(&told, "Shortest prefill"), ["batch 32, batched tokens 2048"]);
    assert_eq!(
        said(&told, "Highest decode throughput"),
        ["batch 32, batched tokens 8192"]
    );
    assert_eq!(said(&told, "Shortest decode step"), ["batch 32, batched tokens 2048"]);
    assert_eq!(told.len(), 4, "{summary}");
    assert!(charts.iter().any(|name| name.starts_with("latency_step")), "{charts:?}");
}
