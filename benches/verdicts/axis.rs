//! (c) An axis of 128 entries, one in ten of them broken: the share of changes found, compared with `git bisect run`.

use crate::judge::{Count, Judge, mean_and_p90};
use crate::node::{Drift, Node, RUNS};
use vsweep_strategy::selection::{Bisection, BisectionResult, Bracket};
use vsweep_strategy::stats::Start;

const ENTRIES: usize = 128;
const BROKEN: f64 = 0.1;
const MAX_STARTS: usize = 40;

/// An axis with a planted change.
struct Planted {
    node: Node,
    change: f64,
    /// The last entry before the change.
    after: usize,
    broken: Vec<bool>,
    starts: usize,
}

impl Planted {
    fn new(seed: u64, start_sd: f64, drift: Drift, change: f64) -> Planted {
        let mut node = Node::new(seed, start_sd, drift);
        let broken: Vec<bool> = (0..ENTRIES).map(|_| node.random.share() < BROKEN).collect();
        let after = (node.random.share() * (ENTRIES - 1) as f64) as usize;
        Planted {
            node,
            change,
            after,
            broken,
            starts: 0,
        }
    }

    fn start(&mut self, entry: usize) -> Option<f64> {
        self.starts += 1;
        let change = if entry > self.after { self.change } else { 0.0 };
        let values = self.node.start(change, RUNS);
        (!self.broken[entry]).then(|| Start::of(&values).expect("positive values").mean())
    }

    /// True if the change lies between `old` and `new`, and no entry between them starts.
    fn is_right(&self, old: usize, new: usize) -> bool {
        let works = |entry: &usize| !self.broken[*entry];
        let before = (0..=self.after).rev().find(works);
        let behind = (self.after + 1..ENTRIES).find(works);
        before == Some(old) && behind == Some(new)
    }

    /// True if an entry on each side of the change starts.
    fn can_be_found(&self) -> bool {
        let works = |entry: usize| !self.broken[entry];
        (0..=self.after).any(works) && (self.after + 1..ENTRIES).any(works)
    }
}

fn located(planted: &mut Planted) -> BisectionResult {
    let mut bisected = Bisection::new(ENTRIES, MAX_STARTS);
    loop {
        match bisected.ask() {
            Err(entry) => bisected.add(entry, planted.start(entry)),
            Ok(found) => return found,
        }
    }
}

/// Bisects with one start for each entry. An entry is good or bad by half of the drop from the oldest entry. A broken entry is skipped, and
/// the next is tried.
fn git_bisect(planted: &mut Planted) -> (usize, usize) {
    let start = |planted: &mut Planted, from: usize, to: usize| -> Option<(usize, f64)> {
        let order: Vec<usize> = if from <= to {
            (from..=to).collect()
        } else {
            (to..=from).rev().collect()
        };
        order.into_iter().find_map(|entry| Some((entry, planted.start(entry)?)))
    };
    let Some((mut old, level)) = start(planted, 0, ENTRIES - 1) else {
        return (0, 0);
    };
    let (mut new, threshold) = (ENTRIES - 1, level + planted.change.ln_1p() / 2.0);
    let mut untested: Vec<usize> = (old + 1..new).collect();
    while !untested.is_empty() {
        let entry = untested.remove(untested.len() / 2);
        let Some(value) = planted.start(entry) else { continue };
        if value > threshold {
            old = entry;
        } else {
            new = entry;
        }
        untested.retain(|entry| old < *entry && *entry < new);
    }
    (old, new)
}

/// Results of a campaign of bisections.
struct Results {
    right: Count,
    /// Answers that contain the change, narrow or wide.
    holds: Count,
    /// Answers that claim a change without doubt.
    claimed: Count,
    unchanged: Count,
    /// Intervals of the size of the change that contain the true size.
    size: Count,
    starts: (f64, f64),
}

fn campaign(trials: u64, start_sd: f64, drift: Drift, changes: (f64, f64)) -> Results {
    let all = (0..trials).map(|trial| {
        let seed = crate::node::seed(trial, &format!("axis {start_sd} {drift:?} {changes:?}"));
        let change = Node::new(seed, 0.0, Drift::None).random.between(changes.0, changes.1);
        let mut planted = Planted::new(seed, start_sd, drift, change);
        let found = located(&mut planted);
        (planted, found)
    });
    let all: Vec<(Planted, BisectionResult)> = all.filter(|(planted, _)| planted.can_be_found()).collect();
    let brackets = || {
        all.iter().filter_map(|(planted, found)| match found {
            BisectionResult::Between(bracket) => Some((planted, bracket)),
            _ => None,
        })
    };
    let share = |is_hit: &dyn Fn(&Planted, &Bracket) -> bool| Count {
        hits: brackets().filter(|(planted, bracket)| is_hit(planted, bracket)).count() as u64,
        trials: all.len() as u64,
    };
    let sizes = brackets()
        .filter_map(|(planted, bracket)| Some(bracket.change.interval(0.05)?.contains(planted.change.ln_1p())));
    Results {
        right: share(&|planted, bracket| bracket.is_exact && planted.is_right(bracket.old, bracket.new)),
        holds: share(&|planted, bracket| bracket.old <= planted.after && planted.after < bracket.new),
        claimed: share(&|_, bracket| bracket.doubt <= 0.05),
        unchanged: Count::of(
            all.iter()
                .map(|(_, found)| matches!(found, BisectionResult::Unchanged(_))),
        ),
        size: Count::of(sizes),
        starts: mean_and_p90(&all.iter().map(|(planted, _)| planted.starts as f64).collect::<Vec<_>>()),
    }
}

/// Runs part (c), and judges its results.
pub fn judge(judge: &mut Judge, trials: u64) {
    println!(
        "\n(c) an axis of {ENTRIES} entries, {:.0} % of them broken, {trials} trials a cell, at most {MAX_STARTS} starts",
        100.0 * BROKEN
    );
    for start_sd in [0.0, 0.015] {
        for drift in Drift::ALL {
            let cell = format!("start effect {:.1} %, drift {drift:?}", 100.0 * start_sd);
            let large = campaign(trials, start_sd, drift, (-0.10, -0.05));
            judge.at_least(&format!("{cell}, -5 to -10 %: right"), large.right, 95.0);
            judge.value(&format!("{cell}, -5 to -10 %: mean starts"), large.starts.0, 21.0);
            judge.value(&format!("{cell}, -5 to -10 %: p90 starts"), large.starts.1, 30.0);
            let small = campaign(trials, start_sd, drift, (-0.03, -0.03));
            judge.at_least(&format!("{cell}, -3 %: bracket holds"), small.holds, 95.0);
            let ((mean, p90), exact) = (small.starts, small.right);
            println!(
                "     exact and right {exact}, called unchanged {}, mean {mean:.1}, p90 {p90:.0} starts",
                small.unchanged
            );
        }
    }
    println!("\n    single sizes; how often the 95 % interval holds the change; answers where nothing changed");
    for (start_sd, drift) in [(0.015, Drift::None), (0.015, Drift::Walk), (0.03, Drift::None)] {
        for change in [-0.10, -0.07, -0.05, 0.0] {
            let results = campaign(trials, start_sd, drift, (change, change));
            let Results {
                right,
                holds,
                claimed,
                unchanged,
                size,
                starts: (mean, p90),
            } = results;
            println!(
                "     start effect {:.1} %, drift {drift:?}, {:.0} %: mean {mean:.1}, p90 {p90:.0} starts",
                100.0 * start_sd,
                100.0 * change
            );
            println!("       right {right}, holds {holds}, size {size}, unchanged {unchanged}, claimed {claimed}");
        }
    }
    println!("\n    git bisect run, start effect 1.5 %, no drift");
    for change in [-0.03, -0.05, -0.07, -0.10] {
        let all = (0..trials).map(|trial| {
            let seed = crate::node::seed(trial, &format!("git {change}"));
            let mut planted = Planted::new(seed, 0.015, Drift::None, change);
            let found = git_bisect(&mut planted);
            (planted, found)
        });
        let all: Vec<(Planted, (usize, usize))> = all.filter(|(planted, _)| planted.can_be_found()).collect();
        let right = Count::of(all.iter().map(|(planted, (old, new))| planted.is_right(*old, *new)));
        let (mean, _) = mean_and_p90(&all.iter().map(|(planted, _)| planted.starts as f64).collect::<Vec<_>>());
        println!("     {:>3.0} %: right {right}, mean {mean:.1} starts", 100.0 * change);
    }
}
