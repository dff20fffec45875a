//! (b) Two sides of three starts each: whether the interval holds the truth, and what is said where the starts do not suffice. And
//! whether the interval of runs that are repeated until it is narrow still holds the truth.

use crate::judge::{Count, Judge};
use crate::node::{Drift, Node, RUNS, seed};
use crate::random::Random;
use vsweep_strategy::stats::{Better, Margin, RatioComparison, Repeats, RunPrior, Start, Verdict, compare};

/// Starts a side, runs a start at least and at most.
#[derive(Clone, Copy)]
struct Shape {
    base: usize,
    new: usize,
    runs: (usize, usize),
}

const THREE: Shape = Shape {
    base: 3,
    new: 3,
    runs: (RUNS, RUNS),
};

fn compared(node: &mut Node, change: f64, shape: Shape) -> RatioComparison {
    let mut side = |change: f64, starts: usize| -> Vec<Start> {
        let mut start = || {
            let (least, most) = shape.runs;
            let runs = least + (node.random.share() * (most - least + 1) as f64) as usize;
            Start::of(&node.start(change, runs)).expect("positive values")
        };
        (0..starts).map(|_| start()).collect()
    };
    let (base, new) = (side(0.0, shape.base), side(change, shape.new));
    compare(
        &base,
        &new,
        Better::Higher,
        Margin::percent(Margin::TYPICAL_PERCENT),
        RunPrior::TYPICAL,
    )
    .expect("both sides")
}

/// Runs the part that decides.
pub fn judge(judge: &mut Judge, trials: u64) {
    println!("\n(b) a comparison of two sides, {trials} trials a cell");
    let shapes = [
        ("3 + 3 starts", THREE),
        (
            "3 + 5 starts of 1 to 5 runs",
            Shape {
                base: 3,
                new: 5,
                runs: (1, 5),
            },
        ),
    ];
    for (name, shape) in shapes {
        for start_sd in [0.0, 0.015, 0.03] {
            for change in [0.0, -0.05] {
                let cell = format!(
                    "{name}, start effect {:.1} %, {:.0} %",
                    100.0 * start_sd,
                    100.0 * change
                );
                let found: Vec<RatioComparison> = (0..trials)
                    .map(|trial| compared(&mut Node::new(seed(trial, &cell), start_sd, Drift::None), change, shape))
                    .collect();
                let truth = f64::ln_1p(change);
                let holds = Count::of(
                    found
                        .iter()
                        .map(|c| c.interval.is_some_and(|interval| interval.contains(truth))),
                );
                judge.at_least(&format!("{cell}: interval holds it"), holds, 93.0);
                let called = |verdict: Verdict| Count::of(found.iter().map(|c| c.verdict == verdict));
                let names = [Verdict::Improved, Verdict::Regressed, Verdict::Same, Verdict::Undecided];
                let shares: Vec<String> = names
                    .iter()
                    .map(|v| format!("{v:?} {:.1} %", 100.0 * called(*v).hits as f64 / trials as f64))
                    .collect();
                println!("     {}", shares.join(", "));
            }
        }
    }
    println!("\n    undecided: fresh starts, as many a side as it said would do");
    for (start_sd, change) in [(0.015, 0.0), (0.015, -0.02), (0.015, -0.05), (0.03, -0.05)] {
        let (mut told, mut decided, mut more, mut undecided) = (0u64, 0u64, 0usize, 0u64);
        for trial in 0..trials.min(2000) {
            let mut node = Node::new(seed(trial, &format!("more {start_sd} {change}")), start_sd, Drift::None);
            let first = compared(&mut node, change, THREE);
            undecided += u64::from(first.verdict == Verdict::Undecided);
            let Some(starts) = first.more_starts else { continue };
            told += 1;
            more += starts;
            let again = compared(
                &mut node,
                change,
                Shape {
                    base: 3 + starts,
                    new: 3 + starts,
                    ..THREE
                },
            );
            decided += u64::from(again.verdict != Verdict::Undecided);
        }
        let share = Count {
            hits: decided,
            trials: told,
        };
        println!(
            "     start effect {:.1} %, {:>3.0} %: undecided {undecided}, of them {told} with a number, mean {:.1} more; then decided {share}",
            100.0 * start_sd,
            100.0 * change,
            more as f64 / told.max(1) as f64
        );
    }
    println!("\n    runs = {{ min = 3, max = 10, until = \"3 %\" }}, noise between runs");
    for run_sd in [0.005, 0.02, 0.05] {
        let rule = Repeats {
            min: 3,
            max: 10,
            until: 0.03,
        };
        let ended: Vec<(usize, bool)> = (0..trials)
            .map(|trial| repeated(rule, run_sd, seed(trial, &format!("runs {run_sd}"))))
            .collect();
        let holds = Count::of(ended.iter().map(|(_, holds)| *holds));
        judge.at_least(
            &format!("{:.1} %: interval holds the start's mean", 100.0 * run_sd),
            holds,
            94.0,
        );
        println!(
            "     mean {:.1} runs",
            ended.iter().map(|(runs, _)| *runs as f64).sum::<f64>() / trials as f64
        );
    }
}

/// Number of runs that the rule asks for, and true if the last interval holds the truth.
fn repeated(rule: Repeats, run_sd: f64, seed: u64) -> (usize, bool) {
    let mut random = Random(seed);
    let mut values = Vec::new();
    loop {
        values.push((run_sd * random.normal()).exp());
        if rule.is_enough(&values) {
            let interval = rule.interval(&values);
            return (values.len(), interval.is_some_and(|interval| interval.contains(0.0)));
        }
    }
}
