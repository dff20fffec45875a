//! Scores the twin on nodes whose constants are drawn and hidden: `cargo bench --bench twin [-- NODES [KNOWN [FIRST]]]`.
//!
//! On each of NODES (50) simulated nodes, KNOWN (3) of 20 server configs are measured in virtual time under three loads each. The twin
//! predicts duration, mean TPOT and mean TTFT of the others. Fails unless the mean coverage of the 80 % intervals is 75 to 90 %, and the
//! coverage on at least 80 % of the nodes is 60 to 95 %.

#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/random.rs"]
mod random;

use nodes::{Coverage, coverage};

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |at: usize, usual: u64| numbers.get(at).copied().unwrap_or(usual);
    let (nodes, known, first) = (number(0, 50), number(1, 3), number(2, 0));
    let all: Vec<u64> = (first..first + nodes).collect();
    let found = vsweep::threads::map(vsweep::threads::cores(), &all, |node| coverage(*node, known as usize));
    for (node, coverage) in all.iter().zip(&found) {
        println!(
            "node {node}: {:.0} % of {} held, durations within {:.1} % in median",
            100.0 * coverage.share(),
            coverage.predictions,
            100.0 * median(coverage.errors.clone())
        );
    }
    let shares: Vec<f64> = found.iter().map(Coverage::share).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let within = shares.iter().filter(|share| (0.60..=0.95).contains(*share)).count() as f64 / shares.len() as f64;
    let error = median(found.iter().flat_map(|coverage| coverage.errors.clone()).collect());
    println!(
        "{nodes} nodes after {known} configs: mean coverage {:.1} %, nodes in 60 to 95 %: {:.0} %, durations within {:.1} % in median",
        100.0 * mean,
        100.0 * within,
        100.0 * error
    );
    if !(0.75..=0.90).contains(&mean) || within < 0.80 {
        println!("missed: 75 to 90 % in the mean, 60 to 95 % of four nodes in five");
        std::process::exit(1);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
