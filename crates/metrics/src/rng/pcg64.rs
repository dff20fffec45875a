//! numpy's current generator, `np.random.default_rng(seed)`: PCG64 (XSL-RR 128/64), seeded by a `SeedSequence`.

use rand_pcg::Lcg128Xsl64;
use rand_pcg::rand_core::RngCore;
use std::ops::Range;

/// `np.random.default_rng(seed)`.
#[derive(Clone, Debug)]
pub struct NumpyPcg64 {
    generator: Lcg128Xsl64,
    /// The high half of the last 64-bit word, if only its low half was used.
    spare_word: Option<u32>,
}

impl NumpyPcg64 {
    /// The state after `default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words = seed_sequence(seed).map(u128::from);
        NumpyPcg64 {
            generator: Lcg128Xsl64::new((words[0] << 64) | words[1], (words[2] << 64) | words[3]),
            spare_word: None,
        }
    }

    fn word32(&mut self) -> u32 {
        if let Some(word) = self.spare_word.take() {
            return word;
        }
        let word = self.generator.next_u64();
        self.spare_word = Some((word >> 32) as u32);
        word as u32
    }

    /// `random()`: a number in [0, 1), from a new 64-bit word.
    pub fn double(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// `integers(low, high)` by Lemire's method on 32-bit words, for ranges of at most 2^32 values. A range of one value takes no word from
    /// the generator.
    pub fn integer(&mut self, low: u64, high: u64) -> u64 {
        let top = (high.saturating_sub(low).saturating_sub(1)).min(u64::from(u32::MAX)) as u32;
        if top == 0 {
            return low;
        }
        let Some(width) = top.checked_add(1) else {
            return low + u64::from(self.word32());
        };
        let mut product = u64::from(self.word32()) * u64::from(width);
        if (product as u32) < width {
            let threshold = (u32::MAX - top) % width;
            while (product as u32) < threshold {
                product = u64::from(self.word32()) * u64::from(width);
            }
        }
        low + (product >> 32)
    }

    /// Draws a token id from the range.
    pub fn id(&mut self, ids: Range<u32>) -> u32 {
        self.integer(ids.start.into(), ids.end.into()) as u32
    }

    /// `shuffle(items)`. Unlike `integers`, it masks each 32-bit word to the bits of the largest index, and draws again if the result is
    /// larger than that index.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let mask = u32::MAX >> (i as u32).leading_zeros();
            let j = loop {
                let word = (self.word32() & mask) as usize;
                if word <= i {
                    break word;
                }
            };
            items.swap(i, j);
        }
    }

    /// `integers(0, 256, n, dtype=uint8)`: four bytes from each 32-bit word, low byte first. Unused bytes of the last word are dropped.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..n.div_ceil(4)).flat_map(|_| self.word32().to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }

    /// `choice(len(weights), p=weights)`: the first index whose normalised cumulative sum is above one drawn double.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut sum = 0.0;
        let cumulative: Vec<f64> = weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        let drawn = self.double();
        cumulative.partition_point(|edge| edge / sum <= drawn)
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut multiplier = 0x43b0_d7e5u32;
    let mut scramble = |word: u32| {
        let mixed = word ^ multiplier;
        multiplier = multiplier.wrapping_mul(0x931e_8875);
        let mixed = mixed.wrapping_mul(multiplier);
        mixed ^ (mixed >> 16)
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut scramble);
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                let mixed = 0xca01_f9ddu32
                    .wrapping_mul(pool[target])
                    .wrapping_sub(0x4973_f715u32.wrapping_mul(scramble(pool[source])));
                pool[target] = mixed ^ (mixed >> 16);
            }
        }
    }
    let mut multiplier = 0x8b51_f9ddu32;
    let mut words = (0..8).map(|i| {
        let word = pool[i % 4] ^ multiplier;
        multiplier = multiplier.wrapping_mul(0x58f3_8ded);
        let word = word.wrapping_mul(multiplier);
        u64::from(word ^ (word >> 16))
    });
    std::array::from_fn(|_| {
        let low = words.next().unwrap_or_default();
        low | (words.next().unwrap_or_default() << 32)
    })
}
