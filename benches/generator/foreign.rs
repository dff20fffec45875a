//! Clients that are not of vLLM: how each is told the workload, and its figures by the keys of `vllm bench serve`.

use super::client::Workload;
use serde_json::{Value, json};
use std::path::Path;

/// A client with flags and files of its own.
#[derive(Debug, Clone, Copy)]
pub enum Foreign {
    /// `guidellm run` of guidellm 0.8.
    Guidellm,
    /// `aiperf profile` of aiperf 0.13.
    Aiperf,
}

impl Foreign {
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Guidellm => "guidellm",
            Foreign::Aiperf => "aiperf",
        }
    }

    /// What follows the program's name. Its result is to be `file`.
    pub fn arguments(self, address: &str, tokenizer: &Path, workload: Workload, file: &Path) -> Vec<String> {
        let Workload {
            requests,
            streams,
            tokens,
        } = workload;
        let (tokenizer, file_name) = (tokenizer.display(), file.display());
        let line = match self {
            Foreign::Guidellm => format!(
                "run --backend kind=openai_http,target=http://{address},model=m,validate_backend=false,\
                 request_format=/v1/completions --profile kind=concurrent,streams={streams} --constraint \
                 kind=max_requests,count={requests} --data kind=synthetic_text,prompt_tokens=8,output_tokens={tokens} \
                 --tokenizer kind=hf_auto,model={tokenizer} --output kind=json,path={file_name} --disable-console"
            ),
            Foreign::Aiperf => format!(
                "profile --model m --url http://{address} --endpoint-type completions --streaming --concurrency {streams} \
                 --request-count {requests} --synthetic-input-tokens-mean 8 --synthetic-input-tokens-stddev 0 \
                 --output-tokens-mean {tokens} --output-tokens-stddev 0 --extra-inputs ignore_eos:true \
                 --use-server-token-count --tokenizer {tokenizer} --ui none --artifact-dir {} --profile-export-file {}",
                file.parent().unwrap_or(Path::new(".")).display(),
                file.file_stem().unwrap_or_default().display(),
            ),
        };
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// The figures of its file.
    pub fn figures(self, file: &Value) -> Value {
        match self {
            Foreign::Guidellm => {
                let metrics = &file["benchmarks"][0]["metrics"];
                let percentile = |metric: &str, key: &str| metrics[metric]["successful"]["percentiles"][key].clone();
                json!({
                    "completed": metrics["request_totals"]["successful"],
                    "output_throughput": metrics["output_tokens_per_second"]["successful"]["mean"],
                    "p50_ttft_ms": percentile("time_to_first_token_ms", "p50"),
                    "p99_ttft_ms": percentile("time_to_first_token_ms", "p99"),
                    "p50_itl_ms": percentile("inter_token_latency_ms", "p50"),
                    "p99_itl_ms": percentile("inter_token_latency_ms", "p99"),
                })
            }
            // What it calls inter-token latency is a mean of each request.
            Foreign::Aiperf => json!({
                "completed": file["request_count"]["avg"].as_f64().map(|count| count as u64),
                "output_throughput": file["output_token_throughput"]["avg"],
                "p50_ttft_ms": file["time_to_first_token"]["p50"],
                "p99_ttft_ms": file["time_to_first_token"]["p99"],
                "p50_itl_ms": file["inter_chunk_latency"]["p50"],
                "p99_itl_ms": file["inter_chunk_latency"]["p99"],
            }),
        }
    }
}
