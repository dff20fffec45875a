//! The server of a group: there when a run needs it, gone when the group ends, every change of its state recorded.

use super::behind::Known;
use super::{GroupSession, Running, Start};
use crate::cause::Failure;
use crate::error::{Error, Result};
use crate::files::create_folder;
use crate::journal::{Event, FIRST_SLOT, Launch as LaunchId};
use crate::plan::{Plan, Reset, Target};
use crate::run::gate::Gate;
use crate::run::{Group, Warmth, record};
use crate::server::address::{Address, Taken};
use crate::server::{Identity, Launch, Server};
use crate::table::count_gpus;
use crate::telemetry::nvml::Gpus;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

impl GroupSession<'_, '_> {
    /// Makes sure that a ready server is there, a fresh one if the plan wants one for each run.
    pub(super) async fn ensure_ready(&mut self) -> Result<Start> {
        let is_used = self.running.as_ref().is_some_and(|running| running.is_used);
        if is_used && self.plan.serve.reset == Reset::Restart {
            self.stop(None).await?;
        }
        if let Some(start) = self.recognise_running().await? {
            return Ok(start);
        }
        self.refuse_stranger()?;
        let server_id = self.group.server.id.clone();
        let launch = self.recorder.next_launch();
        let session = self.recorder.nonce();
        let log = self
            .recorder
            .directory()
            .server_log(&server_id, LaunchId { session, n: launch });
        record(
            self.recorder,
            self.observer,
            Event::ServerStarting {
                server: server_id.clone(),
                slot: FIRST_SLOT,
                launch,
            },
        )?;
        if let Some(folder) = log.parent() {
            create_folder(folder)?;
        }
        let launched = Instant::now();
        let mut spawned = None;
        let ready = tokio::select! {
            ready = bring_up(self.plan, self.group, log, self.gate, &mut spawned) => Some(ready),
            () = self.interrupt.requested() => None,
        };
        match ready {
            Some(Ok(identity)) => {
                let behind = match self.recognise_attached(spawned.as_ref()).await? {
                    Known::Same(behind) => behind,
                    Known::Replaced(differences) => {
                        self.end(spawned, launch, None).await?;
                        self.retire(&differences)?;
                        return Ok(Start::Replaced);
                    }
                };
                let ready = Event::ServerReady {
                    server: server_id,
                    launch,
                    seconds: launched.elapsed().as_secs_f64(),
                    model: identity.served_model.clone(),
                    version: identity.version.clone(),
                    simulated: identity.simulated,
                    identity: behind.clone().map(Box::new),
                };
                let server = spawned.expect("a ready server was spawned");
                // Ours to stop from now on, even if the event cannot be recorded.
                self.running = Some(Running {
                    gpus: Arc::new(gpus_of(self.group, &server, &identity)),
                    server,
                    identity,
                    launch,
                    behind,
                    is_used: false,
                    warmth: Warmth::default(),
                });
                record(self.recorder, self.observer, ready)?;
                Ok(Start::Ready)
            }
            Some(Err(failure)) => {
                self.end(spawned, launch, Some(&failure)).await?;
                Ok(Start::Failed(failure))
            }
            None => {
                self.end(spawned, launch, None).await?;
                Ok(Start::Interrupted)
            }
        }
    }

    /// A port that a stranger holds makes every server of the plan fail, which says nothing about any of them.
    fn refuse_stranger(&self) -> Result<()> {
        let address = Address::read(&self.group.server.argv).ok();
        match address.and_then(|address| address.taken()).filter(Taken::stays) {
            None => Ok(()),
            Some(taken) => Err(Error::Fatal(format!(
                "{}; stop that process and give the same command again: what is recorded is kept",
                taken.failure().detail
            ))),
        }
    }

    /// Resets the caches if a run has filled them. `Err` says what the server refused. An interrupt ends the reset: the
    /// measurement that follows meets it at once.
    pub(super) async fn reset(&mut self) -> Result<(), String> {
        match &mut self.running {
            Some(running) if running.is_used => tokio::select! {
                reset = running.server.reset(&self.plan.serve.reset) => reset,
                () = self.interrupt.requested() => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(super) async fn stop(&mut self, failure: Option<&Failure>) -> Result<()> {
        match self.running.take() {
            Some(running) => self.end(Some(running.server), running.launch, failure).await,
            None => Ok(()),
        }
    }

    /// Ends a server that was spawned, if it was, and records that it is gone.
    async fn end(&mut self, server: Option<Server>, launch: u32, failure: Option<&Failure>) -> Result<()> {
        if let Some(mut server) = server {
            let is_stopped = tokio::select! {
                () = server.stop() => true,
                () = self.interrupt.insisted() => false,
            };
            if !is_stopped {
                server.kill().await;
            }
        }
        let exited = Event::ServerExited {
            server: self.group.server.id.clone(),
            launch,
            cause: failure.map(|failure| failure.cause),
            detail: failure.map_or_else(String::new, |failure| self.plan.secrets.redact(&failure.detail)),
        };
        record(self.recorder, self.observer, exited).map(drop)
    }
}

/// The GPUs to watch. A simulated server uses none, and those of another machine cannot be read; how many of this machine's
/// an attached server uses is not known, so all of them are watched.
fn gpus_of(group: &Group, server: &Server, identity: &Identity) -> Gpus {
    if identity.simulated || !server.is_local() {
        return Gpus::none();
    }
    let config = &group.server;
    let count = (!config.argv.is_empty()).then(|| count_gpus(&config.params, &config.argv) as usize);
    Gpus::of_server(&config.env, count)
}

/// Waits until the machine is as it was, launches the server (or attaches to it) and waits until it is ready. The server
/// is put into `spawned` as soon as there is a process to end.
async fn bring_up(
    plan: &Plan,
    group: &Group,
    log: PathBuf,
    gate: &Gate,
    spawned: &mut Option<Server>,
) -> Result<Identity, Failure> {
    let server = match &plan.serve.target {
        Target::Attach(url) => {
            let serve = &plan.serve;
            spawned.insert(Server::attach(url, serve.ready_timeout, serve.hang_timeout))
        }
        Target::Launch(_) => {
            let launch = Launch {
                argv: group.server.argv.clone(),
                env: group.server.env.clone(),
                log,
                ready_timeout: plan.serve.ready_timeout,
                stop_grace: plan.serve.stop_grace,
                hang_timeout: plan.serve.hang_timeout,
            };
            gate.pass(&launch).await?;
            spawned.insert(Server::spawn(&launch).await?)
        }
    };
    server.ready().await
}
