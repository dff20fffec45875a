//! Seeded randomness of the engine model: the same seed gives the same steps on every machine and in every version,
//! which is why no general generator is used here.

/// A well mixed function of 64 bits (the finaliser of SplitMix64, Steele et al. 2014).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number in [0, 1) that depends on nothing but `seed` and `index`.
pub fn uniform(seed: u64, index: u64) -> f64 {
    (mix(seed ^ mix(index)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Log-normal factors with median 1, one for each step.
#[derive(Debug, Clone)]
pub struct Noise {
    seed: u64,
    sigma: f64,
    drawn: u64,
}

impl Noise {
    /// `sigma` is the standard deviation of the logarithm; 0 for none.
    pub fn new(seed: u64, sigma: f64) -> Self {
        Noise { seed, sigma, drawn: 0 }
    }

    /// The next factor (Box–Muller, one of the pair).
    pub fn factor(&mut self) -> f64 {
        if self.sigma == 0.0 {
            return 1.0;
        }
        let (u, v) = (uniform(self.seed, self.drawn), uniform(self.seed, self.drawn + 1));
        self.drawn += 2;
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (self.sigma * normal).exp()
    }
}
