//! One config at given noise levels: its means and start effects by elimination, and the likelihood of its runs.
//!
//! Let `e` have an entry for each start: its own effect plus that of its node. The means have flat priors. Once they are eliminated, minus
//! twice the logarithm of the joint density is `e' B e - 2 b' e + const`. The own effects are `start * z` with standard normal `z`, so the
//! precision of `z` given the rest is `A = I + start^2 B`.

use super::data::Block;

/// A block at a given run noise.
#[derive(Debug, Clone)]
pub(super) struct BlockSystem {
    /// Weighted mean and weight of each point.
    pub means: Vec<(f64, f64)>,
    /// Share of each start in the weight of each point: `[point][start]`.
    shares: Vec<f64>,
    /// `B`.
    between: Square,
    /// `b`.
    pull: Vec<f64>,
    /// The part of the log-likelihood that does not depend on the effects of starts.
    constant: f64,
}

/// A block at a given run noise and start noise.
#[derive(Debug, Clone)]
pub(super) struct BlockSolution {
    /// The start noise.
    pub start: f64,
    /// The Cholesky factor of `A`, the precision of `z`.
    pub factor: Square,
    /// The log-likelihood without the effects of nodes.
    pub likelihood: f64,
    /// `A^-1 b`.
    pub pulled: Vec<f64>,
}

/// A square matrix, row by row.
#[derive(Debug, Clone)]
pub(super) struct Square {
    pub size: usize,
    pub cells: Vec<f64>,
}

impl BlockSystem {
    pub fn of(block: &Block, run: f64) -> BlockSystem {
        let (points, starts) = (block.points, block.nodes.len());
        let mut weights = vec![0.0; points * starts];
        let mut values = vec![0.0; points * starts];
        let mut constant = 0.0;
        // Many runs have equal precisions, so the last logarithm is kept.
        let (mut last, mut logarithm) = (1.0, 0.0);
        let mut precisions = Vec::new();
        for cell in &block.cells {
            let runs = block.runs_of(cell);
            precisions.clear();
            precisions.extend(runs.iter().map(|(_, variance)| 1.0 / (run * run + variance)));
            let own = || runs.iter().map(|(value, _)| value).zip(&precisions);
            let weight: f64 = precisions.iter().sum();
            let mean = own().map(|(value, precision)| value * precision).sum::<f64>() / weight;
            let scatter: f64 = own().map(|(value, precision)| precision * (value - mean).powi(2)).sum();
            let log = |precision: &f64| {
                if *precision != last {
                    (last, logarithm) = (*precision, precision.ln());
                }
                logarithm
            };
            constant += precisions.iter().map(log).sum::<f64>() / 2.0 - scatter / 2.0;
            weights[cell.point * starts + cell.start] = weight;
            values[cell.point * starts + cell.start] = mean;
        }
        let mut reduced = BlockSystem {
            means: Vec::with_capacity(points),
            shares: Vec::with_capacity(points * starts),
            between: Square::zero(starts),
            pull: vec![0.0; starts],
            constant,
        };
        for (weights, values) in weights.chunks_exact(starts).zip(values.chunks_exact(starts)) {
            let weight: f64 = weights.iter().sum();
            let mean = weights.iter().zip(values).map(|(w, y)| w * y).sum::<f64>() / weight;
            for (s, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                reduced.pull[s] += w * (values[s] - mean);
                reduced.constant -= w * (values[s] - mean).powi(2) / 2.0;
                reduced.between.cells[s * starts + s] += w;
                for (t, v) in weights.iter().enumerate() {
                    reduced.between.cells[s * starts + t] -= w * v / weight;
                }
            }
            reduced.constant -= weight.ln() / 2.0;
            reduced.means.push((mean, weight));
            reduced.shares.extend(weights.iter().map(|w| w / weight));
        }
        reduced
    }

    /// Returns the share of each start in the weight of a point.
    pub fn shares(&self, point: usize) -> &[f64] {
        let starts = self.pull.len();
        &self.shares[point * starts..][..starts]
    }

    pub fn solve(&self, start: f64) -> BlockSolution {
        let mut precision = self.between.clone();
        precision.cells.iter_mut().for_each(|cell| *cell *= start * start);
        for s in 0..precision.size {
            precision.cells[s * precision.size + s] += 1.0;
        }
        let factor = precision.cholesky();
        let pulled = factor.solve(&self.pull);
        let explained: f64 = pulled.iter().zip(&self.pull).map(|(a, b)| a * b).sum();
        BlockSolution {
            start,
            likelihood: self.constant + start * start * explained / 2.0 - factor.half_log_determinant(),
            factor,
            pulled,
        }
    }

    /// Returns `H' A^-1 B H`, the information of the starts about the effects of `count` nodes. `H` assigns each start to its node.
    pub fn about_nodes(&self, solved: &BlockSolution, nodes: &[usize], count: usize) -> Square {
        let starts = self.between.size;
        let mut found = Square::zero(count);
        for node in 0..count {
            let column = |s: usize| -> f64 {
                let of_node = (0..starts).filter(|t| nodes[*t] == node);
                of_node.map(|t| self.between.cells[s * starts + t]).sum()
            };
            let solved = solved.factor.solve(&(0..starts).map(column).collect::<Vec<f64>>());
            for (s, value) in solved.iter().enumerate() {
                found.cells[nodes[s] * count + node] += value;
            }
        }
        found
    }

    /// Returns the means of `z`, given the effects of the nodes.
    pub fn starts_given(&self, solved: &BlockSolution, nodes: &[usize], effects: &[f64]) -> Vec<f64> {
        let starts = self.between.size;
        let effects: Vec<f64> = nodes.iter().map(|node| effects[*node]).collect();
        let left = (0..starts).map(|s| {
            let row = &self.between.cells[s * starts..(s + 1) * starts];
            self.pull[s] - row.iter().zip(&effects).map(|(b, e)| b * e).sum::<f64>()
        });
        let mut means = solved.factor.solve(&left.collect::<Vec<f64>>());
        means.iter_mut().for_each(|mean| *mean *= solved.start);
        means
    }

    /// Returns the mean and variance of a point without the effects of nodes. `scratch` is memory for intermediate results.
    pub fn moments(&self, solved: &BlockSolution, point: usize, scratch: &mut Vec<f64>) -> (f64, f64) {
        let (mean, weight) = self.means[point];
        let shares = self.shares(point);
        let squared = solved.start * solved.start;
        let moved: f64 = shares.iter().zip(&solved.pulled).map(|(f, p)| f * p).sum();
        scratch.clear();
        scratch.extend_from_slice(shares);
        solved.factor.solve_in_place(scratch);
        let spread: f64 = shares.iter().zip(&*scratch).map(|(f, a)| f * a).sum();
        (mean - squared * moved, 1.0 / weight + squared * spread)
    }

    /// Returns the decrease of a point's mean per unit of effect of each of `count` nodes.
    pub fn leans_on_nodes(&self, solved: &BlockSolution, point: usize, nodes: &[usize], count: usize) -> Vec<f64> {
        let mut found = vec![0.0; count];
        for (s, value) in solved.factor.solve(self.shares(point)).iter().enumerate() {
            found[nodes[s]] += value;
        }
        found
    }
}

impl Square {
    pub fn zero(size: usize) -> Square {
        Square {
            size,
            cells: vec![0.0; size * size],
        }
    }

    /// Returns the lower Cholesky factor of a positive definite matrix.
    pub fn cholesky(mut self) -> Square {
        let n = self.size;
        for i in 0..n {
            for j in 0..=i {
                let inner: f64 = (0..j).map(|k| self.cells[i * n + k] * self.cells[j * n + k]).sum();
                let left = self.cells[i * n + j] - inner;
                self.cells[i * n + j] = match i == j {
                    true => left.max(f64::MIN_POSITIVE).sqrt(),
                    false => left / self.cells[j * n + j],
                };
            }
        }
        self
    }

    /// Solves `M x = b`, where this matrix is the lower factor of `M`.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        self.solve_in_place(&mut x);
        x
    }

    /// Returns the inverse of the matrix of which this is the lower factor.
    pub fn inverse(&self) -> Square {
        let unit = |at: usize| {
            (0..self.size)
                .map(|i| f64::from(u8::from(i == at)))
                .collect::<Vec<f64>>()
        };
        Square {
            size: self.size,
            cells: (0..self.size).flat_map(|at| self.solve(&unit(at))).collect(),
        }
    }

    fn solve_in_place(&self, x: &mut [f64]) {
        let n = self.size;
        for i in 0..n {
            for k in 0..i {
                x[i] -= self.cells[i * n + k] * x[k];
            }
            x[i] /= self.cells[i * n + i];
        }
        self.back(x);
    }

    /// Draws a normal vector with these means and the precision of which this matrix is the lower factor.
    pub fn scatter(&self, means: &[f64], mut normal: impl FnMut() -> f64) -> Vec<f64> {
        let mut x: Vec<f64> = means.iter().map(|_| normal()).collect();
        self.back(&mut x);
        x.iter_mut().zip(means).for_each(|(x, mean)| *x += mean);
        x
    }

    /// Returns half the logarithm of the determinant of the matrix of which this is the factor.
    pub fn half_log_determinant(&self) -> f64 {
        (0..self.size).map(|i| self.cells[i * self.size + i].ln()).sum()
    }

    /// Solves `L' x = b` in place, where `L` is this matrix and `x` holds `b` at first.
    fn back(&self, x: &mut [f64]) {
        let n = self.size;
        for i in (0..n).rev() {
            for k in i + 1..n {
                x[i] -= self.cells[k * n + i] * x[k];
            }
            x[i] /= self.cells[i * n + i];
        }
    }
}
