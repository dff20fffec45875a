//! Configs that compete with the loads that their searches found.

use super::*;

fn searched(loads: &[(&str, f64, usize, f64)]) -> Experiment {
    let mut own = asking(&[]);
    own.questions[0].goal = Goal::Load {
        target: "chat".to_owned(),
        parameter: "max_concurrency".to_owned(),
        unit: 1.0,
    };
    for (id, load, other_targets, per_gpu) in loads {
        own.configs.push(Config {
            id: (*id).to_owned(),
            changes: own.configs.len(),
            gpus: 1,
            ..Config::default()
        });
        own.searches.push(Search {
            config: (*id).to_owned(),
            target: "chat".to_owned(),
            load: Some(*load),
            slope: 1.0,
            other_targets: *other_targets,
            throughput_per_gpu: Some(*per_gpu),
            starts: vec![StartLimit {
                start: "0".to_owned(),
                node: "a".to_owned(),
                quantiles: (0..20).map(|at| load * (1.0 + 0.002 * f64::from(at))).collect(),
                ..StartLimit::default()
            }],
            ..Search::default()
        });
    }
    own
}

#[test]
fn a_search_competes_with_the_load_it_reports() {
    let found = answer(searched(&[("a", 40.0, 0, 100.0), ("b", 80.0, 0, 100.0)]));
    let won = found.questions[0].winner.as_ref().expect("a winner");
    assert_eq!((&*won.config, &*won.load, won.value.value), ("b", "80", 80.0));
    assert!(
        won.value.low <= 80.0 && won.value.high > 80.0 && won.probability > 0.99,
        "{won:?}"
    );
    // The widest quantile of the search alone is 83; starts widen that.
    assert!(won.value.high > 83.0, "{won:?}");
}

#[test]
fn a_search_without_throughput_decides_nothing_between_others() {
    let mut own = searched(&[("a", 80.0, 0, 100.0), ("b", 80.0, 0, 200.0), ("c", 79.5, 0, 0.0)]);
    own.searches[2].throughput_per_gpu = None;
    assert_eq!(winner(&answer(own.clone())), "b");
    own.configs.pop();
    own.searches.pop();
    assert_eq!(winner(&answer(own)), "b");
}

#[test]
fn a_doubt_about_the_load_found_is_a_warning() {
    let mut own = searched(&[("a", 40.0, 0, 100.0), ("b", 80.0, 0, 100.0)]);
    for search in &mut own.searches {
        search.doubts = vec![format!("doubt_of_{}", search.config)];
    }
    let warnings = answer(own).questions[0].warnings.clone();
    let codes = vec!["doubt_of_b".to_owned()];
    assert!(warnings.contains(&Warning::Doubtful { codes }), "{warnings:?}");
}

#[test]
fn a_load_that_may_not_last_is_a_warning() {
    let mut own = searched(&[("a", 40.0, 0, 100.0), ("b", 80.0, 0, 100.0)]);
    for search in &mut own.searches {
        search.may_not_last = vec![format!("reason of {}", search.config)];
    }
    let warnings = answer(own).questions[0].warnings.clone();
    let reasons = vec!["reason of b".to_owned()];
    assert!(warnings.contains(&Warning::MayNotLast { reasons }), "{warnings:?}");
}

#[test]
fn among_equal_loads_other_targets_then_throughput_then_changes_decide() {
    let chosen = |loads: &[(&str, f64, usize, f64)]| {
        let found = answer(searched(loads));
        let won = found.questions[0].winner.clone().expect("a winner");
        (won.config, won.chosen)
    };
    let best = || "a".to_owned();
    assert_eq!(
        chosen(&[("b", 79.5, 0, 100.0), ("a", 80.0, 0, 100.5)]),
        ("b".to_owned(), WinReason::FewerChanges { best: best() })
    );
    assert_eq!(
        chosen(&[("a", 80.0, 0, 100.0), ("b", 79.5, 0, 110.0)]),
        ("b".to_owned(), WinReason::MorePerGpu { best: best() })
    );
    assert_eq!(
        chosen(&[("a", 80.0, 1, 110.0), ("b", 79.5, 2, 100.0)]),
        ("b".to_owned(), WinReason::MoreTargets { best: best() })
    );
    // One user is within the margin of few.
    assert_eq!(
        chosen(&[("b", 7.0, 0, 100.0), ("a", 8.0, 0, 100.0)]),
        ("b".to_owned(), WinReason::FewerChanges { best: best() })
    );
    assert_eq!(
        chosen(&[("b", 6.0, 0, 100.0), ("a", 8.0, 0, 100.0)]),
        ("a".to_owned(), WinReason::Best)
    );
}

#[test]
fn a_server_at_the_highest_load_allowed_may_hold_more() {
    let mut own = searched(&[("pair", 67.0, 0, 100.0), ("one", 128.0, 0, 100.0)]);
    own.gpus = Some(2);
    own.configs[1].gpus = 2;
    for search in &mut own.searches {
        search.ceiling = Some(128.0);
    }
    own.searches[1].starts[0].quantiles = vec![128.0; 20];
    let answered = answer(own.clone()).questions.remove(0);
    let won = answered.winner.as_ref().expect("a winner");
    // Two servers hold 134 together; one of two GPUs holds 128 or more.
    assert_eq!((&*won.config, won.value.value), ("pair", 134.0));
    assert!(won.probability < 0.5 && answered.advice.is_none(), "{won:?}");
    let one = answered
        .entrants
        .iter()
        .find(|other| other.config == "one")
        .expect("it competes");
    assert!(
        one.at_ceiling && one.probability > 0.5 && one.winner_over.is_none(),
        "{one:?}"
    );
    assert!(one.value.value == 128.0 && one.value.high > 200.0, "{one:?}");
    assert!(answered.ruled_out.is_empty());
    // Where it is known not to hold more, the pair is best.
    own.searches[1].ceiling = Some(256.0);
    let answered = answer(own).questions.remove(0);
    assert!(answered.winner.expect("a winner").probability > 0.95);
}

#[test]
fn an_undecided_search_may_hold_more_but_cannot_win() {
    let mut own = searched(&[("a", 80.0, 0, 100.0), ("b", 40.0, 0, 100.0)]);
    own.searches[1].load = None;
    own.searches[1].starts[0].quantiles = (0..20).map(|at| 40.0 + 5.0 * f64::from(at)).collect();
    let answered = answer(own.clone()).questions.remove(0);
    let won = answered.winner.as_ref().expect("a winner");
    assert!(won.config == "a" && won.probability < 0.8, "{won:?}");
    assert_eq!((&answered.ties[..], &answered.advice), (&["b".to_owned()][..], &None));
    assert_eq!(answered.finalists().collect::<Vec<&str>>(), ["a"]);
    let undecided = answered.undecided("b").expect("it competes");
    assert!(
        undecided.load.is_empty() && undecided.value.high > 120.0,
        "{undecided:?}"
    );
    assert_eq!(undecided.winner_over, None, "it may hold more");
    own.searches.remove(0);
    assert_eq!(answer(own).questions[0].winner, None);
}

#[test]
fn starts_that_differ_widely_are_believed() {
    let mut own = searched(&[("varies", 104.0, 0, 100.0), ("steady", 101.0, 0, 100.0)]);
    for (search, loads) in own.searches.iter_mut().zip([[98.0, 111.0, 97.0, 111.0], [101.0; 4]]) {
        search.slope = 8.0;
        let start = |(number, load): (usize, f64)| StartLimit {
            start: number.to_string(),
            node: "a".to_owned(),
            quantiles: (0..20).map(|at| load * (0.99 + 0.001 * f64::from(at))).collect(),
            ..StartLimit::default()
        };
        search.starts = loads.into_iter().enumerate().map(start).collect();
    }
    let answered = answer(own.clone()).questions.remove(0);
    let varies = answered.entrants.iter().find(|own| own.config == "varies");
    let varies = varies.expect("it competes");
    assert!(varies.value.high > 107.0 && varies.probability < 0.95, "{varies:?}");
    // On a flat curve so much noise of the figure would move the limit by a multiple.
    let mut flat = own.searches[1].clone();
    (flat.slope, flat.config) = (0.5, "flat".to_owned());
    flat.starts.truncate(1);
    own.searches.push(flat);
    own.configs.push(Config {
        id: "flat".to_owned(),
        ..own.configs[1].clone()
    });
    let answered = answer(own).questions.remove(0);
    let flat = answered.entrants.iter().find(|own| own.config == "flat");
    let flat = flat.expect("it competes").value;
    assert!(flat.high / flat.value < 1.3, "{flat:?}");
}

/// It reports the lower of its two loads, which says nothing against it.
#[test]
fn a_second_start_takes_no_advantage() {
    let mut own = searched(&[("twice", 21.0, 0, 100.0), ("once", 22.0, 0, 100.0)]);
    let start = |load: f64| StartLimit {
        start: load.to_string(),
        node: "a".to_owned(),
        load: Some(load),
        quantiles: (0..20).map(|at| load * (1.0 + 0.002 * f64::from(at))).collect(),
    };
    own.searches[0].starts = vec![start(21.0), start(26.0)];
    own.searches[1].starts = vec![start(22.0)];
    own.margin = 0.01;
    let answered = answer(own).questions.remove(0);
    let won = answered.winner.expect("a winner");
    assert_eq!((&*won.config, won.value.value), ("twice", 21.0));
    let [first, second] = &answered.entrants[..] else {
        panic!("two entrants")
    };
    assert_eq!((&*first.config, &*second.config), ("twice", "once"));
    let ratio = second.winner_over.expect("a ratio").value;
    assert!((ratio - (21.0_f64 * 26.0).sqrt() / 22.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn a_search_that_likely_holds_more_loses_to_no_other_advantage() {
    let mut own = searched(&[("a", 14.0, 0, 120.0), ("b", 15.0, 0, 100.0)]);
    let won = |own: &Experiment| {
        let found = answer(own.clone());
        let won = found.questions[0].winner.clone().expect("a winner");
        (won.config, won.probability)
    };
    assert_eq!(won(&own).0, "a", "one user is within the margin");
    // As much is possible for the other one.
    own.searches[1].starts[0].quantiles = (0..20).map(|at| 15.0 + 0.1 * f64::from(at)).collect();
    own.searches[0].starts[0].quantiles = (0..20).map(|at| 14.0 + 0.1 * f64::from(at)).collect();
    assert_eq!(won(&own).0, "a", "with more throughput");
    // Its search ended early: the limit may lie far above the load that it reports.
    own.searches[1].starts[0].quantiles = (0..20).map(|at| 15.0 + 2.0 * f64::from(at)).collect();
    let (config, probability) = won(&own);
    assert!(config == "b" && probability > 0.9, "{config}: {probability}");
}

/// `x` cannot hold what `b` may hold, whichever of the others reports the highest load.
#[test]
fn a_winner_that_holds_more_loses_to_nothing_simpler() {
    let mut own = searched(&[("x", 99.3, 0, 100.0), ("w", 99.5, 0, 100.0), ("b", 100.0, 0, 100.0)]);
    for (search, step) in own.searches.iter_mut().zip([0.168, 0.3, 0.6]) {
        let least = search.load.expect("a load");
        search.starts[0].quantiles = (0..20).map(|at| least + step * f64::from(at)).collect();
    }
    assert_eq!(winner(&answer(own.clone())), "w");
    let improved = &mut own.searches[1];
    improved.load = improved.load.map(|load| load * 1.006);
    improved.starts[0].quantiles.iter_mut().for_each(|load| *load *= 1.006);
    assert_eq!(winner(&answer(own)), "w");
}

#[test]
fn the_disturbed_probes_are_those_of_the_target_that_is_asked_for() {
    let mut experiment = searched(&[("a", 80.0, 0, 100.0)]);
    let [only] = &mut experiment.searches[..] else {
        panic!("one search");
    };
    only.disturbed = (4, 11);
    // One run of a search tells of each of its targets.
    let other = Search {
        target: "batch".to_owned(),
        ..only.clone()
    };
    experiment.searches.push(other);
    let warned = answer(experiment).questions[0].warnings.clone();
    assert!(
        warned.contains(&Warning::Disturbed { disturbed: 4, of: 11 }),
        "{warned:?}"
    );
}

#[test]
fn a_server_that_wins_every_workload_wins_them_together() {
    let mut own = searched(&[("a", 80.0, 0, 100.0), ("b", 79.5, 0, 110.0)]);
    let workloads = ["chat", "batch"];
    let searches = own.searches.clone();
    own.searches = workloads
        .iter()
        .flat_map(|workload| {
            let of_workload = |search: &Search| Search {
                workload: (*workload).to_owned(),
                ..search.clone()
            };
            searches.iter().map(of_workload).collect::<Vec<_>>()
        })
        .collect();
    let question = own.questions[0].clone();
    own.questions = workloads
        .map(|workload| Question {
            workload: workload.to_owned(),
            ..question.clone()
        })
        .to_vec();
    let found = answer(own);
    assert_eq!(winner(&found), "b", "it has more throughput per GPU");
    assert_eq!(found.together[0].config.as_deref(), Some("b"));
}
