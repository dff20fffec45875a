//! Shrinks means towards each other, because the best of many is best partly by luck, and several servers are often equal. Only
//! probabilities use the shrunk means; estimates never do.
//!
//! The true means of a group scatter about a common centre. The distribution is a mixture of normal distributions with fixed standard
//! deviations (scales), from 0 to wide, whose weights are learned from the group (adaptive shrinkage: Stephens 2017). Gibbs sampling (Neal
//! 2000, algorithm 3) draws in turn the scale of each member and the centre, with means and weights integrated out. Then each draw of a
//! mean is moved and scaled to the mean's distribution under this sample. So a member far from the centre hardly moves, and correlations
//! between members stay.

use super::super::Random;

/// Standard deviations of the scatter, relative to a typical figure, with their prior weights.
const SCALES: [(f64, f64); 10] = [
    (0.0, 0.25),
    (0.005, 0.1),
    (0.01, 0.1),
    (0.02, 0.1),
    (0.04, 0.1),
    (0.08, 0.1),
    (0.16, 0.1),
    (0.32, 0.1),
    (0.64, 0.1),
    (1.28, 0.05),
];
/// Concentration of the Dirichlet prior on the weights, in members.
const PRIOR_CONCENTRATION: f64 = 1.5;
/// Number of consecutive draws that share one sample of scales and centre.
const DRAWS_PER_SAMPLE: usize = 4;
/// Samples that are discarded at the beginning.
const BURN_IN: usize = 30;

/// Shrinks the `draws` of each member of a group. `moments` are the mean and standard deviation of each member. `typical` is a typical
/// figure, to which `SCALES` are relative.
pub fn shrink(moments: &[(f64, f64)], draws: &mut [Vec<f64>], typical: f64, random: &mut Random) {
    if moments.len() < 2 {
        return;
    }
    let mut chain = Chain::of(moments, typical);
    for _ in 0..BURN_IN {
        chain.sample(random);
    }
    let count = draws.iter().map(Vec::len).max().unwrap_or(0);
    for draw in 0..count {
        if draw % DRAWS_PER_SAMPLE == 0 {
            chain.sample(random);
        }
        for (member, draws) in draws.iter_mut().enumerate() {
            let (mean, deviation) = chain.moments[member];
            let scatter = chain.variance(member);
            let kept = scatter / (scatter + deviation * deviation).max(f64::MIN_POSITIVE);
            let value = &mut draws[draw];
            *value = kept * mean + (1.0 - kept) * chain.centre + kept.sqrt() * (*value - mean);
        }
    }
}

/// The state of the Gibbs sampling.
struct Chain<'m> {
    moments: &'m [(f64, f64)],
    /// Variance and prior weight of each scale.
    scales: Vec<(f64, f64)>,
    /// Index of the scale that is assigned to each member.
    assigned: Vec<usize>,
    /// The number of members of each scale.
    counts: Vec<f64>,
    centre: f64,
}

impl Chain<'_> {
    fn of(moments: &[(f64, f64)], typical: f64) -> Chain<'_> {
        let middle = SCALES.len() / 2;
        let mut counts = vec![0.0; SCALES.len()];
        counts[middle] = moments.len() as f64;
        let mut means: Vec<f64> = moments.iter().map(|(mean, _)| *mean).collect();
        means.sort_by(f64::total_cmp);
        let variance = |(part, weight): &(f64, f64)| ((part * typical).powi(2), *weight);
        Chain {
            moments,
            scales: SCALES.iter().map(variance).collect(),
            assigned: vec![middle; moments.len()],
            counts,
            centre: means[means.len() / 2],
        }
    }

    /// The variance of a member's true mean about the centre.
    fn variance(&self, member: usize) -> f64 {
        self.scales[self.assigned[member]].0
    }

    fn sample(&mut self, random: &mut Random) {
        let mut weights = vec![0.0; self.scales.len()];
        for (member, (mean, deviation)) in self.moments.iter().enumerate() {
            self.counts[self.assigned[member]] -= 1.0;
            let square = (mean - self.centre).powi(2);
            let pairs = self.scales.iter().zip(&self.counts);
            for (weight, ((scatter, prior), count)) in weights.iter_mut().zip(pairs) {
                let variance = (scatter + deviation * deviation).max(f64::MIN_POSITIVE);
                *weight = (count + PRIOR_CONCENTRATION * prior) * (-square / variance / 2.0).exp() / variance.sqrt();
            }
            let mut left = random.uniform() * weights.iter().sum::<f64>();
            let found = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            // Far from everything all weights round to 0. The widest scale then explains the member best.
            let found = found.unwrap_or(self.scales.len() - 1);
            self.assigned[member] = found;
            self.counts[found] += 1.0;
        }
        let (mut precision, mut sum) = (0.0, 0.0);
        for (member, (mean, deviation)) in self.moments.iter().enumerate() {
            let own = 1.0 / (self.variance(member) + deviation * deviation).max(f64::MIN_POSITIVE);
            precision += own;
            sum += own * mean;
        }
        self.centre = sum / precision + random.normal() / precision.sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means and standard deviations after shrinking normal draws with these moments.
    fn shrunk(moments: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut random = Random::of(1, &["shrink"]);
        let normal = |(mean, deviation): &(f64, f64), random: &mut Random| {
            (0..4000)
                .map(|_| mean + deviation * random.normal())
                .collect::<Vec<f64>>()
        };
        let mut draws: Vec<Vec<f64>> = moments.iter().map(|moments| normal(moments, &mut random)).collect();
        shrink(moments, &mut draws, 1.0, &mut random);
        draws.iter().map(|draws| crate::fit::moments(draws)).collect()
    }

    #[test]
    fn equal_servers_come_together_and_one_that_is_far_off_stays() {
        let near = [-0.02, -0.01, 0.0, 0.005, 0.01, 0.02, -0.005, 0.015];
        let mut moments: Vec<(f64, f64)> = near.iter().map(|mean| (*mean, 0.015)).collect();
        moments.push((0.5, 0.015));
        let found = shrunk(&moments);
        assert!(found[5].0.abs() < 0.01 && found[5].1 < 0.012, "{:?}", found[5]);
        assert!((found[8].0 - 0.5).abs() < 0.005, "{:?}", found[8]);
    }

    #[test]
    fn one_that_is_very_far_off_stays_too() {
        let found = shrunk(&[(0.0, 0.015), (0.01, 0.015), (-0.01, 0.015), (120.0, 0.015)]);
        assert!((found[3].0 - 120.0).abs() < 0.1, "{:?}", found[3]);
    }

    #[test]
    fn what_is_known_exactly_stays() {
        let found = shrunk(&[(0.0, 1e-5), (0.01, 1e-5), (0.3, 1e-5)]);
        for ((mean, _), expected) in found.iter().zip([0.0, 0.01, 0.3]) {
            assert!((mean - expected).abs() < 1e-4, "{mean} {expected}");
        }
    }
}
