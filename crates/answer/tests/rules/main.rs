//! Each rule of an answer with the smallest experiment that shows it.

mod advice;
mod alone;
mod figures;
mod nodes;
mod searches;
mod winners;

use vsweep_answer::model::Basis;
use vsweep_answer::{
    Answer, Better, ComparisonInput, Config, Estimate, Experiment, Facts, Figure, FrontierQuestion, Goal, Limit,
    Metric, NoisePrior, Operator, Point, Question, RequirementVerdict, Run, Scale, Search, Standing, StartLimit,
    Target, TargetPoint, Verdict, Warning, WinReason, answer, compare, standings,
};

const THROUGHPUT: &str = "output_throughput";
const LATENCY: &str = "p99_ttft_ms";

/// A server with its settings, its changes, and throughput and latency of each start.
fn server(experiment: &mut Experiment, id: &str, changes: usize, load: &str, starts: &[(f64, f64)]) {
    if experiment.configs.iter().all(|config| config.id != id) {
        experiment.configs.push(Config {
            id: id.to_owned(),
            settings: id
                .split(' ')
                .filter_map(|part| part.split_once('='))
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .collect(),
            changes,
            gpus: 1,
            ..Config::default()
        });
    }
    let run = |(number, (throughput, latency)): (usize, &(f64, f64))| Run {
        start: number.to_string(),
        node: "a".to_owned(),
        disturbed: false,
        figures: [
            (
                THROUGHPUT.to_owned(),
                Figure::Value {
                    value: *throughput,
                    error: 0.001,
                },
            ),
            (
                LATENCY.to_owned(),
                Figure::Value {
                    value: *latency,
                    error: 0.01,
                },
            ),
        ]
        .into(),
    };
    experiment.points.push(Point {
        id: format!("{id}@{load}"),
        config: id.to_owned(),
        load: load.to_owned(),
        runs: starts.iter().enumerate().map(run).collect(),
        ..Point::default()
    });
}

fn asking(targets: &[(Operator, f64)]) -> Experiment {
    let metric = |name: &str, better, prior| Metric {
        name: name.to_owned(),
        scale: Scale::Log,
        better,
        prior,
    };
    let target = |(bound, limit): &(Operator, f64)| Target {
        metric: LATENCY.to_owned(),
        bound: *bound,
        limit: *limit,
        conditions: String::new(),
        about: Vec::new(),
    };
    Experiment {
        metrics: vec![
            metric(THROUGHPUT, Better::Higher, NoisePrior::THROUGHPUT),
            metric(LATENCY, Better::Lower, NoisePrior::LATENCY),
        ],
        questions: vec![Question {
            targets: targets.iter().map(target).collect(),
            effects: vec![THROUGHPUT.to_owned(), LATENCY.to_owned()],
            ..Question::highest(THROUGHPUT)
        }],
        margin: 0.01,
        ..Experiment::default()
    }
}

fn winner(found: &Answer) -> &str {
    found.questions[0].winner.as_ref().map_or("", |winner| &winner.config)
}
