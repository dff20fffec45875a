//! The duration that each phase of a start would have with a real server of this model on this hardware. The constants are round numbers
//! from logs of real servers (see `docs/simulator.md`). Nothing here reads a clock.

use super::engine::cost::CostModel;
use std::time::Duration;

/// Time to import vLLM and torch, in the API server and then in the engine, in seconds.
pub const IMPORT: f64 = 34.0;
/// Rate at which a checkpoint is read into the GPUs of a node, in bytes per second, from a page cache or fast disks.
const LOAD_RATE: f64 = 4e9;
/// Time to try the largest batch and allocate the KV cache, in seconds.
const PROFILE: f64 = 2.5;
/// Upper bound of captured batch sizes, which go up to twice `max_num_seqs`.
const LARGEST_CAPTURE: usize = 512;

/// The durations of the phases, in their order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartPhases {
    /// Imports and configuration.
    pub import: Duration,
    /// Reading the weights.
    pub weights: Duration,
    /// `torch.compile` and other kernels that the first start makes; shorter with a warm cache, and zero if eager.
    pub compile: Duration,
    /// Trying the largest batch, and allocating the KV cache.
    pub profile: Duration,
    /// Capturing CUDA graphs; zero if eager.
    pub capture: Duration,
}

impl StartPhases {
    /// Returns the phases of a server of this cost model. `warm` is true if its compiled graphs are in the cache.
    pub fn of(cost: &CostModel, max_num_seqs: usize, warm: bool) -> StartPhases {
        let layers = cost.model.layers as f64;
        let checkpoint = cost.model.parameters * cost.weight_bytes;
        let factors = cost.constants.start;
        let compile = match warm {
            true => (3.0 + 0.06 * layers) * factors.compile_warm,
            false => (26.0 + 0.5 * layers) * factors.compile_cold,
        };
        let sizes = capture_sizes((2 * max_num_seqs).min(LARGEST_CAPTURE)) as f64;
        let capture = 1.0 + sizes * layers * 2.2e-3 * if cost.tensor_parallel > 1 { 1.5 } else { 1.0 };
        let graphs = if cost.eager { 0.0 } else { 1.0 };
        let phase = |seconds: f64| match cost.speed.is_finite() {
            true => Duration::from_secs_f64(seconds / cost.speed),
            false => Duration::ZERO,
        };
        StartPhases {
            import: phase(IMPORT * factors.import),
            weights: phase((0.5 + checkpoint / LOAD_RATE) * factors.load),
            compile: phase(compile * graphs),
            profile: phase(PROFILE * factors.load),
            capture: phase(capture * graphs * factors.capture),
        }
    }

    /// Returns the duration of all phases together.
    pub fn total(&self) -> Duration {
        self.import + self.weights + self.compile + self.profile + self.capture
    }

    /// Scales the phases so that together they take `total`.
    pub fn scaled_to(self, total: Duration) -> StartPhases {
        let whole = self.total().as_secs_f64();
        let share = |phase: Duration| match whole > 0.0 {
            true => total.mul_f64(phase.as_secs_f64() / whole),
            false => total / 5,
        };
        StartPhases {
            import: share(self.import),
            weights: share(self.weights),
            compile: share(self.compile),
            profile: share(self.profile),
            capture: share(self.capture),
        }
    }
}

/// Number of batch sizes that vLLM captures: 1, 2, 4, every 8th up to 256, every 16th above.
pub fn capture_sizes(largest: usize) -> usize {
    let small = [1, 2, 4].iter().filter(|size| **size <= largest).count();
    small + largest.min(248) / 8 + (largest.max(240) - 240) / 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gpu::Gpu;
    use crate::engine::model::Model;

    fn cost(name: &str, eager: bool) -> CostModel {
        CostModel {
            eager,
            ..CostModel::new(Gpu::named("h100").expect("listed"), Model::named(name))
        }
    }

    #[test]
    fn a_larger_model_a_cold_cache_and_graphs_take_longer() {
        let total = |name, eager, warm| StartPhases::of(&cost(name, eager), 256, warm).total();
        assert!(total("70b", false, false) > total("8b", false, false));
        assert!(total("8b", false, false) > total("8b", false, true));
        assert!(total("8b", false, true) > total("8b", true, true));
        // One H100 under vLLM 0.26: 91 to 95 s and 53 s.
        assert!((80..105).contains(&total("8b", false, false).as_secs()));
        assert!((47..60).contains(&total("8b", false, true).as_secs()));
    }

    #[test]
    fn the_phases_fill_a_stated_time() {
        let phases = StartPhases::of(&cost("8b", false), 256, false).scaled_to(Duration::from_secs(10));
        assert!((phases.total().as_secs_f64() - 10.0).abs() < 1e-6);
        let none = CostModel {
            speed: f64::INFINITY,
            ..cost("8b", false)
        };
        assert_eq!(
            StartPhases::of(&none, 1, false)
                .scaled_to(Duration::from_secs(10))
                .total(),
            Duration::from_secs(10)
        );
    }

    #[test]
    fn captured_sizes_are_vllms() {
        assert_eq!([1, 2, 8, 256, 512].map(capture_sizes), [1, 2, 4, 35, 51]);
    }
}
