//! The cost of a step: its work, and the model and hardware that perform it, with speculative decoding. `roofline` computes the time.

use super::gpu::Gpu;
use super::model::Model;
use vsweep_metrics::rng::{mix, uniform};

/// Work of one step, summed over its sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Tokens, prefill and decode.
    pub tokens: usize,
    /// Sequences in the batch.
    pub sequences: usize,
    /// Tokens for which the output layer is computed.
    pub samples: usize,
    /// Pairs of a token and a token that it attends to: each earlier one and itself.
    pub pairs: f64,
    /// Tokens whose keys and values are read.
    pub kv_tokens: f64,
}

impl Work {
    /// Adds `tokens` of a sequence whose first `computed` tokens are in the KV cache. The output layer is computed for `samples` of them.
    pub fn add(&mut self, tokens: usize, computed: usize, samples: usize) {
        self.tokens += tokens;
        self.sequences += 1;
        self.samples += samples;
        self.pairs += tokens as f64 * (computed as f64 + (tokens as f64 + 1.0) / 2.0);
        self.kv_tokens += (computed + tokens) as f64;
    }

    /// Returns one of `parts` equal parts; counts are rounded up.
    pub(super) fn part(&self, parts: usize) -> Work {
        Work {
            tokens: self.tokens.div_ceil(parts),
            sequences: self.sequences.div_ceil(parts),
            samples: self.samples.div_ceil(parts),
            pairs: self.pairs / parts as f64,
            kv_tokens: self.kv_tokens / parts as f64,
        }
    }
}

/// Speculative decoding: the guesses in each step. The request's seed decides which guesses are right, so every run has the same right
/// guesses, unless `falling` makes them depend on the time.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// Number of guesses in each step; at least one.
    pub tokens: usize,
    /// Number of parameters of the draft model; 0 for n-grams, which cost the GPU nothing.
    pub parameters: f64,
    /// Probability that a guess is right if all before it were, by position. The last one holds for all further positions.
    pub acceptance: Vec<f64>,
    /// Decrease of these probabilities per minute, as a share of their first values.
    pub falling: f64,
}

impl Speculation {
    /// Returns the number of right guesses before the first wrong one. The `guesses` are made at `now`, in seconds, after `produced` tokens
    /// of the answer to the request with this seed.
    pub fn accepted(&self, seed: u64, produced: usize, guesses: usize, now: f64) -> usize {
        let left = (1.0 - self.falling * now / 60.0).max(0.0);
        let right =
            |index: &usize| uniform(mix(seed ^ 0x5BEC), (produced + index) as u64) < left * self.acceptance_at(*index);
        (0..guesses).take_while(right).count()
    }

    fn acceptance_at(&self, position: usize) -> f64 {
        let acceptance = self.acceptance.get(position).or(self.acceptance.last());
        acceptance.copied().unwrap_or(0.0)
    }
}

/// A model on one kind of GPU, with everything else that decides the time of a step.
#[derive(Debug, Clone)]
pub struct CostModel {
    /// The hardware.
    pub gpu: Gpu,
    /// The model.
    pub model: Model,
    /// Number of GPUs that share every layer.
    pub tensor_parallel: usize,
    /// Number of pipeline stages.
    pub pipeline_parallel: usize,
    /// Number of replicas. Replicas of a mixture of experts share its experts.
    pub data_parallel: usize,
    /// Speculative decoding, if it is on.
    pub speculation: Option<Speculation>,
    /// Bytes of one weight.
    pub weight_bytes: f64,
    /// Bytes of one number in the KV cache.
    pub kv_bytes: f64,
    /// True if matrix products run in 8 bits.
    pub eight_bit: bool,
    /// True if kernels are launched one by one.
    pub eager: bool,
    /// Factor by which everything is faster than in the model. If it is infinite, steps take no time.
    pub speed: f64,
    /// Constants of the node and engine.
    pub constants: Constants,
}

impl CostModel {
    /// A model on one GPU, with 16-bit weights and KV cache.
    #[cfg(test)]
    pub fn new(gpu: Gpu, model: Model) -> CostModel {
        CostModel {
            gpu,
            model,
            tensor_parallel: 1,
            pipeline_parallel: 1,
            data_parallel: 1,
            speculation: None,
            weight_bytes: 2.0,
            kv_bytes: 2.0,
            eight_bit: false,
            eager: false,
            speed: 1.0,
            constants: Constants::default(),
        }
    }

    /// Returns true if weights have fewer than 16 bits.
    pub fn is_quantised(&self) -> bool {
        self.weight_bytes < 2.0
    }

    /// Bytes of weights on one GPU.
    pub fn weights_per_gpu(&self) -> f64 {
        let gpus = (self.tensor_parallel * self.pipeline_parallel) as f64;
        let (shared, expert) = self.model.shared_and_expert();
        let experts = self.model.experts.map_or(0, |(count, _)| count) as f64 * expert;
        let drafter = self.speculation.as_ref().map_or(0.0, |guess| guess.parameters);
        (shared + experts / self.data_parallel as f64 + drafter) * self.weight_bytes / gpus
    }

    /// Bytes of keys and values of one token on the GPUs of one tensor-parallel rank, all stages together. Heads are not split, so if
    /// there are more ranks than heads, some hold copies.
    pub fn kv_bytes_per_gpu(&self) -> f64 {
        self.model.kv_bytes_per_token(self.kv_bytes) / self.tensor_parallel.min(self.model.kv_heads) as f64
    }
}

#[cfg(test)]
impl CostModel {
    /// A model of 8 billion parameters on this number of H100s.
    pub(super) fn h100(tensor_parallel: usize) -> CostModel {
        CostModel {
            tensor_parallel,
            ..CostModel::new(Gpu::named("h100").expect("listed"), Model::named("8b"))
        }
    }
}

// The constants of the engine model that differ between machines, engines and versions: shares of the hardware's peaks, the host's costs,
// and factors of the phases of a start. The default values are assumptions (see `docs/simulator.md`); a rehearsal calibrates them by
// measured runs.

/// The constants of one combination of node, model and engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// Share of the memory bandwidth that reading weights reaches.
    pub weights: f64,
    /// Share of the memory bandwidth that paged attention reaches.
    pub kv: f64,
    /// Share of the peak arithmetic that large matrix products reach.
    pub matmul: f64,
    /// Share of the peak arithmetic in 8 bits that large matrix products reach, from published prefill-bound throughput
    /// (tests/data/calibration: 2048/128 on H100 and H200).
    pub matmul_8: f64,
    /// Share of the peak arithmetic that attention over long contexts reaches.
    pub attention: f64,
    /// Factor of the time of dense layers with quantised weights: scales and conversions.
    pub quantised: f64,
    /// Time to schedule, sample and launch one step, in seconds.
    pub step_s: f64,
    /// Time to schedule, sample and detokenise one sequence in a step, in seconds.
    pub sequence_s: f64,
    /// Time to launch the kernels of one layer in a step with a prompt, from piecewise CUDA graphs, in seconds. Measured in prefill steps
    /// of few tokens of vLLM 0.26 on an H100 (results/h100 and tests/data/calibration).
    pub pieces_launch_s: f64,
    /// Time to launch the kernels of one layer one by one, in seconds. Measured with the same vLLM and GPU, in decode steps with
    /// `--enforce-eager`.
    pub eager_launch_s: f64,
    /// Factor of the time of communication between GPUs.
    pub link: f64,
    /// Factor of the number of KV blocks.
    pub kv_blocks: f64,
    /// Factors of the phases of a start.
    pub start: StartFactors,
}

/// Factors of the durations of phases of a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartFactors {
    /// Imports and configuration.
    pub import: f64,
    /// Weights, profiling and the KV cache.
    pub load: f64,
    /// Compilation with an empty cache.
    pub compile_cold: f64,
    /// Compilation with a warm cache.
    pub compile_warm: f64,
    /// Capturing CUDA graphs.
    pub capture: f64,
}

impl Default for Constants {
    fn default() -> Constants {
        Constants {
            weights: 0.82,
            kv: 0.70,
            matmul: 0.60,
            matmul_8: 0.53,
            attention: 0.45,
            quantised: 1.0,
            step_s: 0.55e-3,
            sequence_s: 5e-6,
            pieces_launch_s: 0.32e-3,
            eager_launch_s: 0.60e-3,
            link: 1.0,
            kv_blocks: 1.0,
            start: StartFactors {
                import: 1.0,
                load: 1.0,
                compile_cold: 1.0,
                compile_warm: 1.0,
                capture: 1.0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(sequences: usize, context: usize) -> Work {
        let mut work = Work::default();
        (0..sequences).for_each(|_| work.add(1, context, 1));
        work
    }

    #[test]
    fn one_stream_is_bound_by_reading_the_weights() {
        let seconds = CostModel::h100(1).seconds(&decode(1, 512));
        assert!((0.006..0.008).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_larger_batch_costs_more_but_less_per_token() {
        let cost = CostModel::h100(1);
        let (small, large) = (cost.seconds(&decode(1, 512)), cost.seconds(&decode(128, 512)));
        assert!(large > small);
        assert!(large / 128.0 < small / 10.0);
    }

    #[test]
    fn more_gpus_are_faster_but_not_in_proportion() {
        let work = decode(16, 1024);
        let (one, four) = (CostModel::h100(1).seconds(&work), CostModel::h100(4).seconds(&work));
        assert!(four < one && four > one / 4.0);
    }

    #[test]
    fn a_pipeline_raises_throughput_and_not_speed() {
        let staged = |stages: usize, work: &Work| {
            let pipeline_parallel = stages;
            CostModel {
                pipeline_parallel,
                ..CostModel::h100(1)
            }
            .seconds(work)
        };
        let (one, many) = (decode(1, 1024), decode(512, 4096));
        assert!(
            staged(2, &one) > staged(1, &one),
            "alone, a token passes all layers and a hop"
        );
        assert!(staged(2, &many) < 0.8 * staged(1, &many), "many pass in turn");
    }

    #[test]
    fn replicas_share_experts() {
        let model = Model::named("30b-a3b");
        let shared = |data_parallel: usize| CostModel {
            data_parallel,
            model: model.clone(),
            ..CostModel::h100(1)
        };
        assert!(shared(8).weights_per_gpu() < 0.3 * shared(1).weights_per_gpu());
        let dense = |data_parallel: usize| {
            CostModel {
                data_parallel,
                ..CostModel::h100(1)
            }
            .weights_per_gpu()
        };
        assert_eq!(dense(8), dense(1));
        assert!((CostModel::h100(1).weights_per_gpu() - 2.0 * 8.03e9).abs() < 1.0);
    }

    #[test]
    fn prefill_is_bound_by_arithmetic() {
        let mut work = Work::default();
        work.add(8192, 0, 1);
        let rate = 8192.0 / CostModel::h100(1).seconds(&work);
        assert!((25_000.0..40_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn acceptance_is_the_stated_one_and_stops_at_the_first_miss() {
        let guess = Speculation {
            tokens: 3,
            parameters: 0.0,
            acceptance: vec![0.8, 0.5],
            falling: 0.5,
        };
        let total: usize = (0..20_000).map(|seed| 1 + guess.accepted(seed, 7, 3, 0.0)).sum();
        assert!((total as f64 / 20_000.0 - (1.0 + 0.8 + 0.4 + 0.2)).abs() < 0.03);
        assert_eq!(guess.accepted(1, 1, 0, 0.0), 0);
        let later = (0..20_000)
            .filter(|seed| guess.accepted(*seed, 7, 1, 60.0) == 1)
            .count();
        assert!(
            (later as f64 / 20_000.0 - 0.4).abs() < 0.02,
            "half of 0.8 after a minute"
        );
        assert_eq!(guess.accepted(1, 1, 3, 1e6), 0);
        let never = Speculation {
            acceptance: Vec::new(),
            ..guess
        };
        assert_eq!(never.accepted(3, 0, 3, 0.0), 0);
    }
}
