//! Draws from the posterior of a metric: joint values of all its points, with the effects that they share.

use super::super::Random;
use super::block::BlockSystem;
use super::fit::{Posterior, States};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut, Range};
use vsweep_strategy::stats::Normals;

/// Draws of some points. A large experiment has millions, so they are in one allocation, which is returned to the system as a whole.
#[derive(Debug)]
pub struct Draws {
    /// Number of draws of each point.
    count: usize,
    /// Index of each point among those that were drawn.
    places: Vec<Option<usize>>,
    values: Vec<f64>,
}

impl Draws {
    fn zero(count: usize, points: usize, drawn: impl Iterator<Item = usize>) -> Draws {
        let (mut places, mut own) = (vec![None; points], 0);
        for point in drawn {
            places[point] = Some(own);
            own += 1;
        }
        let values = vec![0.0; own * count];
        Draws { count, places, values }
    }

    fn range(&self, point: usize) -> Range<usize> {
        let from = self.places[point].map(|place| place * self.count);
        from.map_or(0..0, |from| from..from + self.count)
    }
}

/// The draws of a point; empty if it was not measured or not drawn.
impl Index<usize> for Draws {
    type Output = [f64];

    fn index(&self, point: usize) -> &[f64] {
        &self.values[self.range(point)]
    }
}

impl IndexMut<usize> for Draws {
    fn index_mut(&mut self, point: usize) -> &mut [f64] {
        let range = self.range(point);
        &mut self.values[range]
    }
}

impl Posterior {
    /// Returns the first `kept` of `count` draws of `points`, which are distinct, on the metric's scale. A point's draws do not depend on the
    /// points that are drawn with it.
    ///
    /// Noise levels are drawn in proportion to their probabilities, in random order. Each config has its own stream of random numbers, so
    /// an additional config hardly moves the draws of the others.
    pub fn draw(&self, seed: u64, count: usize, kept: usize, points: &[usize]) -> Draws {
        let observations = &self.observations;
        let measured = || {
            points
                .iter()
                .filter_map(|point| Some((observations.places[*point]?, *point)))
        };
        let zeros = || {
            points
                .iter()
                .filter_map(|point| Some((observations.zeros.get(point)?, *point)))
        };
        let all = measured()
            .map(|(_, point)| point)
            .chain(zeros().map(|(_, point)| point));
        let mut drawn = Draws::zero(kept, observations.places.len(), all);
        for (figures, point) in zeros() {
            let mut random = Random::of(seed, &[&observations.metric, "", "zeros", &point.to_string()]);
            drawn[point].fill_with(|| figures[random.below(figures.len())]);
        }
        let mut by_block: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for ((block, place), point) in measured() {
            by_block.entry(block).or_default().push((place, point));
        }
        let allotted = self.allot(seed, count);
        let of_nodes = self.draw_nodes(seed, &allotted);
        for (block, mut members) in by_block {
            members.sort_unstable();
            self.draw_block(seed, block, &members, (&allotted, of_nodes.as_deref()), &mut drawn);
        }
        drawn
    }

    /// The effects of the nodes in each draw, in the order of the noise levels to which the draws are assigned; `None` if there is only
    /// one node.
    fn draw_nodes(&self, seed: u64, allotted: &[Vec<usize>]) -> Option<Vec<Vec<f64>>> {
        let observations = &self.observations;
        if observations.nodes.len() < 2 {
            return None;
        }
        let mut random = Random::of(seed, &[&observations.metric, "", "nodes"]);
        let mut states = States::of(observations);
        let mut effects = Vec::new();
        for ((noise, _), draws) in self.noises.iter().zip(allotted).filter(|(_, draws)| !draws.is_empty()) {
            let nodes = states.at(*noise).nodes;
            effects.extend(draws.iter().map(|_| {
                let drawn = nodes
                    .iter()
                    .flat_map(|nodes| nodes.factor.scatter(&nodes.means, || random.normal()));
                drawn.map(|effect| effect * noise.node).collect()
            }));
        }
        Some(effects)
    }

    /// Draws the points of a block. `members` are pairs of a position in the block and the index of the point. One config is drawn at a
    /// time, so that its values stay in the processor's cache.
    fn draw_block(
        &self,
        seed: u64,
        block: usize,
        members: &[(usize, usize)],
        (allotted, of_nodes): (&[Vec<usize>], Option<&[Vec<f64>]>),
        drawn: &mut Draws,
    ) {
        let observations = &self.observations;
        let block = &observations.blocks[block];
        let starts = block.nodes.len();
        let no_effects = vec![0.0; observations.nodes.len()];
        let mut normals = Normals::of(Random::of(seed, &[&observations.metric, &block.config]));
        let mut reduced: Option<(f64, BlockSystem)> = None;
        let mut number = 0;
        for ((noise, _), draws) in self.noises.iter().zip(allotted).filter(|(_, draws)| !draws.is_empty()) {
            let kept = reduced.take().filter(|(run, _)| *run == noise.run);
            let (_, reduced) = reduced.insert(kept.unwrap_or_else(|| (noise.run, BlockSystem::of(block, noise.run))));
            let solved = reduced.solve(noise.start);
            let means = reduced.starts_given(&solved, &block.nodes, &no_effects);
            for draw in draws {
                let effects = of_nodes.map_or(&no_effects, |effects| &effects[number]);
                // A draw uses one random number for each start, then one for each point.
                let mut first = (number * (starts + block.points)) as u64;
                number += 1;
                if *draw >= drawn.count {
                    continue;
                }
                let given = of_nodes.map(|_| reduced.starts_given(&solved, &block.nodes, effects));
                let mut start_effects = solved.factor.scatter(given.as_ref().unwrap_or(&means), || {
                    first += 1;
                    normals.at(first - 1)
                });
                let node_effects = block.nodes.iter().map(|node| effects[*node]);
                start_effects
                    .iter_mut()
                    .zip(node_effects)
                    .for_each(|(start, effect)| *start = solved.start * *start + effect);
                for (place, point) in members {
                    let (mean, weight) = reduced.means[*place];
                    let shares = reduced.shares(*place).iter().zip(&start_effects);
                    let effect: f64 = shares.map(|(share, effect)| share * effect).sum();
                    let residual = normals.at(first + *place as u64) / weight.sqrt();
                    let held = observations.held[*point];
                    let of_node = if held == observations.reference {
                        0.0
                    } else {
                        effects[held]
                    };
                    drawn[*point][*draw] = mean - effect + residual + of_node;
                }
            }
        }
    }

    /// The standard deviation between starts in each draw.
    pub fn draw_start_noise(&self, seed: u64, count: usize) -> Vec<f64> {
        let mut drawn = vec![0.0; count];
        for (at, draws) in self.allot(seed, count).iter().enumerate() {
            for draw in draws {
                drawn[*draw] = self.noises[at].0.start;
            }
        }
        drawn
    }

    /// The effect of each node in each draw, by its name; empty if there is only one node.
    pub fn draw_effects_of_nodes(&self, seed: u64, count: usize) -> BTreeMap<&str, Vec<f64>> {
        let allotted = self.allot(seed, count);
        let Some(effects) = self.draw_nodes(seed, &allotted) else {
            return BTreeMap::new();
        };
        let drawn = |node: usize| {
            let mut drawn = vec![0.0; count];
            for (draw, effects) in allotted.iter().flatten().zip(&effects) {
                drawn[*draw] = effects[node];
            }
            drawn
        };
        let nodes = self.observations.nodes.iter().enumerate();
        nodes.map(|(at, name)| (name.as_str(), drawn(at))).collect()
    }

    /// Assigns the indices of the draws to the noise levels.
    fn allot(&self, seed: u64, count: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..count).collect();
        Random::of(seed, &[&self.observations.metric, "", "noise"]).shuffle(&mut order);
        let mut assigned = 0;
        let mut below = 0.0;
        let levels = self.noises.iter().map(|(_, weight)| {
            below += weight;
            let end = ((below * count as f64).round() as usize).clamp(assigned, count);
            let draws = order[assigned..end].to_vec();
            assigned = end;
            draws
        });
        let mut levels: Vec<Vec<usize>> = levels.collect();
        if let Some(last) = levels.last_mut() {
            last.extend(&order[assigned..]);
        }
        levels
    }
}
