//! Shares of the hardware's limits that a load reached, from its totals and the shape of the model. No duration of the engine model is in
//! `mfu` and `mbu`: they hold for any server of that model on those GPUs.
//!
//! - Model FLOPs utilisation (Chowdhery et al., PaLM, 2022, appendix B): two operations for each active parameter and token (of the output
//!   layer, each sampled token), and four for each layer, head, its width and pair of tokens in attention, by the peak of all GPUs.
//! - Memory-bandwidth utilisation (Agarwal et al., LLM Inference Performance Engineering, Databricks, 2023): each step reads the weights once
//!   and the keys and values of its sequences, by the peak bandwidth. Writing and activations are left out.
//!
//! Work done twice after a preemption, and guesses of speculative decoding, are not the model's and do not count.

use super::cost::{CostModel, Work};
use super::roofline::Roofline;

/// Totals of a load on all replicas of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// Requests.
    pub requests: f64,
    /// Prompt tokens.
    pub prompt_tokens: f64,
    /// Share of these that the prefix cache had, 0 to 1.
    pub cached: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Steps of all engines.
    pub steps: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Shares of the limits, means over the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Of the peak arithmetic of all GPUs.
    pub mfu: f64,
    /// Of the peak memory bandwidth.
    pub mbu: f64,
    /// Share of the time that kernels at the engine model's efficiencies need for the arithmetic alone.
    pub arithmetic_time: f64,
    /// Share of the time that they need for the memory traffic alone.
    pub memory_time: f64,
    /// Share of the time that the engine model's host takes to schedule, to sample and, without CUDA graphs, to launch.
    pub host_time: f64,
}

impl Totals {
    /// The work, of requests that are all as long as the mean.
    fn work(&self) -> Work {
        let (prompt, output) = (self.prompt_tokens / self.requests, self.output_tokens / self.requests);
        let (cached, computed) = (self.cached * prompt, (1.0 - self.cached) * prompt);
        // The prefill yields the first token, and the last one is not computed on.
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
    /// The shares that a load reached; `None` where time does not pass.
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
        let bytes = roofline.bytes(&work, totals.steps, work.samples as f64 / totals.steps);
        let [arithmetic, memory, host] = roofline.apart(&work, totals.steps, bytes);
        let peak = if self.eight_bit { gpu.flops_8 } else { gpu.flops_16 };
        // Seconds of one GPU of each replica's ranks, and of one host.
        let replicas = totals.seconds * self.data_parallel as f64;
        let stages = replicas * self.pipeline_parallel as f64;
        let gpus = stages * self.tensor_parallel as f64;
        Some(Shares {
            mfu: roofline.flops(&work) / (gpus * peak * self.speed),
            mbu: (bytes.0 + bytes.1) / (stages * gpu.bandwidth * self.speed),
            arithmetic_time: arithmetic / stages,
            memory_time: memory / stages,
            host_time: host / replicas,
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
