//! vsweep's side of a guard: starts a command under a guard, receives the guard's reports, and ends the command. Dropping a [`GuardHandle`]
//! closes the guard's pipe, which ends the tree as [`GuardHandle::stop`] does, but without waiting. If the guard is killed, its processes
//! become children of vsweep, which ends them here.

use super::elsewhere;
use super::guard::{self, Exit, Report};
use super::leftovers::Leftovers;
use super::procfs::{self, GUARD, TREE, new_mark};
use crate::cause::{Cause, Failure};
use crate::server::cpus::Cpus;
use crate::server::installed;
use crate::units::show_duration;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// Time that a guard may take beyond the grace period to end a tree and report it.
const MARGIN: Duration = Duration::from_secs(5);
/// Variable that makes Python's `setproctitle`, by which vLLM names its processes, keep their environment readable. The environment
/// contains the mark of their tree.
const KEEP_ENVIRONMENT: (&str, &str) = ("SPT_NOENV", "1");

/// A command to run under a guard.
#[derive(Debug)]
pub struct Order<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// Environment added to vsweep's own.
    pub env: &'a BTreeMap<String, String>,
    /// Names of variables of vsweep's environment that the command does not get.
    pub without: &'a [String],
    /// CPUs on which it may run; `None` for all of vsweep's own.
    pub cpus: Option<&'a Cpus>,
    /// File for both output streams.
    pub log: File,
    /// Time from TERM to KILL.
    pub grace: Duration,
    /// Stop command, which ends what the command started elsewhere; empty if there is none.
    pub stop: &'a [String],
}

/// A command that runs under a guard.
#[derive(Debug)]
pub struct GuardHandle {
    /// Process id of the guard.
    guard: i32,
    orders: PipeWriter,
    grace: Duration,
    /// Time that the guard may take beyond the grace period to report the end, before this process intervenes.
    margin: Duration,
    state: watch::Receiver<TreeState>,
}

/// State of the tree, from the guard's messages.
#[derive(Debug, Clone, Default)]
struct TreeState {
    exit: Option<Exit>,
    failed: Option<String>,
    gone: bool,
}

/// Returns the limit of open files that vsweep had when it first started a command. The load generator raises the limit later, and programs
/// that use `select` break above 1024.
fn given_open_files() -> Option<u64> {
    static GIVEN: OnceLock<Option<u64>> = OnceLock::new();
    *GIVEN.get_or_init(|| getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft))
}

impl GuardHandle {
    /// Starts a command under a guard of its own. Must be called within a tokio runtime.
    pub fn start(order: Order<'_>) -> Result<GuardHandle, Failure> {
        let argv = installed::find_program(order.argv, order.env)?;
        GuardHandle::launch(&argv, order).map_err(|error| {
            let detail = format!(
                "cannot start the guard {}: {error}",
                installed::this_program().display()
            );
            Failure::new(Cause::SystemRefused, detail)
        })
    }

    fn launch(argv: &[std::ffi::OsString], order: Order<'_>) -> io::Result<GuardHandle> {
        // If the guard is killed, its children become those of this process and not of init.
        prctl::set_child_subreaper(true)?;
        if let Some(fault) = procfs::fault() {
            return Err(io::Error::other(fault));
        }
        children_from_before();
        let (stdin, mut orders) = io::pipe()?;
        let mark = new_mark();
        let cpus = order.cpus.map(|cpus| format!("--cpus={cpus}"));
        let open_files = given_open_files().map(|limit| format!("--open-files={limit}"));
        let mut command = Command::new(installed::this_program());
        for name in order.without {
            command.env_remove(name);
        }
        let mut guard = command
            .args(["guard", "--grace-ms", &order.grace.as_millis().to_string()])
            .args(cpus)
            .args(open_files)
            .args((!order.stop.is_empty()).then_some("--stop"))
            .arg("--")
            .args(argv)
            .envs(order.env)
            .env(KEEP_ENVIRONMENT.0, KEEP_ENVIRONMENT.1)
            .env(TREE, &mark)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(order.log)
            .process_group(0)
            .spawn()?;
        let id = guard
            .id()
            .map(|pid| pid as i32)
            .ok_or_else(|| io::Error::other("it ended at once"))?;
        let reports = guard
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("it has no output"))?;
        if !order.stop.is_empty() {
            // The stop command may contain a secret, and every user can read arguments, so it is sent through the pipe.
            let _ = orders.write_all(format!("{}\n", serde_json::json!(order.stop)).as_bytes());
        }
        let (known, state) = watch::channel(TreeState::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(reports).lines();
            let (mut leader, mut complete) = (None, false);
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(Report::Started(pid)) => leader = Some(pid),
                    Ok(Report::Exited(exit)) => known.send_modify(|state| state.exit = Some(exit)),
                    Ok(Report::Failed(why)) => known.send_modify(|state| state.failed = Some(why)),
                    Ok(Report::Gone) => complete = true,
                    Err(_) => {}
                }
            }
            let _ = guard.wait().await;
            if !complete {
                end_orphans(leader, &mark).await;
            }
            known.send_modify(|state| state.gone = true);
        });
        Ok(GuardHandle {
            guard: id,
            orders,
            grace: order.grace,
            margin: match order.stop {
                [] => MARGIN,
                _ => MARGIN + elsewhere::LIMIT,
            },
            state,
        })
    }

    /// Process id of the guard: every process of the tree descends from it.
    pub fn guard(&self) -> i32 {
        self.guard
    }

    /// Waits until the command itself has ended, and returns its exit. If its guard was killed, and the command with it, the failure has
    /// the cause `killed`.
    pub async fn exited(&self, killed: Cause) -> Result<Exit, Failure> {
        let state = self.wait_for(|state| state.exit.is_some() || state.gone).await;
        match (state.exit, state.failed) {
            (Some(exit), _) => Ok(exit),
            (None, Some(why)) => Err(Failure::new(Cause::SystemRefused, format!("its guard failed: {why}"))),
            (None, None) => {
                let detail = format!("somebody killed its guard (a process called {GUARD})");
                Err(Failure::new(killed, detail))
            }
        }
    }

    /// Waits until no process of the tree is left.
    pub async fn gone(&self) {
        self.wait_for(|state| state.gone).await;
    }

    async fn wait_for(&self, holds: impl FnMut(&TreeState) -> bool) -> TreeState {
        let mut state = self.state.clone();
        // The sender sets `gone` before it is dropped, so an error means that the tree is gone.
        match state.wait_for(holds).await {
            Ok(state) => state.clone(),
            Err(_) => self.state.borrow().clone(),
        }
    }

    /// Ends the tree: TERM, grace period, KILL. Returns when no process is left, or at the latest soon after the grace period.
    pub async fn stop(&mut self) {
        self.order(guard::STOP);
        if timeout(self.grace + self.margin, self.gone()).await.is_err() {
            self.kill().await;
        }
    }

    /// Ends the tree without a grace period.
    pub async fn kill(&mut self) {
        self.order(guard::KILL);
        if timeout(self.margin, self.gone()).await.is_err() {
            // The guard does not react. Once it is dead, the task that reads its reports ends the tree.
            let _ = kill(Pid::from_raw(self.guard), Signal::SIGKILL);
            let _ = timeout(self.margin, self.gone()).await;
        }
    }

    /// Sends an order to the guard. Errors are ignored, because a guard that is gone needs no orders.
    fn order(&mut self, order: u8) {
        let _ = self.orders.write_all(&[order]);
    }
}

/// Does the work of a guard that was killed: kills every process of its tree, and removes the shared memory that the tree made. The
/// processes are those of the leader's session, those with the tree's mark, those that this process adopted, and all their descendants. As
/// this process is a subreaper, they become its children, and it also reaps them.
async fn end_orphans(leader: Option<i32>, mark: &str) {
    let mut leftovers = Leftovers::of(mark);
    for _ in 0..100 {
        let all = procfs::processes();
        let is_marked = |pid| procfs::environment(pid, TREE).is_some_and(|found| found == mark);
        let adopted = adopted_children(&all);
        let is_of_tree =
            |p: &&procfs::Process| Some(p.session) == leader || adopted.contains(&p.pid) || is_marked(p.pid);
        let roots: HashSet<i32> = all.iter().filter(is_of_tree).map(|p| p.pid).collect();
        // Killed processes are listed until they are reaped.
        let left = procfs::family(&all, &roots);
        if left.is_empty() {
            break;
        }
        if let Some(leftovers) = &mut leftovers {
            leftovers.look_at(left.iter().map(|p| p.pid));
        }
        for process in left {
            let pid = Pid::from_raw(process.pid);
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        sleep(Duration::from_millis(50)).await;
    }
    if let Some(leftovers) = leftovers {
        // Removing may run the stop command.
        let _ = spawn_blocking(|| leftovers.remove(false)).await;
    }
}

/// Returns the children that this process adopted. Children that it started are in its session. The processes of a tree are not: the leader
/// begins a session, and no process can move into the session of another.
fn adopted_children(all: &[procfs::Process]) -> HashSet<i32> {
    let me = std::process::id() as i32;
    let Some(our_session) = all.iter().find(|p| p.pid == me).map(|p| p.session) else {
        return HashSet::new();
    };
    let is_adopted = |p: &&procfs::Process| {
        let was_there = children_from_before().contains(&(p.pid, p.started));
        p.parent == me && p.session != our_session && !was_there
    };
    all.iter().filter(is_adopted).map(|p| p.pid).collect()
}

/// Children that this process had before it started its first guard, by id and start time. The program that executed vsweep in its place
/// may have left some.
fn children_from_before() -> &'static HashSet<(i32, u64)> {
    static CHILDREN: OnceLock<HashSet<(i32, u64)>> = OnceLock::new();
    CHILDREN.get_or_init(|| {
        let me = std::process::id() as i32;
        let children = procfs::processes().into_iter().filter(|process| process.parent == me);
        children.map(|child| (child.pid, child.started)).collect()
    })
}

/// Runs a command to its end, for at most `limit` and until `interrupted`. Unless it ends with 0, `Err` is the rest of a sentence: `ended
/// with exit code 1`.
pub async fn run_to_end(
    order: Order<'_>,
    limit: Duration,
    interrupted: impl Future<Output = ()>,
) -> Result<(), String> {
    let mut guarded = GuardHandle::start(order).map_err(|failure| format!("could not be run: {}", failure.detail))?;
    let exited = tokio::select! {
        exited = timeout(limit, guarded.exited(Cause::BenchFailed)) => Some(exited),
        () = interrupted => None,
    };
    // Processes that it left running are ended, too.
    guarded.stop().await;
    match exited {
        Some(Ok(Ok(Exit::Code(0)))) => Ok(()),
        Some(Ok(Ok(exit))) => Err(format!("ended with {exit}")),
        Some(Ok(Err(lost))) => Err(format!("was lost: {}", lost.detail)),
        Some(Err(_)) => Err(format!("did not end within {}", show_duration(limit))),
        None => Err("was interrupted".to_owned()),
    }
}
