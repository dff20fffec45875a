//! Linear algebra for regressions: the factor of a symmetric matrix.

/// A matrix counts as singular if the square of a diagonal entry of its factor is at most this share of the matrix's own entry.
const SINGULAR: f64 = 1e-9;

/// The lower Cholesky factor of a symmetric matrix, row by row.
#[derive(Debug, Clone)]
pub struct Cholesky(Vec<Vec<f64>>);

impl Cholesky {
    /// Returns the factor of a matrix with `size` rows; `None` if it is not positive definite.
    pub fn of(size: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Cholesky> {
        let mut factor: Vec<Vec<f64>> = Vec::with_capacity(size);
        for i in 0..size {
            let mut row: Vec<f64> = Vec::with_capacity(i + 1);
            for (j, above) in factor.iter().enumerate() {
                row.push((matrix(i, j) - dot(&row, &above[..j])) / above[j]);
            }
            let left = matrix(i, i) - dot(&row, &row);
            if left <= SINGULAR * matrix(i, i) {
                return None;
            }
            row.push(left.sqrt());
            factor.push(row);
        }
        Some(Cholesky(factor))
    }

    /// Returns the vector whose product with the factor is `value`, by forward substitution.
    pub fn solve(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut solved: Vec<f64> = Vec::with_capacity(self.0.len());
        for (i, row) in self.0.iter().enumerate() {
            let known = dot(&row[..i], &solved);
            solved.push((value(i) - known) / row[i]);
        }
        solved
    }

    /// Returns the sum of the logarithms of the diagonal: half the logarithm of the matrix's determinant.
    pub fn ln_diagonal(&self) -> f64 {
        self.0.iter().filter_map(|row| row.last()).map(|last| last.ln()).sum()
    }

    /// Returns the product of the factor with a vector. It converts independent standard normal numbers to numbers with the matrix as
    /// covariance.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.0.iter().map(|row| dot(row, &vector[..row.len()])).collect()
    }
}

/// Returns the scalar product of two vectors.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
