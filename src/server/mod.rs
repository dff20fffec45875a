//! Supervises one server: launch through the guard, readiness, death and hang, reset, stop, and the wait until the machine is as it was
//! before. Each process has one owner, and each way in which it can end is a [`Failure`] from the closed list.
//!
//! Nothing here decides what runs next.

pub mod address;
pub mod answers;
pub mod claim;
pub mod cpus;
pub mod diagnose;
pub mod http;
mod identity;
pub mod installed;
/// The processes of a server or a program: a guard owns each tree, and what a killed vsweep left is found and ended.
pub mod process {
    mod elsewhere;
    pub mod guard;
    pub mod guarded;
    pub(super) mod leftovers;
    pub mod orphans;
    pub(super) mod procfs;
}
mod ready;
pub mod reset;
pub mod settle;
pub mod startup;
mod watch;

use crate::cause::{Cause, Failure};
use crate::plan::checks::members::HEAD;
use crate::plan::{Members, Reset, ServeCommand, ServerProtocol};
use crate::shell::shell_line;
use address::Address;
use cpus::Cpus;
use diagnose::Phase;
use futures_util::future::{join_all, select_all};
use http::Http;
pub use installed::{find_program, this_program, use_program};
use process::guarded::{GuardHandle, Order};
pub use process::procfs::fault as fault_of_proc;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The parameters of one server process.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Program and arguments. A program called `vsweep` runs this very binary.
    pub argv: Vec<String>,
    /// Environment added to vsweep's own.
    pub env: BTreeMap<String, String>,
    /// CPUs on which it may run; `None` for all of vsweep's own.
    pub cpus: Option<Cpus>,
    /// Path of the log with both output streams of the server.
    pub log: PathBuf,
    /// Time limit from the launch until the server is ready.
    pub ready_timeout: Duration,
    /// Time from TERM to KILL when the server is stopped.
    pub stop_grace: Duration,
    /// Time without progress, with requests in flight, after which the server counts as hung.
    pub hang_timeout: Duration,
    /// Differences of the server from vLLM.
    pub protocol: ServerProtocol,
}

/// Placeholder in a command line for a name that no other launch of a server has.
pub const NAME: &str = "{name}";

/// Properties that a ready server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// First entry of `/v1/models`: the name that requests must use.
    pub served_model: String,
    /// Its `root`: the folder or hub name of the model, or else the name.
    pub model_root: String,
    /// Every name in `/v1/models`, aliases and adapters included.
    pub names: Vec<String>,
    /// `max_model_len` of the model, if reported, in tokens.
    pub max_model_len: Option<u64>,
    /// The answer of `/version`, if there is one.
    pub version: Option<String>,
    /// True if the server is vsweep's simulator, according to its `/version`.
    pub simulated: bool,
}

/// A server that vsweep launched or attached to. Dropping a launched one stops it, without waiting until it is gone.
#[derive(Debug)]
pub struct Server {
    http: Http,
    process: Option<Process>,
    ready_timeout: Duration,
    progress: watch::Progress,
}

/// The processes of a launched server.
#[derive(Debug)]
struct Process {
    launch: Launch,
    /// Command lines of the server, with their guards. The last command answers requests.
    commands: Vec<(String, GuardHandle)>,
    launched: Instant,
    /// Length of the log when the server became ready, in bytes. The rest is written under load.
    ready_at: Option<u64>,
}

impl Server {
    /// Checks or chooses the port, and launches the server through guards, with its output in `log`. Returns before it is ready.
    pub async fn spawn(launch: &Launch, log: File) -> Result<Server, Failure> {
        let mut launch = launch.clone();
        let mut address = Address::read(&launch.argv)?;
        address.settle(&mut launch.argv)?;
        launch.fill_in_name(address.port);
        if let Some((failure, _)) = address.taken() {
            return Err(failure);
        }
        if std::env::var_os("VLLM_SERVER_DEV_MODE").is_none() {
            // Without this, vLLM has no routes that reset its caches.
            launch
                .env
                .entry("VLLM_SERVER_DEV_MODE".into())
                .or_insert_with(|| "1".into());
        }
        let launched = Instant::now();
        let members = launch.fill_in_nodes()?;
        let mut commands = Vec::new();
        for argv in members.iter().chain([&launch.argv]) {
            let log = log.try_clone();
            let log = log.map_err(|error| Failure::new(Cause::SystemRefused, error.to_string()))?;
            let guarded = GuardHandle::start(Order {
                argv,
                env: &launch.env,
                without: &[],
                cpus: launch.cpus.as_ref(),
                log,
                grace: launch.stop_grace,
                stop: match commands.len() == members.len() {
                    true => &launch.protocol.stop_command,
                    false => &[],
                },
            })?;
            commands.push((shell_line(argv), guarded));
        }
        let http = Http::new(&address.base_url(), api_key(&launch).as_deref()).with_health(&launch.protocol.health);
        let progress = watch::Progress::new(launch.hang_timeout);
        let ready_timeout = launch.ready_timeout;
        let process = Some(Process {
            launch,
            commands,
            launched,
            ready_at: None,
        });
        Ok(Server {
            http,
            process,
            ready_timeout,
            progress,
        })
    }

    /// Sets another health route.
    pub fn with_health(self, route: &str) -> Server {
        let http = self.http.with_health(route);
        Server { http, ..self }
    }

    /// Attaches to a server that vsweep did not launch. The timeouts are those of [`Launch`].
    pub fn attach(base_url: &str, ready_timeout: Duration, hang_timeout: Duration) -> Server {
        let key = std::env::var("OPENAI_API_KEY").ok();
        Server {
            http: Http::new(base_url.trim_end_matches('/'), key.as_deref()),
            process: None,
            ready_timeout,
            progress: watch::Progress::new(hang_timeout),
        }
    }

    /// The address of the server, such as `http://127.0.0.1:8000`, without a trailing slash.
    pub fn base_url(&self) -> &str {
        self.http.base_url()
    }

    /// A client for its control routes.
    pub fn http(&self) -> Http {
        self.http.clone()
    }

    /// The key that requests must carry, if vsweep launched the server with one.
    pub fn api_key(&self) -> Option<String> {
        self.process.as_ref().and_then(|process| api_key(&process.launch))
    }

    /// Returns true if it runs on this machine.
    pub fn is_local(&self) -> bool {
        self.process.is_some() || http::is_loopback(self.base_url())
    }

    /// Resets the server's caches, and tries again if the server refuses. `Err` says what was refused. Does nothing for `Restart`, which
    /// the caller performs. If the server fails meanwhile, returns `Ok`; [`Server::failed`] then has the failure at once.
    pub async fn reset(&mut self, reset: &Reset) -> Result<(), String> {
        let http = self.http.clone();
        let argv = self.process.as_ref().map(|process| process.launch.argv.as_slice());
        let routes = reset::routes_of(argv.unwrap_or_default());
        let resetting = async {
            match reset {
                Reset::Caches => reset::caches(&http, routes).await,
                Reset::Route(route) => reset::caches(&http, &[route]).await,
                Reset::Command(argv) => reset::command(argv, http.base_url()).await,
                Reset::Restart | Reset::Nothing => Ok(()),
            }
        };
        tokio::select! {
            done = resetting => done,
            _ = self.failed() => Ok(()),
        }
    }

    /// Stops the server and all its descendants: TERM, grace period, KILL. Returns when none is left, or at the latest soon after the grace
    /// period. Does nothing to an attached server.
    pub async fn stop(&mut self) {
        if let Some(process) = &mut self.process {
            join_all(process.commands.iter_mut().map(|(_, guarded)| guarded.stop())).await;
        }
    }

    /// Stops the server without a grace period, for a user who cannot wait.
    pub async fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            join_all(process.commands.iter_mut().map(|(_, guarded)| guarded.kill())).await;
        }
    }
}

impl Launch {
    /// Fills in the name of the server and, in the stop command, its port. The name is that of the log, which no other launch has.
    fn fill_in_name(&mut self, port: Option<u16>) {
        let stem = self.log.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("vsweep-{stem}");
        for word in self.argv.iter_mut().chain(&mut self.protocol.stop_command) {
            *word = word.replace(NAME, &name);
        }
        if let Some(port) = port {
            for word in &mut self.protocol.stop_command {
                *word = word.replace(address::PORT, &port.to_string());
            }
        }
    }

    /// Fills in the name of the first node, and returns the command lines of the server's members, which may be none.
    fn fill_in_nodes(&mut self) -> Result<Vec<Vec<String>>, Failure> {
        let members = &self.protocol.members;
        let has_head = |word: &String| word.contains(HEAD);
        if *members == Members::default() && !self.argv.iter().chain(self.env.values()).any(has_head) {
            return Ok(Vec::new());
        }
        let nodes = nodes().map_err(|why| Failure::new(Cause::SystemRefused, why))?;
        for word in self.argv.iter_mut().chain(self.env.values_mut()) {
            *word = word.replace(HEAD, &nodes[0]);
        }
        Ok(members.resolve(&self.argv, &nodes))
    }
}

impl Process {
    /// Waits until one command of the server has ended, which is a failure of the whole server, and returns that failure.
    async fn ended(&self) -> Failure {
        let crash = self.phase().crash();
        let ends = self.commands.iter().map(|(_, guarded)| Box::pin(guarded.exited(crash)));
        let (exit, index, _) = select_all(ends).await;
        let mut failure = exit.map_or_else(|lost| lost, |exit| self.diagnose(Some(exit)));
        if let Some((command, _)) = self.commands.get(index).filter(|_| index + 1 < self.commands.len()) {
            failure.detail = format!("{}; `{command}`, which runs with the server, ended", failure.detail);
        }
        failure
    }

    fn phase(&self) -> Phase {
        match self.ready_at {
            None => Phase::Starting,
            Some(_) => Phase::Serving,
        }
    }

    /// Returns the failure, from the log and, if a command has ended, from its exit.
    fn diagnose(&self, exit: Option<process::guard::Exit>) -> Failure {
        let log = diagnose::read_log(&self.launch.log, self.ready_at.unwrap_or(0));
        diagnose::diagnose(self.phase(), exit, &log)
    }
}

/// Creates a server's log; it is an error if the file exists. Both streams append, so that neither overwrites the other. Only this user may
/// read it, because a program may print secrets.
pub fn create_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Returns the key that the server will require.
fn api_key(launch: &Launch) -> Option<String> {
    let flag = ServeCommand::of(&launch.argv).value("api_key").map(str::to_owned);
    flag.or_else(|| launch.env.get("VLLM_API_KEY").cloned())
        .or_else(|| std::env::var("VLLM_API_KEY").ok())
}

// The nodes on which the commands of one server may run. If a command is ended, it must end what it started on other nodes, as `srun` does.

/// The name of this machine.
pub fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Returns the nodes of the Slurm allocation, this one first; without an allocation, this machine alone.
pub fn nodes() -> Result<Vec<String>, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let here = || variable("SLURMD_NODENAME").unwrap_or_else(host);
    let Some(list) = variable("SLURM_JOB_NODELIST") else {
        return Ok(vec![here()]);
    };
    let output = Command::new("scontrol")
        .args(["show", "hostnames", &list])
        .stdin(Stdio::null())
        .output();
    let output =
        output.map_err(|error| format!("scontrol, which lists the nodes of {list}, cannot be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("scontrol cannot list the nodes of {list}: {said}"));
    }
    let nodes = String::from_utf8_lossy(&output.stdout);
    this_one_first(nodes.lines().map(str::to_owned).collect(), &here())
}

/// Returns the nodes with the one called `here` first. Refuses a machine outside the allocation, as one on which `salloc` is called.
fn this_one_first(mut nodes: Vec<String>, here: &str) -> Result<Vec<String>, String> {
    // A host name may include a domain.
    let is_another = |node: &String| node.split('.').next() != here.split('.').next();
    nodes.sort_by_key(is_another);
    match nodes.iter().all(is_another) {
        false => Ok(nodes),
        true => Err(format!(
            "this machine, {here}, is not in the allocation ({}); start the sweep on one of its nodes: srun --nodes=1 --ntasks=1 \
             --overlap vsweep run ...",
            nodes.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_outside_the_allocation_is_refused() {
        let nodes = || ["n0", "n1", "n2"].map(str::to_owned).to_vec();
        assert_eq!(this_one_first(nodes(), "n1.site").expect("inside"), ["n1", "n0", "n2"]);
        let refused = this_one_first(nodes(), "login").expect_err("outside");
        assert!(refused.contains("login") && refused.contains("srun"), "{refused}");
    }
}
