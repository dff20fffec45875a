//! Starts a server, compares its settings with the plan, and empties its caches.

use super::attached::replaced;
use super::{Live, Running};
use crate::agenda::{ActionOutcome, ReadyInfo};
use crate::bench;
use crate::cause::Failure;
use crate::checks::AnswerCheck;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::journal::{Launch as LaunchId, ServerReady};
use crate::matrix::ServerConfig;
use crate::plan::{Params, Program, ServeCommand, Target, show, spelling};
use crate::printable::printable;
use crate::run::attached::attach;
use crate::run::hardware::Hardware;
use crate::server::address::Address;
use crate::server::{self, Identity, Launch, Server, create_log, diagnose, startup};
use crate::table::count_gpus;
use crate::telemetry::nvml::Gpus;
use crate::units::show_many;
use crate::validity::{Code, Doubt};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for a ready server to report its KV cache. The answer saves a search only a run or two.
const KV_CACHE_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for a server to give up the requests of a run that was cut.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

impl Live<'_, '_> {
    /// Starts the server, once earlier servers have released their port and GPU memory, and waits until it is ready.
    pub(super) async fn start(&mut self, launch: LaunchId) -> Result<ActionOutcome> {
        self.require_free_port()?;
        self.require_nodes()?;
        let log = match self.plan.serve.target {
            Target::Launch(_) => {
                let id = &self.config.id;
                let directory = self.writer.with(|recorder| recorder.directory().clone());
                let log = directory.server_log(id, launch);
                log.parent().map_or(Ok(()), |folder| directory.create_folder(folder))?;
                // The server is not at fault if the log cannot be written.
                let file = create_log(&log).map_err(Error::io("create", &log))?;
                self.log = Some(log.clone());
                Some((log, file))
            }
            Target::Attach(_) => None,
        };
        if log.is_some()
            && let Err(failure) = self.release_wait.wait(&self.config.argv, &self.env()).await
        {
            return Ok(ActionOutcome::Started(Err(failure)));
        }
        let launched = Instant::now();
        let identity = match self.bring_up(log).await {
            Ok(identity) => identity,
            Err(failure) => return Ok(ActionOutcome::Started(Err(failure))),
        };
        let fingerprint = match self.recognise_attached().await? {
            Ok(fingerprint) => fingerprint,
            Err(differences) => return Ok(replaced(&differences)),
        };
        let seconds = launched.elapsed().as_secs_f64();
        let answers = self.ask(&identity).await;
        let facts = ReadyInfo {
            recorded: ServerReady {
                seconds,
                model: identity.served_model.clone(),
                version: identity.version.clone(),
                simulated: identity.simulated,
                identity: fingerprint.clone().map(Box::new),
                answers: answers.map(Box::new),
                ..ServerReady::default()
            },
            kv_tokens: self.kv_tokens().await,
        };
        let gpus = Arc::new(self.gpus(&identity));
        let log = self.log.as_ref().map(|log| diagnose::read_log(log, 0));
        let not_as_planned = self.not_as_planned(fingerprint.as_ref(), log.as_deref()).await;
        let hardware = Hardware::of(&self.config.argv, &self.config.env, self.device().as_deref());
        let running = self.ready();
        running.not_as_planned = not_as_planned;
        if let Some(log) = log {
            running.startup = startup::phases(&log);
            running.startup.insert("startup_s".to_owned(), seconds.into());
        }
        running.hardware = hardware;
        running.gpus = gpus;
        running.identity = Some(identity);
        running.fingerprint = fingerprint;
        Ok(ActionOutcome::Started(Ok(facts)))
    }

    /// Asks the fixed questions before anything is measured. If the server dies or hangs, the first run reports it.
    async fn ask(&mut self, identity: &Identity) -> Option<AnswerCheck> {
        if !self.plan.serve.answer_check {
            return None;
        }
        let limit = self.plan.serve.hang_timeout;
        let running = self.ready();
        let answers = running.server.ask(identity, limit).await;
        running.has_leftovers = matches!(answers, AnswerCheck::Refused(_));
        Some(answers)
    }

    /// Fails the sweep if another program holds the server's port. Every server of the plan would fail because of it, without a fault of
    /// its own.
    fn require_free_port(&self) -> Result<()> {
        let address = Address::read(&self.config.argv).ok();
        match address.and_then(|address| address.taken()).filter(|(_, stays)| *stays) {
            None => Ok(()),
            Some((failure, _)) => Err(Error::Fatal(format!(
                "{}; stop that process and run the same command again: what is recorded is kept",
                failure.detail
            ))),
        }
    }

    /// Fails the sweep if there are fewer nodes than a server needs. Each server of the plan needs as many.
    fn require_nodes(&self) -> Result<()> {
        let wanted = self.plan.serve.protocol.members.nodes;
        if wanted < 2 {
            return Ok(());
        }
        let nodes = server::nodes().map_err(Error::Fatal)?;
        match nodes.len() < wanted as usize {
            false => Ok(()),
            true => Err(Error::Fatal(format!(
                "each server takes {wanted} nodes (serve.nodes), and there is {}; hand the plan to Slurm with `vsweep submit --slurm`, or run \
                 it in an allocation: salloc --nodes={wanted} srun --nodes=1 --ntasks=1 --overlap vsweep run ...",
                show_many(nodes.len() as u64, "node")
            ))),
        }
    }

    /// Launches the server or attaches to it, and waits until it is ready.
    async fn bring_up(&mut self, log: Option<(PathBuf, File)>) -> std::result::Result<Identity, Failure> {
        let serve = &self.plan.serve;
        let mut before = BTreeSet::new();
        let server = match &serve.target {
            Target::Attach(url) => attach(url, serve),
            Target::Launch(_) => {
                let (log, file) = log.expect("a launch has a log");
                let launch = Launch {
                    argv: self.config.argv.clone(),
                    env: self.env(),
                    cpus: self.allocation.cpus.clone(),
                    log,
                    ready_timeout: serve.ready_timeout,
                    stop_grace: serve.stop_grace,
                    hang_timeout: serve.hang_timeout,
                    protocol: serve.protocol.clone(),
                };
                before = self.visible_gpus().processes();
                Server::spawn(&launch, file).await?
            }
        };
        // From now on there is a process to end, whatever happens.
        let running = self.running.insert(Running {
            server,
            identity: None,
            fingerprint: None,
            hardware: None,
            gpus: Arc::new(Gpus::default()),
            before,
            not_as_planned: None,
            startup: Params::new(),
            has_leftovers: false,
        });
        running.server.ready().await
    }

    /// Returns a doubt about the differences of the server from the plan, if the server or its log reports any.
    async fn not_as_planned(&mut self, fingerprint: Option<&Fingerprint>, log: Option<&str>) -> Option<Doubt> {
        let config = self.config.clone();
        let logged = log.and_then(logged);
        let program = ServeCommand::of(&config.argv).program();
        let is_known = logged.is_some() || matches!(program, Program::Vllm | Program::Simulator);
        let logged = logged.unwrap_or_default();
        match fingerprint {
            Some(read) => doubt(&config, read, &logged),
            None if is_known => doubt(&config, &self.ready().server.read_identity().await.ok()?, &logged),
            None => None,
        }
    }

    /// Returns the size of the KV cache in tokens, from which a search derives its starting load.
    async fn kv_tokens(&mut self) -> Option<u64> {
        self.plan.sla.as_ref()?;
        let http = self.ready().server.http();
        let metrics = http.page("/metrics", KV_CACHE_LIMIT).await?;
        bench::kv_cache_tokens(&metrics.body)
    }

    /// Returns the GPUs to watch. A simulated server uses none, and the GPUs of another machine cannot be read. The number of GPUs that an
    /// attached server uses is unknown, so all visible ones are watched.
    fn gpus(&mut self, identity: &Identity) -> Gpus {
        if identity.simulated || !self.ready().server.is_local() {
            return Gpus::default();
        }
        self.visible_gpus().owned_since(&self.ready().before)
    }

    /// Returns the name of the machine's GPUs, if all have the same name.
    fn device(&self) -> Option<String> {
        let machine = self
            .writer
            .with(|recorder| recorder.state().machine_of(recorder.nonce()))?;
        machine.gpus.into_iter().map(|gpu| gpu.name).all_equal_value().ok()
    }

    /// Returns the first GPUs that are visible in the server's environment, as many as the server uses.
    pub(super) fn visible_gpus(&self) -> Gpus {
        let config = &self.config;
        let count = match self.allocation.gpus.len() {
            0 if config.argv.is_empty() => None,
            0 => count_gpus(&config.params, &config.argv).map(|gpus| gpus as usize),
            given => Some(given),
        };
        Gpus::of_server(&self.env(), count)
    }

    /// Returns the environment that the plan gives the server, with variables that keep the server on its GPUs. These variables are not
    /// part of its identity.
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.config.env.clone();
        env.extend(self.allocation.env());
        env
    }

    /// Empties the caches. An error is the server's refusal.
    pub(super) async fn reset(&mut self) -> std::result::Result<(), String> {
        let reset = &self.plan.serve.reset;
        self.settle().await;
        self.ready().server.reset(reset).await
    }

    /// Waits until the server has given up the requests of a run that was cut.
    pub(super) async fn settle(&mut self) {
        let running = self.ready();
        if std::mem::take(&mut running.has_leftovers) {
            running.server.idle(IDLE_LIMIT).await;
        }
    }
}

// Checks that a server runs with the planned settings: compares its reported settings with its command line, or with the parameters of the
// plan if vsweep did not start it.
//
// Only settings that the plan gives are compared, and only values that vLLM takes unchanged: numbers, switches and names of number
// formats. A setting that a server reports neither through its API nor in its log is not a difference.

/// Settings that a server may report under the names of its flags.
const NAMES: [&str; 12] = [
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "block_size",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "dtype",
];

/// Words of vLLM's log before the flags that it was given.
const LOGGED: &str = "non-default args: {";

/// Value of a flag that is missing from the log and would be there if it had been given.
const NOT_GIVEN: &str = "what the server chose";

/// Settings by name, as a log reports them.
pub(super) type LogSettings = BTreeMap<&'static str, String>;

/// Returns a doubt about every run on a server that runs with other settings than the plan gives; `None` if no difference is known.
pub(super) fn doubt(config: &ServerConfig, read: &Fingerprint, logged: &LogSettings) -> Option<Doubt> {
    let difference = |name: &&str| difference(name, config, read, logged);
    let differences: Vec<String> = NAMES.iter().filter_map(difference).collect();
    (!differences.is_empty()).then(|| Doubt::new(Code::NotAsPlanned, differences.join(", ")))
}

/// Reads settings from a log of vLLM. `None` if it is another program's, or if several servers wrote it.
pub(super) fn logged(log: &str) -> Option<LogSettings> {
    let mut lines = log.lines().filter_map(|line| line.split_once(LOGGED));
    let (Some((_, given)), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let value_of = |name: &'static str| {
        let value = given.split_once(&format!("'{name}': ")).map(|(_, rest)| {
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            printable(rest[..end].trim_matches('\'')).into_owned()
        });
        let default = match name {
            "tensor_parallel_size" | "pipeline_parallel_size" | "data_parallel_size" => "1",
            "max_num_seqs" | "max_num_batched_tokens" => NOT_GIVEN,
            _ => return Some((name, value?)),
        };
        Some((name, value.unwrap_or_else(|| default.to_owned())))
    };
    Some(NAMES.into_iter().filter_map(value_of).collect())
}

fn difference(name: &str, config: &ServerConfig, read: &Fingerprint, logged: &LogSettings) -> Option<String> {
    let planned = planned(name, config)?;
    let answered = match name {
        "max_model_len" => read.max_model_len.map(|tokens| tokens.to_string()),
        _ => read.settings.get(name).cloned(),
    };
    let actual = answered.or_else(|| logged.get(name).cloned())?;
    let is_same = match (comparable(&planned), comparable(&actual)) {
        (Some(Comparable::Number(a)), Some(Comparable::Number(b))) => (a - b).abs() <= 1e-9 * a.abs(),
        (Some(Comparable::Word(a)), Some(Comparable::Word(b))) => a == b,
        (Some(Comparable::Number(_)), None) => actual != NOT_GIVEN,
        // Values such as `auto` and `8k` are resolved by the server, so they are not compared.
        _ => true,
    };
    (!is_same).then(|| format!("{name} is {actual} instead of {planned}"))
}

/// Returns the planned value of a setting.
fn planned(name: &str, config: &ServerConfig) -> Option<String> {
    if config.argv.is_empty() {
        return spelling::find(&config.params, name).map(show);
    }
    let command = ServeCommand::of(&config.argv);
    // The switches are `enable_…` and `enforce_eager`.
    let is_switch = name.starts_with("en");
    match command.value(name) {
        Some(value) if !is_switch || comparable(value).is_some() => Some(value.to_owned()),
        _ if !is_switch => None,
        _ if command.has(name) => Some("true".to_owned()),
        _ => command.has(&format!("no_{name}")).then(|| "false".to_owned()),
    }
}

/// A value that means the same in the plan and in the server's reports.
enum Comparable {
    Number(f64),
    Word(&'static str),
}

fn comparable(value: &str) -> Option<Comparable> {
    if let Some(number) = value.parse().ok().filter(|number: &f64| *number > 0.0) {
        return Some(Comparable::Number(number));
    }
    Some(Comparable::Word(match value.trim_start_matches("torch.") {
        "True" | "true" => "true",
        "False" | "false" => "false",
        "bfloat16" => "bfloat16",
        "float16" | "half" => "float16",
        "float32" | "float" => "float32",
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ServerId;
    use crate::plan::Params;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn config(line: &str, params: Params) -> ServerConfig {
        ServerConfig {
            id: ServerId::default(),
            name: String::new(),
            argv: line.split_whitespace().map(str::to_owned).collect(),
            env: BTreeMap::new(),
            params,
            combo: None,
            index: 0,
        }
    }

    /// The report of a real vLLM.
    fn real() -> Fingerprint {
        let settings = [
            ("max_num_seqs", "64"),
            ("dtype", "torch.bfloat16"),
            ("enable_prefix_caching", "True"),
            ("gpu_memory_utilization", "0.92"),
            ("block_size", "128"),
        ];
        Fingerprint {
            max_model_len: Some(2048),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Fingerprint::default()
        }
    }

    #[test]
    fn only_settings_that_the_plan_gives_and_the_server_reports_can_differ() {
        let doubted =
            |line: &str| doubt(&config(line, Params::new()), &real(), &LogSettings::new()).map(|doubt| doubt.detail);
        for line in [
            "vllm serve m",
            "vllm serve m --max-num-seqs 64 --max_model_len=2048 --dtype bfloat16 --enable-prefix-caching --port 1",
            "vllm serve m --max-model-len 2k --dtype auto --gpu-memory-utilization 0.920 --tensor-parallel-size 4",
        ] {
            assert_eq!(doubted(line), None, "{line}");
        }
        let wrong = "vllm serve m --max-num-seqs 128 --dtype half --no-enable-prefix-caching --max-model-len 4096";
        let said = "max_model_len is 2048 instead of 4096, max_num_seqs is 64 instead of 128, \
                    enable_prefix_caching is True instead of false, dtype is torch.bfloat16 instead of half";
        assert_eq!(doubted(wrong).as_deref(), Some(said));
    }

    #[test]
    fn an_attached_server_is_compared_with_the_parameters() {
        let params = json!({"max-num-seqs": 32, "block_size": 128});
        let config = config("", params.as_object().cloned().expect("parameters"));
        let doubt = doubt(&config, &real(), &LogSettings::new()).expect("one differs");
        assert_eq!(
            (doubt.code, &*doubt.detail),
            (Code::NotAsPlanned, "max_num_seqs is 64 instead of 32")
        );
    }

    #[test]
    fn what_a_log_says_of_flags_that_never_arrived_counts() {
        let log = "(APIServer pid=7) INFO 11-20 09:36:47 [api_utils.py:286] non-default args: {'model_tag': 'm', 'port': 8100, \
                   'dtype': 'bfloat16', 'max_model_len': 2048, 'enforce_eager': True, 'served_model_name': ['tiny'], 'block_size': 16}\n";
        let logged = logged(log).expect("flags of vLLM");
        let doubted = |line: &str| {
            doubt(&config(line, Params::new()), &Fingerprint::default(), &logged).map(|doubt| doubt.detail)
        };
        for line in [
            "docker run image serve m --enforce-eager --dtype auto --max-model-len 2048 --tensor-parallel-size 1",
            "vllm serve m --gpu-memory-utilization 0.9",
        ] {
            assert_eq!(doubted(line), None, "{line}");
        }
        let wrong = "docker run image serve m --max-num-seqs 8 --block-size 32 --tensor-parallel-size 2 --dtype half";
        let said = "tensor_parallel_size is 1 instead of 2, max_num_seqs is what the server chose instead of 8, \
                    block_size is 16 instead of 32, dtype is bfloat16 instead of half";
        assert_eq!(doubted(wrong).as_deref(), Some(said));
        assert!(super::logged(&log.repeat(2)).is_none() && super::logged("INFO ready").is_none());
    }
}
