//! The stand-in where no two configs differ in one setting alone: each config's logarithm, freed of the load's, as a sum of what each
//! of its values adds, fitted by least squares.

use super::super::{Cholesky, Estimate, dot};
use super::{Configs, mean};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds in which loads and configs are told apart; each halves what is left, or better, where configs share loads.
const ROUNDS: usize = 60;

/// The two values of a setting that are farthest apart, and the second less the first; none where the settings cannot be told apart or
/// there are no more configs than values.
pub(super) fn contrast(configs: &Configs, setting: usize) -> Option<((usize, usize), Estimate)> {
    let freed = free_of_load(configs);
    let rows: Vec<&Vec<usize>> = configs.keys().collect();
    let mut terms: Vec<(usize, usize)> = Vec::new();
    for at in 0..rows.first()?.len() {
        let values: BTreeSet<usize> = rows.iter().map(|row| row[at]).collect();
        terms.extend(values.into_iter().skip(1).map(|value| (at, value)));
    }
    let design = |row: &[usize]| -> Vec<f64> {
        let of_terms = terms.iter().map(|(at, value)| f64::from(u8::from(row[*at] == *value)));
        std::iter::once(1.0).chain(of_terms).collect()
    };
    let design: Vec<Vec<f64>> = rows.iter().map(|row| design(row)).collect();
    let size = terms.len() + 1;
    let freedom = rows.len().checked_sub(size).filter(|left| *left > 0)? as f64;
    let product = |i: usize, j: usize| design.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let factor = Cholesky::of(size, product)?;
    let roots: Vec<Vec<f64>> = (0..size)
        .map(|i| factor.solve(|j| f64::from(u8::from(i == j))))
        .collect();
    let inverse = |i: usize, j: usize| dot(&roots[i], &roots[j]);
    let right: Vec<f64> = (0..size)
        .map(|i| design.iter().zip(&freed).map(|(row, log)| row[i] * log).sum())
        .collect();
    let fitted: Vec<f64> = (0..size)
        .map(|i| (0..size).map(|j| inverse(i, j) * right[j]).sum())
        .collect();
    let squares: f64 = design
        .iter()
        .zip(&freed)
        .map(|(row, log)| (log - dot(row, &fitted)).powi(2))
        .sum();
    // The first value is the one that the others are held against.
    let first = rows.iter().map(|row| row[setting]).min()?;
    let own = (1..size).filter(|place| terms[place - 1].0 == setting);
    let mut values: Vec<(usize, Option<usize>, f64)> = vec![(first, None, 0.0)];
    values.extend(own.map(|place| (terms[place - 1].1, Some(place), fitted[place])));
    let low = values.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    let high = values
        .iter()
        .max_by(|a, b| a.2.total_cmp(&b.2))
        .filter(|high| high.0 != low.0)?;
    let variance = |i: Option<usize>, j: Option<usize>| i.zip(j).map_or(0.0, |(i, j)| inverse(i, j));
    let spread = variance(high.1, high.1) + variance(low.1, low.1) - 2.0 * variance(high.1, low.1);
    let standard = (squares / freedom * spread.max(0.0)).sqrt();
    let estimate = Estimate::new(high.2 - low.2, standard, freedom);
    Some(((low.0, high.0), estimate))
}

/// A logarithm for each config, in their order, without what the loads add that it was measured under.
fn free_of_load(configs: &Configs) -> Vec<f64> {
    let logs: Vec<BTreeMap<usize, f64>> = configs
        .values()
        .map(|logs| logs.iter().map(|(load, logs)| (*load, mean(logs.values()))).collect())
        .collect();
    let mut of_config = vec![0.0; logs.len()];
    for _ in 0..ROUNDS {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (logs, own) in logs.iter().zip(&of_config) {
            for (load, log) in logs {
                let (sum, count) = sums.entry(*load).or_default();
                *sum += log - own;
                *count += 1.0;
            }
        }
        let of_load: BTreeMap<usize, f64> = sums
            .into_iter()
            .map(|(load, (sum, count))| (load, sum / count))
            .collect();
        for (logs, own) in logs.iter().zip(&mut of_config) {
            let left: Vec<f64> = logs.iter().map(|(load, log)| log - of_load[load]).collect();
            *own = mean(left.iter());
        }
    }
    of_config
}
