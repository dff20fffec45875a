//! One server of a benchmark: its address, the form of requests to it, and a separate generator for requests outside the measured load. A
//! refusal is recognised by its status, never by its text.

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

/// Limit for opening the connections of a load.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the connection outside the load.
const CONNECT_BESIDE: Duration = Duration::from_secs(10);
/// Requests in flight.
const AT_ONCE: usize = 64;
pub(in crate::bench) const SHORT: Duration = Duration::from_secs(10);
/// Time between tries of a server that is not up yet.
const READY_PAUSE: Duration = Duration::from_secs(1);
/// Starting and stopping a profiler writes traces.
pub(in crate::bench) const PROFILER: Duration = Duration::from_secs(600);

/// One server.
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
    /// The status that the server answered with, if it answered.
    pub status: Option<StatusCode>,
    reason: String,
}

impl NoAnswer {
    /// An answer that cannot be used, for this reason.
    pub fn because(reason: impl Into<String>) -> NoAnswer {
        NoAnswer {
            status: None,
            reason: reason.into(),
        }
    }

    /// Returns true if the server has no such route, or none for us.
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

/// Pauses before a server that gave this error is asked again, unless the time for that is over.
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
    /// Finds the server at `url` for a job whose requests go to `path` below it.
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

    /// A generator for measured requests to it.
    pub fn generator(&self) -> Result<Generator, Failure> {
        generator(&self.addresses, self.tls.as_ref())
    }

    /// Opens connections of a generator to it, as many as will be in flight.
    pub fn connect(&self, generator: &mut Generator, count: usize) -> Result<(), Failure> {
        let connections = if count == 1 { "a connection" } else { "connections" };
        let opened = generator.connect(count, CONNECT_TIMEOUT);
        opened.map_err(|error| broken(self.target.unopened(connections, &error, CONNECT_TIMEOUT)))
    }

    /// The means to end what is asked of it from another thread.
    pub fn stop_handle(&self) -> Stop {
        self.control().stop_handle()
    }

    /// Returns the body of the answer to a GET request.
    pub fn get(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("GET", path, String::new(), limit)
    }

    /// The body of the answer to a request that says nothing.
    pub fn post(&self, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        self.ask("POST", path, String::new(), limit)
    }

    /// The body of the answer to a question about the model.
    pub fn question(&self, path: &str, question: Value) -> Result<String, NoAnswer> {
        let question = self.about_model(question);
        self.ask("POST", path, question, SHORT)
    }

    /// Sends several requests; each may fail by itself.
    pub fn questions(
        &self,
        path: &str,
        questions: impl Iterator<Item = Value>,
    ) -> Result<Vec<Result<String, NoAnswer>>, NoAnswer> {
        let questions: Vec<String> = questions.map(|question| self.about_model(question)).collect();
        self.ask_all("POST", path, &questions, SHORT)
    }

    fn about_model(&self, mut question: Value) -> String {
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
        // Replaces a connection that the server has closed since it was last used.
        let mut control = self.control();
        control
            .connect(1, CONNECT_BESIDE)
            .map_err(|error| NoAnswer::because(self.target.unopened("a connection", &error, CONNECT_BESIDE)))?;
        let path = format!("{}{path}", self.target.path);
        let requests = bodies
            .iter()
            .map(|body| self.options.aside(method, &path, body.as_bytes()));
        let load = Load {
            requests: requests.collect(),
            due: vec![0; bodies.len()],
            limit: Some(AT_ONCE),
            reply: Reply::Text,
            request_timeout: limit,
            silence_timeout: limit,
            ..Load::default()
        };
        let outcome = control.drive(&load, &mut |_| {});
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

    /// Waits until the server answers anything but that it cannot; the error says what it said last.
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

    /// Empties the prefix cache, so that prompts of an earlier run are not found there. A server that will not is noticed
    /// by what it then finds.
    pub fn forget_prefixes(&self) {
        let _ = self.post("/reset_prefix_cache", SHORT);
    }

    /// Current counters of the server.
    pub fn counters(&self) -> Result<ServerCounters, NoAnswer> {
        Ok(ServerCounters::read(&self.get("/metrics", SHORT)?))
    }
}

fn generator(addresses: &[SocketAddr], tls: Option<&Tls>) -> Result<Generator, Failure> {
    Generator::new(addresses.to_vec(), tls.cloned()).map_err(|error| {
        broken(format!(
            "cannot start the generator: {error}; raise the limit of open files"
        ))
    })
}

// Limits of a server that decide which batches fit: its engines, their KV cache, its configuration. Read from `/metrics` and `/v1/models`,
// which every vLLM has, and `/server_info`, which needs the development mode. Limits that it does not report are unknown.

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
