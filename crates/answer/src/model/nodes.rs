//! The effects of nodes. They connect configs, so they are solved last, after everything else was eliminated from each config.

use super::block::{BlockSolution, BlockSystem, Square};
use super::data::Observations;
use std::collections::BTreeSet;

/// The linear system of the effects of nodes, from all configs, for given run and start noise.
pub(super) struct NodeSystem {
    precision: Square,
    /// Right-hand side of the system.
    pull: Vec<f64>,
    /// Index of the node whose effect is 0.
    reference: usize,
}

/// Effects of nodes, in standard deviations between nodes.
pub(super) struct NodeEffects {
    /// Their means.
    pub means: Vec<f64>,
    /// The Cholesky factor of their precision matrix.
    pub factor: Square,
    /// Their part of the log-likelihood.
    pub likelihood: f64,
}

/// Prior precision of the reference node's effect, which keeps it at 0.
const FIXED: f64 = 1e12;

impl NodeSystem {
    /// Builds the system from all blocks and their solutions; `None` if there is only one node.
    pub fn of(observations: &Observations, reduced: &[BlockSystem], solved: &[BlockSolution]) -> Option<NodeSystem> {
        let count = observations.nodes.len();
        if count < 2 {
            return None;
        }
        let mut precision = Square::zero(count);
        let mut pull = vec![0.0; count];
        for ((reduced, solved), block) in reduced.iter().zip(solved).zip(&observations.blocks) {
            let nodes = &block.nodes;
            // A config has runs on few of many nodes.
            let own: BTreeSet<usize> = nodes.iter().copied().collect();
            let own: Vec<usize> = own.into_iter().collect();
            let places: Vec<usize> = nodes
                .iter()
                .map(|node| own.partition_point(|other| other < node))
                .collect();
            let about = reduced.about_nodes(solved, &places, own.len());
            for (row, cells) in own.iter().zip(about.cells.chunks_exact(own.len())) {
                for (column, cell) in own.iter().zip(cells) {
                    precision.cells[row * count + column] += cell;
                }
            }
            for (s, node) in nodes.iter().enumerate() {
                pull[*node] += solved.pulled[s];
            }
        }
        Some(NodeSystem {
            precision,
            pull,
            reference: observations.reference,
        })
    }

    /// Solves for the effects, given the standard deviation between nodes.
    pub fn solve(&self, deviation: f64) -> NodeEffects {
        let count = self.pull.len();
        let mut precision = self.precision.clone();
        precision
            .cells
            .iter_mut()
            .for_each(|cell| *cell *= deviation * deviation);
        for node in 0..count {
            precision.cells[node * count + node] += if node == self.reference { FIXED } else { 1.0 };
        }
        let pull: Vec<f64> = self.pull.iter().map(|pull| pull * deviation).collect();
        let factor = precision.cholesky();
        let means = factor.solve(&pull);
        let explained: f64 = means.iter().zip(&pull).map(|(a, b)| a * b).sum();
        NodeEffects {
            likelihood: explained / 2.0 - factor.half_log_determinant(),
            means,
            factor,
        }
    }
}
