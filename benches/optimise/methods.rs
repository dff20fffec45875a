//! The optimiser and the methods that it is compared with. Each runs on a virtual node until its seconds are spent.

use crate::landscape::{Landscape, Node, PROBES};
use vsweep_strategy::selection::optimized::{Budget, Exclusion, Optimized, Reason, Rules, Trial};
use vsweep_strategy::stats::Random;

pub const MARGIN: f64 = 0.01;

/// Result of a method.
#[derive(Debug, Clone)]
pub struct End {
    pub winner: Option<usize>,
    /// The stated probability of being within the margin of the best.
    pub chance: Option<f64>,
    /// True if all configs within 1 % of the best were excluded; true if one of them was excluded because of memory.
    pub excluded: (bool, bool),
}

impl End {
    fn of(node: &Node<'_>) -> End {
        End {
            winner: node.best().map(|(best, _)| best),
            chance: None,
            excluded: (false, false),
        }
    }
}

/// Runs the optimiser. With `skip_beaten`, the measurement of a new config ends after the first probe if that shows that the best one is
/// better.
pub fn optimised(node: &mut Node<'_>, most_s: f64, skip_beaten: bool) -> End {
    let landscape = node.landscape;
    let rules = Rules {
        margin: MARGIN,
        certainty: 0.95,
        budget: Some(Budget::MachineSeconds(most_s)),
        defaults: Some(landscape.defaults),
        best_starts: None,
    };
    let mut optimized = Optimized::new(&landscape.axes, landscape.candidates(node.costs), rules);
    while let Ok(proposals) = optimized.ask(1, &[]) {
        let proposal = proposals[0];
        let first = match proposal.reason {
            Reason::Promising { .. } if skip_beaten => node.best().map(|(_, value)| value),
            _ => None,
        };
        let before = node.seconds;
        let trial = node.start(proposal.candidate, first);
        optimized.add(proposal.candidate, trial, node.seconds - before);
    }
    let near = landscape.near_best();
    let excluded: Vec<_> = near.iter().map(|at| optimized.estimate(*at).excluded).collect();
    let winner = optimized.best();
    let is_near = winner.is_some_and(|at| near.contains(&at));
    End {
        winner,
        chance: Some(optimized.chance_of_best()),
        excluded: (
            !is_near && excluded.iter().all(Option::is_some),
            excluded.contains(&Some(Exclusion::Memory)),
        ),
    }
}

/// Seconds of a config that is measured in full.
fn full_s(node: &Node<'_>) -> f64 {
    node.costs.cold_s + PROBES * node.costs.probe_s
}

pub fn random(node: &mut Node<'_>, most_s: f64, seed: u64) -> End {
    in_order(node, most_s, &shuffled(node.landscape, seed), false)
}

/// Probes every config once, in random order, and measures it in full only if it beats the best so far.
pub fn each_probed(node: &mut Node<'_>, most_s: f64, seed: u64) -> End {
    in_order(node, most_s, &shuffled(node.landscape, seed), true)
}

/// Measures configs in the order of the twin's predictions, the best first.
pub fn twin(node: &mut Node<'_>, most_s: f64) -> Option<End> {
    let (predicted, _) = node.landscape.predicted.as_ref()?;
    let mut order: Vec<usize> = (0..node.landscape.len()).collect();
    order.sort_by(|a, b| predicted[*b].total_cmp(&predicted[*a]));
    let memory = node.landscape.memory.as_ref();
    order.retain(|at| memory.is_none_or(|memory| memory[*at] < 1.0));
    Some(in_order(node, most_s, &order, false))
}

fn in_order(node: &mut Node<'_>, most_s: f64, order: &[usize], is_probed: bool) -> End {
    for at in order {
        if node.seconds + full_s(node) > most_s {
            break;
        }
        let first = node.best().map(|(_, value)| value).filter(|_| is_probed);
        node.start(*at, first);
    }
    End::of(node)
}

fn shuffled(landscape: &Landscape, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..landscape.len()).collect();
    Random::of(seed, &["order"]).shuffle(&mut order);
    order
}

/// Varies one axis after the other, beginning with the defaults. The other axes keep their best levels so far.
pub fn staged(node: &mut Node<'_>, most_s: f64) -> End {
    let landscape = node.landscape;
    let mut now = landscape.levels[landscape.defaults].clone();
    let mut seen: Vec<usize> = Vec::new();
    loop {
        let before = seen.len();
        for axis in 0..landscape.axes.len() {
            let row: Vec<usize> = (0..landscape.len())
                .filter(|at| (0..now.len()).all(|other| other == axis || landscape.levels[*at][other] == now[other]))
                .collect();
            for at in row {
                if seen.contains(&at) {
                    continue;
                }
                if node.seconds + full_s(node) > most_s {
                    return End::of(node);
                }
                node.start(at, None);
                seen.push(at);
            }
            if let Some((best, _)) = node.best() {
                now.clone_from(&landscape.levels[best]);
            }
        }
        if seen.len() == before {
            return End::of(node);
        }
    }
}

/// Tree-structured Parzen estimator (Bergstra et al. 2011): after ten random configs, each next one is the best of 24 that are drawn by
/// their likeness to the best quarter.
pub fn tpe(node: &mut Node<'_>, most_s: f64, seed: u64) -> End {
    let landscape = node.landscape;
    let mut random = Random::of(seed, &["tpe"]);
    let order = shuffled(landscape, seed);
    let mut seen: Vec<(usize, f64)> = Vec::new();
    while node.seconds + full_s(node) <= most_s && seen.len() < landscape.len() {
        let at = if seen.len() < 10 {
            order[seen.len()]
        } else {
            let mut ranked = seen.clone();
            ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
            let (good, bad) = ranked.split_at(ranked.len().div_ceil(4));
            let fresh: Vec<usize> = order
                .iter()
                .copied()
                .filter(|at| seen.iter().all(|(of, _)| of != at))
                .collect();
            let density = |of: &[(usize, f64)], axis: usize, level: usize| {
                let same = of.iter().map(|(at, _)| {
                    let far = landscape.levels[*at][axis].abs_diff(level);
                    match (far, landscape.axes[axis].is_ordered) {
                        (0, _) => 1.0,
                        (1, true) => 0.3,
                        _ => 0.0,
                    }
                });
                (same.sum::<f64>() + 0.5) / (of.len() as f64 + 1.0)
            };
            let weight = |at: usize, of: &[(usize, f64)]| -> f64 {
                (0..landscape.axes.len())
                    .map(|axis| density(of, axis, landscape.levels[at][axis]))
                    .product()
            };
            let all: f64 = fresh.iter().map(|at| weight(*at, good)).sum();
            let drawn = (0..24).map(|_| {
                let mut left = random.uniform() * all;
                let found = fresh.iter().find(|at| {
                    left -= weight(**at, good);
                    left <= 0.0
                });
                *found.unwrap_or(&fresh[0])
            });
            let drawn: Vec<usize> = drawn.collect();
            let ratio = |at: &usize| weight(*at, good) / weight(*at, bad);
            *drawn
                .iter()
                .max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
                .unwrap_or(&fresh[0])
        };
        let value = match node.start(at, None) {
            Trial::Measured { ln_value, .. } => ln_value,
            _ => f64::NEG_INFINITY,
        };
        seen.push((at, value));
    }
    End::of(node)
}
