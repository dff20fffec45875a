//! Smooth landscapes: main effects and interactions of five settings, and a limit of memory.

use crate::landscape::Landscape;
use vsweep_strategy::selection::optimized::Axis;
use vsweep_strategy::stats::Random;

/// A landscape of about 200 configs.
pub fn draw(seed: u64) -> Landscape {
    let mut random = Random::of(seed, &["smooth"]);
    plain(&mut random, 0.015, 0.013)
}

/// Draws a smooth landscape with this noise of starts and of runs.
pub fn plain(random: &mut Random, start_sd: f64, run_sd: f64) -> Landscape {
    let (axes, counts) = loop {
        let axes: Vec<Axis> = (0..5)
            .map(|axis| Axis {
                is_ordered: axis < 2 || random.uniform() < 0.5,
            })
            .collect();
        let counts: Vec<usize> = axes
            .iter()
            .map(|axis| {
                if axis.is_ordered {
                    3 + random.below(4)
                } else {
                    2 + random.below(2)
                }
            })
            .collect();
        if (160..=240).contains(&counts.iter().product::<usize>()) {
            break (axes, counts);
        }
    };
    let places: Vec<Vec<f64>> = counts
        .iter()
        .map(|count| (0..*count).map(|level| level as f64 * std::f64::consts::LN_2).collect())
        .collect();
    let unit = |axis: usize, level: usize| level as f64 / (counts[axis] - 1) as f64;
    // Main effects: a parabola or a saturating curve for ordered axes, random values for others.
    let main: Vec<Vec<f64>> = (0..5)
        .map(|axis| {
            let size = 0.25 * (0.4 * random.normal()).exp();
            if !axes[axis].is_ordered {
                return (0..counts[axis]).map(|_| 0.5 * size * random.normal()).collect();
            }
            let (peak, sign) = (
                random.uniform() * 1.2 - 0.1,
                if random.uniform() < 0.5 { 1.0 } else { -1.0 },
            );
            let is_peak = random.uniform() < 0.6;
            let curve = |x: f64| match is_peak {
                true => -2.0 * size * (x - peak).powi(2),
                false => size * sign * (1.0 - (-3.0 * x).exp()),
            };
            (0..counts[axis]).map(|level| curve(unit(axis, level))).collect()
        })
        .collect();
    let mut pairs = Vec::new();
    for a in 0..5 {
        for b in 0..a {
            if random.uniform() < 0.4 {
                let size = 0.12 * random.normal();
                let scores: Vec<Vec<f64>> = [a, b]
                    .iter()
                    .map(|axis| {
                        let scores = (0..counts[*axis]).map(|level| match axes[*axis].is_ordered {
                            true => 2.0 * unit(*axis, level) - 1.0,
                            false => 2.0 * random.uniform() - 1.0,
                        });
                        scores.collect()
                    })
                    .collect();
                pairs.push((a, b, size, scores));
            }
        }
    }
    let need: Vec<f64> = (0..5)
        .map(|axis| {
            if axes[axis].is_ordered {
                random.uniform()
            } else {
                0.3 * random.normal()
            }
        })
        .collect();
    let share = 0.1 + 0.2 * random.uniform();
    let levels = grid(&counts);
    let value = |of: &Vec<usize>| {
        let effects: f64 = of.iter().enumerate().map(|(axis, level)| main[axis][*level]).sum();
        let pairs: f64 = pairs
            .iter()
            .map(|(a, b, size, scores)| size * scores[0][of[*a]] * scores[1][of[*b]])
            .sum();
        effects + pairs
    };
    let needs: Vec<f64> = levels
        .iter()
        .map(|of| {
            of.iter()
                .enumerate()
                .map(|(axis, level)| need[axis] * unit(axis, *level))
                .sum()
        })
        .collect();
    let mut sorted = needs.clone();
    sorted.sort_by(f64::total_cmp);
    let limit = sorted[((1.0 - share) * sorted.len() as f64) as usize];
    let fits: Vec<bool> = needs.iter().map(|need| *need < limit).collect();
    let fitting: Vec<usize> = (0..levels.len()).filter(|at| fits[*at]).collect();
    Landscape {
        values: levels.iter().map(value).collect(),
        defaults: fitting[random.below(fitting.len())],
        axes,
        meets: vec![true; levels.len()],
        levels,
        places,
        fits,
        predicted: None,
        slopes: Vec::new(),
        memory: None,
        start_sd,
        run_sd,
        compiled: 2,
    }
}

/// All combinations of levels.
pub fn grid(counts: &[usize]) -> Vec<Vec<usize>> {
    counts.iter().fold(vec![Vec::new()], |rows, count| {
        let longer = rows
            .iter()
            .flat_map(|row| (0..*count).map(|level| [row.as_slice(), &[level]].concat()));
        longer.collect()
    })
}
