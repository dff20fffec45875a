//! Interprets the engine's flags: vLLM's defaults by GPU, its checks that need no GPU, and its error messages.

use super::{own, positive, validation, value_error};
use crate::engine::Limits;
use crate::engine::cost::Speculation;
use crate::engine::gpu::Gpu;
use crate::engine::model::Model;
use crate::flags::{Flags, Refusal};
use serde_json::Value;

/// Refuses a tensor parallel size that does not divide the heads, and more GPUs than there are.
pub(super) fn check_parallel(model: &Model, tensor_parallel: usize, world: usize, gpus: usize) -> Result<(), Refusal> {
    let heads = model.heads;
    if !heads.is_multiple_of(tensor_parallel) {
        let size = format!("tensor parallel size ({tensor_parallel})");
        let why = format!("Total number of attention heads ({heads}) must be divisible by {size}.");
        return Err(value_error("VllmConfig", &why));
    }
    if world > gpus {
        let why = format!("World size ({world}) is larger than the number of available GPUs ({gpus}) in this node.");
        return Err(value_error("ParallelConfig", &why));
    }
    Ok(())
}

fn max_model_len(flags: &Flags, model: &Model) -> Result<usize, Refusal> {
    let longest = model.max_len;
    let why = match flags.get("max_model_len").and_then(Value::as_i64) {
        None | Some(-1) => return Ok(longest),
        Some(asked) if asked < 1 => format!("max_model_len must be positive, got {asked}"),
        Some(asked) if asked as usize <= longest => return Ok(asked as usize),
        Some(asked) => format!(
            "User-specified max_model_len ({asked}) is greater than the derived max_model_len \
             (max_position_embeddings={longest}.0 or model_max_length=None in model's config.json). To allow overriding this \
             maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
        ),
    };
    Err(value_error("ModelConfig", &why))
}

/// Returns the limits after vLLM's checks. The defaults are those of its API server, which depend on the GPU (`vllm/engine/arg_utils.py`,
/// 0.32).
pub(super) fn limits(flags: &Flags, gpu: &Gpu, model: &Model) -> Result<Limits, Refusal> {
    let max_model_len = max_model_len(flags, model)?;
    let gib = gpu.memory / (1u64 << 30) as f64;
    let (tokens, seqs) = match gib {
        160.0.. => (16_384, 1024),
        70.0.. if gpu.name != "a100" => (8192, 1024),
        _ => (2048, 256),
    };
    let chunked_prefill = flags.is_on("enable_chunked_prefill", true);
    let asked_tokens = positive(flags, "max_num_batched_tokens", "SchedulerConfig")?;
    let asked_seqs = positive(flags, "max_num_seqs", "SchedulerConfig")?;
    let max_num_seqs = asked_seqs.unwrap_or_else(|| seqs.min(asked_tokens.unwrap_or(usize::MAX)));
    let max_num_batched_tokens = asked_tokens.unwrap_or_else(|| {
        let whole_prompt = if chunked_prefill { 0 } else { max_model_len };
        tokens.max(whole_prompt).max(max_num_seqs)
    });
    if max_num_batched_tokens < max_num_seqs {
        let tokens = format!("max_num_batched_tokens ({max_num_batched_tokens})");
        let why = format!("{tokens} must be greater than or equal to max_num_seqs ({max_num_seqs}).");
        return Err(value_error("SchedulerConfig", &why));
    }
    if !chunked_prefill && max_num_batched_tokens < max_model_len {
        let why = format!(
            "max_num_batched_tokens ({max_num_batched_tokens}) is smaller than max_model_len ({max_model_len}). This \
             effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer \
             sequences. Please increase max_num_batched_tokens or decrease max_model_len."
        );
        return Err(value_error("SchedulerConfig", &why));
    }
    let gpu_memory_utilization = flags.float("gpu_memory_utilization", 0.92);
    if !(gpu_memory_utilization > 0.0 && gpu_memory_utilization <= 1.0) {
        return Err(validation(
            "CacheConfig",
            "gpu_memory_utilization\n  Input should be greater than 0 and at most 1",
        ));
    }
    Ok(Limits {
        gpu_memory_utilization,
        num_gpu_blocks_override: positive(flags, "num_gpu_blocks_override", "CacheConfig")?,
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
        block_size: positive(flags, "block_size", "CacheConfig")?.unwrap_or(16),
        num_blocks: 0,
        prefix_caching: flags.is_on("enable_prefix_caching", true),
        chunked_prefill,
        long_prefill_token_threshold: flags.float("long_prefill_token_threshold", 0.0).max(0.0) as usize,
        by_priority: flags.text("scheduling_policy") == Some("priority"),
    })
}

/// Returns the bytes of a weight, and true if the arithmetic is in 8 bits. The model's own quantisation goes first: the flag may only repeat
/// how it is stored.
pub(super) fn weights(flags: &Flags, model: &Model) -> (f64, bool) {
    let asked = flags.text("quantization").unwrap_or_default();
    let quantization = Some(model.quantization.as_str()).filter(|own| !own.is_empty());
    let (bytes, eight_bit) = Model::quantized(quantization.unwrap_or(asked));
    let is_single = bytes == 2.0 && matches!(flags.text("dtype"), Some("float" | "float32"));
    (if is_single { 4.0 } else { bytes }, eight_bit)
}

/// Interprets `--speculative-config`: the number of guesses, the size of the draft model, and the acceptance. Synthetic acceptance rates
/// are a setting of vLLM; without them, the simulator's own flag decides.
pub(super) fn speculation(flags: &Flags, model: &Model) -> Result<Option<Speculation>, Refusal> {
    let Some(config) = flags.get("speculative_config").filter(|config| config.is_object()) else {
        return Ok(None);
    };
    let tokens = config.get("num_speculative_tokens").and_then(Value::as_u64);
    let Some(tokens) = tokens.filter(|tokens| (1..=64).contains(tokens)) else {
        return Err(value_error(
            "SpeculativeConfig",
            "num_speculative_tokens must be provided with speculative_config, and be greater than zero.",
        ));
    };
    let method = config.get("method").and_then(Value::as_str).unwrap_or("draft_model");
    let drafter = config.get("model").and_then(Value::as_str);
    let layer = model.active / model.layers as f64;
    let parameters = match (method, drafter) {
        ("ngram" | "ngram_gpu" | "suffix", _) => 0.0,
        ("draft_model", Some(name)) => Model::named(name).active,
        // EAGLE, Medusa and MTP have a head of about one layer that shares the embeddings.
        _ => layer,
    };
    let rates = |key: &str| -> Option<Vec<f64>> { config.get(key)?.as_array()?.iter().map(Value::as_f64).collect() };
    let acceptance = match rates("synthetic_acceptance_rates") {
        // vLLM's rate of a position is unconditional; that of `Speculation` assumes that all earlier guesses were right.
        Some(each) => each
            .iter()
            .scan(1.0, |before, rate| {
                Some(rate / std::mem::replace(before, *rate).max(1e-9))
            })
            .collect(),
        None => vec![own::within(flags, "sim_acceptance", 0.7, 1.0)?],
    };
    Ok(Some(Speculation {
        tokens: tokens as usize,
        parameters,
        acceptance,
        falling: own::within(flags, "sim_acceptance_falling", 0.0, 100.0)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_memory_that_is_not_finite_is_refused() {
        for share in ["nan", "inf", "-inf"] {
            let flags = Flags::parse(&[format!("--gpu-memory-utilization={share}")]).expect("argparse takes it");
            let gpu = Gpu::named("h100").expect("listed");
            assert!(limits(&flags, &gpu, &Model::named("8b")).is_err(), "{share}");
        }
    }
}
