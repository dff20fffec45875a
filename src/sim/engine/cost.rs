//! How long a step lasts: a roofline. Dense layers and attention each take the longer of their arithmetic and their
//! memory traffic; tensor parallelism divides both and adds two all-reduces a layer; pipeline parallelism lets parts of
//! the batch follow each other through the stages; replicas of a mixture of experts share the experts; every step and
//! every sequence costs the host something. The efficiencies are assumptions (see `docs/simulator.md`).

use super::gpu::Gpu;
use super::model::Model;
use super::speculate::Speculation;

/// Share of the peak arithmetic that large matrix products reach, in 16 and in 8 bits. The second from published prefill-bound
/// throughput (tests/data/calibration: 2048/128 on H100 and H200).
const MATMUL_EFFICIENCY: f64 = 0.60;
const MATMUL_EFFICIENCY_8: f64 = 0.53;
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
/// Launching one pass of a drafting model, in seconds.
const DRAFT_OVERHEAD: f64 = 0.12e-3;
/// Launching the kernels of one layer one by one, without a CUDA graph, in seconds.
const EAGER_LAYER_OVERHEAD: f64 = 40e-6;

/// What one step computes, summed over its sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Tokens, prefill and decode.
    pub tokens: usize,
    /// Sequences in the batch.
    pub sequences: usize,
    /// Tokens for which the output layer is computed.
    pub samples: usize,
    /// Pairs of a token and an earlier token that it attends to.
    pub pairs: f64,
    /// Tokens whose keys and values are read.
    pub kv_tokens: f64,
}

impl Work {
    /// Adds `tokens` of a sequence of which `computed` tokens are in the KV cache; for `samples` of them the output
    /// layer is computed.
    pub fn add(&mut self, tokens: usize, computed: usize, samples: usize) {
        self.tokens += tokens;
        self.sequences += 1;
        self.samples += samples;
        self.pairs += tokens as f64 * (computed as f64 + (tokens as f64 + 1.0) / 2.0);
        self.kv_tokens += (computed + tokens) as f64;
    }

    /// One of `parts` equal parts.
    fn part(&self, parts: usize) -> Work {
        Work {
            tokens: self.tokens.div_ceil(parts),
            sequences: self.sequences.div_ceil(parts),
            samples: self.samples.div_ceil(parts),
            pairs: self.pairs / parts as f64,
            kv_tokens: self.kv_tokens / parts as f64,
        }
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
    /// Stages that the layers are divided into.
    pub pipeline_parallel: usize,
    /// Replicas; those of a mixture of experts share its experts.
    pub data_parallel: usize,
    /// Tokens guessed ahead, if any.
    pub speculation: Option<Speculation>,
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
    /// Time of one step in seconds. With a pipeline of S stages a step is one round: S parts of the batch follow each
    /// other, each through all stages, so a round lasts as long as one part takes for all layers.
    pub fn seconds(&self, work: &Work) -> f64 {
        if self.speed.is_infinite() {
            return 0.0;
        }
        let part = work.part(self.pipeline_parallel.min(work.sequences.max(1)));
        let device = self.dense(&part) + self.attention(&part) + self.communication(&part) + self.drafting(&part);
        (device + self.host(work)) / self.speed
    }

    /// Floating point operations of one step on one GPU.
    pub fn flops(&self, work: &Work) -> f64 {
        (self.dense_flops(work) + self.attention_flops(work)) / self.gpus()
    }

    /// Bytes that one step reads from and writes to the memory of one GPU: weights and keys and values.
    pub fn traffic(&self, work: &Work) -> (f64, f64) {
        let stages = self.pipeline_parallel as f64;
        let kv = self.kv_bytes_per_gpu() / stages;
        (
            self.weight_traffic(work) / stages + work.kv_tokens * kv,
            work.tokens as f64 * kv,
        )
    }

    fn gpus(&self) -> f64 {
        (self.tensor_parallel * self.pipeline_parallel) as f64
    }

    /// Bytes of weights on one GPU.
    pub fn weights_per_gpu(&self) -> f64 {
        let (shared, expert) = self.model.shared_and_expert();
        let experts = self.model.experts.map_or(0, |(count, _)| count) as f64 * expert;
        let drafter = self.speculation.as_ref().map_or(0.0, |guess| guess.parameters);
        (shared + experts / self.data_parallel as f64 + drafter) * self.weight_bytes / self.gpus()
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
        // Without a unit for 8 bits the arithmetic is that of 16.
        let reached = match self.eight_bit && self.gpu.flops_8 > self.gpu.flops_16 {
            true => self.gpu.flops_8 * MATMUL_EFFICIENCY_8,
            false => self.gpu.flops_16 * MATMUL_EFFICIENCY,
        };
        let gpus = self.tensor_parallel as f64;
        let arithmetic = self.dense_flops(work) / gpus / reached;
        let bytes = self.weight_traffic(work);
        arithmetic.max(bytes / (self.gpu.bandwidth * WEIGHT_EFFICIENCY))
    }

    /// Bytes of weights that a step reads on the GPUs of one rank, all stages together: of a mixture of experts, those
    /// that some token of the batch is sent to, if each token chose its experts at random and the replicas that share
    /// them are as busy as this one.
    fn weight_traffic(&self, work: &Work) -> f64 {
        let (shared, expert) = self.model.shared_and_expert();
        let (count, used) = self.model.experts.unwrap_or((1, 1));
        let replicas = self.data_parallel as f64;
        let missed = (1.0 - used as f64 / count as f64).powf(work.tokens as f64 * replicas);
        let experts = count as f64 * expert * (1.0 - missed) / replicas;
        (shared + experts) * self.weight_bytes / self.tensor_parallel as f64
    }

    /// The guesses ahead: one pass of the small model for each, over all sequences.
    fn drafting(&self, work: &Work) -> f64 {
        let Some(guess) = self.speculation.as_ref().filter(|_| work.samples > 0) else {
            return 0.0;
        };
        let gpus = self.tensor_parallel as f64;
        let arithmetic = 2.0 * guess.parameters * work.sequences as f64 / (self.gpu.flops_16 * MATMUL_EFFICIENCY);
        let bytes = guess.parameters * self.weight_bytes / (self.gpu.bandwidth * WEIGHT_EFFICIENCY);
        guess.tokens as f64 * (arithmetic.max(bytes) / gpus + DRAFT_OVERHEAD)
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

    /// Two all-reduces a layer over a ring between the GPUs of a rank; a gather and a scatter a layer between replicas
    /// that share experts; one hand-over between stages. 16 bits a number.
    fn communication(&self, work: &Work) -> f64 {
        let bytes = (work.tokens * self.model.hidden) as f64 * 2.0;
        let layers = self.model.layers as f64;
        // What each of `peers` must send for one of them to have everything.
        let ring = |peers: usize, bytes: f64| match peers {
            0 | 1 => 0.0,
            _ => self.gpu.link_latency + (peers - 1) as f64 / peers as f64 * bytes / self.gpu.link,
        };
        let ranks = 2.0 * layers * ring(self.tensor_parallel, 2.0 * bytes);
        let replicas = match self.model.experts {
            Some(_) => 2.0 * layers * ring(self.data_parallel, bytes * self.data_parallel as f64),
            None => 0.0,
        };
        let hops = (self.pipeline_parallel - 1) as f64;
        ranks + replicas + hops * (self.gpu.link_latency + bytes / self.gpu.link)
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
            pipeline_parallel: 1,
            data_parallel: 1,
            speculation: None,
            weight_bytes: 2.0,
            kv_bytes: 2.0,
            eight_bit: false,
            eager: false,
            speed: 1.0,
        }
    }

    fn decode(sequences: usize, context: usize) -> Work {
        let mut work = Work::default();
        (0..sequences).for_each(|_| work.add(1, context, 1));
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
    fn a_pipeline_raises_throughput_and_not_speed() {
        let staged = |stages: usize, work: &Work| {
            let pipeline_parallel = stages;
            CostModel {
                pipeline_parallel,
                ..h100(1)
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
            ..h100(1)
        };
        assert!(shared(8).weights_per_gpu() < 0.3 * shared(1).weights_per_gpu());
        let dense = |data_parallel: usize| {
            CostModel {
                data_parallel,
                ..h100(1)
            }
            .weights_per_gpu()
        };
        assert_eq!(dense(8), dense(1));
        assert!((h100(1).weights_per_gpu() - 2.0 * 8.03e9).abs() < 1.0);
    }

    #[test]
    fn prefill_is_bound_by_arithmetic() {
        let mut work = Work::default();
        work.add(8192, 0, 1);
        let rate = 8192.0 / h100(1).seconds(&work);
        assert!((25_000.0..40_000.0).contains(&rate), "{rate}");
    }
}
