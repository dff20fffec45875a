//! Parameters of a native benchmark as typed values. All problems are found in one go.

use crate::bench::native::steps::Steps;
use crate::bench::params::reader::Reader;
use crate::bench::params::server;
use crate::dataset::{Dataset, Sampling};
use crate::load::Backend;
use crate::load::arrival::Arrivals;
use crate::metrics::{Goodput, Metric, SteadyRule};
use crate::plan::Params;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Everything a native benchmark was told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The API, and its name as it was given.
    pub backend: Backend,
    /// The backend's name as given.
    pub backend_name: String,
    /// Path below the base URL.
    pub endpoint: String,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
    /// Name of the model in requests, if not the server's own.
    pub served_model_name: Option<String>,
    /// Model id in the result, if not the server's root.
    pub model: Option<String>,
    /// Where the tokenizer is, if not with the model.
    pub tokenizer: Option<String>,
    /// Do not look for a tokenizer.
    pub skip_tokenizer: bool,
    /// Ids below this may be used as tokens.
    pub vocab_size: Option<u32>,
    /// Requests.
    pub num_prompts: usize,
    /// Seed of prompts and arrivals.
    pub seed: u32,
    /// What is asked.
    pub dataset: Dataset,
    /// Take rows of a file in random order.
    pub shuffle: bool,
    /// Use a file with too few rows several times.
    pub oversample: bool,
    /// Send texts of a file as they are, not in the model's chat template.
    pub skip_chat_template: bool,
    /// Values for the chat template.
    pub chat_template_kwargs: Map<String, Value>,
    /// Requests are due when the dataset says, not by `arrivals`.
    pub self_timed: bool,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// Most requests, or conversations, at once.
    pub max_concurrency: Option<usize>,
    /// From an answer to the next turn of its conversation.
    pub turn_pause: Duration,
    /// What is done besides.
    pub steps: Steps,
    /// Limit for one request.
    pub request_timeout: Duration,
    /// Limit for the time without a byte of an answer.
    pub silence_timeout: Duration,
    /// Do not check the server's certificate.
    pub insecure: bool,
    /// When a closed loop counts as steady, if it is looked at.
    pub steady: Option<SteadyRule>,
    /// Shortest steady state that is worth its name, in seconds; unset means 10 or a tenth of the run.
    pub steady_min_window_s: Option<f64>,
    /// Start of request ids.
    pub request_id_prefix: Option<String>,
    /// Generate on after the end of sequence; unset means as the dataset wants it.
    pub ignore_eos: bool,
    /// Log probabilities.
    pub logprobs: Option<u64>,
    /// Keys for every body.
    pub extra_body: Map<String, Value>,
    /// Metrics in the result.
    pub metrics: Vec<Metric>,
    /// Percentiles of each.
    pub percentiles: Vec<f64>,
    /// Targets.
    pub goodput: Option<Goodput>,
    /// Pairs for the result.
    pub metadata: Vec<(String, String)>,
    /// Label for the result.
    pub label: Option<String>,
    /// Keep each request's figures.
    pub save_detailed: bool,
    /// The server's address in parts, for a benchmark that stands alone.
    server: (Option<String>, String, u64),
    /// Where a benchmark that stands alone writes its result, if anywhere.
    pub output: Option<Output>,
    /// Show no progress.
    pub quiet: bool,
}

/// Where a result file goes.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its folder, if not the current one.
    pub folder: Option<PathBuf>,
    /// Its name, if not made from the settings.
    pub name: Option<String>,
    /// Keep what the file holds and add to it.
    pub append: bool,
}

/// In the order of bodies.
const SAMPLING: [&str; 7] = [
    "top_p",
    "top_k",
    "min_p",
    "temperature",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
];

/// What a plan's result holds unless it says otherwise.
pub(in crate::bench) const PLAN_METRICS: &str = "ttft,tpot,itl,e2el";
pub(in crate::bench) const PLAN_PERCENTILES: &str = "50,90,95,99";

impl Settings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<Settings, Vec<String>> {
        let mut reader = Reader::new(params);
        let settings = reader.settings();
        if reader.problems.is_empty() {
            Ok(settings)
        } else {
            Err(reader.problems)
        }
    }
    /// Base URL of the server for a benchmark that stands alone: `base_url`, or `host` and `port`.
    pub fn base_url(&self) -> String {
        let (base_url, host, port) = &self.server;
        server::base_url(base_url.as_deref(), host, *port)
    }

    /// What the dataset is asked for.
    pub fn sampling(&self, num_prompts: usize, seed: u64) -> Sampling {
        Sampling {
            num_prompts,
            seed,
            shuffle: self.shuffle,
            oversample: self.oversample,
        }
    }

    /// Whether requests have due times of their own, rather than all being due at once.
    pub fn is_open_loop(&self) -> bool {
        self.self_timed || self.arrivals.is_open()
    }

    /// Headers of every request: the API key from `OPENAI_API_KEY`, then those given.
    pub fn all_headers(&self) -> Vec<(String, String)> {
        server::with_key(self.headers.clone())
    }
}

impl Reader<'_> {
    fn settings(&mut self) -> Settings {
        let backend_name = self.text("backend").unwrap_or_else(|| "openai".to_owned());
        let backend = Backend::named(&backend_name).unwrap_or_else(|| {
            self.wrong(
                "backend",
                &format!("one of {}", Backend::names().collect::<Vec<_>>().join(", ")),
            );
            Backend::Completions
        });
        let seed = self.seed();
        let num_prompts = self.num_prompts();
        let dataset = self.dataset(num_prompts, backend);
        let dataset = self.conversations(dataset, backend);
        let goodput_pairs: Vec<String> = self
            .texts("goodput")
            .iter()
            .flat_map(|text| text.split(','))
            .map(str::to_owned)
            .collect();
        let wrong = goodput_pairs
            .iter()
            .filter_map(|pair| Goodput::parse(std::slice::from_ref(pair)).err());
        self.problems.extend(wrong);
        let goodput = Goodput::parse(&goodput_pairs).ok().flatten();
        let timeout = self.number("request_timeout", "a number of seconds above 0", |seconds| {
            seconds > 0.0
        });
        let silence = self.number("silence_timeout", "a number of seconds above 0", |seconds| {
            seconds > 0.0
        });
        let arrivals = self.arrivals();
        let self_timed = self.is_self_timed(&dataset, arrivals.is_open());
        let max_concurrency = self.concurrency();
        let threshold = self.number("steady_state_threshold", "a share above 0, at most 1", |share| {
            0.0 < share && share <= 1.0
        });
        let rule = max_concurrency.map(|target| SteadyRule {
            target,
            threshold: threshold.unwrap_or(0.95),
        });
        let ends_never = matches!(backend, Backend::Completions | Backend::Chat | Backend::Responses);
        let is_looked_at = !self.is_set("no_steady_state") && !arrivals.is_open() && !self_timed && backend.generates();
        Settings {
            backend,
            endpoint: self.endpoint(backend, &backend_name),
            backend_name,
            headers: self.headers(),
            served_model_name: self.text("served_model_name"),
            model: self.text("model"),
            tokenizer: self.text("tokenizer"),
            skip_tokenizer: self.is_set("skip_tokenizer_init"),
            vocab_size: self.vocab_size(),
            num_prompts,
            seed,
            shuffle: !self.is_set("disable_shuffle"),
            oversample: !self.is_set("no_oversample"),
            skip_chat_template: self.is_set("skip_chat_template"),
            chat_template_kwargs: self.object("chat_template_kwargs"),
            self_timed,
            arrivals,
            max_concurrency,
            turn_pause: self.turn_pause(),
            steps: Steps::read(self),
            insecure: self.is_set("insecure"),
            steady: rule.filter(|_| is_looked_at),
            steady_min_window_s: self.number("steady_state_min_window", "a number of seconds of at least 0", |s| {
                s >= 0.0
            }),
            silence_timeout: Duration::from_secs_f64(silence.unwrap_or(21_600.0).min(1e9)),
            request_timeout: Duration::from_secs_f64(timeout.unwrap_or(21_600.0).min(1e9)),
            request_id_prefix: self.header_text("request_id_prefix"),
            ignore_eos: match self.values.contains_key("ignore_eos") {
                true => self.is_set("ignore_eos"),
                false => ends_never && dataset.fixes_outputs(),
            },
            dataset,
            logprobs: self.count("logprobs", 0),
            extra_body: self.extra_body(backend),
            metrics: self.metrics(backend),
            percentiles: self.percentiles(),
            goodput,
            metadata: self.pairs("metadata"),
            label: self.text("label"),
            save_detailed: self.is_set("save_detailed"),
            server: (
                self.base_url(),
                self.text("host").unwrap_or_else(|| "127.0.0.1".to_owned()),
                self.port(),
            ),
            output: self.output(),
            quiet: self.is_set("disable_tqdm"),
        }
    }

    fn output(&mut self) -> Option<Output> {
        let (save, append) = (self.is_set("save_result"), self.is_set("append_result"));
        (save || append).then(|| Output {
            folder: self.text("result_dir").map(PathBuf::from),
            name: self.text("result_filename"),
            append,
        })
    }

    fn endpoint(&mut self, backend: Backend, name: &str) -> String {
        let Some(endpoint) = self.path("endpoint") else {
            return backend.endpoint().to_owned();
        };
        let ends = backend.endpoint_ends();
        if !ends.iter().any(|end| endpoint.ends_with(end)) {
            let ends = ends.join("\" or \"");
            self.wrong(
                "endpoint",
                &format!("a path that ends in \"{ends}\" for backend {name}"),
            );
        }
        if endpoint.starts_with('/') {
            endpoint
        } else {
            format!("/{endpoint}")
        }
    }

    fn extra_body(&mut self, backend: Backend) -> Map<String, Value> {
        let mut body = Map::new();
        if backend == Backend::Audio && SAMPLING.iter().any(|name| self.values.contains_key(*name)) {
            self.problems
                .push("backend openai-audio takes no sampling parameters; use extra_body".to_owned());
        }
        for name in SAMPLING {
            if let Some(value) = self.number(name, "a number", f64::is_finite) {
                let value = if name == "top_k" {
                    json!(value as i64)
                } else {
                    json!(value)
                };
                // What generates nothing samples nothing.
                if backend.generates() {
                    body.insert(name.to_owned(), value);
                }
            }
        }
        body.extend(self.object("extra_body"));
        body
    }

    fn metrics(&mut self, backend: Backend) -> Vec<Metric> {
        let names = self
            .text("percentile_metrics")
            .unwrap_or_else(|| PLAN_METRICS.to_owned());
        let names: Vec<&str> = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let is_known = |name: &&str| Metric::ALL.iter().any(|metric| metric.name() == *name);
        if !names.iter().all(is_known) {
            let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
            self.wrong("percentile_metrics", &format!("a list of {}", known.join(",")));
        }
        let is_asked = |metric: &Metric| names.contains(&metric.name());
        match backend.generates() {
            true => Metric::ALL.into_iter().filter(is_asked).collect(),
            false => vec![Metric::E2el],
        }
    }

    fn percentiles(&mut self) -> Vec<f64> {
        let text = self
            .text("metric_percentiles")
            .unwrap_or_else(|| PLAN_PERCENTILES.to_owned());
        let percents: Option<Vec<f64>> = text
            .split(',')
            .map(|percent| {
                percent
                    .trim()
                    .parse()
                    .ok()
                    .filter(|percent| (0.0..=100.0).contains(percent))
            })
            .collect();
        percents.unwrap_or_else(|| {
            self.wrong("metric_percentiles", "a list of numbers from 0 to 100, e.g. 50,99");
            vec![]
        })
    }
}
