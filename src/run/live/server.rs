//! Bringing a server up, and emptying its caches.

use super::attached::replaced;
use super::{Live, Running, planned};
use crate::agenda::{ActionOutcome, ReadyInfo};
use crate::bench;
use crate::cause::Failure;
use crate::checks::AnswerCheck;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::journal::{Launch as LaunchId, ServerReady};
use crate::plan::{Params, Program, ServeCommand, Target};
use crate::run::attached::attach;
use crate::run::hardware::Hardware;
use crate::server::address::Address;
use crate::server::{self, Identity, Launch, Server, create_log, diagnose, startup};
use crate::table::count_gpus;
use crate::telemetry::nvml::Gpus;
use crate::units::show_many;
use crate::validity::Doubt;
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for a ready server to report its KV cache. The answer saves only a run or two.
const LIMIT: Duration = Duration::from_secs(10);
/// Time limit for a server to give up the requests of a run that was cut.
const IDLES: Duration = Duration::from_secs(20);

impl Live<'_, '_> {
    /// Starts the server and waits until it is ready.
    pub(super) async fn start(&mut self, launch: LaunchId) -> Result<ActionOutcome> {
        self.refuse_stranger()?;
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
        let launched = Instant::now();
        let identity = match self.bring_up(log).await {
            Ok(identity) => identity,
            Err(failure) => return Ok(ActionOutcome::Started(Err(failure))),
        };
        let behind = match self.recognise_attached().await? {
            Ok(behind) => behind,
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
                identity: behind.clone().map(Box::new),
                answers: answers.map(Box::new),
                ..ServerReady::default()
            },
            kv_tokens: self.kv_tokens().await,
        };
        let gpus = Arc::new(self.gpus(&identity));
        let log = self.log.as_ref().map(|log| diagnose::read_log(log, 0));
        let unlike = self.unlike(behind.as_ref(), log.as_deref()).await;
        let hardware = Hardware::of(&self.config.argv, &self.config.env, self.device().as_deref());
        let running = self.ready();
        running.unlike = unlike;
        if let Some(log) = log {
            running.startup = startup::phases(&log);
            running.startup.insert("startup_s".to_owned(), seconds.into());
        }
        running.hardware = hardware;
        running.gpus = gpus;
        running.identity = Some(identity);
        running.behind = behind;
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

    /// A port that a stranger holds makes every server of the plan fail, which says nothing about any of them.
    fn refuse_stranger(&self) -> Result<()> {
        let address = Address::read(&self.config.argv).ok();
        match address.and_then(|address| address.taken()).filter(|taken| taken.stays) {
            None => Ok(()),
            Some(taken) => Err(Error::Fatal(format!(
                "{}; stop that process and give the same command again: what is recorded is kept",
                taken.failure.detail
            ))),
        }
    }

    /// Too few nodes for one server are too few for all of them.
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
                 it in an allocation: salloc --nodes={wanted} vsweep run ...",
                show_many(nodes.len() as u64, "node")
            ))),
        }
    }

    /// Waits until the machine is as it was, launches the server (or attaches to it) and waits until it is ready.
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
                self.release_wait.wait(&launch.argv, &launch.env).await?;
                before = self.visible_gpus().processes();
                Server::spawn(&launch, file).await?
            }
        };
        // From now on there is a process to end, whatever happens.
        let running = self.running.insert(Running {
            server,
            identity: None,
            behind: None,
            hardware: None,
            gpus: Arc::new(Gpus::none()),
            before,
            unlike: None,
            startup: Params::new(),
            has_leftovers: false,
        });
        running.server.ready().await
    }

    /// Returns the differences of the server from the plan, if it is vLLM and reports them.
    async fn unlike(&mut self, behind: Option<&Fingerprint>, log: Option<&str>) -> Option<Doubt> {
        let config = self.config.clone();
        let logged = log.and_then(planned::logged);
        let program = ServeCommand::of(&config.argv).program();
        let is_known = logged.is_some() || matches!(program, Program::Vllm | Program::Simulator);
        let logged = logged.unwrap_or_default();
        match behind {
            Some(read) => planned::doubt(&config, read, &logged),
            None if is_known => planned::doubt(&config, &self.ready().server.read_identity().await.ok()?, &logged),
            None => None,
        }
    }

    /// The size of the KV cache, which tells a search where to start.
    async fn kv_tokens(&mut self) -> Option<u64> {
        self.plan.sla.as_ref()?;
        let http = self.ready().server.http();
        let metrics = http.page("/metrics", LIMIT).await?;
        bench::kv_cache_tokens(&metrics.body)
    }

    /// The GPUs to watch. A simulated server uses none, and those of another machine cannot be read; how many of this
    /// machine's an attached server uses is not known, so all of them are watched.
    fn gpus(&mut self, identity: &Identity) -> Gpus {
        if identity.simulated || !self.ready().server.is_local() {
            return Gpus::none();
        }
        self.visible_gpus().owned_since(&self.ready().before)
    }

    /// The name of the machine's GPUs, if they are all alike.
    fn device(&self) -> Option<String> {
        let machine = self
            .writer
            .with(|recorder| recorder.state().machine_of(recorder.nonce()))?;
        machine.gpus.into_iter().map(|gpu| gpu.name).all_equal_value().ok()
    }

    /// The first GPUs that its environment shows, as many as it uses.
    pub(super) fn visible_gpus(&self) -> Gpus {
        let config = &self.config;
        let count = match self.allocation.gpus.len() {
            0 => (!config.argv.is_empty()).then(|| count_gpus(&config.params, &config.argv) as usize),
            given => Some(given),
        };
        Gpus::of_server(&self.env(), count)
    }

    /// The server's environment: that of the plan, and variables that keep it on its GPUs. The latter are not part of its identity.
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.config.env.clone();
        env.extend(self.allocation.env());
        env
    }

    /// Empties the caches. `Err` says what the server refused.
    pub(super) async fn reset(&mut self) -> std::result::Result<(), String> {
        let reset = &self.plan.serve.reset;
        self.settle().await;
        self.ready().server.reset(reset).await
    }

    /// Waits until the server has given up the requests of a run that was cut.
    pub(super) async fn settle(&mut self) {
        let running = self.ready();
        if std::mem::take(&mut running.has_leftovers) {
            running.server.idle(IDLES).await;
        }
    }
}
