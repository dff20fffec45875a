//! Optimisations of a grid with a largest value.

use super::*;

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
