//! Tests of comparisons by pairs of starts.

use super::*;
use crate::stats::{Better, Bound, Margin};
use proptest::prelude::*;

/// Settings of the comparison.
#[derive(Clone)]
struct Settings {
    family: Vec<Member>,
    max_starts: usize,
    placement: Placement,
}

impl Settings {
    fn new(family: Vec<Member>) -> Settings {
        Settings {
            family,
            max_starts: 40,
            placement: Placement::InTurn,
        }
    }

    fn start(self) -> PairedComparison {
        PairedComparison::new(self.family, self.max_starts, self.placement)
    }
}

fn member() -> Member {
    Member {
        better: Better::Higher,
        margin: Margin::percent(3.0),
        bound: None,
    }
}

fn asked(paired: &PairedComparison, pending: &[PairStart]) -> PairStart {
    match paired.ask(pending) {
        Err(Some(slot)) => slot,
        other => panic!("{other:?}"),
    }
}

/// Runs a comparison to its end. `value` gives the logarithms of a start by its slot and its number; `None` if the start fails.
fn run(
    settings: Settings,
    mut value: impl FnMut(PairStart, usize) -> Option<Vec<Option<f64>>>,
) -> (PairedOutcome, Vec<PairStart>) {
    let mut paired = settings.start();
    let mut slots = Vec::new();
    loop {
        match paired.ask(&[]) {
            Ok(outcome) => return (outcome, slots),
            Err(None) => panic!("nothing is pending"),
            Err(Some(slot)) => {
                let logs = value(slot, slots.len());
                slots.push(slot);
                paired.add(slot, logs);
            }
        }
    }
}

/// A small noise that looks random and has no drift.
fn noise(start: usize) -> f64 {
    0.004 * (((start * 7919 + 13) % 101) as f64 / 50.0 - 1.0)
}

#[test]
fn the_order_is_abba_and_a_clear_change_ends_it() {
    let (outcome, slots) = run(Settings::new(vec![member()]), |slot, i| {
        Some(vec![Some(noise(i) + if slot.arm == Arm::New { -0.1 } else { 0.0 })])
    });
    let arms: Vec<Arm> = slots.iter().take(6).map(|slot| slot.arm).collect();
    assert_eq!(arms, [Arm::Base, Arm::New, Arm::New, Arm::Base, Arm::Base, Arm::New]);
    assert_eq!((outcome.ending, outcome.starts), (PairedEnding::Decided, 8));
    let finding = &outcome.findings[0];
    assert_eq!(finding.verdict, Verdict::Regressed);
    assert!(finding.interval.expect("known").contains(-0.1));
    assert_eq!(finding.more_starts, None);
}

#[test]
fn equal_arms_are_the_same_in_the_end() {
    let (outcome, _) = run(Settings::new(vec![member()]), |_, i| Some(vec![Some(noise(i))]));
    assert_eq!(
        (outcome.ending, outcome.findings[0].verdict),
        (PairedEnding::Decided, Verdict::Same)
    );
    let (outcome, _) = run(Settings::new(vec![member()]), |_, _| Some(vec![Some(1.0)]));
    assert_eq!(outcome.findings[0].verdict, Verdict::Same, "a machine without noise");
}

#[test]
fn a_figure_that_falls_to_0_is_broken() {
    let bounded = Member {
        bound: Some(Bound::percent(-5.0)),
        ..member()
    };
    let lost = |first: f64| {
        let (outcome, _) = run(Settings::new(vec![bounded]), |slot, i| {
            Some(vec![Some(match (slot.arm, slot.pair) {
                (Arm::Base, _) => noise(i),
                (Arm::New, 0) => first,
                (Arm::New, _) => f64::NEG_INFINITY,
            })])
        });
        let finding = &outcome.findings[0];
        assert_eq!(outcome.ending, PairedEnding::Decided);
        assert_eq!(finding.verdict, Verdict::Regressed);
        assert_eq!(finding.requirement, Some(RequirementVerdict::Broken));
        (finding.pairs, outcome.starts)
    };
    assert_eq!(lost(f64::NEG_INFINITY), (4, 8));
    assert_eq!(lost(0.0), (6, 14));
    let (outcome, _) = run(Settings::new(vec![bounded]), |_, _| Some(vec![Some(f64::NEG_INFINITY)]));
    assert_eq!(outcome.findings[0].verdict, Verdict::Undecided, "0 on both sides");
}

#[test]
fn a_figure_that_is_0_at_times_is_not_fine() {
    let bounded = Member {
        bound: Some(Bound::percent(-5.0)),
        ..member()
    };
    let (outcome, _) = run(Settings::new(vec![bounded, member()]), |slot, i| {
        let log = match (slot.arm, slot.pair % 3) {
            (Arm::New, 0) => f64::NEG_INFINITY,
            _ => noise(i),
        };
        Some(vec![Some(log); 2])
    });
    assert_eq!(outcome.ending, PairedEnding::Spent);
    assert_eq!(outcome.findings[0].requirement, Some(RequirementVerdict::Undecided));
    assert_eq!(outcome.findings[1].verdict, Verdict::Undecided);
}

#[test]
fn what_is_open_when_the_starts_are_spent_says_how_many_more_would_decide() {
    let settings = Settings {
        max_starts: 12,
        ..Settings::new(vec![member()])
    };
    let (outcome, slots) = run(settings, |slot, i| {
        Some(vec![Some(
            10.0 * noise(i) + if slot.arm == Arm::New { -0.02 } else { 0.0 },
        )])
    });
    assert_eq!(
        (outcome.ending, outcome.starts, slots.len()),
        (PairedEnding::Spent, 12, 12)
    );
    let finding = &outcome.findings[0];
    assert_eq!((finding.verdict, finding.pairs), (Verdict::Undecided, 6));
    assert!(
        finding.more_starts.is_some_and(|more| more > 0 && more % 2 == 0),
        "{finding:?}"
    );
}

#[test]
fn side_by_side_both_arms_run_at_once_and_the_sets_are_swapped() {
    let settings = Settings {
        placement: Placement::SideBySide,
        ..Settings::new(vec![member()])
    };
    let mut paired = settings.start();
    let mut sets = Vec::new();
    for _ in 0..2 {
        let first = asked(&paired, &[]);
        let second = asked(&paired, &[first]);
        assert_eq!(paired.ask(&[first, second]), Err(None));
        assert!(first.arm != second.arm && first.set() != second.set());
        sets.push(if first.arm == Arm::New {
            first.set()
        } else {
            second.set()
        });
        paired.add(second, Some(vec![Some(0.0)]));
        assert_eq!(paired.ask(&[first]), Err(None));
        paired.add(first, Some(vec![Some(0.0)]));
    }
    assert_eq!(sets, [1, 0]);
    let in_turn = Settings::new(vec![member()]).start();
    assert_eq!(in_turn.ask(&[asked(&in_turn, &[])]), Err(None));
}

#[test]
fn a_start_that_fails_is_tried_again_and_an_arm_that_never_starts_is_named() {
    let (outcome, slots) = run(Settings::new(vec![member()]), |slot, i| {
        (i != 2).then(|| vec![Some(noise(i) + if slot.arm == Arm::New { -0.1 } else { 0.0 })])
    });
    assert_eq!(slots[2], slots[3]);
    assert_eq!((outcome.ending, outcome.starts), (PairedEnding::Decided, 9));
    let (outcome, slots) = run(Settings::new(vec![member()]), |slot, _| {
        (slot.arm == Arm::Base).then(|| vec![Some(0.0)])
    });
    assert_eq!((outcome.ending, slots.len()), (PairedEnding::Unstartable(Arm::New), 5));
    assert_eq!(outcome.findings[0].verdict, Verdict::Undecided);
}

#[test]
fn a_requirement_is_what_the_pairs_go_on_for() {
    let bounded = |percent: f64| Member {
        bound: Some(Bound::percent(percent)),
        ..member()
    };
    let requirement = |change: f64| {
        let settings = Settings::new(vec![bounded(-5.0)]);
        let (outcome, _) = run(settings, |slot, i| {
            Some(vec![Some(noise(i) + if slot.arm == Arm::New { change } else { 0.0 })])
        });
        (outcome.findings[0].requirement, outcome.findings[0].verdict)
    };
    assert_eq!(
        requirement(-0.10),
        (Some(RequirementVerdict::Broken), Verdict::Regressed)
    );
    assert_eq!(requirement(-0.03), (Some(RequirementVerdict::Met), Verdict::Regressed));
}

#[test]
fn a_metric_that_is_missing_leaves_the_others_alone() {
    let settings = Settings {
        max_starts: 16,
        ..Settings::new(vec![member(), member()])
    };
    let (outcome, _) = run(settings, |slot, i| {
        Some(vec![
            Some(noise(i) + if slot.arm == Arm::New { -0.1 } else { 0.0 }),
            None,
        ])
    });
    assert_eq!(outcome.ending, PairedEnding::Spent);
    assert_eq!(
        (outcome.findings[0].verdict, outcome.findings[0].pairs),
        (Verdict::Regressed, 4)
    );
    assert_eq!((outcome.findings[1].ratio, outcome.findings[1].pairs), (None, 0));
}

proptest! {
    #[test]
    fn told_again_it_asks_the_same_and_ends_within_its_starts(
        values in prop::collection::vec(prop::option::weighted(0.9, -0.05f64..0.05), 40), max_starts in 8usize..40, side_by_side: bool,
    ) {
        let placement = if side_by_side { Placement::SideBySide } else { Placement::InTurn };
        let settings = Settings { max_starts, placement, ..Settings::new(vec![member()]) };
        let (outcome, slots) = run(settings.clone(), |_, i| Some(vec![Some(values[i]?)]));
        prop_assert!(slots.len() == outcome.starts && outcome.starts <= max_starts);
        let mut again = settings.start();
        for (i, slot) in slots.iter().enumerate() {
            prop_assert_eq!(asked(&again, &[]), *slot);
            again.add(*slot, values[i].map(|log| vec![Some(log)]));
        }
        prop_assert_eq!(again.ask(&[]), Ok(outcome));
    }

    #[test]
    fn the_interval_agrees_with_the_verdict(values in prop::collection::vec(-0.03f64..0.03, 40), change in -0.1f64..0.1) {
        let (outcome, _) = run(Settings::new(vec![member()]), |slot, i| Some(vec![Some(values[i] + if slot.arm == Arm::New { change } else { 0.0 })]));
        let finding = &outcome.findings[0];
        let interval = finding.interval.expect("at least four pairs");
        match finding.verdict {
            Verdict::Improved => prop_assert!(interval.low > 0.0),
            Verdict::Regressed => prop_assert!(interval.high < 0.0),
            Verdict::Same => prop_assert!(interval.low.abs().max(interval.high.abs()) < Margin::percent(3.0).log),
            Verdict::Undecided => prop_assert!(interval.contains(0.0)),
        }
    }

    #[test]
    fn company_makes_no_member_easier_to_call(values in prop::collection::vec((-0.03f64..0.03, -0.03f64..0.03), 40), change in -0.06f64..0.06) {
        let shift = |slot: PairStart| if slot.arm == Arm::New { change } else { 0.0 };
        let (alone, _) = run(Settings::new(vec![member()]), |slot, i| Some(vec![Some(values[i].0 + shift(slot))]));
        let (family, _) = run(Settings::new(vec![member(), member()]), |slot, i| Some(vec![Some(values[i].0 + shift(slot)), Some(values[i].1)]));
        if alone.findings[0].verdict == Verdict::Undecided {
            prop_assert!(matches!(family.findings[0].verdict, Verdict::Undecided | Verdict::Same));
        }
    }
}
