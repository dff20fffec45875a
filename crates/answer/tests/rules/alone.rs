//! Figures without neighbours, against those beside the other servers of the sweep.

use crate::{LATENCY, THROUGHPUT, asking, server};
use vsweep_answer::{Experiment, Verdict, Warning, answer};

/// Two servers, and the better one again without neighbours with these figures.
fn again(throughput: f64, latency: f64) -> Experiment {
    let mut own = asking(&[]);
    server(&mut own, "a", 0, "8", &[(200.0, 50.0), (201.0, 50.0)]);
    server(&mut own, "b", 0, "8", &[(100.0, 50.0), (101.0, 50.0)]);
    let mut alone = asking(&[]);
    server(&mut alone, "a", 0, "8", &[(throughput, latency)]);
    Experiment {
        alone: alone.points,
        ..own
    }
}

#[test]
fn a_winner_that_its_neighbours_slowed_has_a_warning_and_keeps_its_figures() {
    let found = answer(again(260.0, 50.0));
    let own = &found.questions[0];
    let figure = own
        .alone
        .iter()
        .find(|figure| figure.metric == THROUGHPUT)
        .expect("compared");
    assert!((figure.ratio.value - 260.0 / 200.5).abs() < 0.01, "{figure:?}");
    assert_eq!(figure.verdict, Verdict::Improved);
    let is_warned = |warning: &Warning| matches!(warning, Warning::OtherwiseAlone { figures } if figures == std::slice::from_ref(figure));
    assert!(own.warnings.iter().any(is_warned), "{:?}", own.warnings);
    let without = answer(Experiment {
        alone: Vec::new(),
        ..again(260.0, 50.0)
    });
    assert_eq!(without.estimates, found.estimates);
    assert_eq!(without.questions[0].winner, own.winner);
}

#[test]
fn a_winner_with_the_same_figures_alone_has_no_warning() {
    let found = answer(again(200.0, 50.0));
    let own = &found.questions[0];
    assert!(
        own.alone.iter().all(|figure| figure.metric != LATENCY),
        "no target is about it"
    );
    assert!(
        !own.warnings
            .iter()
            .any(|warning| matches!(warning, Warning::OtherwiseAlone { .. }))
    );
}
