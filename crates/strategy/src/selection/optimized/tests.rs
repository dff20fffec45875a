//! Optimisations of a small grid with one peak.

use super::*;

mod limits;

/// Value of a config of the grid of 4 x 4 x 2, which has one peak.
fn value(levels: [usize; 3]) -> f64 {
    let [a, b, c] = levels.map(|level| level as f64);
    -0.05 * (a - 2.0).powi(2) - 0.03 * (b - 1.0).powi(2) + 0.02 * a * c - 0.06 * c
}

fn grid() -> Vec<[usize; 3]> {
    (0..32).map(|at| [at / 8, at / 2 % 4, at % 2]).collect()
}

fn axes() -> Vec<Axis> {
    [true, true, false].map(|is_ordered| Axis { is_ordered }).to_vec()
}

/// Returns the candidates of the grid. Their share of memory is predicted if `is_memory_predicted`.
fn candidates(is_memory_predicted: bool) -> Vec<Candidate> {
    let candidate = |levels: &[usize; 3]| Candidate {
        levels: vec![
            Level::Number(levels[0] as f64),
            Level::Number(levels[1] as f64),
            Level::Choice(levels[2] as u32),
        ],
        changes: 0,
        predicted: None,
        slopes: Vec::new(),
        memory: is_memory_predicted.then(|| need(*levels)),
        most: None,
        warm: None,
        start_s: 100.0,
        measure_s: 60.0,
        gpus: 2,
        at_once: 1,
    };
    grid().iter().map(candidate).collect()
}

fn need([a, b, _]: [usize; 3]) -> f64 {
    0.5 + 0.11 * a as f64 + 0.1 * b as f64
}

fn rules(budget: Option<Budget>) -> Rules {
    Rules {
        margin: 0.01,
        certainty: 0.95,
        budget,
        defaults: Some(10),
        best_starts: None,
    }
}

fn optimized(budget: Option<Budget>) -> Optimized {
    Optimized::new(&axes(), candidates(false), rules(budget))
}

/// A result whose noise follows from the number of the start.
fn measured(candidate: usize, start: usize) -> Trial {
    let noise = 0.004 * ((start * 7 % 5) as f64 - 2.0);
    Trial::Measured {
        ln_value: value(grid()[candidate]) + noise,
        sd: 0.005,
    }
}

/// Asks for proposals and gives results until the end.
fn played(mut optimized: Optimized, trial: impl Fn(usize, usize) -> Trial) -> (Optimized, Vec<Proposal>, EndReason) {
    let mut proposals = Vec::new();
    loop {
        match optimized.ask(1, &[]) {
            Err(ended) => return (optimized, proposals, ended),
            Ok(next) => {
                assert_eq!(next.len(), 1);
                optimized.add(next[0].candidate, trial(next[0].candidate, proposals.len()), 160.0);
                proposals.extend(next);
            }
        }
    }
}

#[test]
fn the_best_is_found_and_only_finalists_are_started_again() {
    let (optimized, proposals, ended) = played(optimized(None), measured);
    assert_eq!(ended, EndReason::Certain);
    assert_eq!((proposals[0].candidate, proposals[0].reason), (10, Reason::Defaults));
    let best = optimized.best().expect("measured");
    let top = grid().into_iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    assert!(value(grid()[best]) > top - 0.01, "{best}");
    assert!(optimized.chance_of_best() >= 0.95);
    for (at, proposal) in proposals.iter().enumerate() {
        let is_again = proposals[..at]
            .iter()
            .any(|other| other.candidate == proposal.candidate);
        assert_eq!(is_again, proposal.reason == Reason::Finalist, "{proposal:?}");
    }
    let started = |at: &usize| proposals.iter().any(|of| of.candidate == *at);
    let left: Vec<usize> = (0..32).filter(|at| !started(at)).collect();
    assert!(left.len() >= 8, "{proposals:?}");
    assert!(optimized.expected_gain(3600.0) < 0.01);
}

#[test]
fn the_reason_for_a_start_has_the_estimate_of_its_value() {
    let mut optimized = optimized(None);
    let mut clearly_worse = 0;
    while let Ok(next) = optimized.ask(1, &[]) {
        let Proposal { candidate, reason } = next[0];
        let estimate = optimized.estimate(candidate).ln_value;
        if let Reason::Promising { ln_value, ln_best, .. } = reason {
            assert_eq!(ln_value, estimate, "{candidate}");
            clearly_worse += u32::from(ln_value < ln_best - 1.0);
        }
        let ln_value = 20.0 * value(grid()[candidate]);
        optimized.add(candidate, Trial::Measured { ln_value, sd: 0.005 }, 160.0);
    }
    assert!(clearly_worse > 0);
}

#[test]
fn what_failed_cannot_be_the_best() {
    for failure in [Trial::Failed, Trial::DidNotFit, Trial::Unmet] {
        let mut optimized = optimized(None);
        for at in 0..grid().len() {
            let trial = if at == 0 { measured(at, 0) } else { failure };
            optimized.add(at, trial, 160.0);
        }
        assert_eq!(optimized.ask(1, &[]), Err(EndReason::Certain), "{failure:?}");
        assert!(optimized.chance_of_best() > 0.99, "{failure:?}");
    }
}

#[test]
fn without_a_budget_it_starts_no_more_than_the_grid_would() {
    let equal = |_, start: usize| Trial::Measured {
        ln_value: 0.03 * ((start * 7 % 11) as f64 - 5.0),
        sd: 0.005,
    };
    let (_, proposals, ended) = played(optimized(None), equal);
    assert_eq!((proposals.len(), ended), (grid().len(), EndReason::Starts));
}

#[test]
fn a_replay_asks_for_what_was_asked() {
    let (_, proposals, ended) = played(optimized(Some(Budget::Starts(14))), measured);
    let mut again = optimized(Some(Budget::Starts(14)));
    for (start, proposal) in proposals.iter().enumerate() {
        assert_eq!(again.ask(1, &[]), Ok(vec![*proposal]));
        again.add(proposal.candidate, measured(proposal.candidate, start), 160.0);
    }
    assert_eq!(again.ask(1, &[]), Err(ended));
}

#[test]
fn a_batch_holds_different_candidates() {
    let mut optimized = optimized(None);
    let mut under_way: Vec<usize> = Vec::new();
    for round in 0..4 {
        let Ok(batch) = optimized.ask(4, &under_way) else {
            break;
        };
        assert_eq!(batch.len(), 4, "{round}");
        let all = [under_way.clone(), batch.iter().map(|of| of.candidate).collect()].concat();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        // The first of the batch is still under way when the next is asked for.
        under_way = vec![batch[0].candidate];
        for of in &all {
            if !under_way.contains(of) {
                optimized.add(*of, measured(*of, *of), 160.0);
            }
        }
    }
}

#[test]
fn what_needs_more_memory_than_what_did_not_fit_is_left_out() {
    let does_fit = |at: usize| need(grid()[at]) < 0.85;
    for is_predicted in [false, true] {
        let optimized = Optimized::new(&axes(), candidates(is_predicted), rules(Some(Budget::Starts(20))));
        let trial = |at, start| {
            if does_fit(at) {
                measured(at, start)
            } else {
                Trial::DidNotFit
            }
        };
        let (optimized, proposals, _) = played(optimized, trial);
        let excluded = |at: &usize| optimized.estimate(*at).excluded == Some(Exclusion::Memory);
        assert!((0..32).filter(excluded).all(|at| !does_fit(at)));
        let failed = proposals.iter().filter(|of| !does_fit(of.candidate)).count();
        assert!(failed <= if is_predicted { 4 } else { 8 }, "{proposals:?}");
        assert!(!is_predicted || excluded(&31), "{:?}", optimized.estimate(31));
    }
}

#[test]
fn it_ends_for_a_reason() {
    let ended = |budget, trial: fn(usize, usize) -> Trial| {
        let (_, proposals, ended) = played(optimized(budget), trial);
        (proposals.len(), ended)
    };
    assert_eq!(ended(Some(Budget::Starts(3)), measured), (3, EndReason::Budget));
    assert_eq!(
        ended(Some(Budget::MachineSeconds(500.0)), measured),
        (3, EndReason::Budget)
    );
    // If two run at the same time, twice as many fit into the time.
    let mut pairs = candidates(false);
    pairs.iter_mut().for_each(|candidate| candidate.at_once = 2);
    let pairs = Optimized::new(&axes(), pairs, rules(Some(Budget::MachineSeconds(500.0))));
    assert_eq!(played(pairs, measured).1.len(), 6);
    // However short the starts were.
    let mut late = optimized(Some(Budget::MachineSeconds(500.0)));
    late.set_elapsed(490.0);
    assert_eq!(late.ask(1, &[]), Err(EndReason::Budget));
    assert_eq!(ended(None, |_, _| Trial::Failed), (32, EndReason::Exhausted));
    assert_eq!(ended(None, |_, _| Trial::Unmet), (32, EndReason::Exhausted));
}

#[test]
fn what_ends_undecided_may_still_be_the_best() {
    // The peak of the grid is never decided; every other candidate is measured.
    let peak = (0..32).max_by(|a, b| value(grid()[*a]).total_cmp(&value(grid()[*b])));
    let peak = peak.expect("not empty");
    for ln_below in [None, Some(1.0)] {
        let mut optimized = optimized(Some(Budget::Starts(100)));
        for at in 0..grid().len() {
            let trial = if at == peak {
                Trial::Undecided { ln_below }
            } else {
                measured(at, 0)
            };
            optimized.add(at, trial, 160.0);
        }
        assert_eq!(optimized.estimate(peak).excluded, None, "{ln_below:?}");
        let chance = optimized.chance_of_best();
        assert!(chance < 0.95, "{ln_below:?}: {chance}");
        let again = optimized.ask(1, &[]).expect("not certain");
        assert_eq!(again[0].candidate, peak, "{ln_below:?}");
        optimized.add(peak, Trial::Undecided { ln_below }, 160.0);
        let next = optimized.ask(1, &[]);
        assert!(
            next.is_err() || next.is_ok_and(|next| next[0].candidate != peak),
            "{ln_below:?}"
        );
    }
    // A bound below the best rules it out.
    let mut optimized = optimized(Some(Budget::Starts(100)));
    for at in 0..grid().len() {
        let below = Trial::Undecided { ln_below: Some(-1.0) };
        optimized.add(at, if at == peak { below } else { measured(at, 0) }, 160.0);
    }
    assert!(optimized.chance_of_best() > 0.5);
    let (_, proposals, ended) = played(self::optimized(None), |_, _| Trial::Undecided { ln_below: None });
    assert_eq!((proposals.len(), ended), (32, EndReason::Starts));
}

#[test]
fn nothing_ends_while_starts_are_under_way() {
    let mut optimized = optimized(Some(Budget::Starts(2)));
    assert_eq!(optimized.best(), None);
    assert_eq!(optimized.ask(1, &[10, 3]), Ok(vec![]));
    optimized.add(10, measured(10, 0), 160.0);
    optimized.add(
        3,
        Trial::Beaten {
            ln_below: value(grid()[10]),
        },
        110.0,
    );
    assert_eq!(optimized.ask(1, &[]), Err(EndReason::Budget));
    assert_eq!(optimized.best(), Some(10));
}

fn judged(winner: usize, probability: f64) -> Incumbent {
    Incumbent {
        winner,
        probability,
        is_decidable: true,
    }
}

#[test]
fn the_best_is_started_as_often_as_the_rules_ask() {
    for budget in [None, Some(Budget::MachineSeconds(1e6))] {
        let rules = Rules {
            best_starts: Some(8),
            ..rules(budget)
        };
        let (optimized, proposals, ended) = played(Optimized::new(&axes(), candidates(false), rules), measured);
        assert_ne!(ended, EndReason::Budget);
        let best = optimized.best().expect("measured");
        let starts = proposals.iter().filter(|own| own.candidate == best).count();
        assert_eq!(starts, 8, "{proposals:?}");
        assert_eq!(proposals.last().map(|own| own.reason), Some(Reason::Finalist));
    }
}

/// A better informed model may be less sure about the measured candidates. Then only more starts of these help.
#[test]
fn a_doubt_among_the_measured_asks_for_finalists_alone() {
    let (mut optimized, _, ended) = played(optimized(None), measured);
    assert_eq!(ended, EndReason::Certain);
    let winner = optimized.best().expect("measured");
    let known = optimized.measured();
    for probability in [0.97, 0.6] {
        optimized.judge(Some(judged(winner, probability)));
        assert!(optimized.chance_of_best() <= probability);
    }
    let Ok(next) = optimized.ask(1, &[]) else {
        panic!("it is not sure");
    };
    assert_eq!(next[0].reason, Reason::Finalist);
    optimized.judge(Some(Incumbent {
        is_decidable: false,
        ..judged(winner, 0.6)
    }));
    assert_eq!(
        optimized.ask(1, &[]),
        Err(EndReason::Undecidable),
        "more starts would not tell"
    );
    let other = known.iter().find(|at| **at != winner).expect("several were measured");
    optimized.judge(Some(judged(*other, 1.0)));
    assert_eq!(optimized.best(), Some(*other));
    let unknown = (0..32).find(|at| !known.contains(at)).expect("not all were started");
    optimized.judge(Some(judged(unknown, 1.0)));
    assert_eq!(optimized.best(), Some(winner), "what was not measured cannot have won");
}

#[test]
fn a_start_without_a_launch_takes_nothing_from_the_budget() {
    let mut own = optimized(Some(Budget::Starts(3)));
    (0..5).for_each(|at| own.add_free(at, Trial::DidNotFit));
    own.add(10, measured(10, 0), 100.0);
    own.add(20, measured(20, 1), 100.0);
    let next = own.ask(2, &[]).expect("one start is left");
    assert_eq!(next.len(), 1);
    assert!(next[0].candidate >= 5, "what did not fit is not started");
    own.add(next[0].candidate, measured(next[0].candidate, 2), 100.0);
    assert_eq!(own.ask(1, &[]), Err(EndReason::Budget));
}

#[test]
fn a_start_with_compiled_graphs_costs_less() {
    // A cold start takes 160 s with its measurement, a warm one 80 s.
    let after = |trial| {
        let mut all = candidates(false);
        for candidate in &mut all {
            let (graphs, start_s) = (0, 20.0);
            candidate.warm = Some(WarmStart { graphs, start_s });
        }
        let mut optimized = Optimized::new(&axes(), all, rules(Some(Budget::MachineSeconds(250.0))));
        optimized.add(10, trial, 160.0);
        optimized.ask(1, &[])
    };
    assert_eq!(after(Trial::DidNotFit), Err(EndReason::Budget), "nothing was compiled");
    assert!(matches!(after(measured(10, 0)), Ok(next) if next.len() == 1));
}

#[test]
fn what_one_server_shows_of_the_twins_constants_corrects_the_predictions_of_others() {
    // The candidates differ in every setting. Half of their predictions depend on a constant.
    let candidate = |at: usize, knows_constants: bool| Candidate {
        levels: vec![Level::Choice(at as u32)],
        predicted: Some(Predicted {
            ln_value: 0.01 * at as f64,
            sd: 0.1,
        }),
        slopes: if knows_constants {
            vec![0.3 * (at % 2) as f64]
        } else {
            Vec::new()
        },
        ..candidates(false)[0].clone()
    };
    let expected = |knows_constants: bool| {
        let candidates = (0..12).map(|at| candidate(at, knows_constants));
        let axes = [Axis { is_ordered: false }];
        let mut optimized = Optimized::new(&axes, candidates.collect(), rules(None));
        for at in 0..6 {
            let ln_value = 0.01 * at as f64 + 0.3 * (at % 2) as f64;
            optimized.add(at, Trial::Measured { ln_value, sd: 0.005 }, 100.0);
        }
        [9, 10].map(|at| optimized.estimate(at).ln_value)
    };
    let [odd, even] = expected(true);
    assert!((odd - 0.39).abs() < 0.05 && (even - 0.1).abs() < 0.05, "{odd} {even}");
    let [odd, even] = expected(false);
    assert!((odd - even).abs() < 0.05, "{odd} {even}");
}
