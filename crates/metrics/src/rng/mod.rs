//! Random numbers that are bit for bit those of numpy and CPython, so that a seed gives the same prompts and the same
//! arrival times as `vllm bench serve` with that seed.
//!
//! Three generators, each named by where it comes from: [`NumpyLegacy`] (`np.random.seed`), [`NumpyPcg64`]
//! (`np.random.default_rng`) and [`PythonRandom`] (`random.seed`). Only what the datasets and the arrival process
//! draw is here.

mod legacy;
mod mt19937;
mod pcg64;
mod python;

pub use legacy::NumpyLegacy;
pub use pcg64::NumpyPcg64;
pub use python::PythonRandom;
