//! (a) Sequential pairs of starts: false alarms, differences found, and their cost; compared with simple rules that are in common use.

use crate::judge::{Count, Judge, mean_and_p90};
use crate::node::{Drift, Node, RUNS, seed};
use vsweep_strategy::selection::{Arm, Logs, Member, PairStart, PairedComparison, PairedOutcome, Placement};
use vsweep_strategy::stats::{ALPHA, Better, Estimate, Margin, RunPrior, Start, Verdict, estimate};

fn member() -> Member {
    Member {
        better: Better::Higher,
        margin: Margin::percent(Margin::TYPICAL_PERCENT),
        bound: None,
    }
}

/// Conditions of one comparison.
#[derive(Debug, Clone, Copy)]
struct Trial {
    start_sd: f64,
    drift: Drift,
    change: f64,
    members: usize,
    /// Probability that a start fails.
    failing: f64,
    /// Share by which the second set of GPUs is faster. If it is not 0, the two servers run side by side.
    set_effect: f64,
}

const PLAIN: Trial = Trial {
    start_sd: 0.015,
    drift: Drift::None,
    change: 0.0,
    members: 1,
    failing: 0.0,
    set_effect: 0.0,
};

impl Trial {
    fn run(self, seed: u64) -> PairedOutcome {
        let mut node = Node::new(seed, self.start_sd, self.drift);
        let placement = match self.set_effect {
            0.0 => Placement::InTurn,
            _ => Placement::SideBySide,
        };
        let mut paired = PairedComparison::new(vec![member(); self.members], 40, placement);
        loop {
            match paired.ask(&[]) {
                Err(Some(slot)) => {
                    let told = self.start(&mut node, slot);
                    paired.add(slot, told);
                }
                Ok(outcome) => return outcome,
                Err(None) => unreachable!("nothing is pending"),
            }
        }
    }

    fn start(self, node: &mut Node, slot: PairStart) -> Option<Logs> {
        if node.random.share() < self.failing {
            return None;
        }
        let change = if slot.arm == Arm::New { self.change } else { 0.0 };
        let set = if self.set_effect != 0.0 { slot.set() } else { 0 };
        let change = (1.0 + change) * (1.0 + self.set_effect * set as f64) - 1.0;
        // Half of the noise is common to all members, because metrics of one start are neither equal nor independent.
        let common = mean(&node.start(change, RUNS));
        let mut own = || {
            let alone = Node::new((node.random.share() * 1e15) as u64, self.start_sd, Drift::None).start(0.0, RUNS);
            (common + mean(&alone)) / if self.members == 1 { 1.0 } else { 2f64.sqrt() }
        };
        match self.members {
            1 => Some(vec![Some(common)]),
            members => Some((0..members).map(|_| Some(own())).collect()),
        }
    }

    fn all(self, trials: u64) -> Results {
        let outcomes: Vec<PairedOutcome> = (0..trials)
            .map(|trial| self.run(seed(trial, &format!("{self:?}"))))
            .collect();
        let called =
            |verdict: Verdict| Count::of(outcomes.iter().map(|o| o.findings.iter().any(|f| f.verdict == verdict)));
        let changed = |o: &PairedOutcome| {
            o.findings
                .iter()
                .any(|f| matches!(f.verdict, Verdict::Improved | Verdict::Regressed))
        };
        let truth = self.change.ln_1p();
        Results {
            changed: Count::of(outcomes.iter().map(changed)),
            regressed: called(Verdict::Regressed),
            same: called(Verdict::Same),
            holds: Count::of(
                outcomes
                    .iter()
                    .filter_map(|o| Some(o.findings[0].interval?.contains(truth))),
            ),
            starts: mean_and_p90(&outcomes.iter().map(|o| o.starts as f64).collect::<Vec<_>>()),
        }
    }
}

struct Results {
    changed: Count,
    regressed: Count,
    same: Count,
    /// Intervals that contain the truth.
    holds: Count,
    starts: (f64, f64),
}

fn mean(values: &[f64]) -> f64 {
    Start::of(values).expect("positive values").mean()
}

/// Runs part (a), and judges its results.
pub fn judge(judge: &mut Judge, trials: u64) {
    println!("\n(a) pairs of starts, {trials} trials a cell, {RUNS} runs a start; at most 40 starts");
    for start_sd in [0.0, 0.015] {
        for drift in Drift::ALL {
            let results = Trial {
                start_sd,
                drift,
                ..PLAIN
            }
            .all(trials);
            let cell = format!("start effect {:.1} %, drift {drift:?}", 100.0 * start_sd);
            judge.at_most(&format!("{cell}: false alarms"), results.changed, 6.0);
            println!(
                "     {:58} {}, mean {:.1}, p90 {:.0} starts",
                "same", results.same, results.starts.0, results.starts.1
            );
            for (change, least) in [(-0.03, 90.0), (-0.05, 99.0), (-0.10, 99.9)] {
                let results = Trial {
                    start_sd,
                    drift,
                    change,
                    ..PLAIN
                }
                .all(trials);
                let planted = format!("{cell}: {:.0} % found", 100.0 * change);
                judge.at_least(&planted, results.regressed, least);
                judge.value(
                    &format!("{cell}: {:.0} %, mean starts", 100.0 * change),
                    results.starts.0,
                    20.0,
                );
                println!("     {:58} {}, intervals hold {}", "same", results.same, results.holds);
            }
        }
    }
    for drift in [Drift::None, Drift::Line] {
        let cell = format!("start effect 3.0 %, drift {drift:?}");
        for (change, least) in [(-0.05, 95.0), (-0.10, 99.0)] {
            let results = Trial {
                start_sd: 0.03,
                drift,
                change,
                ..PLAIN
            }
            .all(trials);
            judge.at_least(
                &format!("{cell}: {:.0} % found", 100.0 * change),
                results.regressed,
                least,
            );
            println!(
                "     {:58} {:.1}, p90 {:.0}",
                "mean starts", results.starts.0, results.starts.1
            );
        }
        let results = Trial {
            start_sd: 0.03,
            drift,
            change: -0.03,
            ..PLAIN
        }
        .all(trials);
        // This must hardly ever happen.
        judge.at_most(&format!("{cell}: -3 % called same"), results.same, 0.4);
        println!(
            "     {:58} {}, mean {:.1} starts",
            "found", results.regressed, results.starts.0
        );
    }
    let family = Trial { members: 8, ..PLAIN };
    judge.at_most(
        "family of 8, start effect 1.5 %: any false alarm",
        family.all(trials).changed,
        6.0,
    );
    let failing = Trial {
        failing: 0.1,
        drift: Drift::Line,
        ..PLAIN
    };
    judge.at_most(
        "1 of 10 starts fails, drift Line: false alarms",
        failing.all(trials).changed,
        6.0,
    );
    judge.at_least(
        "the same: -5 % found",
        Trial {
            change: -0.05,
            ..failing
        }
        .all(trials)
        .regressed,
        99.0,
    );
    let beside = Trial {
        set_effect: 0.05,
        ..PLAIN
    };
    judge.at_most(
        "side by side, sets differ by 5 %: false alarms",
        beside.all(trials).changed,
        6.0,
    );
    judge.at_least(
        "the same: -5 % found",
        Trial {
            change: -0.05,
            ..beside
        }
        .all(trials)
        .regressed,
        99.0,
    );
}

/// A rule for one start of each side. Returns true if it calls them different.
type Naive = fn(&[f64], &[f64]) -> bool;

/// Prints how often common rules call a change, on the same node.
pub fn naive(trials: u64) {
    let rules: [(&str, usize, Naive); 3] = [
        ("3 + 3 runs, medians beyond 5 %", 3, |a, b| {
            (median(b) / median(a)).ln().abs() > 1.05f64.ln()
        }),
        ("3 + 3 runs, Welch's test at 5 %", 3, welch),
        ("10 + 10 runs, Mann-Whitney at 5 %", 10, mann_whitney),
    ];
    println!("\nnaive rules on one start a side, start effect 1.5 %: what they call changed");
    println!(
        "{:36} {:>24} {:>24} {:>24} {:>24}",
        "rule", "A/A", "-3 %", "-5 %", "-10 %"
    );
    for (name, runs, rule) in rules {
        for drift in [Drift::None, Drift::Ramp] {
            let cells = [0.0, -0.03, -0.05, -0.10].map(|change| {
                Count::of((0..trials).map(|trial| {
                    let mut node = Node::new(seed(trial, &format!("{name} {drift:?} {change}")), 0.015, drift);
                    let base = node.start(0.0, runs);
                    rule(&base, &node.start(change, runs))
                }))
            });
            println!(
                "{:36} {:>24} {:>24} {:>24} {:>24}",
                format!("{name}, {drift:?}"),
                cells[0].to_string(),
                cells[1].to_string(),
                cells[2].to_string(),
                cells[3].to_string()
            );
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Welch's test, which counts each run as a start of its own.
fn welch(base: &[f64], new: &[f64]) -> bool {
    let side = |values: &[f64]| {
        let starts: Vec<Start> = values.iter().filter_map(|value| Start::of(&[*value])).collect();
        estimate(&starts, RunPrior::TYPICAL)
    };
    let ratio = side(new).zip(side(base)).and_then(|(new, base)| difference(new, base));
    let interval = ratio.and_then(|ratio| ratio.interval(ALPHA));
    interval.is_some_and(|interval| !interval.contains(0.0))
}

/// Returns the difference of two independent estimates, with the degrees of freedom of Welch (1947) and Satterthwaite (1946).
fn difference(new: Estimate, base: Estimate) -> Option<Estimate> {
    let (a, b) = (new.error?, base.error?);
    let (va, vb) = (a.standard.powi(2), b.standard.powi(2));
    let freedom = (va + vb).powi(2) / (va.powi(2) / a.freedom + vb.powi(2) / b.freedom);
    Some(Estimate::new(new.log - base.log, (va + vb).sqrt(), freedom))
}

/// Mann-Whitney's test by the normal approximation with continuity correction. There are no ties.
fn mann_whitney(base: &[f64], new: &[f64]) -> bool {
    let (n, m) = (base.len() as f64, new.len() as f64);
    let wins = base
        .iter()
        .flat_map(|a| new.iter().map(move |b| f64::from(u8::from(b > a))))
        .sum::<f64>();
    let distance = ((wins - n * m / 2.0).abs() - 0.5).max(0.0);
    distance / (n * m * (n + m + 1.0) / 12.0).sqrt() > 1.959_964
}
