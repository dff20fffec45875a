//! One server of a benchmark: its address, the form of requests to it, a separate generator for requests outside the measured load, and the
//! limits that it reports. A refusal is recognised by its status, never by its text.

use super::counters::ServerCounters;
use crate::bench::params::ServerParams;
use crate::bench::worker::{self, GivenUp};
use crate::bench::{Job, broken};
use crate::cause::Failure;
use crate::load::{BodyOptions, Generator, Load, Reply, RequestOptions, ServerAddress, Stop, Tls};
use crate::telemetry::prometheus::{self, cache_tokens};
use reqwest::StatusCode;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for opening the connections of the measured load.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for opening the connection of requests outside the load.
const CONTROL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most requests outside the load that are in flight at once.
const CONTROL_AT_ONCE: usize = 64;
/// Time limit for a request outside the load that a server answers at once.
pub(in crate::bench) const SHORT: Duration = Duration::from_secs(10);
/// Time between two requests to a server that is not up yet.
const READY_PAUSE: Duration = Duration::from_secs(1);
/// Time limit for starting or stopping a profiler, which then writes traces.
pub(in crate::bench) const PROFILER: Duration = Duration::from_secs(600);

/// One server of a benchmark.
pub(in crate::bench) struct Endpoint {
    pub url: String,
    pub target: ServerAddress,
    /// Form of requests to it.
    pub options: RequestOptions,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    /// Generator for requests outside the load.
    control: Mutex<Generator>,
}

/// Reason why a request has no useful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct NoAnswer {
    /// HTTP status of the answer, if the server gave one.
    pub status: Option<StatusCode>,
    reason: String,
}

impl NoAnswer {
    /// The lack of a useful answer for a reason other than an HTTP status.
    pub fn because(reason: impl Into<String>) -> NoAnswer {
        NoAnswer {
            status: None,
            reason: reason.into(),
        }
    }

    /// Returns true if the server lacks the route, or refuses this client.
    pub fn is_refusal(&self) -> bool {
        self.status
            .is_some_and(|status| status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Pauses before the next request to a server that gave this error.
///
/// # Errors
///
/// A sentence with the error, if `limit` has passed since `began`.
pub(in crate::bench) fn await_next_try(
    began: Instant,
    limit: Duration,
    error: &dyn fmt::Display,
) -> Result<(), String> {
    let left = limit.saturating_sub(began.elapsed());
    if left.is_zero() {
        return Err(format!(
            "the server was not ready within {} s: {error}",
            limit.as_secs_f64()
        ));
    }
    std::thread::sleep(left.min(READY_PAUSE));
    Ok(())
}

impl Endpoint {
    /// Resolves the host of `url`, and prepares requests of a job to `path` below it. Sends nothing.
    pub async fn open(
        job: &Job,
        url: &str,
        server: &ServerParams,
        path: &str,
        body: BodyOptions,
    ) -> Result<Endpoint, Failure> {
        let target = ServerAddress::parse(url).map_err(broken)?;
        let resolving = target.clone();
        let resolve = move || resolving.resolve().map_err(broken);
        let addresses = worker::perform(vec![], || job.timeout, GivenUp::Left, resolve).await?;
        let tls = target.is_https.then(|| Tls::new(&target.host, server.insecure));
        let tls = tls.transpose().map_err(broken)?;
        Ok(Endpoint {
            url: url.to_owned(),
            options: RequestOptions {
                host: target.authority(),
                path: format!("{}{path}", target.path),
                headers: server.all_headers(job.api_key.as_deref()),
                body,
            },
            control: Mutex::new(generator(&addresses, tls.as_ref())?),
            target,
            addresses,
            tls,
        })
    }

    /// Returns a new generator for measured requests to this server.
    pub fn generator(&self) -> Result<Generator, Failure> {
        generator(&self.addresses, self.tls.as_ref())
    }

    /// Opens `count` connections of a generator to this server, one for each request that will be in flight.
    pub fn connect(&self, generator: &mut Generator, count: usize) -> Result<(), Failure> {
        let connections = if count == 1 { "a connection" } else { "connections" };
        let opened = generator.connect(count, CONNECT_TIMEOUT);
        opened.map_err(|error| broken(self.target.unopened(connections, &error, CONNECT_TIMEOUT)))
    }

    /// Returns a handle by which another thread ends the requests outside the load.
    pub fn stop_handle(&self) -> Stop {
        self.control().stop_handle()
    }

    /// Returns the body of the answer to a GET request.
    pub fn get(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("GET", path, String::new(), limit)
    }

    /// Returns the body of the answer to a POST request with an empty body.
    pub fn post(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("POST", path, String::new(), limit)
    }

    /// Returns the body of the answer to a JSON question, to which the model's name is added.
    pub fn question(&self, path: &str, question: Value) -> Result<String, NoAnswer> {
        let question = self.with_model(question);
        self.ask("POST", path, question, SHORT)
    }

    /// Asks several JSON questions at once. Each answer may be an error of its own.
    pub fn questions(
        &self,
        path: &str,
        questions: impl Iterator<Item = Value>,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        let questions: Vec<String> = questions.map(|question| self.with_model(question)).collect();
        self.ask_all("POST", path, &questions, SHORT)
    }

    fn with_model(&self, mut question: Value) -> String {
        question["model"] = self.options.body.model.as_str().into();
        question.to_string()
    }

    fn ask(&self, method: &str, path: &str, body: String, limit: Duration) -> Result<String, NoAnswer> {
        let answer = self.ask_all(method, path, &[body], limit)?.pop();
        answer.unwrap_or_else(|| Err(NoAnswer::because("no answer")))
    }

    fn ask_all(
        &self,
        method: &str,
        path: &str,
        bodies: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        // Replaces a connection that the server has closed since the last request.
        let mut control = self.control();
        control.connect(1, CONTROL_CONNECT_TIMEOUT).map_err(|error| {
            NoAnswer::because(self.target.unopened("a connection", &error, CONTROL_CONNECT_TIMEOUT))
        })?;
        let path = format!("{}{path}", self.target.path);
        let requests = bodies
            .iter()
            .map(|body| self.options.request_to(method, &path, body.as_bytes()));
        let load = Load {
            requests: requests.collect(),
            due: vec![0; bodies.len()],
            limit: Some(CONTROL_AT_ONCE),
            reply: Reply::Text,
            request_timeout: limit,
            silence_timeout: limit,
            ..Load::default()
        };
        let outcome = control.drive(&load);
        let outcome = outcome.map_err(|error| NoAnswer::because(error.to_string()))?;
        let answers = outcome.samples.in_order().map(|sample| match sample.error {
            Some(reason) => Err(NoAnswer {
                status: sample.error_status.and_then(|status| StatusCode::from_u16(status).ok()),
                reason,
            }),
            None => Ok(sample.text.unwrap_or_default()),
        });
        Ok(answers.collect())
    }

    fn control(&self) -> MutexGuard<'_, Generator> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server answers with success or a refusal, which both show that it is up. The error quotes its last answer.
    pub fn await_answer(&self, limit: Duration) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.get("/health", SHORT) {
                Ok(_) => return Ok(()),
                // A server without this route is up as well.
                Err(error) if error.is_refusal() => return Ok(()),
                Err(error) => await_next_try(began, limit, &error)?,
            }
        }
    }

    /// Empties the prefix cache, so that prompts of an earlier run are not found there. An error is ignored: hits in the cache show it
    /// later.
    pub fn forget_prefixes(&self) {
        let _ = self.post("/reset_prefix_cache", SHORT);
    }

    /// Current counters of the server, if it answers within this time.
    pub fn counters(&self, limit: Duration) -> Result<ServerCounters, NoAnswer> {
        Ok(ServerCounters::read(&self.get("/metrics", limit)?))
    }
}

fn generator(addresses: &[SocketAddr], tls: Option<&Tls>) -> Result<Generator, Failure> {
    Generator::new(addresses.to_vec(), tls.cloned()).map_err(|error| {
        broken(format!(
            "cannot start the generator: {error}; raise the limit of open files"
        ))
    })
}

/// Time limit for `/server_info`. Its first answer took a real vLLM 1.6 s.
const SERVER_INFO_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits of a server that decide which batches fit. Those that it does not report are `None`.
///
/// They are read from `/metrics` and `/v1/models`, which every vLLM has, and from `/server_info`, which needs the development mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::bench) struct ServerLimits {
    /// Number of engines in the server's metrics: the data-parallel ranks behind this address. At least 1.
    pub engines: usize,
    /// Tokens that the KV cache of one engine holds; the fewest if engines differ.
    pub kv_cache_tokens: Option<u64>,
    /// Data type of the KV cache.
    pub cache_dtype: Option<String>,
    /// True if prompts may be found in the prefix cache.
    pub prefix_caching: Option<bool>,
    /// Longest sequence, in tokens.
    pub max_model_len: Option<u64>,
    /// Most sequences in one step.
    pub max_num_seqs: Option<u64>,
    /// Most tokens in one step.
    pub max_num_batched_tokens: Option<u64>,
    /// Number of GPUs that share each layer.
    pub tensor_parallel: Option<u64>,
    /// Number of pipeline stages.
    pub pipeline_parallel: Option<u64>,
}

impl ServerLimits {
    /// Asks a server for its limits.
    pub fn of(endpoint: &Endpoint) -> ServerLimits {
        let metrics = endpoint.get("/metrics", SHORT).unwrap_or_default();
        let ask = |path: &str, limit| -> Value {
            let answer = endpoint.get(path, limit).unwrap_or_default();
            serde_json::from_str(&answer).unwrap_or_default()
        };
        let (models, info) = (
            ask("/v1/models", SHORT),
            ask("/server_info?config_format=json", SERVER_INFO_TIMEOUT),
        );
        ServerLimits::read(&metrics, &models, &info)
    }

    /// Tokens that the KV caches of all engines hold, if each is as small as the smallest.
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
        let limits = ServerLimits::read("", &Value::Null, &Value::Null);
        assert_eq!(
            limits,
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
        let limits = ServerLimits::read(metrics, &json!({"data": [{"max_model_len": 2048}]}), &info);
        assert_eq!((limits.engines, limits.kv_cache_tokens), (2, Some(1440)));
        assert_eq!((limits.max_model_len, limits.max_num_seqs), (Some(2048), Some(64)));
        assert_eq!(
            (limits.prefix_caching, limits.max_num_batched_tokens),
            (Some(false), None)
        );
    }
}
