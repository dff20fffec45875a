//! Planted truths: is the answer right, and is its certainty true? `cargo bench -p vsweep-answer -- [EXPERIMENTS] [FIRST_SEED]
//! [grids] [searches] [comparisons] [time]`.

mod comparisons;
#[path = "../../../../benches/support/each.rs"]
mod each;
mod judge;
mod planted;
mod play;
mod searches;
mod table;

use each::each;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vsweep_answer::{Metric, answer};

/// Number of experiments, and the first seed. Seeds from there on were not used in development.
const EXPERIMENTS: u64 = 2000;
const FIRST_SEED: u64 = 1_000_000;

fn main() {
    let (numbers, parts): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .partition(|argument| argument.parse::<u64>().is_ok());
    let mut numbers = numbers.iter().filter_map(|number| number.parse().ok());
    let experiments = numbers.next().unwrap_or(EXPERIMENTS);
    let first: u64 = numbers.next().unwrap_or(FIRST_SEED);
    let is_asked = |part: &str| parts.is_empty() || parts.iter().any(|asked| asked == part);
    if is_asked("grids") {
        println!("## Grids\n");
        table::print(&each(experiments, |number| judge::judge(first + number)));
    }
    if is_asked("searches") {
        println!("\n## Searches\n");
        table::print(&each(experiments, |number| searches::judge(first + number)));
    }
    if is_asked("comparisons") {
        println!("\n## Comparisons\n");
        table::print_comparisons(&each(experiments, |number| comparisons::judge(first + number)));
    }
    if is_asked("time") {
        println!("\n## Time\n");
        time();
    }
    if table::IS_MISSED.load(Ordering::Relaxed) {
        std::process::exit(1);
    }
}

/// Times the answer of a large sweep: 96 servers, 4 loads, 3 starts, 3 runs, 8 metrics.
fn time() {
    let mut planted = planted::Planted::draw(1);
    planted.servers = (0..96u64)
        .flat_map(|seed| planted::Planted::draw(seed).servers)
        .take(96)
        .collect();
    planted.loads = vec![8, 16, 32, 64];
    planted
        .servers
        .iter_mut()
        .for_each(|server| server.means = vec![server.means[0]; 4]);
    (planted.starts, planted.runs, planted.failed, planted.lacking) = (3, 3, 0.0, 0.0);
    let mut experiment = play::play(&planted, play::Fate::Whole);
    for copy in 0..6 {
        let name = format!("copy{copy}");
        let metric = experiment.metrics[1].clone();
        experiment.metrics.push(Metric {
            name: name.clone(),
            ..metric
        });
        for run in experiment.points.iter_mut().flat_map(|point| &mut point.runs) {
            let figure = run.figures[play::METRICS[1]];
            run.figures.insert(name.as_str(), figure);
        }
    }
    let start = Instant::now();
    let found = answer(experiment.clone());
    println!(
        "{} points: {:.2} s",
        found.estimates.len(),
        start.elapsed().as_secs_f64()
    );
}
