//! The winner of a question about points: its ties, targets, unit, effects and warnings.

use super::*;

#[test]
fn a_clear_winner_stands_alone_and_the_others_are_ruled_out() {
    let mut own = asking(&[]);
    server(&mut own, "small", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "large", 1, "8", &[(237.0, 50.0)]);
    let found = answer(own.clone());
    let question = &found.questions[0];
    assert_eq!(
        (winner(&found), &question.ties[..], &question.ruled_out[..]),
        ("large", &[][..], &["small".to_owned()][..])
    );
    let won = question.winner.as_ref().expect("a winner");
    assert!(
        won.probability > 0.99 && won.value.low > 200.0 && won.value.high < 260.0,
        "{won:?}"
    );
    assert_eq!(won.chosen, WinReason::Best);
    let over = question.entrants[1].winner_over.expect("a ratio");
    assert!(
        (over.value - 2.37).abs() < 0.01 && over.low < 2.37 && over.high > 2.37,
        "{over:?}"
    );
    assert!(question.advice.is_none());
    assert!(
        matches!(question.warnings[..], [Warning::StartNoiseAssumed { .. }]),
        "{:?}",
        question.warnings
    );
    assert_eq!(found.noise[0].start.basis, Basis::Assumed);
}

#[test]
fn within_the_margin_a_server_that_fails_less_wins() {
    let mut own = asking(&[]);
    server(&mut own, "dies", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "sound", 4, "8", &[(99.5, 50.0)]);
    server(&mut own, "slow", 0, "8", &[(98.5, 50.0)]);
    own.configs[0].facts.deaths = 1;
    let found = answer(own.clone());
    assert_eq!(winner(&found), "sound");
    let best = "dies".to_owned();
    let chosen = &found.questions[0].winner.as_ref().expect("a winner").chosen;
    assert_eq!(*chosen, WinReason::FewerFailures { best });
    own.configs[1].facts.deaths = 1;
    assert_eq!(winner(&answer(own.clone())), "dies", "all that are near died");
    // Failed requests count like a death, unless they are very few.
    let facts = own.configs.iter_mut().map(|config| &mut config.facts);
    for (facts, failed) in facts.zip([24, 1]) {
        (facts.deaths, facts.requests, facts.failed_requests) = (0, 400, failed);
    }
    assert_eq!(winner(&answer(own)), "sound");
}

#[test]
fn within_the_margin_fewer_changes_win_and_say_so() {
    let mut own = asking(&[]);
    server(&mut own, "plain", 0, "8", &[(99.5, 50.0)]);
    server(&mut own, "some", 1, "8", &[(99.9, 50.0)]);
    server(&mut own, "many", 4, "8", &[(100.0, 50.0)]);
    server(&mut own, "slow", 0, "8", &[(98.5, 50.0)]);
    let found = answer(own.clone());
    assert_eq!(winner(&found), "plain");
    let chosen = &found.questions[0].winner.as_ref().expect("a winner").chosen;
    assert_eq!(
        *chosen,
        WinReason::FewerChanges {
            best: "many".to_owned()
        }
    );
    let over = |id: &str| {
        let mut entrants = found.questions[0].entrants.iter();
        entrants
            .find(|entrant| entrant.config == id)
            .and_then(|entrant| entrant.winner_over)
    };
    assert!(
        over("many").is_none() && over("slow").is_some(),
        "nothing calls the winner worse"
    );
}

#[test]
fn only_who_meets_the_target_wins_and_its_chance_is_told() {
    let mut own = asking(&[(Operator::AtMost, 500.0)]);
    server(&mut own, "fast", 0, "8", &[(200.0, 700.0)]);
    server(&mut own, "close", 0, "8", &[(150.0, 497.0)]);
    server(&mut own, "safe", 0, "8", &[(100.0, 300.0)]);
    let found = answer(own.clone());
    let question = &found.questions[0];
    assert_eq!(winner(&found), "close");
    let won = question.winner.as_ref().expect("a winner");
    assert!((0.4..0.8).contains(&won.meets[0].probability), "{won:?}");
    assert!(
        question
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::TargetUncertain { .. }))
    );
    // The safe one is right in the draws in which the close one misses the target.
    assert_eq!(question.ties, ["safe"]);
    assert_eq!(question.finalists().collect::<Vec<&str>>(), ["close", "safe"]);
    assert!(
        question.entrants.iter().all(|entrant| entrant.config != "fast"),
        "it never meets it"
    );
}

#[test]
fn a_config_has_the_load_at_which_it_meets_the_target() {
    let mut own = asking(&[(Operator::Below, 500.0)]);
    server(&mut own, "a", 0, "8", &[(100.0, 200.0)]);
    server(&mut own, "a", 0, "16", &[(150.0, 400.0)]);
    server(&mut own, "a", 0, "32", &[(200.0, 900.0)]);
    server(&mut own, "b", 0, "8", &[(120.0, 300.0)]);
    let found = answer(own.clone());
    let won = found.questions[0].winner.as_ref().expect("a winner");
    assert_eq!(
        (&*won.config, &*won.load, won.point.as_deref()),
        ("a", "16", Some("a@16"))
    );
}

#[test]
fn where_nobody_meets_the_target_the_nearest_is_named() {
    let mut own = asking(&[(Operator::AtMost, 100.0)]);
    server(&mut own, "a", 0, "8", &[(200.0, 700.0)]);
    server(&mut own, "b", 0, "8", &[(100.0, 300.0)]);
    let found = answer(own.clone());
    let question = &found.questions[0];
    assert!(question.winner.is_none() && question.ties.is_empty() && question.ruled_out.is_empty());
    let nearest = question.nearest.as_ref().expect("somebody is nearest");
    assert_eq!(
        (&*nearest.config, nearest.meets[0].is_met, nearest.probability),
        ("b", false, 0.0)
    );
}

#[test]
fn the_unit_is_what_the_user_has() {
    let mut own = asking(&[]);
    server(&mut own, "tp=2", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "tp=8", 0, "8", &[(300.0, 50.0)]);
    server(&mut own, "tp=16", 0, "8", &[(900.0, 50.0)]);
    for (config, gpus) in own.configs.iter_mut().zip([2, 8, 16]) {
        config.gpus = gpus;
    }
    assert_eq!(
        winner(&answer(own.clone())),
        "tp=16",
        "one server each where nothing is known"
    );
    own.gpus = Some(8);
    let found = answer(own.clone());
    let won = found.questions[0].winner.as_ref().expect("a winner");
    assert_eq!(
        (&*won.config, won.replicas, won.value.value.round()),
        ("tp=2", 4, 400.0)
    );
    assert_eq!(found.questions[0].too_large, ["tp=16"]);
    // Four of the one server against one of the other, as in the recommendation; those that do not fit are no alternative.
    let of_throughput = found.questions[0]
        .effects
        .iter()
        .filter(|effect| effect.metric == THROUGHPUT);
    let effects: Vec<(&str, f64)> = of_throughput
        .map(|effect| (&*effect.config, effect.ratio.value))
        .collect();
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert!(
        effects[0].0 == "tp=8" && (effects[0].1 - 400.0 / 300.0).abs() < 0.02,
        "{effects:?}"
    );
}

#[test]
fn effects_at_the_winner_have_a_sign_or_make_no_difference() {
    let mut own = asking(&[]);
    let four = |value: f64, latency: f64| {
        [
            (value, latency),
            (value * 1.001, latency),
            (value * 0.999, latency),
            (value, latency),
        ]
    };
    server(&mut own, "seqs=64 cache=on", 2, "8", &four(200.0, 50.0));
    server(&mut own, "cache=on", 1, "8", &four(100.0, 40.0));
    server(&mut own, "seqs=64", 1, "8", &four(190.0, 50.0));
    server(&mut own, "seqs=64 cache=on eager=1", 3, "8", &four(199.9, 50.0));
    server(&mut own, "seqs=32", 1, "8", &four(120.0, 50.0));
    let found = answer(own.clone());
    assert_eq!(winner(&found), "seqs=64 cache=on");
    let effects = &found.questions[0].effects;
    let verdict = |metric: &str, setting: &str| {
        effects
            .iter()
            .find(|effect| effect.metric == metric && effect.setting == setting)
            .map(|effect| effect.verdict)
    };
    assert_eq!(verdict(THROUGHPUT, "seqs"), Some(Verdict::Improved));
    assert_eq!(verdict(LATENCY, "seqs"), Some(Verdict::Regressed));
    assert_eq!(verdict(THROUGHPUT, "eager"), Some(Verdict::Same));
    assert_eq!(
        effects.iter().filter(|effect| effect.metric == THROUGHPUT).count(),
        3,
        "two differences are no effect"
    );
}

#[test]
fn several_workloads_are_answered_together() {
    let mut own = asking(&[]);
    for (id, chat, batch) in [("chatty", 100.0, 50.0), ("bulky", 60.0, 100.0), ("both", 90.0, 92.0)] {
        server(&mut own, id, 0, "8", &[(chat, 50.0)]);
        own.points.last_mut().expect("a point").workload = "chat".to_owned();
        server(&mut own, id, 0, "batch", &[(batch, 50.0)]);
        own.points.last_mut().expect("a point").workload = "batch".to_owned();
    }
    let question = own.questions[0].clone();
    own.questions = ["chat", "batch"]
        .map(|workload| Question {
            workload: workload.to_owned(),
            ..question.clone()
        })
        .to_vec();
    let found = answer(own.clone());
    let together = &found.together[0];
    assert_eq!(together.config.as_deref(), Some("both"));
    assert!((together.shares[0].share - 0.9).abs() < 1e-9 && together.shares[0].winner == "chatty");
    assert!(together.probability > 0.9, "{together:?}");
    // Nothing is known of a third workload, so no server is the answer for all of them.
    own.questions.push(Question {
        workload: "long".to_owned(),
        ..question
    });
    assert_eq!(answer(own).together[0].config, None);
}

#[test]
fn a_server_that_does_nothing_of_a_workload_never_wins_all() {
    let together = |figures: [[f64; 2]; 2]| {
        let mut own = asking(&[]);
        for (id, figures) in ["a", "b"].into_iter().zip(figures) {
            for (workload, figure) in ["chat", "batch"].into_iter().zip(figures) {
                server(&mut own, id, 0, workload, &[(figure, 50.0)]);
                own.points.last_mut().expect("a point").workload = workload.to_owned();
            }
        }
        let question = own.questions[0].clone();
        let asked = ["chat", "batch"].map(|workload| Question {
            workload: workload.to_owned(),
            ..question.clone()
        });
        own.questions = asked.to_vec();
        answer(own).together[0].config.clone()
    };
    assert_eq!(together([[100.0, 50.0], [60.0, 100.0]]).as_deref(), Some("b"));
    assert_eq!(together([[100.0, 0.0], [0.0, 100.0]]), None);
    assert_eq!(together([[100.0, 0.0], [90.0, 0.0]]), None);
}

#[test]
fn a_limit_of_zero_has_a_nearest_point() {
    let mut own = asking(&[]);
    for (id, failed) in [("a", 22.0), ("b", 12.0)] {
        server(&mut own, id, 0, "8", &[(100.0, 50.0)]);
        let run = &mut own.points.last_mut().expect("a point").runs[0];
        run.figures.insert(
            "failed".to_owned(),
            Figure::Value {
                value: failed,
                error: 0.0,
            },
        );
    }
    own.metrics.push(Metric {
        name: "failed".to_owned(),
        scale: Scale::Linear,
        better: Better::Lower,
        prior: NoisePrior::SHARE,
    });
    own.questions[0].targets = vec![Target {
        metric: "failed".to_owned(),
        bound: Operator::AtMost,
        limit: 0.0,
        conditions: String::new(),
        about: Vec::new(),
    }];
    let nearest = answer(own).questions[0].nearest.clone().expect("nothing meets it");
    assert_eq!(nearest.config, "b");
}

#[test]
fn a_server_whose_required_load_is_still_to_be_measured_does_not_win() {
    let mut own = asking(&[(Operator::AtMost, 60.0)]);
    server(&mut own, "a", 0, "1", &[(50.0, 10.0)]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "b", 0, "1", &[(200.0, 10.0)]);
    own.questions[0].targets[0].about = vec![TargetPoint {
        config: "a".to_owned(),
        workload: String::new(),
        point: "a@8".to_owned(),
    }];
    own.open = 1;
    assert_eq!(winner(&answer(own.clone())), "a");
    // Once nothing is left, the plan has no such load for the other server.
    own.open = 0;
    assert_eq!(winner(&answer(own)), "b");
}

#[test]
fn what_comes_nearest_is_named_at_the_load_that_the_target_is_about() {
    let mut own = asking(&[(Operator::AtMost, 20.0)]);
    own.questions[0].targets[0].about = ["a", "b"]
        .map(|config| TargetPoint {
            config: config.to_owned(),
            workload: String::new(),
            point: format!("{config}@8"),
        })
        .to_vec();
    for (id, latency) in [("a", 50.0), ("b", 20.01)] {
        server(&mut own, id, 0, "1", &[(50.0, 10.0)]);
        server(&mut own, id, 0, "8", &[(100.0, latency)]);
    }
    // The question may be about another load than the target.
    for load in [None, Some("1".to_owned())] {
        own.questions[0].load = load;
        let answered = answer(own.clone()).questions.remove(0);
        let nearest = answered.nearest.expect("nothing meets it");
        assert_eq!(nearest.point, "b@8");
        assert!(nearest.probability > 0.3, "it may meet the target: {nearest:?}");
    }
}

#[test]
fn a_frontier_has_no_winner_and_each_point_a_chance() {
    let mut own = asking(&[]);
    own.frontiers = vec![FrontierQuestion {
        workload: String::new(),
        x: LATENCY.to_owned(),
        y: THROUGHPUT.to_owned(),
        targets: Vec::new(),
    }];
    server(&mut own, "a", 0, "1", &[(50.0, 10.0)]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "b", 0, "1", &[(49.8, 10.3)]);
    server(&mut own, "b", 0, "8", &[(60.0, 80.0)]);
    let found = answer(own.clone());
    let points = &found.frontiers[0].points;
    let names: Vec<&str> = points.iter().map(|point| &*point.point).collect();
    assert_eq!(names, ["a@1", "a@8"]);
    assert!(
        points[0].probability < points[1].probability && points[1].probability > 0.99,
        "{points:?}"
    );
    // A server that does not fit on the user's GPUs is not on it.
    (own.gpus, own.configs[0].gpus) = (Some(2), 4);
    let found = answer(own);
    let points = &found.frontiers[0].points;
    assert!(points.iter().all(|point| point.config == "b"), "{points:?}");
}

#[test]
fn warnings_tell_what_happened_to_the_winner() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(200.0, 50.0), (201.0, 50.0)]);
    server(&mut own, "b", 0, "8", &[(100.0, 50.0)]);
    own.points[1].runs[0].node = "other".to_owned();
    own.points[0].runs[0].disturbed = true;
    own.configs[0].facts = Facts {
        launches: 4,
        deaths: 3,
        retries: 2,
        requests: 1000,
        failed_requests: 5,
        simulated: true,
        versions: vec!["2".to_owned()],
        other_versions: vec!["1".to_owned()],
    };
    let warnings = &answer(own.clone()).questions[0].warnings;
    assert!(warnings.contains(&Warning::Deaths { deaths: 3, launches: 4 }));
    assert!(warnings.contains(&Warning::Retries { retries: 2 }));
    assert!(warnings.contains(&Warning::FailedRequests {
        failed: 5,
        requests: 1000
    }));
    assert!(warnings.contains(&Warning::Disturbed { disturbed: 1, of: 2 }));
    assert!(warnings.contains(&Warning::Simulated));
    assert!(warnings.contains(&Warning::OtherVersions {
        own: vec!["2".to_owned()],
        others: vec!["1".to_owned()]
    }));
    let others = vec!["other".to_owned()];
    assert!(warnings.contains(&Warning::OtherNodes {
        own: vec!["a".to_owned()],
        others
    }));
    own.points[0].runs.iter_mut().for_each(|run| run.node.clear());
    let warnings = &answer(own).questions[0].warnings;
    assert!(
        !warnings
            .iter()
            .any(|warning| matches!(warning, Warning::OtherNodes { .. })),
        "imported runs are of no known node: {warnings:?}"
    );
}

#[test]
fn a_disturbed_run_hardly_weighs_beside_others_and_is_wide_alone() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0), (100.0, 50.0), (60.0, 50.0)]);
    server(&mut own, "b", 0, "8", &[(60.0, 50.0)]);
    own.points[0].runs[2].disturbed = true;
    own.points[1].runs[0].disturbed = true;
    let found = answer(own.clone());
    let a = found.estimates[0].figures[0].expect("measured");
    assert!(a.value > 98.0, "{a:?}");
    let b = found.estimates[1].figures[0].expect("measured");
    assert!(b.high / b.low > 1.4, "{b:?}");
    assert!(found.questions[0].entrants[1].is_disturbed);
}

#[test]
fn a_doubt_about_the_winning_figure_is_a_warning() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0)]);
    server(&mut own, "b", 0, "8", &[(120.0, 50.0)]);
    for point in &mut own.points {
        let codes = vec![format!("doubt_of_{}", point.config)];
        point.doubts = [
            (THROUGHPUT.to_owned(), codes),
            (LATENCY.to_owned(), vec!["another".to_owned()]),
        ]
        .into();
    }
    let warnings = answer(own).questions[0].warnings.clone();
    let doubtful = Warning::Doubtful {
        codes: vec!["doubt_of_b".to_owned()],
    };
    assert!(warnings.contains(&doubtful), "{warnings:?}");
}

#[test]
fn the_size_of_a_server_does_not_change_its_certainty() {
    let sure = |gpus: u32| {
        let mut own = asking(&[]);
        own.gpus = Some(2);
        let times = f64::from(gpus);
        for (id, value) in [("a", 100.0), ("b", 100.4), ("c", 101.8), ("d", 99.1)] {
            server(&mut own, id, 1, "8", &[(value, 50.0)]);
        }
        for (id, value) in [("e", 101.5), ("f", 99.7), ("g", 99.2)] {
            server(&mut own, id, 1, "8", &[(value * times, 50.0)]);
        }
        own.configs[4..].iter_mut().for_each(|config| config.gpus = gpus);
        let found = answer(own);
        assert_eq!(winner(&found), "c");
        found.questions[0].winner.as_ref().expect("a winner").probability
    };
    assert!((sure(1) - sure(2)).abs() < 0.02, "{} {}", sure(1), sure(2));
}

#[test]
fn no_server_wins_by_its_node() {
    let mut own = asking(&[]);
    let three = |value: f64| [(value, 50.0), (value * 1.002, 50.0), (value * 0.999, 50.0)];
    // Node `b` is 15 % slower than `a`.
    server(&mut own, "both", 0, "8", &[three(90.0), three(76.5)].concat());
    server(&mut own, "slow", 0, "8", &three(97.0));
    server(&mut own, "fast", 0, "8", &three(88.0));
    own.points[0].runs[3..]
        .iter_mut()
        .for_each(|run| run.node = "b".to_owned());
    own.points[2].runs.iter_mut().for_each(|run| run.node = "b".to_owned());
    let found = answer(own);
    assert_eq!(winner(&found), "fast");
    let won = found.questions[0].winner.as_ref().expect("a winner");
    assert!((won.value.value / 103.5 - 1.0).abs() < 0.01, "{won:?}");
    assert!(won.probability > 0.95, "{won:?}");
}
