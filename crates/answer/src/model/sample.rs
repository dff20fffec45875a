//! Draws from the posterior of a metric: what all its points may be at once, with the effects that they share.

use super::super::Random;
use super::fit::{Posterior, States};
use std::ops::Index;

/// Draws of every point; none of one that was not measured. They stand in one piece of memory, which the system gets back as a whole: a
/// large experiment has millions.
#[derive(Debug)]
pub struct Draws {
    /// Draws of a point.
    count: usize,
    /// The place of each point among the measured ones.
    places: Vec<Option<usize>>,
    values: Vec<f64>,
}

impl Draws {
    fn zero(count: usize, is_measured: impl Iterator<Item = bool>) -> Draws {
        let mut measured = 0;
        let place = |is_measured: bool| {
            let place = is_measured.then_some(measured);
            measured += usize::from(is_measured);
            place
        };
        let places = is_measured.map(place).collect();
        let values = vec![0.0; measured * count];
        Draws { count, places, values }
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.places.len()
    }

    fn set(&mut self, point: usize, draw: usize, value: f64) {
        if let Some(place) = self.places[point] {
            self.values[place * self.count + draw] = value;
        }
    }
}

/// The draws of a point.
impl Index<usize> for Draws {
    type Output = [f64];

    fn index(&self, point: usize) -> &[f64] {
        match self.places[point] {
            Some(place) => &self.values[place * self.count..][..self.count],
            None => &[],
        }
    }
}

impl Posterior {
    /// Draws of every point, on the metric's scale.
    ///
    /// Sizes of noise are drawn in proportion to their probabilities, in random order. Each config has a stream of random numbers of its
    /// own, so another config hardly moves its draws.
    pub fn draw(&self, seed: u64, count: usize) -> Draws {
        let own = &self.observations;
        let mut drawn = Draws::zero(count, own.places.iter().map(Option::is_some));
        let by_block: Vec<Vec<usize>> = (0..own.blocks.len()).map(|block| self.points_of(block)).collect();
        let mut streams: Vec<Random> = own
            .blocks
            .iter()
            .map(|block| Random::of(seed, &[&own.metric, &block.config]))
            .collect();
        let mut of_nodes = Random::of(seed, &[&own.metric, "", "nodes"]);
        let mut states = States::of(own);
        for (at, draws) in self
            .allot(seed, count)
            .iter()
            .enumerate()
            .filter(|(_, draws)| !draws.is_empty())
        {
            let state = states.at(self.noises[at].0);
            for draw in draws {
                let effects: Vec<f64> = match &state.nodes {
                    Some(nodes) => nodes.factor.scatter(&nodes.means, || of_nodes.normal()),
                    None => vec![0.0; own.nodes.len()],
                };
                let effects: Vec<f64> = effects.iter().map(|effect| effect * state.noise.node).collect();
                for (at, (reduced, solved)) in state.reduced.iter().zip(&state.solved).enumerate() {
                    let nodes = &own.blocks[at].nodes;
                    let random = &mut streams[at];
                    let means = reduced.starts_given(solved, nodes, &effects);
                    let starts = solved.scatter(&means, || random.normal());
                    for (point, place) in by_block[at].iter().enumerate() {
                        let (mean, weight) = reduced.means[point];
                        let shares = reduced.shares[point].iter().enumerate();
                        let effect = shares.map(|(s, share)| share * (solved.start() * starts[s] + effects[nodes[s]]));
                        let value = mean - effect.sum::<f64>() + random.normal() / weight.sqrt();
                        drawn.set(*place, *draw, value);
                    }
                }
            }
        }
        drawn
    }

    /// The sizes of start noise in the draws.
    pub fn draw_start_noise(&self, seed: u64, count: usize) -> Vec<f64> {
        let mut drawn = vec![0.0; count];
        for (at, draws) in self.allot(seed, count).iter().enumerate() {
            for draw in draws {
                drawn[*draw] = self.noises[at].0.start;
            }
        }
        drawn
    }

    /// The points of a block, in the order of the block.
    fn points_of(&self, block: usize) -> Vec<usize> {
        let places = self.observations.places.iter().enumerate();
        let own = places.filter_map(|(point, place)| place.filter(|(of, _)| *of == block).map(|(_, at)| (at, point)));
        let mut own: Vec<(usize, usize)> = own.collect();
        own.sort_unstable();
        own.into_iter().map(|(_, point)| point).collect()
    }

    /// Assigns draws to each size of noise.
    fn allot(&self, seed: u64, count: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..count).collect();
        Random::of(seed, &[&self.observations.metric, "", "noise"]).shuffle(&mut order);
        let mut given = 0;
        let mut below = 0.0;
        let sizes = self.noises.iter().map(|(_, weight)| {
            below += weight;
            let end = ((below * count as f64).round() as usize).clamp(given, count);
            let draws = order[given..end].to_vec();
            given = end;
            draws
        });
        let mut sizes: Vec<Vec<usize>> = sizes.collect();
        if let Some(last) = sizes.last_mut() {
            last.extend(&order[given..]);
        }
        sizes
    }
}
