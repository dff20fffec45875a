//! How long a step lasts: a roofline. Dense layers and attention each take the longer of their arithmetic and their
//! memory traffic; tensor parallelism divides both and adds two all-reduces a layer; every step and every sequence
//! costs the host something. The efficiencies are assumptions (see `docs/simulator.md`), not measurements.

use super::gpu::Gpu;
use super::model::Model;

/// Share of the peak arithmetic that large matrix products reach.
const MATMUL_EFFICIENCY: f64 = 0.60;
/// Share of the peak arithmetic that attention over long contexts reaches.
const ATTENTION_EFFICIENCY: f64 = 0.45;
/// Share of the memory bandwidth that reading weights reaches.
const WEIGHT_EFFICIENCY: f64 = 0.82;
/// Share of the memory bandwidth that paged attention reaches.
const KV_EFFICIENCY: f64 = 0.70;
/// Scheduling, sampling and launching one step, in seconds.
const STEP_OVERHEAD: f64 = 0.55e-3;
/// Scheduling, sampling and detokenising one sequence in a step, in seconds.
const SEQUENCE_OVERHEAD: f64 = 5e-6;
/// Launching the kernels of one layer one by one, without a CUDA graph, in seconds.
const EAGER_LAYER_OVERHEAD: f64 = 40e-6;

/// What one step computes, summed over its sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Tokens, prefill and decode.
    pub tokens: usize,
    /// Sequences in the batch.
    pub sequences: usize,
    /// Sequences that get a new token at the end.
    pub samples: usize,
    /// Pairs of a token and an earlier token that it attends to.
    pub pairs: f64,
    /// Tokens whose keys and values are read.
    pub kv_tokens: f64,
}

impl Work {
    /// Adds `tokens` of a sequence of which `computed` tokens are in the KV cache.
    pub fn add(&mut self, tokens: usize, computed: usize, samples: bool) {
        self.tokens += tokens;
        self.sequences += 1;
        self.samples += usize::from(samples);
        self.pairs += tokens as f64 * (computed as f64 + (tokens as f64 + 1.0) / 2.0);
        self.kv_tokens += (computed + tokens) as f64;
    }
}

/// Step times of one model on one kind of GPU.
#[derive(Debug, Clone)]
pub struct CostModel {
    /// The hardware.
    pub gpu: Gpu,
    /// The model.
    pub model: Model,
    /// GPUs that share every layer.
    pub tensor_parallel: usize,
    /// Bytes of one weight.
    pub weight_bytes: f64,
    /// Bytes of one number in the KV cache.
    pub kv_bytes: f64,
    /// Whether matrix products run in 8 bits.
    pub eight_bit: bool,
    /// Whether kernels are launched one by one.
    pub eager: bool,
    /// How many times faster than the model everything goes; infinite for no time at all.
    pub speed: f64,
}

impl CostModel {
    /// Time of one step in seconds.
    pub fn seconds(&self, work: &Work) -> f64 {
        if self.speed.is_infinite() {
            return 0.0;
        }
        (self.dense(work) + self.attention(work) + self.communication(work) + self.host(work)) / self.speed
    }

    /// Floating point operations of one step on one GPU.
    pub fn flops(&self, work: &Work) -> f64 {
        (self.dense_flops(work) + self.attention_flops(work)) / self.tensor_parallel as f64
    }

    fn dense_flops(&self, work: &Work) -> f64 {
        // The output layer is only needed where a token is sampled.
        let head = (self.model.vocabulary * self.model.hidden) as f64;
        2.0 * ((self.model.active - head).max(0.0) * work.tokens as f64 + head * work.samples as f64)
    }

    /// Two products (scores, values) of two operations for each pair, head and dimension.
    fn attention_flops(&self, work: &Work) -> f64 {
        4.0 * (self.model.layers * self.model.heads * self.model.head_dim) as f64 * work.pairs
    }

    fn dense(&self, work: &Work) -> f64 {
        let peak = if self.eight_bit {
            self.gpu.flops_8
        } else {
            self.gpu.flops_16
        };
        let gpus = self.tensor_parallel as f64;
        let arithmetic = self.dense_flops(work) / gpus / (peak * MATMUL_EFFICIENCY);
        let bytes = self.touched_parameters(work) * self.weight_bytes / gpus;
        arithmetic.max(bytes / (self.gpu.bandwidth * WEIGHT_EFFICIENCY))
    }

    /// Weights that a step reads: of a mixture of experts, those that some token of the batch is sent to, if each token
    /// chose its experts at random.
    fn touched_parameters(&self, work: &Work) -> f64 {
        let Some((count, used)) = self.model.experts else {
            return self.model.parameters;
        };
        let (count, used) = (count as f64, used as f64);
        // all = shared + count·e and active = shared + used·e
        let each = if count > used {
            (self.model.parameters - self.model.active) / (count - used)
        } else {
            0.0
        };
        let shared = self.model.parameters - count * each;
        let hit = 1.0 - (1.0 - used / count).powf(work.tokens as f64);
        shared + count * each * hit
    }

    fn attention(&self, work: &Work) -> f64 {
        let gpus = self.tensor_parallel as f64;
        let arithmetic = self.attention_flops(work) / gpus / (self.gpu.flops_16 * ATTENTION_EFFICIENCY);
        let bytes = work.kv_tokens * self.kv_bytes_per_gpu();
        arithmetic.max(bytes / (self.gpu.bandwidth * KV_EFFICIENCY))
    }

    /// Bytes of keys and values of one token on one GPU. Heads are not split, so more GPUs than heads hold copies.
    pub fn kv_bytes_per_gpu(&self) -> f64 {
        self.model.kv_bytes_per_token(self.kv_bytes) / self.tensor_parallel.min(self.model.kv_heads) as f64
    }

    /// Two all-reduces a layer over a ring, 16 bits a number.
    fn communication(&self, work: &Work) -> f64 {
        if self.tensor_parallel < 2 {
            return 0.0;
        }
        let gpus = self.tensor_parallel as f64;
        let bytes = (work.tokens * self.model.hidden) as f64 * 2.0;
        let once = self.gpu.link_latency + 2.0 * (gpus - 1.0) / gpus * bytes / self.gpu.link;
        2.0 * self.model.layers as f64 * once
    }

    fn host(&self, work: &Work) -> f64 {
        let launches = if self.eager {
            self.model.layers as f64 * EAGER_LAYER_OVERHEAD
        } else {
            0.0
        };
        STEP_OVERHEAD + SEQUENCE_OVERHEAD * work.sequences as f64 + launches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100(tensor_parallel: usize) -> CostModel {
        CostModel {
            gpu: Gpu::named("h100").expect("listed"),
            model: Model::named("8b"),
            tensor_parallel,
            weight_bytes: 2.0,
            kv_bytes: 2.0,
            eight_bit: false,
            eager: false,
            speed: 1.0,
        }
    }

    fn decode(sequences: usize, context: usize) -> Work {
        let mut work = Work::default();
        (0..sequences).for_each(|_| work.add(1, context, true));
        work
    }

    #[test]
    fn one_stream_is_bound_by_reading_the_weights() {
        let seconds = h100(1).seconds(&decode(1, 512));
        assert!((0.006..0.008).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_larger_batch_costs_more_but_less_per_token() {
        let cost = h100(1);
        let (small, large) = (cost.seconds(&decode(1, 512)), cost.seconds(&decode(128, 512)));
        assert!(large > small);
        assert!(large / 128.0 < small / 10.0);
    }

    #[test]
    fn more_gpus_are_faster_but_not_in_proportion() {
        let work = decode(16, 1024);
        let (one, four) = (h100(1).seconds(&work), h100(4).seconds(&work));
        assert!(four < one && four > one / 4.0);
    }

    #[test]
    fn prefill_is_bound_by_arithmetic() {
        let mut work = Work::default();
        work.add(8192, 0, true);
        let rate = 8192.0 / h100(1).seconds(&work);
        assert!((25_000.0..40_000.0).contains(&rate), "{rate}");
    }
}
