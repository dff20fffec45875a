//! Planted landscapes: is the best config found in few server-hours, and is the stated certainty true?
//! `cargo bench --bench optimise -- [LANDSCAPES] [FIRST_SEED] [smooth] [nodes] [hostile] [isolated] [budget] [time]`.

mod hostile;
mod landscape;
mod methods;
mod nodes;
mod smooth;

use landscape::{COSTS, Costs, Landscape, Node};
use methods::End;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const LANDSCAPES: u64 = 200;
/// Seeds that were not used in development.
const FIRST_SEED: u64 = 1_000_000;
const SHARE: f64 = 0.15;

fn main() {
    let (numbers, parts): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .partition(|argument| argument.parse::<u64>().is_ok());
    let mut numbers = numbers.iter().filter_map(|number| number.parse().ok());
    let count = numbers.next().unwrap_or(LANDSCAPES);
    let first: u64 = numbers.next().unwrap_or(FIRST_SEED);
    let is_asked = |part: &str| parts.is_empty() || parts.iter().any(|asked| asked == part);
    let classes: [(&str, fn(u64) -> Landscape); 4] = [
        ("smooth", smooth::draw),
        ("nodes", nodes::draw),
        ("hostile", hostile::draw),
        ("isolated", hostile::isolated),
    ];
    for (name, draw) in classes {
        if is_asked(name) {
            for costs in COSTS {
                if std::env::var("COST").is_ok_and(|of| !costs.name.starts_with(&of)) {
                    continue;
                }
                class(name, draw, costs, count, first);
            }
        }
    }
}

fn class(name: &str, draw: fn(u64) -> Landscape, costs: Costs, count: u64, first: u64) {
    println!("## {name}, {}", costs.name);
    let began = Instant::now();
    let row = |method: &str, run: &(dyn Fn(&mut Node<'_>, f64, u64) -> Option<End> + Sync)| {
        let results = each(count, |number| {
            let landscape = draw(first + number);
            let grid_s = Node::grid_s(&landscape, costs);
            let mut node = Node::new(&landscape, costs, first + number);
            let end = run(&mut node, SHARE * grid_s, first + number)?;
            Some((
                landscape.regret(end.winner),
                node.seconds / grid_s,
                node.starts,
                node.measured.len(),
                end,
            ))
        });
        let results: Vec<_> = results.into_iter().flatten().collect();
        if results.is_empty() {
            return;
        }
        let share =
            |most: f64| results.iter().filter(|(regret, ..)| *regret <= most).count() as f64 / results.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64, usize, usize, End)) -> f64| {
            results.iter().map(of).sum::<f64>() / results.len() as f64
        };
        let mut regrets: Vec<f64> = results.iter().map(|of| of.0).collect();
        regrets.sort_by(f64::total_cmp);
        print!(
            "{method:12} 1% {:5.1} 3% {:5.1} 8% {:5.1} p90 {:5.1} cost {:4.1} starts {:4.1} measured {:4.1}",
            100.0 * share(0.01),
            100.0 * share(0.03),
            100.0 * share(0.08),
            100.0 * regrets[regrets.len() * 9 / 10],
            100.0 * mean(&|of| of.1),
            mean(&|of| of.2 as f64),
            mean(&|of| of.3 as f64),
        );
        if results[0].4.chance.is_some() {
            let certain = results
                .iter()
                .filter(|of| of.4.ended == Some(vsweep_strategy::selection::optimized::Ended::Certain))
                .count();
            print!(
                " certain {certain} excluded {} memory {}",
                results.iter().filter(|of| of.4.excluded.0).count(),
                results.iter().filter(|of| of.4.excluded.1).count()
            );
            for (low, high) in [(0.0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 1.01)] {
                let band: Vec<_> = results
                    .iter()
                    .filter(|of| (low..high).contains(&of.4.chance.unwrap_or(0.0)))
                    .collect();
                if !band.is_empty() {
                    let said = band.iter().filter_map(|of| of.4.chance).sum::<f64>() / band.len() as f64;
                    let is_true = band.iter().filter(|of| of.0 <= methods::MARGIN).count() as f64 / band.len() as f64;
                    print!(
                        " [{:.0}% said {:.0}: {} true]",
                        100.0 * is_true,
                        100.0 * said,
                        band.len()
                    );
                }
            }
        }
        println!();
    };
    row("optimised", &|node, most_s, _| Some(methods::optimised(node, most_s)));
    eprintln!("{:.1} s", began.elapsed().as_secs_f64());
    if std::env::var("ALONE").is_ok() {
        return;
    }
    row("random", &|node, most_s, seed| {
        Some(methods::random(node, most_s, seed))
    });
    row("TPE", &|node, most_s, seed| Some(methods::tpe(node, most_s, seed)));
    row("each probed", &|node, most_s, seed| {
        Some(methods::each_probed(node, most_s, seed))
    });
    row("staged", &|node, most_s, _| Some(methods::staged(node, most_s)));
    row("twin", &|node, most_s, _| methods::twin(node, most_s));
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
