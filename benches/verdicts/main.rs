//! Measures the reliability of verdicts on a virtual node with planted differences: `cargo bench -p vsweep-strategy`. `-- quick` makes
//! fewer trials, which can only disprove. A number sets the trials of each cell, and `a`, `b` or `c` chooses a part. Bounds are Wilson's;
//! each holds with a probability of 95 %. Seeds follow from the name of a cell and the number of a trial. Ends with code 1 if a requirement
//! is not met.

mod axis;
mod judge;
mod node;
mod pairs;
#[path = "../support/random.rs"]
mod random;
mod repeats;

use judge::{Judge, Strictness};
use std::process::ExitCode;

/// Number of trials in a cell that can prove its requirements. It is the default.
const PROVING: u64 = 10_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let has = |word: &str| words.iter().any(|argument| argument == word);
    let number = words.iter().find_map(|word| word.parse::<u64>().ok());
    let is_quick = has("quick");
    let trials = number.unwrap_or(if is_quick { 300 } else { PROVING });
    let strictness = match trials {
        _ if is_quick => Strictness::NotDisproved,
        ..PROVING => Strictness::Seen,
        PROVING.. => Strictness::Proven,
    };
    let mut judged = Judge {
        strictness,
        failed: Vec::new(),
    };
    let parts = ["a", "b", "c"];
    let wants = |part: &str| has(part) || !parts.iter().any(|part| has(part));
    if wants("a") {
        pairs::judge(&mut judged, trials);
        pairs::naive(trials);
    }
    if wants("b") {
        repeats::judge(&mut judged, trials);
    }
    if wants("c") {
        axis::judge(&mut judged, trials.min(2_000));
    }
    match judged.failed.len() {
        0 => println!("\neverything required is met"),
        failed => println!("\n{failed} requirements are not met:\n{}", judged.failed.join("\n")),
    }
    ExitCode::from(u8::from(!judged.failed.is_empty()))
}
