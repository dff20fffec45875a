//! Figures over many landscapes of a class, and the comparison with their targets.

use crate::landscape::{Costs, Landscape, Node};
use crate::methods::{End, MARGIN};

/// The result of one method on one landscape.
#[derive(Debug, Clone)]
pub struct Result {
    pub regret: f64,
    /// Server seconds spent, as a share of those of the whole grid.
    pub cost: f64,
    pub starts: usize,
    pub end: End,
}

impl Result {
    /// Runs a method on a landscape, with a share of the grid's seconds as its budget. `None` if the method does not apply.
    pub fn of(landscape: &Landscape, costs: Costs, share: f64, seed: u64, run: &Method<'_>) -> Option<Result> {
        let grid_s = Node::grid_s(landscape, costs);
        let mut node = Node::new(landscape, costs, seed);
        let end = run(&mut node, share * grid_s, seed)?;
        Some(Result {
            regret: landscape.regret(end.winner),
            cost: node.seconds / grid_s,
            starts: node.starts,
            end,
        })
    }
}

/// A method. It gets the node, the seconds that it may spend, and a seed.
pub type Method<'a> = dyn Fn(&mut Node<'_>, f64, u64) -> Option<End> + Sync + 'a;

/// Share of results whose regret is at most `most`.
pub fn within(results: &[Result], most: f64) -> f64 {
    let found = results.iter().filter(|result| result.regret <= most).count();
    found as f64 / results.len().max(1) as f64
}

pub fn mean(results: &[Result], of: impl Fn(&Result) -> f64) -> f64 {
    results.iter().map(of).sum::<f64>() / results.len().max(1) as f64
}

/// The 90 % quantile of the regrets.
pub fn ninth_decile(results: &[Result]) -> f64 {
    let mut regrets: Vec<f64> = results.iter().map(|result| result.regret).collect();
    regrets.sort_by(f64::total_cmp);
    regrets[(regrets.len() * 9 / 10).min(regrets.len() - 1)]
}

/// Claims of at least 90 %: their number, their mean, and the share of them that are true.
pub fn claims(results: &[Result]) -> (usize, f64, f64) {
    let claims: Vec<(f64, bool)> = results
        .iter()
        .filter_map(|result| Some((result.end.chance?, result.regret <= MARGIN)))
        .filter(|(claim, _)| *claim >= 0.9)
        .collect();
    let count = claims.len().max(1) as f64;
    let said = claims.iter().map(|(claim, _)| claim).sum::<f64>() / count;
    let is_true = claims.iter().filter(|(_, is_true)| *is_true).count() as f64 / count;
    (claims.len(), said, is_true)
}

/// Prints a figure with its target, and returns true if the target is met.
pub fn is_met(name: &str, figure: f64, is_least: bool, target: f64) -> bool {
    let met = if is_least { figure >= target } else { figure <= target };
    let (sign, verdict) = (if is_least { ">=" } else { "<=" }, if met { "met" } else { "MISSED" });
    println!(
        "  {name}: {:.1} ({sign} {:.1}) {verdict}",
        100.0 * figure,
        100.0 * target
    );
    met
}
