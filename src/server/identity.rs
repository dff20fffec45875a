//! Reads the properties that distinguish the server at an address from others. A property that a server does not report stays unknown, so
//! servers other than vLLM work too.
//!
//! Nothing here judges the properties: [`Fingerprint`] decides which differences are a change.

use super::Server;
use super::http::{Http, HttpAnswer};
use crate::fingerprint::{Differences, Fingerprint};
use crate::printable::printable;
use crate::telemetry::prometheus::{self, Sample, cache_tokens};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time limit of one request.
const PROBE: Duration = Duration::from_secs(2);
/// Time limit of `/server_info`, for whose first answer a real vLLM needed 1.6 s.
const SLOW: Duration = Duration::from_secs(10);
/// Most settings that are recorded with each launch. A real vLLM has 37, with short values.
const MOST_SETTINGS: usize = 200;
/// Longest value of a setting that is recorded, in bytes.
const LONGEST_SETTING: usize = 200;
/// Labels of `vllm:cache_config_info` that are not settings: the engine's number, and results of memory profiling.
const NO_SETTINGS: [&str; 6] = [
    "engine",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_cpu_blocks",
    "num_gpu_blocks",
];
/// Settings that are read from the configuration in vLLM's development mode. Other settings follow from these, or have no effect.
const CONFIG: [(&str, &str); 8] = [
    ("parallel_config", "tensor_parallel_size"),
    ("parallel_config", "pipeline_parallel_size"),
    ("parallel_config", "data_parallel_size"),
    ("scheduler_config", "max_num_seqs"),
    ("scheduler_config", "max_num_batched_tokens"),
    ("scheduler_config", "enable_chunked_prefill"),
    ("model_config", "dtype"),
    ("model_config", "quantization"),
];

impl Server {
    /// Reads the properties that distinguish the server from others. Reads its metrics at the beginning and near the end, to detect several
    /// servers behind one address; the error contains their differences.
    pub async fn read_identity(&self) -> Result<Fingerprint, Differences> {
        let http = &self.http;
        let Ok(metrics) = http.get("/metrics", PROBE).await else {
            return Ok(Fingerprint::default());
        };
        let page = |metrics: HttpAnswer| metrics.success().map_or_else(String::new, |answer| answer.body);
        let mut read = of_metrics(&page(metrics));
        of_models(&ask(http, "/v1/models", PROBE).await, &mut read);
        read.version = read_version(http).await.0;
        if let Ok(again) = http.get("/metrics", PROBE).await
            && let Some(differences) = of_metrics(&page(again)).differences_from(&read)
        {
            return Err(differences);
        }
        of_config(&ask(http, "/server_info?config_format=json", SLOW).await, &mut read);
        Ok(read)
    }
}

/// Returns the version of a server, if it reports one, and true if it is the simulator.
pub(super) async fn read_version(http: &Http) -> (Option<String>, bool) {
    let answer = ask(http, "/version", PROBE).await;
    let version = match text(&answer["version"]) {
        // llama.cpp's server reports its build elsewhere.
        None => text(&ask(http, "/props", PROBE).await["build_info"]),
        version => version,
    };
    (version, answer["simulator"].is_string())
}

/// Returns an answer as JSON; null if there is none.
async fn ask(http: &Http, path: &str, limit: Duration) -> Value {
    let answer = http.page(path, limit).await;
    answer.map_or(Value::Null, |answer| answer.json())
}

/// Returns a text from a server's answer, without control characters.
pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(|text| printable(text).into_owned())
}

fn of_metrics(page: &str) -> Fingerprint {
    let caches = || prometheus::samples(page).filter(|sample| sample.name == "vllm:cache_config_info");
    let started = prometheus::samples(page).find(|sample| sample.name == "process_start_time_seconds");
    let kv_cache_tokens = caches().try_fold(0u64, |sum, cache| sum.checked_add(cache_tokens(&cache)?));
    let mut settings = BTreeMap::new();
    for (name, value) in caches().next().iter().flat_map(Sample::all_labels).take(MOST_SETTINGS) {
        if !NO_SETTINGS.contains(&name) && value.len() <= LONGEST_SETTING {
            settings.insert(printable(name).into_owned(), printable(value).into_owned());
        }
    }
    Fingerprint {
        engines: Some(caches().count() as u64).filter(|engines| *engines > 0),
        kv_cache_tokens: kv_cache_tokens.filter(|tokens| *tokens > 0),
        settings,
        started: started.map(|sample| sample.value).filter(|at| at.is_finite()),
        ..Fingerprint::default()
    }
}

fn of_models(models: &Value, read: &mut Fingerprint) {
    let first = &models["data"][0];
    read.model = text(&first["id"]);
    read.model_root = text(&first["root"]);
    read.max_model_len = first["max_model_len"].as_u64();
}

fn of_config(info: &Value, read: &mut Fingerprint) {
    for (table, name) in CONFIG {
        let value = match &info["vllm_config"][table][name] {
            Value::Null => continue,
            Value::String(value) => printable(value).into_owned(),
            value => value.to_string(),
        };
        read.settings.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The answer of a real vLLM.
    const PAGE: &str = "process_start_time_seconds 1.79516695783e+09\n\
        vllm:cache_config_info{_block_size_resolved=\"True\",block_size=\"128\",cache_dtype=\"auto\",engine=\"0\",\
        enable_prefix_caching=\"True\",kv_cache_max_concurrency=\"1024.0\",kv_cache_memory_bytes=\"1073741824\",\
        kv_cache_size_tokens=\"2097152\",num_cpu_blocks=\"None\",num_gpu_blocks=\"16384\"} 1.0\n";

    #[test]
    fn a_real_servers_words_are_read() {
        let mut read = of_metrics(PAGE);
        let models = json!({"data": [{"id": "tiny", "root": "LAB/tiny-llama", "max_model_len": 2048}]});
        of_models(&models, &mut read);
        let scheduler = json!({"max_num_seqs": 64, "policy": "fcfs"});
        let config =
            json!({"scheduler_config": scheduler, "model_config": {"dtype": "torch.bfloat16", "quantization": null}});
        of_config(&json!({"vllm_config": config}), &mut read);
        assert_eq!((read.engines, read.kv_cache_tokens), (Some(1), Some(2_097_152)));
        assert_eq!(read.started, Some(1_795_166_957.83));
        let named = (read.model.as_deref(), read.model_root.as_deref(), read.max_model_len);
        assert_eq!(named, (Some("tiny"), Some("LAB/tiny-llama"), Some(2048)));
        let settings: Vec<(&str, &str)> = read.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("_block_size_resolved", "True"),
            ("block_size", "128"),
            ("cache_dtype", "auto"),
            ("dtype", "torch.bfloat16"),
            ("enable_prefix_caching", "True"),
            ("max_num_seqs", "64"),
        ];
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_server_of_another_kind_says_nothing() {
        let mut read = of_metrics("# HELP requests\nrequests_total 3\n");
        of_models(&Value::Null, &mut read);
        of_config(&json!([1]), &mut read);
        assert_eq!(read, Fingerprint::default());
    }

    #[tokio::test]
    async fn the_build_of_llama_cpp_is_its_version() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let http = Http::new(&format!("http://{}", listener.local_addr().expect("bound")), None);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let count = stream.read(&mut head).await.unwrap_or(0);
                let (status, body) = match head[..count].starts_with(b"GET /props ") {
                    true => ("200 OK", r#"{"build_info":"b11434-515e855"}"#),
                    false => ("404 Not Found", r#"{"error":{"message":"File Not Found"}}"#),
                };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        assert_eq!(read_version(&http).await, (Some("b11434-515e855".to_owned()), false));
    }
}
