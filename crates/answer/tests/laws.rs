//! Laws that hold of every answer: what never changes a winner, a byte, or widens an interval.

use proptest::prelude::*;
use std::collections::BTreeSet;
use vsweep_answer::model::{Noise, Observations, Posterior};
use vsweep_answer::{
    Answer, Better, ComparisonInput, Config, Experiment, Figure, Limit, Metric, NoisePrior, Operator, Point, Question,
    Random, Run, Scale, Search, StartLimit, Target, answer, compare,
};

const THROUGHPUT: &str = "output_throughput";
const LATENCY: &str = "p99_ttft_ms";
const ATTAINMENT: &str = "attainment";

/// An experiment drawn from a seed: 2 to 7 configs, several loads, starts and runs, at times with targets.
fn drawn(seed: u64) -> Experiment {
    let mut random = Random::of(seed, &["law"]);
    let random = &mut random;
    let configs = 2 + random.below(6);
    let (loads, starts, runs) = (1 + random.below(3), 1 + random.below(3), 1 + random.below(3));
    let spread = [0.003, 0.02, 0.2][random.below(3)];
    let mut points = Vec::new();
    for config in 0..configs {
        let level = spread * random.normal();
        for load in 0..loads {
            let mut own = Vec::new();
            for start in 0..1 + random.below(starts) {
                for _ in 0..1 + random.below(runs) {
                    let off = 0.01 * random.normal();
                    own.push(run(random, &start.to_string(), 7.0 + level + 0.3 * load as f64 + off));
                }
            }
            points.push(Point {
                id: format!("c{config}@{load}"),
                config: format!("c{config}"),
                load: load.to_string(),
                runs: own,
                ..Point::default()
            });
        }
    }
    let target = |metric: &str, bound, limit| Target {
        metric: metric.to_owned(),
        bound,
        limit,
        conditions: String::new(),
        about: Vec::new(),
    };
    let targets = match random.below(4) {
        0 => vec![target(LATENCY, Operator::AtMost, 500.0)],
        1 => vec![target(ATTAINMENT, Operator::AtLeast, 0.9)],
        2 => vec![
            target(LATENCY, Operator::Below, 520.0),
            target(ATTAINMENT, Operator::Above, 0.85),
        ],
        _ => Vec::new(),
    };
    let metric = |name: &str, scale, better, prior| Metric {
        name: name.to_owned(),
        scale,
        better,
        prior,
    };
    let config = |at: usize| Config {
        id: format!("c{at}"),
        settings: [("s".to_owned(), at.to_string())].into(),
        changes: random.below(4),
        gpus: 1 + random.below(3) as u32,
        ..Config::default()
    };
    Experiment {
        metrics: vec![
            metric(THROUGHPUT, Scale::Log, Better::Higher, NoisePrior::THROUGHPUT),
            metric(LATENCY, Scale::Log, Better::Lower, NoisePrior::LATENCY),
            metric(ATTAINMENT, Scale::Share, Better::Higher, NoisePrior::SHARE),
        ],
        configs: (0..configs).map(config).collect(),
        points,
        questions: vec![Question {
            targets,
            effects: vec![THROUGHPUT.to_owned()],
            ..Question::highest(THROUGHPUT)
        }],
        gpus: Some(8),
        margin: 0.01,
        seed,
        ..Experiment::default()
    }
}

fn run(random: &mut Random, start: &str, throughput: f64) -> Run {
    let value = |value: f64, error: f64| Figure::Value { value, error };
    let share = Figure::Share {
        met: (85 + random.below(16)) as f64,
        of: 100.0,
    };
    let figures = [
        (THROUGHPUT.to_owned(), value(throughput.exp(), 0.01 * random.uniform())),
        (
            LATENCY.to_owned(),
            value(500.0 * (0.1 * random.normal()).exp(), 0.05 * random.uniform()),
        ),
        (ATTAINMENT.to_owned(), share),
    ];
    Run {
        start: start.to_owned(),
        node: ["a", "b"][usize::from(random.below(10) == 0)].to_owned(),
        disturbed: random.below(8) == 0,
        figures: figures.into(),
    }
}

fn winner(answer: &Answer) -> Option<&str> {
    answer.questions[0].winner.as_ref().map(|winner| &*winner.config)
}

fn text(answer: &Answer) -> String {
    serde_json::to_string(answer).expect("it is data")
}

proptest! {
    // Every case computes a whole answer, at times twice.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    #[test]
    fn a_winner_that_is_better_still_wins(seed in any::<u64>(), times in 1.0f64..1.5) {
        let mut experiment = drawn(seed);
        let before = answer(experiment.clone());
        let Some(best) = winner(&before) else { return Ok(()) };
        for point in experiment.points.iter_mut().filter(|point| point.config == best) {
            for (name, figure) in point.runs.iter_mut().flat_map(|run| run.figures.iter_mut()) {
                match figure {
                    Figure::Value { value, .. } if name == LATENCY => *value /= times,
                    Figure::Value { value, .. } => *value *= times,
                    Figure::Share { met, of } => *met = (*met * times).min(*of),
                }
            }
        }
        let after = answer(experiment.clone());
        prop_assert_eq!(winner(&after), Some(best));
    }

    #[test]
    fn a_worse_config_that_needs_no_fewer_changes_changes_no_winner(seed in any::<u64>()) {
        let mut experiment = drawn(seed);
        // All configs contribute to the effects of several nodes.
        experiment.points.iter_mut().flat_map(|point| &mut point.runs).for_each(|run| run.node.clear());
        let before = answer(experiment.clone());
        let Some(best) = winner(&before) else { return Ok(()) };
        let found = &before.questions[0];
        let changes = |id: &str| experiment.configs.iter().find(|config| config.id == id).map(|config| config.changes);
        let value = found.winner.as_ref().map(|winner| winner.value.value);
        let is_worse = |id: &str| {
            let own = found.entrants.iter().find(|entrant| entrant.config == id && entrant.meets);
            own.is_none_or(|own| Some(own.value.value) < value)
        };
        let worse = experiment.configs.iter().find(|config| {
            config.id != best && changes(&config.id) >= changes(best) && is_worse(&config.id)
        });
        let Some(worse) = worse.map(|config| config.id.clone()) else { return Ok(()) };
        experiment.configs.retain(|config| config.id != worse);
        experiment.points.retain(|point| point.config != worse);
        let after = answer(experiment.clone());
        prop_assert_eq!(winner(&after), Some(best));
    }

    #[test]
    fn the_order_of_what_was_measured_changes_no_byte(seed in any::<u64>()) {
        let experiment = drawn(seed);
        let mut other = experiment.clone();
        let mut random = Random::of(seed, &["order"]);
        random.shuffle(&mut other.configs);
        random.shuffle(&mut other.points);
        random.shuffle(&mut other.metrics);
        other.points.iter_mut().for_each(|point| random.shuffle(&mut point.runs));
        prop_assert_eq!(text(&answer(experiment.clone())), text(&answer(other.clone())));
    }

    #[test]
    fn with_known_noise_added_evidence_widens_no_interval(
        seed in any::<u64>(), run_noise in 0.001f64..0.05, start in 0.0f64..0.05, node in 0.0f64..0.05, is_new in any::<bool>(),
    ) {
        let experiment = drawn(seed);
        let mut random = Random::of(seed, &["more"]);
        let mut more = experiment.clone();
        let at = random.below(more.points.len());
        let start_name = if is_new { "new".to_owned() } else { more.points[at].runs[0].start.clone() };
        // On the node with the most runs, for which figures hold.
        let counts = ["a", "b"].map(|node| experiment.points.iter().flat_map(|point| &point.runs).filter(|run| run.node == node).count());
        let most = if counts[1] > counts[0] { "b" } else { "a" };
        let added = Run { node: most.to_owned(), ..run(&mut random, &start_name, 7.0) };
        more.points[at].runs.push(added);
        let noise = Noise { run: run_noise, start, node };
        for metric in &experiment.metrics {
            let known = |experiment: &Experiment| Posterior::known(Observations::of(experiment, metric), noise);
            let (before, after) = (known(&experiment), known(&more));
            for point in 0..experiment.points.len() {
                let width = |posterior: &Posterior| posterior.components().interval(point, 0.95).map(|(low, high)| high - low);
                let (before, after) = (width(&before).expect("measured"), width(&after).expect("measured"));
                prop_assert!(after <= before * (1.0 + 1e-6), "{} {before} to {after}", metric.name);
            }
        }
    }

    #[test]
    fn an_answer_agrees_with_itself(seed in any::<u64>()) {
        let found = answer(drawn(seed));
        let round: Answer = serde_json::from_str(&text(&found)).expect("its own JSON");
        prop_assert_eq!(&round, &found);
        for estimate in found.estimates.iter().flat_map(|point| point.figures.iter().flatten()) {
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        }
        let question = &found.questions[0];
        let Some(winner) = &question.winner else {
            prop_assert!(question.ties.is_empty() && question.entrants.iter().all(|entrant| !entrant.meets));
            return Ok(());
        };
        prop_assert!(winner.meets.iter().all(|meeting| meeting.is_met));
        prop_assert!(!question.ties.contains(&winner.config) && !question.ruled_out.contains(&winner.config));
        prop_assert!(winner.probability < 0.95 || question.ties.is_empty());
        // A tie adds to the chance, so it is not ruled out unless several of these are needed.
        // With several nodes, one that is ruled out may have a better estimate.
        let likely = question.entrants.iter().filter(|entrant| entrant.meets && !question.ruled_out.contains(&entrant.config));
        let best = likely.map(|entrant| entrant.value.value).fold(0.0, f64::max);
        prop_assert!(winner.value.value * 1.01 >= best * (1.0 - 1e-9));
    }

    #[test]
    fn whatever_was_measured_is_answered_in_numbers(
        seed in any::<u64>(),
        values in prop::collection::vec(prop::sample::select(vec![0.0, -1.0, 1e-300, 1e300, f64::NAN, f64::INFINITY, 1.0, 1e9]), 6),
    ) {
        let mut experiment = drawn(seed);
        experiment.metrics[2].scale = [Scale::Share, Scale::Linear][(seed % 2) as usize];
        let mut at = 0;
        for figure in experiment.points.iter_mut().flat_map(|point| &mut point.runs).flat_map(|run| run.figures.iter_mut()).map(|(_, figure)| figure) {
            at += 1;
            let hostile = |offset: usize| values[(at / 5 + offset) % values.len()];
            match figure {
                _ if at % 5 > 0 => {}
                Figure::Value { value, error } => (*value, *error) = (hostile(0), hostile(1)),
                Figure::Share { met, of } => (*met, *of) = (hostile(0), hostile(1)),
            }
        }
        let found = answer(experiment.clone());
        let round: Answer = serde_json::from_str(&text(&found)).expect("numbers");
        prop_assert_eq!(round, found);
    }

    #[test]
    fn of_searches_the_order_changes_no_byte_and_the_best_wins(loads in prop::collection::vec(5.0f64..200.0, 2..6), seed in any::<u64>()) {
        let mut experiment = searched(&loads);
        let found = answer(experiment.clone());
        let best = loads.iter().copied().fold(0.0, f64::max).floor();
        let won = found.questions[0].winner.as_ref().expect("somebody holds a load");
        prop_assert!(won.value.value + 1.0 >= best || won.value.value * 1.01 >= best);
        let mut random = Random::of(seed, &["order"]);
        random.shuffle(&mut experiment.searches);
        experiment.searches.iter_mut().for_each(|search| random.shuffle(&mut search.starts));
        prop_assert_eq!(text(&answer(experiment.clone())), text(&found));
    }

    #[test]
    fn of_searches_a_better_winner_still_wins_and_a_worse_config_changes_nothing(
        loads in prop::collection::vec(5.0f64..200.0, 2..6), changes in prop::collection::vec(0usize..4, 6), times in 1.0f64..1.5,
    ) {
        let mut experiment = searched(&loads);
        for (config, changes) in experiment.configs.iter_mut().zip(changes) {
            config.changes = changes;
        }
        let before = answer(experiment.clone());
        let best = winner(&before).expect("somebody holds a load").to_owned();
        let changes = |experiment: &Experiment, id: &str| {
            experiment.configs.iter().find(|config| config.id == id).map(|config| config.changes)
        };
        let load = |search: &Search| search.load.filter(|_| search.config != best);
        let value = before.questions[0].winner.as_ref().map_or(0.0, |winner| winner.value.value);
        let mut better = experiment.clone();
        for search in better.searches.iter_mut().filter(|search| search.config == best) {
            search.load = search.load.map(|load| (load * times).floor());
            search.starts.iter_mut().flat_map(|start| &mut start.quantiles).for_each(|quantile| *quantile *= times);
        }
        let after = answer(better);
        prop_assert_eq!(winner(&after), Some(&*best));
        let is_worse = |search: &&Search| {
            load(search).is_some_and(|load| load < value) && changes(&experiment, &search.config) >= changes(&experiment, &best)
        };
        let Some(worse) = experiment.searches.iter().find(is_worse).map(|search| search.config.clone()) else { return Ok(()) };
        let mut without = experiment.clone();
        without.configs.retain(|config| config.id != worse);
        without.searches.retain(|search| search.config != worse);
        let after = answer(without);
        prop_assert_eq!(winner(&after), Some(&*best));
    }

    #[test]
    fn the_order_of_runs_changes_no_byte_of_a_comparison(seed in any::<u64>()) {
        let (base, new) = (drawn(seed), drawn(seed.wrapping_add(1)));
        let ids = |of: &Experiment| of.points.iter().map(|point| point.id.clone()).collect::<BTreeSet<String>>();
        let common: Vec<String> = ids(&base).intersection(&ids(&new)).cloned().collect();
        let found = |base: &Experiment, new: &Experiment| {
            let compared = compare(&ComparisonInput {
                base,
                new,
                pairs: common.iter().map(|id| (id.clone(), id.clone())).collect(),
                margin: &|_| 0.03,
                limits: vec![Limit { metric: THROUGHPUT.to_owned(), change: -0.05 }],
            });
            serde_json::to_string(&compared).expect("it is data")
        };
        let mut random = Random::of(seed, &["order"]);
        let mut others = [base.clone(), new.clone()];
        for other in &mut others {
            random.shuffle(&mut other.configs);
            random.shuffle(&mut other.points);
            other.points.iter_mut().for_each(|point| random.shuffle(&mut point.runs));
        }
        prop_assert_eq!(found(&base, &new), found(&others[0], &others[1]));
    }
}

/// Searches that found these loads.
fn searched(loads: &[f64]) -> Experiment {
    let search = |(at, load): (usize, &f64)| {
        let start = |name: &str| StartLimit {
            start: name.to_owned(),
            node: "a".to_owned(),
            quantiles: (0..20).map(|part| load * (1.0 + 0.003 * f64::from(part))).collect(),
            ..StartLimit::default()
        };
        Search {
            config: format!("c{at}"),
            target: "chat".to_owned(),
            load: Some(load.floor()),
            slope: 1.0,
            starts: vec![start("0"), start("1")],
            ..Search::default()
        }
    };
    let config = |at: usize| Config {
        id: format!("c{at}"),
        ..Config::default()
    };
    Experiment {
        configs: (0..loads.len()).map(config).collect(),
        searches: loads.iter().enumerate().map(search).collect(),
        questions: vec![Question::highest_load("chat")],
        margin: 0.01,
        ..Experiment::default()
    }
}
