//! Memory of the GPUs: weights and activations, and the rest for the KV cache, with vLLM's messages if they do not fit.

use super::Limits;
use super::cost::CostModel;
use super::gpu::GIB;

/// CUDA context, communication buffers and graphs on every GPU, in bytes.
const FIXED: f64 = 1.3 * GIB;

/// Reason why a model does not fit, in vLLM's words.
#[derive(Debug, Clone, PartialEq)]
pub enum Misfit {
    /// The weights and the fixed costs are larger than the memory of the GPU.
    OutOfMemory(String),
    /// The KV cache has no room, or less than one request of the greatest length needs.
    KvCache(String),
}

/// Returns the number of KV blocks for which the memory of each GPU suffices, or the reason why the model does not fit.
pub fn kv_blocks(cost: &CostModel, limits: &Limits) -> Result<usize, Misfit> {
    let stages = cost.pipeline_parallel as f64;
    let weights = cost.weights_per_gpu();
    let total = cost.gpu.memory;
    if weights + FIXED > total {
        return Err(Misfit::OutOfMemory(out_of_memory("the weights need", weights, total)));
    }
    // The largest activations of a layer (residual, attention input, gate and up projection) in 16 bits, and the logits in 32 bits, twice.
    let width = (4 * cost.model.hidden) as f64 + 7.0 * cost.model.hidden as f64 / cost.tensor_parallel as f64;
    let logits = 2.0 * 4.0 * limits.max_num_seqs as f64 * cost.model.vocabulary as f64;
    let activations = 2.0 * width * limits.max_num_batched_tokens as f64 + logits;
    let kv = (total * limits.gpu_memory_utilization - weights - activations - FIXED) * cost.constants.kv_blocks;

    let per_token = cost.kv_bytes_per_gpu() / stages;
    let per_block = per_token * limits.block_size as f64;
    let (blocks, available) = match limits.num_gpu_blocks_override {
        Some(blocks) => {
            let needed = blocks as f64 * per_block;
            if needed > total {
                return Err(Misfit::OutOfMemory(out_of_memory("the KV cache needs", needed, total)));
            }
            (blocks, needed)
        }
        None => ((kv / per_block).max(0.0) as usize, kv),
    };
    let tokens = blocks.saturating_mul(limits.block_size);
    check_kv_cache(available, per_token, tokens, limits.max_model_len)?;
    Ok(blocks)
}

/// Returns PyTorch's message for a GPU of `total` bytes in which `needed` bytes do not fit. `what_needs` begins the remark at its end, such
/// as "the weights need".
pub fn out_of_memory(what_needs: &str, needed: f64, total: f64) -> String {
    let free = 98.94 / 1024.0;
    let allocated = total / GIB - free - 0.6;
    format!(
        "CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of {:.2} GiB of which 98.94 MiB is \
         free. Including non-PyTorch memory, this process has {:.2} GiB memory in use. Of the allocated memory {:.2} GiB \
         is allocated by PyTorch, and 21.31 MiB is reserved by PyTorch but unallocated. ({what_needs} {:.2} GiB)",
        total / GIB,
        total / GIB - free,
        allocated,
        needed / GIB,
    )
}

/// Checks the KV cache as vLLM does, with its two messages (`vllm/v1/core/kv_cache_utils.py`, 0.32).
fn check_kv_cache(available: f64, per_token: f64, tokens: usize, max_model_len: usize) -> Result<(), Misfit> {
    let more = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.";
    if available <= 0.0 {
        return Err(Misfit::KvCache(format!(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the \
             engine (this flag also controls CPU memory reservation on the CPU backend, despite its name). {more}"
        )));
    }
    if tokens >= max_model_len {
        return Ok(());
    }
    let estimate = match tokens {
        0 => String::new(),
        tokens => format!("Based on the available memory, the estimated maximum model length is {tokens}. "),
    };
    Err(Misfit::KvCache(format!(
        "To serve at least one request with the model's max seq len ({max_model_len}), ({:.2} GiB KV cache is needed, \
         which is larger than the available KV cache memory ({:.2} GiB). {estimate}Try increasing \
         `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing `max_model_len` when \
         initializing the engine. {more}",
        max_model_len as f64 * per_token / GIB,
        available / GIB,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gpu::Gpu;
    use crate::engine::model::Model;

    fn cost(name: &str, tensor_parallel: usize) -> CostModel {
        CostModel {
            tensor_parallel,
            ..CostModel::new(Gpu::named("h100").expect("listed"), Model::named(name))
        }
    }

    const LIMITS: Limits = Limits {
        max_num_seqs: 256,
        max_num_batched_tokens: 8192,
        max_model_len: 131_072,
        block_size: 16,
        num_blocks: 0,
        gpu_memory_utilization: 0.92,
        num_gpu_blocks_override: None,
        prefix_caching: true,
        chunked_prefill: true,
        long_prefill_token_threshold: 0,
        by_priority: false,
    };

    #[test]
    fn an_8b_model_fits_one_h100_with_room_for_long_requests() {
        let tokens = 16 * kv_blocks(&cost("8b", 1), &LIMITS).expect("fits");
        assert!((350_000..500_000).contains(&tokens), "{tokens}");
    }

    #[test]
    fn a_70b_model_needs_more_than_one_gpu() {
        assert!(matches!(
            kv_blocks(&cost("70b", 1), &LIMITS),
            Err(Misfit::OutOfMemory(_))
        ));
        assert!(matches!(kv_blocks(&cost("70b", 2), &LIMITS), Err(Misfit::KvCache(_))));
        assert!(kv_blocks(&cost("70b", 4), &LIMITS).is_ok());
    }

    #[test]
    fn numbers_beyond_any_memory_do_not_fit() {
        let seqs = Limits {
            max_num_seqs: i64::MAX as usize,
            ..LIMITS
        };
        assert!(matches!(kv_blocks(&cost("8b", 1), &seqs), Err(Misfit::KvCache(_))));
        let blocks = Limits {
            num_gpu_blocks_override: Some(1 << 62),
            ..LIMITS
        };
        assert!(matches!(
            kv_blocks(&cost("8b", 1), &blocks),
            Err(Misfit::OutOfMemory(_))
        ));
    }

    #[test]
    fn blocks_may_be_stated() {
        let limits = Limits {
            num_gpu_blocks_override: Some(10),
            max_model_len: 160,
            ..LIMITS
        };
        assert_eq!(kv_blocks(&cost("8b", 1), &limits).expect("fits"), 10);
        let limits = Limits {
            max_model_len: 161,
            ..limits
        };
        assert!(matches!(kv_blocks(&cost("8b", 1), &limits), Err(Misfit::KvCache(_))));
    }
}
