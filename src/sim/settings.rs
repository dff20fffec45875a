//! What the command line means: vLLM's defaults, its checks that do not need a GPU, and the simulator's own settings.

use super::engine::Limits;
use super::engine::cost::CostModel;
use super::engine::gpu::{GPUS, Gpu};
use super::engine::memory::Budget;
use super::engine::model::Model;
use super::fault::Fault;
use super::flags::Flags;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything a server needs to know to start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model as given.
    pub model: String,
    /// Names under which it is served; the first one is shown.
    pub served_names: Vec<String>,
    /// Address to listen on.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Keys of which a request must carry one, if any.
    pub api_keys: Vec<String>,
    /// Whether the development routes exist (`VLLM_SERVER_DEV_MODE=1`).
    pub dev_mode: bool,
    /// Whether every request is logged.
    pub access_log: bool,
    /// Whether streams carry usage unasked.
    pub force_usage: bool,
    /// Time that running requests get when told to stop.
    pub shutdown_timeout: Duration,
    /// Stages of the pipeline.
    pub pipeline_parallel: usize,
    /// Replicas; accepted, not modelled.
    pub data_parallel: usize,
    /// Share of GPU memory to use.
    pub gpu_memory_utilization: f64,
    /// KV blocks, if stated.
    pub num_gpu_blocks_override: Option<usize>,
    /// The scheduler's limits; `num_blocks` is filled in when memory is planned.
    pub limits: Limits,
    /// Step times.
    pub cost: CostModel,
    /// Standard deviation of the logarithm of a step's time.
    pub noise: f64,
    /// Seed of noise, answers and random faults.
    pub seed: u64,
    /// Time from launch to ready.
    pub start: Duration,
    /// Where to write the truth about each request.
    pub truth: Option<PathBuf>,
    /// What to do wrong.
    pub faults: Vec<Fault>,
}

/// Why the settings cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub enum Unusable {
    /// A flag's value, refused as the command line is.
    Flag(String),
    /// vLLM would raise this exception while it builds its configuration.
    Exception(String),
}

/// Reads the values of one command line.
struct Reader<'f>(&'f Flags);

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(str::to_string))
            .collect()
    }

    fn on(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn float(&self, name: &str, default: f64) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(default)
    }

    /// A positive integer, or what pydantic says of another.
    fn positive(&self, name: &str, class: &str) -> Result<Option<usize>, Unusable> {
        match self.0.get(name).and_then(Value::as_i64) {
            None => Ok(None),
            Some(value) if value >= 1 => Ok(Some(value as usize)),
            Some(value) => Err(validation(
                class,
                &format!(
                    "{name}\n  Input should be greater than or equal to 1 [type=greater_than_equal, input_value={value}, input_type=int]"
                ),
            )),
        }
    }
}

fn validation(class: &str, message: &str) -> Unusable {
    Unusable::Exception(format!(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for {class}\n{message}"
    ))
}

fn value_error(class: &str, message: &str) -> Unusable {
    validation(
        class,
        &format!("  Value error, {message} [type=value_error, input_type=ArgsKwargs]"),
    )
}

impl Settings {
    /// Resolves the flags. `environment` looks up a variable.
    pub fn resolve(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings, Unusable> {
        let read = Reader(flags);
        if read.text("config").is_some() {
            let message = "argument --config: the simulator reads no configuration files: write the flags out";
            return Err(Unusable::Flag(message.into()));
        }
        let given = flags.model_tag.as_deref().or_else(|| read.text("model"));
        let name = given.unwrap_or("Qwen/Qwen3-0.6B").to_string();
        let model = find_model(&name)?;
        let gpu = match read.text("sim_gpu") {
            None => GPUS[0],
            Some(name) => Gpu::named(name).ok_or_else(|| {
                let names: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
                Unusable::Flag(format!(
                    "argument --sim-gpu: unknown GPU '{name}': use one of {}",
                    names.join(", ")
                ))
            })?,
        };

        let tensor_parallel = read.positive("tensor_parallel_size", "ParallelConfig")?.unwrap_or(1);
        let pipeline_parallel = read.positive("pipeline_parallel_size", "ParallelConfig")?.unwrap_or(1);
        let data_parallel = read.positive("data_parallel_size", "ParallelConfig")?.unwrap_or(1);
        let gpus = read.positive("sim_gpus", "ParallelConfig")?.unwrap_or(8);
        check_parallel(&model, tensor_parallel, tensor_parallel * pipeline_parallel, gpus)?;
        let max_model_len = max_model_len(flags, &model)?;
        let limits = limits(&read, &gpu, max_model_len)?;
        let gpu_memory_utilization = read.float("gpu_memory_utilization", 0.92);
        if !(gpu_memory_utilization > 0.0 && gpu_memory_utilization <= 1.0) {
            return Err(validation(
                "CacheConfig",
                "gpu_memory_utilization\n  Input should be greater than 0 and at most 1",
            ));
        }

        let (weight_bytes, eight_bit) = weights(&read);
        let cost = CostModel {
            gpu,
            model,
            tensor_parallel,
            weight_bytes,
            kv_bytes: if read.text("kv_cache_dtype").is_some_and(|d| d.starts_with("fp8")) {
                1.0
            } else {
                2.0
            },
            eight_bit,
            eager: read.on("enforce_eager", false),
            speed: speed(&read)?,
        };
        let mut served_names = read.texts("served_model_name");
        if served_names.is_empty() {
            served_names.push(name.clone());
        }
        let faults = faults(&read, environment)?;
        Ok(Settings {
            model: name,
            served_names,
            host: read.text("host").unwrap_or("127.0.0.1").to_string(),
            port: port(flags)?,
            api_keys: read.texts("api_key"),
            dev_mode: environment("VLLM_SERVER_DEV_MODE").is_some_and(|value| value == "1"),
            access_log: !read.on("disable_uvicorn_access_log", false)
                && !matches!(read.text("uvicorn_log_level"), Some("warning" | "error" | "critical")),
            force_usage: read.on("enable_force_include_usage", false),
            shutdown_timeout: Duration::from_secs(read.float("shutdown_timeout", 0.0).max(0.0) as u64),
            pipeline_parallel,
            data_parallel,
            gpu_memory_utilization,
            num_gpu_blocks_override: read.positive("num_gpu_blocks_override", "CacheConfig")?,
            limits,
            cost,
            noise: noise(&read)?,
            seed: read.float("sim_seed", read.float("seed", 0.0)) as u64,
            start: start(&read, &faults)?,
            truth: read.text("sim_truth").map(PathBuf::from),
            faults,
        })
    }

    /// What memory planning needs.
    pub fn budget(&self) -> Budget {
        Budget {
            gpu_memory_utilization: self.gpu_memory_utilization,
            pipeline_parallel: self.pipeline_parallel,
            max_num_batched_tokens: self.limits.max_num_batched_tokens,
            max_num_seqs: self.limits.max_num_seqs,
            max_model_len: self.limits.max_model_len,
            block_size: self.limits.block_size,
            num_gpu_blocks_override: self.num_gpu_blocks_override,
        }
    }

    /// Whether this fault was asked for.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

/// A folder's model, or one by its name. A path that is not there is refused as the Hugging Face library does.
fn find_model(name: &str) -> Result<Model, Unusable> {
    let path = Path::new(name);
    if let Some(model) = Model::in_folder(path) {
        return model.map_err(|error| Unusable::Exception(format!("ValueError: {error}")));
    }
    let is_hub_name = !name.starts_with(['/', '.']) && name.matches('/').count() <= 1 && !name.is_empty();
    if is_hub_name && !path.is_dir() {
        return Ok(Model::named(name));
    }
    Err(Unusable::Exception(if path.is_dir() {
        format!("OSError: {name} does not appear to have a file named config.json.")
    } else {
        format!(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': \
             '{name}'. Use `repo_type` argument if needed."
        )
    }))
}

fn check_parallel(model: &Model, tensor_parallel: usize, world: usize, gpus: usize) -> Result<(), Unusable> {
    if !model.heads.is_multiple_of(tensor_parallel) {
        let heads = model.heads;
        return Err(value_error(
            "VllmConfig",
            &format!(
                "Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tensor_parallel})."
            ),
        ));
    }
    if world > gpus {
        return Err(value_error(
            "ParallelConfig",
            &format!("World size ({world}) is larger than the number of available GPUs ({gpus}) in this node."),
        ));
    }
    Ok(())
}

fn max_model_len(flags: &Flags, model: &Model) -> Result<usize, Unusable> {
    match flags.get("max_model_len").and_then(Value::as_i64) {
        None | Some(-1) => Ok(model.max_len),
        Some(asked) if asked >= 1 && asked as usize <= model.max_len => Ok(asked as usize),
        Some(asked) if asked < 1 => Err(value_error(
            "ModelConfig",
            &format!("max_model_len must be positive, got {asked}"),
        )),
        Some(asked) => Err(value_error(
            "ModelConfig",
            &format!(
                "User-specified max_model_len ({asked}) is greater than the derived max_model_len \
                 (max_position_embeddings={}.0 or model_max_length=None in model's config.json). To allow overriding this \
                 maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
                model.max_len
            ),
        )),
    }
}

/// vLLM's defaults for the API server by GPU (`vllm/engine/arg_utils.py`, 0.32) and its checks.
fn limits(read: &Reader, gpu: &Gpu, max_model_len: usize) -> Result<Limits, Unusable> {
    let gib = gpu.memory / (1u64 << 30) as f64;
    let (tokens, seqs) = match gib {
        160.0.. => (16_384, 1024),
        70.0.. if gpu.name != "a100" => (8192, 1024),
        _ => (2048, 256),
    };
    let chunked_prefill = read.on("enable_chunked_prefill", true);
    let asked_tokens = read.positive("max_num_batched_tokens", "SchedulerConfig")?;
    let asked_seqs = read.positive("max_num_seqs", "SchedulerConfig")?;
    let max_num_seqs = asked_seqs.unwrap_or_else(|| seqs.min(asked_tokens.unwrap_or(usize::MAX)));
    let max_num_batched_tokens = asked_tokens.unwrap_or_else(|| {
        let whole_prompt = if chunked_prefill { 0 } else { max_model_len };
        tokens.max(whole_prompt).max(max_num_seqs)
    });
    if max_num_batched_tokens < max_num_seqs {
        return Err(value_error(
            "SchedulerConfig",
            &format!(
                "max_num_batched_tokens ({max_num_batched_tokens}) must be greater than or equal to max_num_seqs \
                 ({max_num_seqs})."
            ),
        ));
    }
    if !chunked_prefill && max_num_batched_tokens < max_model_len {
        return Err(value_error(
            "SchedulerConfig",
            &format!(
                "max_num_batched_tokens ({max_num_batched_tokens}) is smaller than max_model_len ({max_model_len}). This \
                 effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer \
                 sequences. Please increase max_num_batched_tokens or decrease max_model_len."
            ),
        ));
    }
    Ok(Limits {
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
        block_size: read.positive("block_size", "CacheConfig")?.unwrap_or(16),
        num_blocks: 0,
        prefix_caching: read.on("enable_prefix_caching", true),
        chunked_prefill,
        long_prefill_token_threshold: read.float("long_prefill_token_threshold", 0.0).max(0.0) as usize,
        by_priority: read.text("scheduling_policy") == Some("priority"),
    })
}

/// Bytes of a weight, and whether the arithmetic is in 8 bits.
fn weights(read: &Reader) -> (f64, bool) {
    let dtype = if matches!(read.text("dtype"), Some("float" | "float32")) {
        4.0
    } else {
        2.0
    };
    match read.text("quantization").unwrap_or_default() {
        "" | "none" => (dtype, false),
        name if name.contains("fp8") || name.contains("int8") || name == "modelopt" => (1.0, true),
        // Four bits and their scales; the arithmetic stays in 16 bits.
        name if ["awq", "gptq", "fp4", "int4", "bitsandbytes"]
            .iter()
            .any(|four| name.contains(four)) =>
        {
            (0.56, false)
        }
        _ => (1.0, true),
    }
}

fn speed(read: &Reader) -> Result<f64, Unusable> {
    if read.on("sim_zero", false) {
        return Ok(f64::INFINITY);
    }
    let speed = read.float("sim_speed", 1.0);
    let usable = speed > 0.0 && speed.is_finite();
    usable
        .then_some(speed)
        .ok_or_else(|| Unusable::Flag(format!("argument --sim-speed: must be above 0, got '{speed}'")))
}

fn noise(read: &Reader) -> Result<f64, Unusable> {
    let noise = read.float("sim_noise", 0.02);
    let usable = (0.0..=2.0).contains(&noise);
    usable
        .then_some(noise)
        .ok_or_else(|| Unusable::Flag(format!("argument --sim-noise: must be 0 to 2, got '{noise}'")))
}

fn port(flags: &Flags) -> Result<u16, Unusable> {
    let port = flags.get("port").and_then(Value::as_i64).unwrap_or(8000);
    u16::try_from(port).map_err(|_| Unusable::Exception("OverflowError: bind(): port must be 0-65535.".into()))
}

/// Time from launch to ready: short unless asked otherwise, so that a sweep of many servers is a demo and not a wait.
fn start(read: &Reader, faults: &[Fault]) -> Result<Duration, Unusable> {
    if let Some(Fault::SlowStart(time)) = faults.iter().find(|fault| matches!(fault, Fault::SlowStart(_))) {
        return Ok(*time);
    }
    let text = read.text("sim_start").unwrap_or("600ms");
    humantime::parse_duration(text).map_err(|error| {
        Unusable::Flag(format!(
            "argument --sim-start: '{text}' is not a duration such as 600ms or 2s: {error}"
        ))
    })
}

fn faults(read: &Reader, environment: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Fault>, Unusable> {
    let mut words = read.texts("sim_fault");
    let from_environment = environment("VSWEEP_SIM_FAULT").unwrap_or_default();
    words.extend(
        from_environment
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_string),
    );
    let parse = |word: &String| Fault::parse(word).map_err(|e| Unusable::Flag(format!("argument --sim-fault: {e}")));
    words.iter().map(parse).collect()
}
