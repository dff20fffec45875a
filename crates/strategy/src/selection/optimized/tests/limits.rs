//! Optimisations of a grid with a largest value, of all candidates or of some.

use super::*;
use std::collections::BTreeSet;

/// The plan allows no value above 0, and the defaults reach it.
#[test]
fn at_the_largest_value_allowed_no_other_is_started_but_a_smaller_one() {
    let limited = |gpus: u32| {
        let mut all = candidates(false);
        all.iter_mut().for_each(|own| own.most = Some(0.0));
        all[31].gpus = gpus;
        let mut limited = Optimized::new(&axes(), all, rules(None));
        limited.add(
            10,
            Trial::Measured {
                ln_value: 0.0,
                sd: 0.005,
            },
            160.0,
        );
        limited
    };
    assert_eq!(limited(2).ask(1, &[]), Err(EndReason::Certain));
    assert_eq!(limited(2).chance_of_best(), 1.0);
    assert_eq!(limited(2).estimate(31).excluded, Some(Exclusion::CannotWin));
    assert!(limited(1).ask(1, &[]).is_ok(), "it may do with fewer GPUs");
}

#[test]
fn a_beaten_candidate_is_not_started_again() {
    let ln_below = value(grid()[10]) - 0.1;
    let (_, proposals, _) = played(optimized(None), |at, start| match at {
        10 => measured(at, start),
        _ => Trial::Beaten { ln_below },
    });
    let mut started = BTreeSet::new();
    let is_first = |own: &Proposal| own.candidate == 10 || started.insert(own.candidate);
    assert!(proposals.iter().all(is_first), "{proposals:?}");
}
