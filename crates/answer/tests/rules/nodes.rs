//! Results of several nodes.

use super::*;

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
