//! (b) Runs that are repeated until their interval is narrow, and the share of such intervals that contain the truth.

use crate::judge::{Count, Judge};
use crate::node::seed;
use crate::random::Random;
use vsweep_strategy::stats::Repeats;

/// Runs part (b), and judges its results.
pub fn judge(judge: &mut Judge, trials: u64) {
    println!("\n(b) runs = {{ min = 3, max = 10, until = \"3 %\" }}, noise between runs");
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

/// Returns the number of runs that the rule asks for, and true if the last interval contains the truth.
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
