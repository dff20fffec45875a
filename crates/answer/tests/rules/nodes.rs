//! Results of several nodes, and the node for which a figure holds.

use super::*;
use vsweep_answer::Comparison;

/// Servers with the nodes and the throughputs of their starts.
fn side(servers: &[(&str, &[(&str, f64)])]) -> Experiment {
    let mut own = asking(&[]);
    for (id, starts) in servers {
        let figures: Vec<(f64, f64)> = starts.iter().map(|(_, value)| (*value, 50.0)).collect();
        server(&mut own, id, 0, "8", &figures);
        let runs = &mut own.points.last_mut().expect("a point").runs;
        for (run, (node, _)) in runs.iter_mut().zip(*starts) {
            run.node = (*node).to_owned();
        }
    }
    own
}

/// Compares the throughput of all servers. It may not fall by more than 2 %.
fn compared(base: &Experiment, new: &Experiment) -> Comparison {
    let mut found = compare(&ComparisonInput {
        base,
        new,
        pairs: base
            .points
            .iter()
            .map(|point| (point.id.clone(), point.id.clone()))
            .collect(),
        margin: &|_| 0.03,
        limits: vec![Limit {
            metric: THROUGHPUT.to_owned(),
            change: -0.02,
        }],
    });
    found.points.retain(|point| point.metric == THROUGHPUT);
    found
}

/// Node `b` is 10 % faster. The base has most of its runs on `a`, the new side on `b`.
#[test]
fn both_figures_of_a_pair_hold_for_one_node() {
    let base = side(&[(
        "s",
        &[("a", 100.0), ("a", 100.2), ("a", 99.8), ("b", 110.0), ("b", 110.2)],
    )]);
    let new = side(&[(
        "s",
        &[("a", 100.0), ("a", 99.9), ("b", 110.0), ("b", 109.8), ("b", 110.2)],
    )]);
    let found = &compared(&base, &new).points[0];
    assert!((found.ratio.value - 1.0).abs() < 0.01, "{found:?}");
    assert_ne!(found.verdict, Verdict::Improved);
    assert!((found.is.value / 100.0 - 1.0).abs() < 0.02, "{found:?}");
}

#[test]
fn what_nodes_may_explain_is_undecided() {
    const PARTS: [f64; 6] = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0];
    let of = |node: &str, value: f64| side(&[("s", &PARTS.map(|part| (node, value * part)))]);
    let verdict = |base: &str, new: &str| {
        let found = compared(&of(base, 100.0), &of(new, 95.0));
        let point = &found.points[0];
        assert_eq!(point.more_starts, None, "no starts show how nodes differ");
        (point.verdict, found.limits[0].requirement)
    };
    let decided = (Verdict::Regressed, RequirementVerdict::Broken);
    assert_eq!(verdict("a", "a"), decided);
    assert_eq!(verdict("a", "b"), (Verdict::Undecided, RequirementVerdict::Undecided));
    assert_eq!(verdict("", "b"), decided, "an unknown node may be the same");
}

#[test]
fn pairs_on_one_node_have_no_noise_of_nodes() {
    let own = side(&[
        ("s", &[("a", 100.0), ("a", 100.2), ("a", 99.8), ("a", 100.1)]),
        ("t", &[("b", 100.0), ("b", 100.2), ("b", 99.8)]),
    ]);
    let found = compared(&own, &own);
    let width = |at: usize| (found.points[at].ratio.high / found.points[at].ratio.low).ln();
    assert!(width(1) < 1.4 * width(0), "{:?}", found.points);
}

#[test]
fn a_node_with_figures_of_zero_alone_changes_no_other_figure() {
    let servers: [(&str, &[(&str, f64)]); 3] = [
        ("s", &[("a", 100.0), ("a", 101.0)]),
        ("t", &[("a", 90.0), ("a", 91.0)]),
        ("u", &[("b", 0.0); 6]),
    ];
    let estimates = |count: usize| answer(side(&servers[..count])).estimates;
    let throughput = |count: usize| {
        estimates(count)[..2]
            .iter()
            .map(|point| point.figures[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(throughput(3), throughput(2));
}

#[test]
fn a_load_found_on_another_node_is_less_certain() {
    let widths = |node: &str| {
        let located = |node: &str| StartLimit {
            node: node.to_owned(),
            quantiles: (0..20).map(|at| 80.0 * (1.0 + 0.001 * f64::from(at))).collect(),
            ..StartLimit::default()
        };
        let search = |(id, node): (&str, &str)| Search {
            config: id.to_owned(),
            target: "chat".to_owned(),
            load: Some(80.0),
            slope: 1.0,
            starts: vec![located(node)],
            ..Search::default()
        };
        let config = |id: &str| Config {
            id: id.to_owned(),
            ..Config::default()
        };
        let found = answer(Experiment {
            configs: ["s", "t", "u"].map(config).to_vec(),
            searches: [("s", "a"), ("t", "a"), ("u", node)].map(search).to_vec(),
            questions: vec![Question::highest_load("chat")],
            margin: 0.01,
            ..Experiment::default()
        });
        let value = |id: &str| {
            let entrants = &found.questions[0].entrants;
            entrants
                .iter()
                .find(|entrant| entrant.config == id)
                .expect("it competes")
                .value
        };
        ["s", "u"].map(|id| (value(id).high / value(id).low).ln())
    };
    let (one, two) = (widths("a"), widths("b"));
    assert!((two[0] / one[0] - 1.0).abs() < 0.2, "{one:?} {two:?}");
    assert!(two[1] > 1.3 * one[1], "{one:?} {two:?}");
}
