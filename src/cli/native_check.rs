//! What the native generator objects to in a plan's loads, found before anything starts instead of in the first run.

use crate::bench::native;
use crate::matrix::Matrix;
use crate::plan::{BenchRunner, Plan, Problem, Problems};
use std::collections::BTreeSet;

/// Points looked at: far more than the distinct loads of any plan that is not generated.
const MOST_POINTS: usize = 10_000;

/// Checks the loads of a plan that the native generator is to drive.
pub fn check(plan: &Plan, matrix: &Matrix) -> Result<(), Problems> {
    if plan.bench.runner != BenchRunner::Native {
        return Ok(());
    }
    let points = matrix.points().take(MOST_POINTS);
    let sentences: BTreeSet<String> = points.flat_map(|point| native::check(&point.params)).collect();
    if sentences.is_empty() {
        return Ok(());
    }
    let problems = sentences.iter().map(|sentence| problem(plan, sentence)).collect();
    Err(Problems::new(problems, plan.origin.sources.clone()))
}

/// Points at the parameter that the sentence names first, or at the table.
fn problem(plan: &Plan, sentence: &str) -> Problem {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let named = sentence
        .split(|c| !is_name(c))
        .find(|word| plan.origin.has(&["bench", "params", word]) && !word.is_empty());
    let span = match named {
        Some(name) => plan.origin.key_span(&["bench", "params", name]),
        None => plan.origin.key_span(&["bench", "params"]),
    };
    let (message, remedy) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
    Problem::new(span, message, remedy)
}
