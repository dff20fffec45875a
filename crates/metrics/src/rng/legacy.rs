//! Mersenne twisters: numpy's legacy global generator (`np.random.seed(n)` and the draws after it), and CPython's `random` module.

use super::double;
use rand_mt::Mt;

/// `np.random.RandomState(seed)`.
#[derive(Clone, Debug)]
pub struct NumpyLegacy {
    twister: Mt,
    spare_normal: Option<f64>,
}

impl NumpyLegacy {
    /// The state after `np.random.seed(seed)`.
    pub fn new(seed: u32) -> Self {
        NumpyLegacy {
            twister: Mt::new(seed),
            spare_normal: None,
        }
    }

    /// Uniform in [0, 1).
    pub fn double(&mut self) -> f64 {
        double(&mut self.twister)
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.double()).ln()
    }

    /// Standard normal, by the polar method. The method makes two numbers at a time; every second call returns the spare number.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let x1 = 2.0 * self.double() - 1.0;
            let x2 = 2.0 * self.double() - 1.0;
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let f = (-2.0 * r2.ln() / r2).sqrt();
                self.spare_normal = Some(f * x1);
                return f * x2;
            }
        }
    }

    /// Gamma with the given shape (above 0) and scale: Ahrens and Dieter's GS below shape 1, Marsaglia and Tsang above.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        scale * self.standard_gamma(shape)
    }

    fn standard_gamma(&mut self, shape: f64) -> f64 {
        if shape == 1.0 {
            return self.exponential();
        }
        if shape < 1.0 {
            loop {
                let u = self.double();
                let v = self.exponential();
                if u <= 1.0 - shape {
                    let x = u.powf(1.0 / shape);
                    if x <= v {
                        return x;
                    }
                } else {
                    let y = -((1.0 - u) / shape).ln();
                    let x = (1.0 - shape + shape * y).powf(1.0 / shape);
                    if x <= v + y {
                        return x;
                    }
                }
            }
        }
        let b = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * b).sqrt();
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = self.double();
            if u < 1.0 - 0.0331 * (x * x) * (x * x) || u.ln() < 0.5 * x * x + b * (1.0 - v + v.ln()) {
                return b * v;
            }
        }
    }

    /// `randint(0, n)`: draws words, masked to the bits of `n - 1`, until one is below `n`. Draws no word if `n` is 1.
    pub fn below(&mut self, n: u32) -> u32 {
        let top = n.saturating_sub(1);
        if top == 0 {
            return 0;
        }
        let mask = u32::MAX >> top.leading_zeros();
        loop {
            let word = self.twister.next_u32() & mask;
            if word <= top {
                return word;
            }
        }
    }

    /// `permutation(n)`.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for i in (1..n).rev() {
            let j = self.below(i + 1);
            order.swap(i as usize, j as usize);
        }
        order
    }
}

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

    /// Uniform in 0..n (`n` above 0), as `choice` and `shuffle` draw it: the top bits of words, until they are below `n`.
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
