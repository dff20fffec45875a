//! Planted truths: is the answer right, and is its certainty true? `cargo bench -p vsweep-answer -- [EXPERIMENTS] [FIRST_SEED]`.

mod judge;
mod planted;
mod play;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};

/// Experiments, and seeds that were not used in development.
const EXPERIMENTS: u64 = 2000;
const FIRST_SEED: u64 = 1_000_000;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let experiments = numbers.next().unwrap_or(EXPERIMENTS);
    let first: u64 = numbers.next().unwrap_or(FIRST_SEED);
    let next = AtomicU64::new(0);
    let work = || {
        let mut trials = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= experiments {
                return trials;
            }
            trials.push((number, judge::judge(first + number)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut trials: Vec<(u64, judge::Trial)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    trials.sort_by_key(|(number, _)| *number);
    let trials: Vec<judge::Trial> = trials.into_iter().map(|(_, trial)| trial).collect();
    table::print(&trials);
}
