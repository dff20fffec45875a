//! Limits of a server that decide which batches fit: its engines, their KV cache, its configuration. Read from `/metrics` and `/v1/models`,
//! which every vLLM has, and `/server_info`, which needs the development mode. Limits that it does not report are unknown.

use super::endpoint::{Endpoint, SHORT};
use crate::telemetry::prometheus::{self, cache_tokens};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The first answer of `/server_info` took a real vLLM 1.6 s.
const SLOW: Duration = Duration::from_secs(30);

/// Facts about one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::bench) struct ServerLimits {
    /// Engines that it shows in its metrics: the data-parallel ranks behind this address. At least 1.
    pub engines: usize,
    /// Tokens that the KV cache of one engine holds.
    pub kv_cache_tokens: Option<u64>,
    /// Type of the KV cache's numbers.
    pub cache_dtype: Option<String>,
    /// True if prompts may be answered from the cache.
    pub prefix_caching: Option<bool>,
    /// Longest sequence.
    pub max_model_len: Option<u64>,
    /// Most sequences of one step.
    pub max_num_seqs: Option<u64>,
    /// Most tokens of one step.
    pub max_num_batched_tokens: Option<u64>,
    /// GPUs that share a layer.
    pub tensor_parallel: Option<u64>,
    /// Stages of layers.
    pub pipeline_parallel: Option<u64>,
}

impl ServerLimits {
    /// Asks a server.
    pub fn of(endpoint: &Endpoint) -> ServerLimits {
        let metrics = endpoint.get("/metrics", SHORT).unwrap_or_default();
        let ask = |path: &str, limit| -> Value {
            let answer = endpoint.get(path, limit).unwrap_or_default();
            serde_json::from_str(&answer).unwrap_or_default()
        };
        let (models, info) = (ask("/v1/models", SHORT), ask("/server_info?config_format=json", SLOW));
        ServerLimits::read(&metrics, &models, &info)
    }

    /// Tokens that the KV caches of all engines hold.
    pub fn all_kv_cache_tokens(&self) -> Option<u64> {
        self.kv_cache_tokens.map(|tokens| tokens * self.engines as u64)
    }

    fn read(metrics: &str, models: &Value, info: &Value) -> ServerLimits {
        let engines: BTreeSet<&str> = prometheus::samples(metrics)
            .filter(|sample| sample.name == "vllm:num_requests_running")
            .map(|sample| sample.label("engine").unwrap_or_default())
            .collect();
        let caches = || prometheus::samples(metrics).filter(|sample| sample.name == "vllm:cache_config_info");
        let cache = caches().next();
        let text = |name: &str| cache.and_then(|cache| cache.label(name)).filter(|text| *text != "None");
        let config = |table: &str, key: &str| info["vllm_config"][table][key].as_u64();
        ServerLimits {
            engines: engines.len().max(1),
            kv_cache_tokens: caches().filter_map(|cache| cache_tokens(&cache)).min(),
            cache_dtype: text("cache_dtype").map(str::to_owned),
            prefix_caching: text("enable_prefix_caching").map(|on| on == "True"),
            max_model_len: models["data"][0]["max_model_len"].as_u64(),
            max_num_seqs: config("scheduler_config", "max_num_seqs"),
            max_num_batched_tokens: config("scheduler_config", "max_num_batched_tokens"),
            tensor_parallel: config("parallel_config", "tensor_parallel_size"),
            pipeline_parallel: config("parallel_config", "pipeline_parallel_size"),
        }
    }
}

/// Tokens that the KV caches of all engines of a server hold, by its `/metrics`; `None` if they do not say.
pub fn kv_cache_tokens(metrics: &str) -> Option<u64> {
    ServerLimits::read(metrics, &Value::Null, &Value::Null).all_kv_cache_tokens()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_that_says_nothing_is_unknown() {
        let facts = ServerLimits::read("", &Value::Null, &Value::Null);
        assert_eq!(
            facts,
            ServerLimits {
                engines: 1,
                ..ServerLimits::default()
            }
        );
    }

    #[test]
    fn engines_and_the_smallest_cache_count() {
        let metrics = "vllm:num_requests_running{engine=\"0\"} 0\nvllm:num_requests_running{engine=\"1\"} 0\n\
            vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"100\",\
            enable_prefix_caching=\"False\",num_gpu_blocks_override=\"None\"} 1.0\n\
            vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"90\"} 1.0\n";
        let info = json!({"vllm_config": {"scheduler_config": {"max_num_seqs": 64}}});
        let facts = ServerLimits::read(metrics, &json!({"data": [{"max_model_len": 2048}]}), &info);
        assert_eq!((facts.engines, facts.kv_cache_tokens), (2, Some(1440)));
        assert_eq!((facts.max_model_len, facts.max_num_seqs), (Some(2048), Some(64)));
        assert_eq!(
            (facts.prefix_caching, facts.max_num_batched_tokens),
            (Some(false), None)
        );
    }
}
