//! Interprets the command line: vLLM's defaults, its checks that do not need a GPU, and the simulator's own settings.

mod engine;
mod own;

use super::engine::cost::{Constants, CostModel};
use super::engine::gpu::{GPUS, Gpu};
use super::engine::model::Model;
use super::engine::noise::{Noise, Spread, mix_text};
use super::engine::{Engine, Limits};
use super::fault::Fault;
use super::flags::{Flags, Refusal};
use super::neighbours::{ContentionFactor, CrossTalk};
use super::phases::StartPhases;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vsweep_metrics::rng::mix;

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The name or folder of the model, as given.
    pub model: String,
    /// Names under which the model is served. Answers carry the first one.
    pub served_names: Vec<String>,
    /// Adapters served in addition to the model.
    pub adapters: Vec<Adapter>,
    /// Address to listen on.
    pub host: String,
    /// True if it has an engine but no port, as on the further nodes of a server.
    pub is_headless: bool,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Keys of which a request must carry one; empty if none is needed.
    pub api_keys: Vec<String>,
    /// True if the development routes exist (`VLLM_SERVER_DEV_MODE=1`).
    pub dev_mode: bool,
    /// True if every request is logged.
    pub access_log: bool,
    /// True if streams end with usage even if it was not requested.
    pub force_usage: bool,
    /// Grace period for requests in flight when the server is stopped.
    pub shutdown_timeout: Duration,
    /// Limits of the scheduler and the KV cache. `num_blocks` is 0 until the memory is planned.
    pub limits: Limits,
    /// Model of the step times.
    pub cost: CostModel,
    /// Deviations of times from the model.
    pub spread: Spread,
    /// Configured slow-down by other servers of the node.
    pub cross_talk: CrossTalk,
    /// Current slow-down by other servers of the node.
    pub contention: ContentionFactor,
    /// Seed of noise, answers and random faults.
    pub seed: u64,
    /// Hash that distinguishes servers by their settings, without address, seeds and truth file.
    pub server: u64,
    /// Duration of the whole start. If unset, its phases take as long as the model says.
    pub start: Option<Duration>,
    /// Folder that is used as vLLM's cache of compiled graphs, if any.
    pub compile_cache: Option<PathBuf>,
    /// Folder with the activity and the held GPU memory of all servers of the node, if any (`VSWEEP_SIM_GPUS`).
    pub node: Option<PathBuf>,
    /// `CUDA_VISIBLE_DEVICES`, if set.
    pub devices: Option<String>,
    /// Path of the truth file, which gets the true times of each sequence, if any.
    pub truth: Option<PathBuf>,
    /// Faults of the server.
    pub faults: Vec<Fault>,
}

/// An adapter that is served, given by `--lora-modules name=path` or as JSON. It has a name and shares no cached prefix, but adds no cost.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Adapter {
    /// The name that requests ask for.
    pub name: String,
    /// Path from which it would be loaded.
    pub path: String,
}

impl Adapter {
    fn read(text: &str) -> Result<Adapter, Refusal> {
        let refuse = |why: String| Refusal::argument("lora_modules", why);
        match text.split_once('=') {
            _ if text.trim_start().starts_with('{') => serde_json::from_str(text).map_err(|_| {
                refuse(format!(
                    "Invalid fields for --lora-modules: {text} - missing name or path"
                ))
            }),
            Some((name, path)) => Ok(Adapter {
                name: name.into(),
                path: path.into(),
            }),
            None => Err(refuse(format!("Invalid JSON format for --lora-modules: {text}"))),
        }
    }
}

/// Returns the value of a flag, which must be a positive integer, or pydantic's error for a smaller one.
fn positive(flags: &Flags, name: &str, class: &str) -> Result<Option<usize>, Refusal> {
    let value = flags.get(name).and_then(Value::as_i64);
    let Some(value) = value.filter(|value| *value < 1) else {
        return Ok(value.map(|value| value as usize));
    };
    let found = format!("[type=greater_than_equal, input_value={value}, input_type=int]");
    let why = format!("{name}\n  Input should be greater than or equal to 1 {found}");
    Err(validation(class, &why))
}

fn exception(text: String) -> Refusal {
    Refusal::Exception("vllm/engine/arg_utils.py", text)
}

fn validation(class: &str, message: &str) -> Refusal {
    exception(format!(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for {class}\n{message}"
    ))
}

fn value_error(class: &str, message: &str) -> Refusal {
    validation(
        class,
        &format!("  Value error, {message} [type=value_error, input_type=ArgsKwargs]"),
    )
}

impl ServerSettings {
    /// Resolves the flags. `environment` looks up a variable.
    pub fn resolve(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<ServerSettings, Refusal> {
        let seed = flags.float("sim_seed", flags.float("seed", 0.0)) as u64;
        let server = fingerprint(flags);
        let faults = own::faults(flags, environment, mix(seed ^ server))?;
        let flags = &flags.without(|name| faults.contains(&Fault::IgnoreFlag(name.to_owned())));
        let name = flags.model().unwrap_or("Qwen/Qwen3-0.6B").to_string();
        let model = find_model(&name)?;
        let gpu = match flags.text("sim_gpu") {
            None => GPUS[0],
            Some(name) => Gpu::named(name).ok_or_else(|| {
                let names = GPUS.map(|gpu| gpu.name).join(", ");
                Refusal::argument("sim_gpu", format!("unknown GPU '{name}': use one of {names}"))
            })?,
        };

        let parallel = |name, default| Ok(positive(flags, name, "ParallelConfig")?.unwrap_or(default));
        let tensor_parallel = parallel("tensor_parallel_size", 1)?;
        let pipeline_parallel = parallel("pipeline_parallel_size", 1)?;
        let data_parallel = parallel("data_parallel_size", 1)?;
        let world = tensor_parallel * pipeline_parallel * data_parallel;
        engine::check_parallel(&model, tensor_parallel, world, parallel("sim_gpus", 8)?)?;
        let limits = engine::limits(flags, &gpu, &model)?;
        let (weight_bytes, eight_bit) = engine::weights(flags, &model);
        let speculation = engine::speculation(flags, &model)?;
        let has_eight_bit_cache = flags
            .text("kv_cache_dtype")
            .is_some_and(|dtype| dtype.starts_with("fp8"));
        let cost = CostModel {
            gpu,
            model,
            tensor_parallel,
            pipeline_parallel,
            data_parallel,
            speculation,
            weight_bytes,
            kv_bytes: if has_eight_bit_cache { 1.0 } else { 2.0 },
            eight_bit,
            eager: flags.is_on("enforce_eager", false),
            speed: own::speed(flags)?,
            constants: Constants::default(),
        };
        let adapters = flags.texts("lora_modules").into_iter().map(|text| Adapter::read(&text));
        let mut served_names = flags.texts("served_model_name");
        if served_names.is_empty() {
            served_names.push(name.clone());
        }
        Ok(ServerSettings {
            model: name,
            served_names,
            adapters: adapters.collect::<Result<_, _>>()?,
            host: flags.text("host").unwrap_or("127.0.0.1").to_string(),
            is_headless: flags.get("headless").is_some(),
            port: port(flags)?,
            api_keys: flags.texts("api_key"),
            dev_mode: environment("VLLM_SERVER_DEV_MODE").is_some_and(|value| value == "1"),
            access_log: !flags.is_on("disable_uvicorn_access_log", false)
                && !matches!(flags.text("uvicorn_log_level"), Some("warning" | "error" | "critical")),
            force_usage: flags.is_on("enable_force_include_usage", false),
            shutdown_timeout: Duration::from_secs(flags.float("shutdown_timeout", 0.0).max(0.0) as u64),
            limits,
            cost,
            spread: own::spread(flags)?,
            cross_talk: own::cross_talk(flags)?,
            contention: ContentionFactor::default(),
            seed,
            server,
            start: own::start(flags, &faults)?,
            compile_cache: flags.text("sim_compile_cache").map(PathBuf::from),
            node: environment("VSWEEP_SIM_GPUS").map(PathBuf::from),
            devices: environment("CUDA_VISIBLE_DEVICES"),
            truth: flags.text("sim_truth").map(PathBuf::from),
            faults,
        })
    }

    /// Returns the engine of one replica; `limits.num_blocks` must be set before. Ids of generated tokens are less than `vocabulary`.
    pub fn engine(&self, vocabulary: u32, replica: u64) -> Engine {
        let noise = Noise::new(mix(self.seed ^ replica), mix(self.server ^ replica), self.spread);
        Engine::new(self.limits.clone(), self.cost.clone(), noise, vocabulary).with_contention(self.contention.clone())
    }

    /// Returns the duration of each phase of the start.
    pub fn phases(&self) -> StartPhases {
        self.phases_if(self.graph_cache().is_some_and(|path| path.is_file()))
    }

    /// Returns the duration of each phase, with (`warm`) or without compiled graphs in the cache.
    pub fn phases_if(&self, warm: bool) -> StartPhases {
        let phases = StartPhases::of(&self.cost, self.limits.max_num_seqs, warm);
        match self.start {
            None => phases,
            Some(total) => phases.scaled_to(total),
        }
    }

    /// Returns the path of the file that exists if the graphs of this model are in the cache; `None` without a cache.
    pub fn graph_cache(&self) -> Option<PathBuf> {
        let hash = mix_text(0, &self.graphs());
        let folder = self.compile_cache.as_ref()?;
        Some(folder.join(format!("{hash:016x}")).join("graphs"))
    }

    /// Returns the settings on which the compiled graphs depend. Servers with equal ones share their graphs.
    pub fn graphs(&self) -> String {
        let cost = &self.cost;
        let (model, gpu) = (&self.model, cost.gpu.name);
        format!("{model} {} {} {gpu}", cost.tensor_parallel, cost.weight_bytes)
    }

    /// Number of GPUs that the server uses.
    pub fn gpus(&self) -> usize {
        self.cost.tensor_parallel * self.cost.pipeline_parallel * self.cost.data_parallel
    }

    /// Returns true if this fault is set.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

/// Returns a hash of the flags, without the address, the seeds and the truth file.
fn fingerprint(flags: &Flags) -> u64 {
    let left_out = ["port", "host", "sim_truth", "sim_seed", "seed"];
    let text = format!("{:?}", flags.without(|name| left_out.contains(&name)));
    mix_text(0, &text)
}

/// Returns the model in a folder, or the model that a name means. A path that does not exist gets the Hugging Face library's error.
fn find_model(name: &str) -> Result<Model, Refusal> {
    let path = Path::new(name);
    if let Some(model) = Model::in_folder(path) {
        return model.map_err(|error| exception(format!("ValueError: {error}")));
    }
    let is_hub_name = !name.starts_with(['/', '.']) && name.matches('/').count() <= 1 && !name.is_empty();
    if is_hub_name && !path.is_dir() {
        return Ok(Model::named(name));
    }
    Err(exception(if path.is_dir() {
        format!("OSError: {name} does not appear to have a file named config.json.")
    } else {
        format!(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': \
             '{name}'. Use `repo_type` argument if needed."
        )
    }))
}

fn port(flags: &Flags) -> Result<u16, Refusal> {
    let port = flags.get("port").and_then(Value::as_i64).unwrap_or(8000);
    u16::try_from(port).map_err(|_| exception("OverflowError: bind(): port must be 0-65535.".into()))
}
