//! Random numbers that are bit for bit those of numpy and CPython, so that a seed gives the same prompts and the same
//! arrival times as `vllm bench serve` with that seed.
//!
//! There are three generators, each named after its origin: [`NumpyLegacy`] (`np.random.seed`), [`NumpyPcg64`] (`np.random.default_rng`)
//! and [`PythonRandom`] (`random.seed`). They have only the methods that the datasets and the arrival process need. [`Shares`], [`mix`] and
//! [`uniform`] have no counterpart in Python.

mod legacy;
mod pcg64;
mod shares;

pub use legacy::{NumpyLegacy, PythonRandom};
pub use pcg64::NumpyPcg64;
pub use shares::{Shares, mix, uniform};

use rand_mt::Mt;

/// Uniform in [0, 1) with 53 random bits, as numpy's legacy generator and CPython draw it.
fn double(twister: &mut Mt) -> f64 {
    let high = f64::from(twister.next_u32() >> 5);
    let low = f64::from(twister.next_u32() >> 6);
    (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
}
