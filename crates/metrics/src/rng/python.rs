//! CPython's `random` module: `random.seed(n)` and the draws after it.

use super::double;
use rand_mt::Mt;

/// `random.Random(seed)` for a non-negative integer seed.
#[derive(Clone, Debug)]
pub struct PythonRandom {
    twister: Mt,
}

impl PythonRandom {
    /// The state after `random.seed(seed)`.
    pub fn new(seed: u64) -> Self {
        let limbs = [seed as u32, (seed >> 32) as u32];
        let used = if limbs[1] == 0 { 1 } else { 2 };
        PythonRandom {
            twister: Mt::new_with_key(limbs.into_iter().take(used)),
        }
    }

    /// Uniform in 0..n (`n` above 0), as `choice` and `shuffle` draw it: the top bits of a word, until they fit.
    pub fn below(&mut self, n: u32) -> u32 {
        let shift = n.leading_zeros();
        loop {
            let drawn = if shift == 32 {
                0
            } else {
                self.twister.next_u32() >> shift
            };
            if drawn < n.max(1) {
                return drawn;
            }
        }
    }

    /// `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u32 + 1);
            items.swap(i, j as usize);
        }
    }

    /// One index of `choices(range(n), k=…)`.
    pub fn choices_index(&mut self, n: usize) -> usize {
        (double(&mut self.twister) * n as f64) as usize
    }
}
