//! Misleading landscapes: cliffs, ridges, pairs of settings that are good only together, plateaus, and optima without good neighbours.

use crate::landscape::Landscape;
use crate::smooth::plain;
use vsweep_strategy::stats::Random;

/// Draws a hostile landscape. Seeds in a row give one kind after the other.
pub fn draw(seed: u64) -> Landscape {
    let mut random = Random::of(seed, &["hostile"]);
    let mut landscape = plain(&mut random, 0.04, 0.03);
    let counts: Vec<usize> = (0..5)
        .map(|axis| 1 + landscape.levels.iter().map(|of| of[axis]).max().unwrap_or(0))
        .collect();
    let mut axes: Vec<usize> = (0..5).collect();
    random.shuffle(&mut axes);
    let (a, b) = (axes[0], axes[1]);
    let size = 0.2 + 0.3 * random.uniform();
    let unit = |of: &[usize], axis: usize| of[axis] as f64 / (counts[axis] - 1) as f64;
    match seed % 4 {
        0 => {
            let edges = [a, b].map(|axis| (1 + random.below(counts[axis] - 1)) as f64 - 0.5);
            let is_both = random.uniform() < 0.5;
            for (value, of) in landscape.values.iter_mut().zip(&landscape.levels) {
                let beyond = [of[a] as f64 > edges[0], of[b] as f64 > edges[1]];
                let falls = if is_both { beyond[0] && beyond[1] } else { beyond[0] };
                *value -= if falls { size } else { 0.0 };
            }
        }
        1 => {
            let shift = 0.5 * random.uniform() - 0.25;
            for (value, of) in landscape.values.iter_mut().zip(&landscape.levels) {
                let off = (unit(of, a) - unit(of, b) - shift).abs();
                *value += size * (-(off / 0.2).powi(2)).exp();
            }
        }
        2 => {
            let good = [a, b].map(|axis| random.below(counts[axis]));
            for (value, of) in landscape.values.iter_mut().zip(&landscape.levels) {
                *value += match [of[a] == good[0], of[b] == good[1]] {
                    [true, true] => size,
                    [false, false] => 0.0,
                    _ => -0.5 * size,
                };
            }
        }
        _ => {
            let step = 0.1 + 0.1 * random.uniform();
            for value in &mut landscape.values {
                *value = (*value / step).floor() * step;
            }
        }
    }
    landscape
}

/// Draws a smooth landscape in which one config is far better than all its neighbours.
pub fn isolated(seed: u64) -> Landscape {
    let mut random = Random::of(seed, &["isolated"]);
    let mut landscape = plain(&mut random, 0.015, 0.013);
    let best = landscape.best();
    let fitting: Vec<usize> = (0..landscape.len()).filter(|at| landscape.fits[*at]).collect();
    landscape.values[fitting[random.below(fitting.len())]] = best + 0.15 + 0.2 * random.uniform();
    landscape
}
