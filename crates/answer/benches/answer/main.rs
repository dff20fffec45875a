//! Planted truths: is the answer right, and is its certainty true? `cargo bench -p vsweep-answer -- [EXPERIMENTS] [FIRST_SEED]
//! [grids] [searches] [comparisons]`.

mod comparisons;
mod judge;
mod planted;
mod play;
mod searches;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};

/// Experiments, and seeds that were not used in development.
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
}

/// The results of so many trials, on all cores.
fn each<T: Send>(count: u64, trial: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return results;
            }
            results.push((number, trial(number)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(u64, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
