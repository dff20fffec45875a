//! The choice of the page's sliders compared with that of the answer: within the same limits both name the same point.

use super::browser::Browser;
use super::{realistic, write};
use crate::experiment::Experiment as Written;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::path::Path;
use vsweep::answer::{
    Better, Config as Server, Experiment, Figure, Metric, NoisePrior, Operator, Point, Question, Run, Scale, Target,
    answer,
};
use vsweep::journal::{self, Check};
use vsweep::plan::ReportOptions;
use vsweep::report::write_all;

/// The metrics that have sliders, and the metric that is to be highest.
const LIMITED: [&str; 4] = ["p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms", "tokens_per_user"];
const GOAL: &str = "tokens_per_gpu";
const CASES: usize = 40;

/// Limit of a slider: a metric by its index, a point by its index, and whether the limit lies just above the point's figure or just below
/// it.
type Limit = (usize, usize, bool);

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn the_sliders_choose_as_the_answer_does() {
    let browser = Browser::start();
    let (_folder, directory) = write(&Written {
        doubts: |_, _| None,
        ..realistic()
    });
    choose(&browser, &directory.report_html());
    // Servers of four GPUs do not fit on three, and of those of two only one does.
    let state = journal::load(&directory, Check::Hashes).expect("a sound journal");
    let options = ReportOptions {
        gpus: Some(3),
        ..ReportOptions::default()
    };
    write_all(&directory, &state, &options).expect("written");
    choose(&browser, &directory.report_html());
    let text = browser.run("return document.querySelector('#targets [role=status]').textContent");
    let text = text.as_str().expect("text");
    assert!(text.contains(" on 3 GPUs") && !text.contains("tp 4"), "{text}");
}

/// Sets limits that are drawn, and compares the choice of the page with that of the answer.
fn choose(browser: &Browser, page: &Path) {
    browser.open(page);
    browser.wait("return vsweep.panels.pareto.chart.marks?.length > 10");
    let page = browser.run(
        "const sizes = vsweep.columnByName.get('gpu_count').values;
         return { points: vsweep.data.points, estimates: vsweep.data.estimates, gpus: vsweep.data.gpus,
             sizes: vsweep.data.points.map((_, at) => sizes[vsweep.data.rows.indexOf(at)]) }",
    );
    let ids: Vec<&str> = page["points"]
        .as_array()
        .expect("points")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let value = |metric: &str, at: usize| page["estimates"][metric][at][0].as_f64();
    let size = |at: usize| page["sizes"][at].as_u64().unwrap_or_default() as u32;
    let gpus = page["gpus"].as_u64().map(|gpus| gpus as u32);
    let experiment = of_page(&ids, gpus, &value, &size);
    let limits = prop::collection::vec((0..LIMITED.len(), 0..ids.len(), any::<bool>()), 0..4);
    let mut runner = TestRunner::new(Config::default());
    let mut chosen = 0;
    for _ in 0..CASES {
        let limits: Vec<Limit> = limits.new_tree(&mut runner).expect("a case").current();
        let targets: Vec<Target> = limits.iter().filter_map(|limit| target(limit, &value)).collect();
        // If a metric has two limits, the page keeps the last.
        let targets: Vec<Target> = LIMITED
            .iter()
            .filter_map(|name| targets.iter().rfind(|target| target.metric == *name).cloned())
            .collect();
        let set: Vec<Value> = targets
            .iter()
            .map(|target| json!([target.metric, target.limit]))
            .collect();
        let of_page = browser.run(&format!(
            "vsweep.targets.limits = new Map({}.map(([name, limit]) => [vsweep.columnByName.get(name), limit]));
             return vsweep.meeting()[0]?.id ?? null",
            json!(set)
        ));
        let question = Question {
            targets,
            ..Question::highest(GOAL)
        };
        let answered = answer(Experiment {
            questions: vec![question],
            ..experiment.clone()
        });
        let winner = answered.questions[0]
            .winner
            .as_ref()
            .and_then(|winner| winner.point.clone());
        assert_eq!(of_page, json!(winner), "within {set:?}");
        chosen += usize::from(winner.is_some());
    }
    assert!(chosen > CASES / 4, "{chosen} of {CASES} cases have a winner");
    let of_page = browser.run(
        "vsweep.targets.limits = new Map([[vsweep.columnByName.get('p99_ttft_ms'), 1e-6]]);
         return vsweep.meeting()[0]?.id ?? null",
    );
    assert_eq!(of_page, Value::Null, "no point meets a limit below all figures");
}

/// Returns the limit just above or below a point's figure, or `None` if the point has no figure.
fn target((metric, at, is_above): &Limit, value: &dyn Fn(&str, usize) -> Option<f64>) -> Option<Target> {
    let metric = LIMITED[*metric];
    Some(Target {
        metric: metric.to_owned(),
        bound: match is_lower_better(metric) {
            true => Operator::AtMost,
            false => Operator::AtLeast,
        },
        limit: value(metric, *at)? * if *is_above { 1.000_001 } else { 0.999_999 },
        conditions: String::new(),
        about: Vec::new(),
    })
}

fn is_lower_better(metric: &str) -> bool {
    metric.ends_with("_ms")
}

/// Makes an experiment of the page's estimates: each point has one run with its estimate. The goal's figure is that of a whole server.
fn of_page(
    ids: &[&str],
    gpus: Option<u32>,
    value: &dyn Fn(&str, usize) -> Option<f64>,
    size: &dyn Fn(usize) -> u32,
) -> Experiment {
    let metrics = || LIMITED.into_iter().chain([GOAL]);
    // Without a number of GPUs, figures are compared per GPU.
    let of_goal = |at: usize| if gpus.is_some() { size(at) } else { 1 };
    let point = |(at, id): (usize, &&str)| {
        let figures = metrics().filter_map(|name| {
            let times = if name == GOAL { f64::from(of_goal(at)) } else { 1.0 };
            let figure = Figure::Value {
                value: value(name, at)? * times,
                error: 0.01,
            };
            Some((name.to_owned(), figure))
        });
        let run = Run {
            start: (*id).to_owned(),
            figures: figures.collect(),
            ..Run::default()
        };
        (!run.figures.is_empty()).then(|| Point {
            id: (*id).to_owned(),
            config: (*id).to_owned(),
            runs: vec![run],
            ..Point::default()
        })
    };
    let points: Vec<Point> = ids.iter().enumerate().filter_map(point).collect();
    let server = |point: &Point| Server {
        id: point.config.clone(),
        gpus: ids.iter().position(|id| *id == point.id).map_or(0, size),
        ..Server::default()
    };
    let metric = |name: &str| Metric {
        name: name.to_owned(),
        scale: Scale::Log,
        better: match is_lower_better(name) {
            true => Better::Lower,
            false => Better::Higher,
        },
        prior: NoisePrior::THROUGHPUT,
    };
    Experiment {
        gpus,
        metrics: metrics().map(metric).collect(),
        configs: points.iter().map(server).collect(),
        points,
        ..Experiment::default()
    }
}
