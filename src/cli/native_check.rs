//! What the native generator objects to in a plan's loads, found before anything starts instead of in the first run.

use crate::bench::native;
use crate::matrix::Matrix;
use crate::plan::{BenchRunner, Found, Plan, Problem};
use std::collections::BTreeSet;

/// Points looked at: far more than the distinct loads of any plan that is not generated.
pub const MOST_POINTS: usize = 10_000;

/// Checks the loads of a plan that the native generator is to drive. Of a plan that could not be read as a whole only
/// what names a parameter is told: the rest may follow from what is missing.
pub fn check(plan: &Plan, matrix: &Matrix, found: &mut Found) {
    if plan.bench.runner != BenchRunner::Native {
        return;
    }
    let is_whole = found.is_empty();
    let points = matrix.points().take(MOST_POINTS);
    let sentences: BTreeSet<String> = points.flat_map(|point| native::check(&point.params)).collect();
    for sentence in &sentences {
        let named = named_param(plan, sentence);
        if is_whole || named.is_some() {
            found.add(problem(plan, sentence, named));
        }
    }
}

/// The parameter of the plan that the sentence names first.
fn named_param<'s>(plan: &Plan, sentence: &'s str) -> Option<&'s str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = sentence.split(|c| !is_name(c));
    words.find(|word| !word.is_empty() && plan.origin.has(&["bench", "params", word]))
}

/// Points at the parameter, or at the table.
fn problem(plan: &Plan, sentence: &str, named: Option<&str>) -> Problem {
    let span = match named {
        Some(name) => plan.origin.key_span(&["bench", "params", name]),
        None => plan.origin.key_span(&["bench", "params"]),
    };
    let (message, remedy) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
    Problem::new(span, message, remedy)
}
