//! Random draws of kinds by their shares. Each draw depends only on the seed and its index, so that a sequence of any length needs no
//! memory and can be read from any index.

/// Kinds, each with a share of all draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    seed: u64,
    /// End of each kind's part of the range from 0 to 1, ascending.
    ends: Vec<f64>,
}

impl Shares {
    /// Draws of kinds with these weights, whose sum is above 0.
    pub fn new(seed: u64, weights: impl IntoIterator<Item = f64>) -> Shares {
        let sums = weights.into_iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let sums: Vec<f64> = sums.collect();
        let whole = sums.last().copied().unwrap_or(1.0);
        Shares {
            seed,
            ends: sums.into_iter().map(|sum| sum / whole).collect(),
        }
    }

    /// Returns the kind of the `index`-th draw.
    pub fn at(&self, index: usize) -> usize {
        let drawn = uniform(self.seed, index as u64);
        let kind = self.ends.partition_point(|end| *end <= drawn);
        kind.min(self.ends.len().saturating_sub(1))
    }
}

/// Mixes the bits of a number (the finaliser of SplitMix64, Steele et al. 2014).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in [0, 1) that depends on nothing but `seed` and `index`.
pub fn uniform(seed: u64, index: u64) -> f64 {
    (mix(seed ^ mix(index)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_as_often_as_their_shares_say() {
        for seed in 0..20 {
            let shares = Shares::new(seed, [7.0, 2.0, 1.0]);
            let mut counts = [0.0; 3];
            (0..10_000).for_each(|place| counts[shares.at(place)] += 1.0);
            for (count, share) in counts.iter().zip([0.7, 0.2, 0.1]) {
                let error = (share * (1.0 - share) * 10_000.0f64).sqrt();
                assert!((count - share * 10_000.0).abs() < 4.0 * error, "{seed}: {counts:?}");
            }
        }
    }

    #[test]
    fn a_sequence_depends_on_its_seed_alone() {
        let first = |seed| {
            let shares = Shares::new(seed, [1.0, 1.0]);
            (0..64).map(|place| shares.at(place)).collect::<Vec<_>>()
        };
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
        assert_eq!(Shares::new(3, [0.4]).at(9), 0);
    }
}
