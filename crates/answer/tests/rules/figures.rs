//! Figures against each other, and figures of other scales.

use super::*;

#[test]
fn a_comparison_tells_a_regression_from_noise() {
    let side = |values: &[f64]| {
        let mut own = asking(&[]);
        server(
            &mut own,
            "s",
            0,
            "8",
            &values.iter().map(|value| (*value, 50.0)).collect::<Vec<_>>(),
        );
        own
    };
    let base = side(&[100.0, 100.5, 99.5, 100.2, 99.8, 100.0]);
    let verdict = |new: &Experiment| {
        let found = compare(&ComparisonInput {
            base: &base,
            new,
            pairs: vec![("s@8".to_owned(), "s@8".to_owned())],
            margin: &|_| 0.03,
            limits: vec![Limit {
                metric: THROUGHPUT.to_owned(),
                change: -0.05,
            }],
        });
        let point = found
            .points
            .iter()
            .find(|point| point.metric == THROUGHPUT)
            .expect("compared")
            .clone();
        (point.verdict, found.limits[0].requirement)
    };
    assert_eq!(
        verdict(&side(&[80.0, 80.4, 79.6, 80.1, 79.9, 80.0])),
        (Verdict::Regressed, RequirementVerdict::Broken)
    );
    assert_eq!(
        verdict(&side(&[100.1, 99.7, 100.3, 99.9, 100.0, 100.2])),
        (Verdict::Same, RequirementVerdict::Met)
    );
    assert_eq!(
        verdict(&side(&[96.5])),
        (Verdict::Undecided, RequirementVerdict::Undecided)
    );
}

#[test]
fn limits_are_judged_although_a_figure_of_the_new_side_is_zero() {
    let side = |scale: Scale, points: [(f64, f64); 2]| {
        let mut own = asking(&[]);
        own.metrics.iter_mut().for_each(|metric| metric.scale = scale);
        for (load, figures) in ["8", "16"].into_iter().zip(points) {
            server(&mut own, "s", 0, load, &[figures; 6]);
        }
        own
    };
    let limit = |metric: &str, change: f64| Limit {
        metric: metric.to_owned(),
        change,
    };
    let found = compare(&ComparisonInput {
        base: &side(Scale::Log, [(100.0, 50.0); 2]),
        new: &side(Scale::Linear, [(50.0, 50.0), (0.0, 0.0)]),
        pairs: vec![("s@8".to_owned(), "s@8".to_owned())],
        margin: &|_| 0.03,
        limits: vec![limit(THROUGHPUT, -0.05), limit(LATENCY, 0.05)],
    });
    let requirements = found.limits.iter().map(|limit| limit.requirement);
    let [throughput, latency] = requirements.collect::<Vec<_>>()[..] else {
        panic!("{:?}", found.limits);
    };
    assert_eq!(throughput, RequirementVerdict::Broken);
    assert_ne!(latency, RequirementVerdict::Broken);
}

#[test]
fn shares_and_figures_that_can_be_zero_have_intervals_too() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0), (101.0, 50.0)]);
    for (name, scale) in [("attainment", Scale::Share), ("preemptions", Scale::Linear)] {
        own.metrics.push(Metric {
            name: name.to_owned(),
            scale,
            better: Better::Higher,
            prior: NoisePrior::SHARE,
        });
    }
    for (run, (met, preemptions)) in own.points[0].runs.iter_mut().zip([(99.0, 0.0), (97.0, 3.0)]) {
        run.figures
            .insert("attainment".to_owned(), Figure::Share { met, of: 100.0 });
        run.figures.insert(
            "preemptions".to_owned(),
            Figure::Value {
                value: preemptions,
                error: 1.0,
            },
        );
    }
    let found = answer(own.clone());
    let figure = |name: &str| {
        let at = found
            .noise
            .iter()
            .position(|noise| noise.metric == name)
            .expect("asked");
        found.estimates[0].figures[at].expect("measured")
    };
    let share = figure("attainment");
    assert!(
        (share.value - 0.98).abs() < 1e-9 && share.low > 0.9 && share.high <= 1.0,
        "{share:?}"
    );
    let count = figure("preemptions");
    assert!(
        count.low < 1.0 && count.high > 2.0 && count.low <= count.value && count.value <= count.high,
        "{count:?}"
    );
}

#[test]
fn a_disturbed_run_hardly_counts_in_a_share() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(100.0, 50.0), (101.0, 50.0), (100.0, 50.0)]);
    own.metrics.push(Metric {
        name: "attainment".to_owned(),
        scale: Scale::Share,
        better: Better::Higher,
        prior: NoisePrior::SHARE,
    });
    for (run, met) in own.points[0].runs.iter_mut().zip([198.0, 100.0, 198.0]) {
        run.disturbed = met < 150.0;
        let figure = Figure::Share { met, of: 200.0 };
        run.figures.insert("attainment".to_owned(), figure);
    }
    let found = answer(own);
    let at = found.noise.iter().position(|noise| noise.metric == "attainment");
    let share = found.estimates[0].figures[at.expect("asked")].expect("measured");
    assert!(share.value > 0.95, "{share:?}");
}

#[test]
fn the_noise_of_a_figure_that_can_be_zero_is_relative() {
    let mut own = asking(&[]);
    own.metrics.push(Metric {
        name: "goodput".to_owned(),
        scale: Scale::Linear,
        better: Better::Higher,
        prior: NoisePrior::THROUGHPUT,
    });
    for (id, goodput) in [("a", 0.0), ("b", 474.0), ("c", 709.0)] {
        server(&mut own, id, 0, "8", &[(100.0, 50.0)]);
        let run = &mut own.points.last_mut().expect("a point").runs[0];
        let figure = Figure::Value {
            value: goodput,
            error: 0.0,
        };
        run.figures.insert("goodput".to_owned(), figure);
    }
    let found = answer(own);
    let noise = found.noise.iter().find(|noise| noise.metric == "goodput");
    let noise = noise.expect("asked");
    assert!(noise.start.deviation < 0.1 && noise.run.deviation < 0.1, "{noise:?}");
}

#[test]
fn the_interval_of_a_latency_of_zero_does_not_begin_below_it() {
    let least = |latencies: [f64; 2]| {
        let mut own = asking(&[]);
        own.metrics[1].scale = Scale::Linear;
        for (id, latency) in ["a", "b"].into_iter().zip(latencies) {
            server(&mut own, id, 0, "8", &[(100.0, latency), (100.0, latency)]);
        }
        let found = answer(own);
        let estimates = found.estimates.iter().flat_map(|point| point.figures.iter().flatten());
        estimates.map(|estimate| estimate.low).fold(f64::INFINITY, f64::min)
    };
    assert_eq!(least([0.0, 0.0]), 0.0);
    assert_eq!(least([0.0, 0.2]), 0.0);
    assert!(least([0.0, -0.2]) < -0.2, "a figure may be below 0");
}

#[test]
fn a_latency_of_zero_has_a_standing() {
    let mut own = asking(&[]);
    for metric in &mut own.metrics {
        metric.scale = Scale::Linear;
    }
    server(&mut own, "a", 0, "8", &[(0.0, 0.0)]);
    for (name, expected) in [(LATENCY, Some(0.0)), (THROUGHPUT, None)] {
        let question = Question::highest(name);
        let standing = standings(&own, &question, name, false)["a"];
        let value = match standing {
            Standing::Valued { value, error } => Some(value).filter(|_| error.is_finite()),
            Standing::Unmet | Standing::Unknown => None,
        };
        assert_eq!(value, expected, "{name}");
    }
}

#[test]
fn a_server_without_the_figure_of_a_target_is_neither_met_nor_unmet() {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(100.0, 10.0)]);
    let standing = |metric: &str, limit: f64| {
        let mut question = Question::highest(THROUGHPUT);
        question.targets.push(Target {
            metric: metric.to_owned(),
            bound: Operator::AtMost,
            limit,
            conditions: String::new(),
            about: Vec::new(),
        });
        standings(&own, &question, THROUGHPUT, false)["a"]
    };
    assert_eq!(standing(LATENCY, 9.0), Standing::Unmet);
    assert_eq!(standing("another", 9.0), Standing::Unknown);
    assert!(matches!(standing(LATENCY, 10.0), Standing::Valued { .. }));
}

#[test]
fn a_figure_of_zero_changes_no_other() {
    let estimates = |zero: Option<f64>| {
        let mut own = asking(&[(Operator::AtMost, 60.0)]);
        server(&mut own, "a", 0, "8", &[(100.0, 50.0), (101.0, 51.0)]);
        server(&mut own, "b", 0, "8", &[(90.0, 50.0), (92.0, 52.0)]);
        if let Some(zero) = zero {
            server(&mut own, "c", 0, "8", &[(0.0, 0.0), (zero, zero)]);
        }
        answer(own)
    };
    let (alone, zero, mixed) = (estimates(None), estimates(Some(0.0)), estimates(Some(140.0)));
    assert_eq!(zero.estimates[..2], alone.estimates[..]);
    assert_eq!(mixed.estimates[..2], alone.estimates[..]);
    let figure = |found: &Answer| found.estimates[2].figures[0].expect("measured");
    let ends = |estimate: Estimate| (estimate.value, estimate.low, estimate.high.round());
    assert_eq!(ends(figure(&zero)), (0.0, 0.0, 0.0));
    assert_eq!(ends(figure(&mixed)), (70.0, 0.0, 140.0));
    let question = &zero.questions[0];
    assert_eq!(
        (winner(&zero), &question.ruled_out[..]),
        ("a", &["b".to_owned(), "c".to_owned()][..])
    );
    let own = question.entrants.iter().find(|entrant| entrant.config == "c");
    assert!(
        own.is_some_and(|own| own.meets && own.probability == 0.0),
        "a latency of 0 meets a limit"
    );
}

#[test]
fn no_throughput_is_never_the_highest() {
    let mut own = asking(&[(Operator::AtMost, 60.0)]);
    server(&mut own, "a", 0, "8", &[(0.0, 50.0), (0.0, 51.0)]);
    server(&mut own, "b", 0, "8", &[(90.0, 70.0)]);
    let found = answer(own.clone());
    let nearest = found.questions[0].nearest.as_ref().map(|nearest| &*nearest.config);
    assert_eq!((winner(&found), nearest), ("", Some("b")));
    own.questions = vec![Question::highest(LATENCY)];
    own.points[0].runs.iter_mut().for_each(|run| {
        run.figures.insert(LATENCY, Figure::Value { value: 0.0, error: 0.0 });
    });
    assert_eq!(winner(&answer(own)), "a", "but no latency is the lowest");
}

/// Twelve servers with three runs on one start each. The last run of `b` is multiplied by `outlier`.
fn with_an_outlier(outlier: f64) -> Experiment {
    let mut own = asking(&[]);
    for (at, id) in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
        .into_iter()
        .enumerate()
    {
        let value = 100.0 - 0.8 * at as f64;
        let times = if id == "b" { outlier } else { 1.0 };
        let runs = [1.0, 1.004, 0.997 * times].map(|part| (value * part, 50.0));
        server(&mut own, id, 0, "8", &runs);
    }
    let runs = own.points.iter_mut().flat_map(|point| &mut point.runs);
    runs.for_each(|run| run.start = "0".to_owned());
    own
}

#[test]
fn an_outlier_makes_its_own_point_uncertain_and_no_other() {
    let [usual, outlier] = [1.0, 1.6].map(|outlier| answer(with_an_outlier(outlier)));
    let width = |found: &Answer, at: usize| {
        let figure = found.estimates[at].figures[0].expect("measured");
        (figure.high / figure.low).ln()
    };
    assert!(width(&outlier, 0) < 1.3 * width(&usual, 0));
    let figure = outlier.estimates[1].figures[0].expect("measured");
    assert!(figure.low < 95.0 && figure.high > 140.0, "{figure:?}");
}

#[test]
fn an_outlier_breaks_no_limit() {
    let found = compare(&ComparisonInput {
        base: &with_an_outlier(1.0),
        new: &with_an_outlier(0.5),
        pairs: vec![("b@8".to_owned(), "b@8".to_owned())],
        margin: &|_| 0.03,
        limits: vec![Limit {
            metric: THROUGHPUT.to_owned(),
            change: -0.05,
        }],
    });
    assert_eq!(found.limits[0].requirement, RequirementVerdict::Undecided);
}

#[test]
fn a_figure_below_zero_has_no_ratio_to_it() {
    let side = |value: f64| {
        let mut own = asking(&[]);
        own.metrics[0].scale = Scale::Linear;
        server(&mut own, "s", 0, "8", &[(value, 50.0); 3]);
        own
    };
    let has_ratio = |base: f64, new: f64| {
        let found = compare(&ComparisonInput {
            base: &side(base),
            new: &side(new),
            pairs: vec![("s@8".to_owned(), "s@8".to_owned())],
            margin: &|_| 0.03,
            limits: Vec::new(),
        });
        found.points.iter().any(|point| point.metric == THROUGHPUT)
    };
    assert!(!has_ratio(-10.0, -5.0), "half of a loss is an improvement");
    assert!(has_ratio(10.0, -5.0));
}

#[test]
fn a_comparison_depends_neither_on_ids_nor_on_which_side_comes_first() {
    let side = |id: &str, values: [f64; 3]| {
        let mut own = asking(&[]);
        server(&mut own, id, 0, "8", &values.map(|value| (value, 50.0)));
        own
    };
    let ratio = |base: &Experiment, new: &Experiment| {
        let found = compare(&ComparisonInput {
            base,
            new,
            pairs: vec![(base.points[0].id.clone(), new.points[0].id.clone())],
            margin: &|_| 0.03,
            limits: Vec::new(),
        });
        found.points[0].ratio
    };
    let (slow, fast) = ([100.0, 101.0, 99.0], [106.0, 105.0, 108.0]);
    let found = ratio(&side("s", slow), &side("s", fast));
    assert_eq!(ratio(&side("s", slow), &side("another", fast)), found);
    let back = ratio(&side("s", fast), &side("s", slow));
    let pairs = [
        (found.value, back.value),
        (found.low, back.high),
        (found.high, back.low),
    ];
    for (one, other) in pairs {
        assert!((one * other - 1.0).abs() < 1e-9, "{found:?} {back:?}");
    }
}
