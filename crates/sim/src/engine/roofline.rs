//! The duration of a step, by a roofline model. Dense layers and attention each take as long as their arithmetic or their memory traffic,
//! whichever is longer. Tensor parallelism divides both and adds two all-reduces per layer. Pipeline parallelism moves parts of the batch
//! through the stages one after the other. Replicas of a mixture of experts share the experts. Every step and every sequence costs the host
//! some time, and without a graph of the whole step the host may take longer to launch the kernels than the GPU takes to run them.
//! `cost::Constants` has the efficiencies.
//!
//! Everything that is the same for all steps is computed once, because a day in virtual time has tens of millions of steps.

use super::cost::{CostModel, Work};

/// Time to launch one pass of a draft model, in seconds.
const DRAFT_OVERHEAD: f64 = 0.12e-3;

/// The step times of one cost model, as precomputed coefficients. Times are in seconds, before they are divided by `speed`.
#[derive(Debug, Clone)]
pub(super) struct Roofline {
    /// Operations of the dense layers for one token.
    token: f64,
    /// Operations of the output layer for one sampled token.
    sample: f64,
    /// Operations of attention for one pair of tokens.
    pair: f64,
    /// Time of one operation of the dense layers, if arithmetic is the limit.
    dense: f64,
    /// Time of one operation of attention, if arithmetic is the limit.
    attention: f64,
    /// Bytes of the weights that every step reads, on the GPUs of a rank, all stages together.
    shared: f64,
    /// Bytes of the weights of all experts, likewise.
    experts: f64,
    /// Logarithm of the probability that no replica's token goes to a given expert, if each sends one.
    missed: f64,
    /// Time to read one byte of weights.
    weight: f64,
    /// Bytes of one token's keys and values on the GPUs of a rank, all stages together.
    kv_bytes: f64,
    /// Time to read one byte of keys and values.
    kv: f64,
    /// Time of communication for a step, and for each of its tokens.
    link: (f64, f64),
    /// Number of passes of a draft model in a step, one for each guess. Each pass is over all sequences.
    draft_passes: f64,
    /// Time of the arithmetic of such a pass, for each sequence.
    draft_sequence: f64,
    /// Time to read the draft model's weights.
    draft_read: f64,
    /// Time to launch the kernels of a step with a prompt, and of one without.
    launches: (f64, f64),
    /// The host's time for a step and for each of its sequences.
    host: (f64, f64),
    stages: usize,
    speed: f64,
}

impl CostModel {
    /// Time of one step in seconds.
    pub fn seconds(&self, work: &Work) -> f64 {
        Roofline::of(self).seconds(work)
    }
}

impl Roofline {
    pub fn of(cost: &CostModel) -> Roofline {
        let (gpu, model, constants) = (&cost.gpu, &cost.model, &cost.constants);
        let ranks = cost.tensor_parallel as f64;
        // Without a unit for 8 bits, products run in 16 bits.
        let reached = match cost.eight_bit && gpu.flops_8 > gpu.flops_16 {
            true => gpu.flops_8 * constants.matmul_8,
            false => gpu.flops_16 * constants.matmul,
        };
        let (shared, expert) = model.shared_and_expert();
        let (count, used) = model.experts.unwrap_or((1, 1));
        let replicas = cost.data_parallel as f64;
        let factor = if cost.is_quantised() { constants.quantised } else { 1.0 };
        let weight = factor / (gpu.bandwidth * constants.weights);
        // The output layer is only computed for sampled tokens.
        let head = (model.vocabulary * model.hidden) as f64;
        let guess = cost.speculation.as_ref();
        let (draft_passes, drafter) = guess.map_or((0.0, 0.0), |guess| (guess.tokens as f64, guess.parameters));
        let layers = model.layers as f64;
        let launches = match cost.eager {
            true => (constants.eager_launch_s * layers, constants.eager_launch_s * layers),
            false => (constants.pieces_launch_s * layers, 0.0),
        };
        Roofline {
            token: 2.0 * (model.active - head).max(0.0),
            sample: 2.0 * head,
            // Two products (scores, values) of two operations for each head and dimension.
            pair: 4.0 * (model.layers * model.heads * model.head_dim) as f64,
            dense: factor / (reached * ranks),
            attention: 1.0 / (gpu.flops_16 * constants.attention * ranks),
            shared: shared * cost.weight_bytes / ranks,
            experts: count as f64 * expert * cost.weight_bytes / ranks / replicas,
            missed: (1.0 - used as f64 / count as f64).ln() * replicas,
            weight,
            kv_bytes: cost.kv_bytes_per_gpu(),
            kv: 1.0 / (gpu.bandwidth * constants.kv),
            link: link(cost),
            draft_passes,
            draft_sequence: 2.0 * drafter / (gpu.flops_16 * constants.matmul) / ranks,
            draft_read: drafter * cost.weight_bytes * weight / ranks,
            launches,
            host: (constants.step_s, constants.sequence_s),
            stages: cost.pipeline_parallel,
            speed: cost.speed,
        }
    }

    /// Returns the duration of one step, in seconds. With a pipeline of S stages, a step is one round: S parts of the batch follow each
    /// other through all stages, so a round lasts as long as one part takes for all layers.
    pub fn seconds(&self, work: &Work) -> f64 {
        if self.speed.is_infinite() {
            return 0.0;
        }
        let part = match self.stages {
            1 => *work,
            stages => work.part(stages.min(work.sequences.max(1))),
        };
        let arithmetic = self.dense * self.dense_flops(&part);
        let dense = arithmetic.max(self.weight * self.weight_bytes(part.tokens as f64));
        let arithmetic = self.attention * self.pair * part.pairs;
        let attention = arithmetic.max(self.kv * self.kv_bytes * part.kv_tokens);
        let communication = self.link.0 + self.link.1 * part.tokens as f64;
        let pass = (self.draft_sequence * part.sequences as f64).max(self.draft_read) + DRAFT_OVERHEAD;
        let drafting = if part.samples > 0 {
            self.draft_passes * pass
        } else {
            0.0
        };
        let host = self.host.0 + self.host.1 * work.sequences as f64;
        let has_prompt = work.tokens > work.samples;
        let launches = if has_prompt { self.launches.0 } else { self.launches.1 };
        let gpu = dense + attention + communication + drafting;
        (gpu.max(launches) + host) / self.speed
    }

    /// Number of floating point operations of this work.
    pub fn flops(&self, work: &Work) -> f64 {
        self.dense_flops(work) + self.pair * work.pairs
    }

    /// Returns the bytes of weights, and of keys and values, that `steps` steps with this total work read on the GPUs of one rank, all
    /// stages together. `tokens` is the number of tokens in most of these steps. In a pipeline, each part of a batch reads the weights.
    pub fn bytes(&self, work: &Work, steps: f64, tokens: f64) -> (f64, f64) {
        let parts = (work.sequences as f64 / steps).clamp(1.0, self.stages as f64);
        (
            steps * parts * self.weight_bytes(tokens / parts),
            self.kv_bytes * work.kv_tokens,
        )
    }

    /// Bytes that one step reads.
    pub fn step_bytes(&self, work: &Work) -> f64 {
        let (weights, kv) = self.bytes(work, 1.0, work.tokens as f64);
        weights + kv
    }

    /// Returns three durations of the work: of the arithmetic alone, of reading these bytes of weights and of keys and values alone, and of
    /// the host alone, including the launch of kernels one by one. The first two are in seconds of the GPUs of one rank, all stages
    /// together; the third is in seconds of one host.
    pub fn separate_times(&self, work: &Work, steps: f64, (weights, kv): (f64, f64)) -> [f64; 3] {
        let arithmetic = self.dense * self.dense_flops(work) + self.attention * self.pair * work.pairs;
        let memory = self.weight * weights + self.kv * kv;
        let host = (self.host.0 + self.launches.1) * steps + self.host.1 * work.sequences as f64;
        [arithmetic / self.speed, memory / self.speed, host / self.speed]
    }

    fn dense_flops(&self, work: &Work) -> f64 {
        self.token * work.tokens as f64 + self.sample * work.samples as f64
    }

    /// Bytes of weights that a step reads on the GPUs of one rank, all stages together. Of a mixture of experts, it reads the experts to
    /// which a token of the batch is sent. Tokens are assumed to choose experts at random, and the replicas that share the experts to be as
    /// busy as this one.
    fn weight_bytes(&self, tokens: f64) -> f64 {
        match self.experts {
            0.0 => self.shared,
            experts => self.shared + experts * (1.0 - (self.missed * tokens).exp()),
        }
    }
}

/// Returns the time of communication for a step, and for each of its tokens, in seconds. Each layer has two all-reduces over a ring of the
/// tensor-parallel ranks, and a gather and a scatter between replicas that share experts. Each stage hands over to the next one. Numbers
/// have 16 bits.
fn link(cost: &CostModel) -> (f64, f64) {
    let (gpu, layers) = (&cost.gpu, cost.model.layers as f64);
    let token = cost.model.hidden as f64 * 2.0;
    // Latency of a collective operation over a ring, and the time in which each of `peers` sends all parts of `bytes` but one.
    let ring = |peers: usize, bytes: f64| match peers {
        0 | 1 => (0.0, 0.0),
        _ => (gpu.link_latency, (peers - 1) as f64 / peers as f64 * bytes / gpu.link),
    };
    let ranks = ring(cost.tensor_parallel, 2.0 * token);
    let replicas = match cost.model.experts {
        Some(_) => ring(cost.data_parallel, token * cost.data_parallel as f64),
        None => (0.0, 0.0),
    };
    let hops = (cost.pipeline_parallel - 1) as f64;
    let factor = cost.constants.link;
    (
        factor * (2.0 * layers * (ranks.0 + replicas.0) + hops * gpu.link_latency),
        factor * (2.0 * layers * (ranks.1 + replicas.1) + hops * token / gpu.link),
    )
}

// Shares of the hardware's limits that a load reached, from its totals and the shape of the model. `mfu` and `mbu` do not depend on the
// durations of the engine model, so they hold for any server of the model on such GPUs.
//
// - Model FLOPs utilisation (Chowdhery et al., PaLM, 2022, appendix B): two operations for each active parameter and token (in the output
//   layer, only for sampled tokens), and four for each layer, head, dimension of a head and pair of tokens in attention, divided by the
//   peak of all GPUs.
// - Memory-bandwidth utilisation (Agarwal et al., LLM Inference Performance Engineering, Databricks, 2023): each step reads the weights
//   once and the keys and values of its sequences; these bytes are divided by the peak bandwidth. Writes and activations are left out.
//
// Work that is repeated after a preemption, and the guesses of speculative decoding, do not count.

/// Totals of a load on all replicas of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// Number of requests.
    pub requests: f64,
    /// Number of prompt tokens.
    pub prompt_tokens: f64,
    /// Share of the prompt tokens that the prefix cache had, 0 to 1.
    pub cached: f64,
    /// Number of output tokens.
    pub output_tokens: f64,
    /// Number of steps of all engines.
    pub steps: f64,
    /// Duration of the load, in seconds.
    pub seconds: f64,
}

/// Shares of the hardware's limits, as means over the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Share of the peak arithmetic of all GPUs.
    pub mfu: f64,
    /// Share of the peak memory bandwidth.
    pub mbu: f64,
    /// Share of the time that the arithmetic alone would take, with kernels of the engine model's efficiencies.
    pub arithmetic_time: f64,
    /// Share of the time that the memory traffic alone would take, with the same kernels.
    pub memory_time: f64,
    /// Share of the time that the engine model's host takes to schedule, to sample and, without CUDA graphs, to launch.
    pub host_time: f64,
}

impl Totals {
    /// Returns the work, as if every request had the mean lengths.
    fn work(&self) -> Work {
        let (prompt, output) = (self.prompt_tokens / self.requests, self.output_tokens / self.requests);
        let (cached, computed) = (self.cached * prompt, (1.0 - self.cached) * prompt);
        // The prefill yields the first token, and nothing is computed from the last one.
        let decodes = (output - 1.0).max(0.0);
        let read_by_decodes = decodes * (prompt + output / 2.0);
        let count = |each: f64| (self.requests * each).round() as usize;
        Work {
            tokens: count(computed + decodes),
            sequences: count(output),
            samples: count(output),
            pairs: self.requests * (computed * (cached + (computed + 1.0) / 2.0) + read_by_decodes),
            kv_tokens: self.requests * (prompt + read_by_decodes),
        }
    }
}

impl CostModel {
    /// Returns the shares that a load reached; `None` if a total is not positive and finite, or steps take no time.
    pub fn shares(&self, totals: &Totals) -> Option<Shares> {
        let positive = [
            totals.requests,
            totals.output_tokens,
            totals.steps,
            totals.seconds,
            self.speed,
        ];
        if positive.iter().any(|figure| !figure.is_finite() || *figure <= 0.0) {
            return None;
        }
        let (gpu, roofline, work) = (&self.gpu, Roofline::of(self), totals.work());
        // Most steps only decode: a token of each sequence, without those of prompts.
        let bytes = roofline.bytes(&work, totals.steps, work.samples as f64 / totals.steps);
        let [arithmetic, memory, host] = roofline.separate_times(&work, totals.steps, bytes);
        let peak = if self.eight_bit { gpu.flops_8 } else { gpu.flops_16 };
        // Durations summed over all replicas, over their stages, and over their GPUs.
        let replica_seconds = totals.seconds * self.data_parallel as f64;
        let stage_seconds = replica_seconds * self.pipeline_parallel as f64;
        let gpu_seconds = stage_seconds * self.tensor_parallel as f64;
        Some(Shares {
            mfu: roofline.flops(&work) / (gpu_seconds * peak * self.speed),
            mbu: (bytes.0 + bytes.1) / (stage_seconds * gpu.bandwidth * self.speed),
            arithmetic_time: arithmetic / stage_seconds,
            memory_time: memory / stage_seconds,
            host_time: host / replica_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gpu::Gpu;
    use crate::engine::model::Model;

    /// One sequence on an H100: `results/h100` and its clients measured 6.9 ms a step.
    #[test]
    fn one_sequence_reads_the_weights_at_two_thirds_of_the_bandwidth() {
        let alone = Totals {
            requests: 1.0,
            prompt_tokens: 256.0,
            cached: 0.0,
            output_tokens: 1000.0,
            steps: 1000.0,
            seconds: 6.9,
        };
        let shares = CostModel::h100(1).shares(&alone).expect("known");
        // 16.06 GB of weights and 0.1 GB of keys and values in 6.9 ms, of 3.35 TB/s.
        assert!((shares.mbu - 0.70).abs() < 0.01, "{shares:?}");
        // 20.3 TFLOP for 1 255 tokens in 6.9 s, of 989 TFLOP/s.
        assert!((shares.mfu - 0.00297).abs() < 0.00002, "{shares:?}");
        assert!((0.8..0.9).contains(&shares.memory_time), "{shares:?}");
        // Two GPUs have twice the bandwidth, and each reads half of everything.
        let two = CostModel::h100(2).shares(&alone).expect("known");
        assert!((two.mbu / shares.mbu - 0.5).abs() < 1e-9 && (two.mfu / shares.mfu - 0.5).abs() < 1e-9);
    }

    #[test]
    fn experts_that_rest_do_not_count() {
        let totals = Totals {
            requests: 1.0,
            prompt_tokens: 1000.0,
            cached: 0.0,
            output_tokens: 2.0,
            steps: 2.0,
            seconds: 1.0,
        };
        let shares = |name: &str| {
            let cost = CostModel::new(Gpu::named("h100").expect("listed"), Model::named(name));
            cost.shares(&totals).expect("known")
        };
        let (sparse, dense) = (shares("30b-a3b"), shares("30b"));
        assert!((0.07..0.11).contains(&(sparse.mfu / dense.mfu)), "{sparse:?} {dense:?}");
        assert!(sparse.mbu < dense.mbu);
    }

    #[test]
    fn nothing_is_said_where_time_does_not_pass() {
        let cost = CostModel {
            speed: f64::INFINITY,
            ..CostModel::h100(1)
        };
        let totals = Totals {
            requests: 1.0,
            prompt_tokens: 1.0,
            cached: 0.0,
            output_tokens: 1.0,
            steps: 1.0,
            seconds: 1.0,
        };
        assert_eq!(cost.shares(&totals), None);
        assert_eq!(CostModel::h100(1).shares(&Totals { seconds: 0.0, ..totals }), None);
    }
}
