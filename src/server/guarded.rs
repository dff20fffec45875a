//! vsweep's end of a guard: starts a command under one, hears how it goes, and ends it. Dropping a [`Guarded`] closes
//! the guard's pipe, which ends the tree as [`Guarded::stop`] would, without anyone waiting for it.

use super::guard::{self, Exit, Report};
use super::trees::{self, TREE};
use super::{procfs, program};
use crate::cause::{Cause, Failure};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// What a guard may take beyond the grace period to report that all is gone, before we step in.
const MARGIN: Duration = Duration::from_secs(5);
/// Asks Python's `setproctitle`, by which vLLM names its processes, to leave their environment readable, and with it the mark
/// of their tree.
const KEEP_ENVIRONMENT: (&str, &str) = ("SPT_NOENV", "1");

/// What to run under a guard.
#[derive(Debug)]
pub struct Order<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// Environment added to vsweep's own.
    pub env: &'a BTreeMap<String, String>,
    /// Where both output streams go.
    pub log: File,
    /// Time from TERM to KILL.
    pub grace: Duration,
}

/// A command that runs under a guard.
#[derive(Debug)]
pub struct Guarded {
    guard: i32,
    orders: PipeWriter,
    grace: Duration,
    state: watch::Receiver<State>,
}

/// What is known about the tree so far.
#[derive(Debug, Clone, Default)]
struct State {
    leader: Option<i32>,
    exit: Option<Exit>,
    gone: bool,
}

impl Guarded {
    /// Starts a command under a guard of its own. Must be called within a tokio runtime.
    pub fn start(order: Order<'_>) -> Result<Guarded, Failure> {
        let argv = program::find_program(order.argv, order.env)?;
        Guarded::launch(&argv, order).map_err(|error| {
            let detail = format!("cannot start the guard {}: {error}", program::this_program().display());
            Failure::new(Cause::CommandNotFound, detail)
        })
    }

    fn launch(argv: &[std::ffi::OsString], order: Order<'_>) -> io::Result<Guarded> {
        // Should the guard be killed, its tree falls to us and not to init.
        prctl::set_child_subreaper(true)?;
        let (stdin, orders) = io::pipe()?;
        let mark = trees::new_mark();
        let mut guard = Command::new(program::this_program())
            .args(["guard", "--grace-ms", &order.grace.as_millis().to_string(), "--"])
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
        let (known, state) = watch::channel(State::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(reports).lines();
            let mut complete = false;
            while let Ok(Some(line)) = lines.next_line().await {
                match line.parse() {
                    Ok(Report::Started(pid)) => known.send_modify(|state| state.leader = Some(pid)),
                    Ok(Report::Exited(exit)) => known.send_modify(|state| state.exit = Some(exit)),
                    Ok(Report::Gone) => complete = true,
                    Ok(Report::Removed(_)) | Err(()) => {}
                }
            }
            let _ = guard.wait().await;
            if !complete {
                // Somebody killed the guard: we do its work.
                let leader = known.borrow().leader;
                end_orphans(leader, &mark).await;
            }
            known.send_modify(|state| state.gone = true);
        });
        Ok(Guarded {
            guard: id,
            orders,
            grace: order.grace,
            state,
        })
    }

    /// Process id of the guard: every process of the tree descends from it.
    pub fn guard(&self) -> i32 {
        self.guard
    }

    /// Waits until the command itself has ended; `None` if how cannot be known because the guard was lost.
    pub async fn exited(&self) -> Option<Exit> {
        self.once(|state| state.exit.is_some() || state.gone).await.exit
    }

    /// Waits until no process of the tree is left.
    pub async fn gone(&self) {
        self.once(|state| state.gone).await;
    }

    async fn once(&self, holds: impl FnMut(&State) -> bool) -> State {
        let mut state = self.state.clone();
        // The sender says `gone` before it goes away, so an error here means the same.
        match state.wait_for(holds).await {
            Ok(state) => state.clone(),
            Err(_) => self.state.borrow().clone(),
        }
    }

    /// Ends the tree: TERM, grace, KILL. Returns when none is left, and in any case soon after the grace period.
    pub async fn stop(&mut self) {
        self.order(guard::STOP);
        if timeout(self.grace + MARGIN, self.gone()).await.is_err() {
            self.kill().await;
        }
    }

    /// Ends the tree without a grace period.
    pub async fn kill(&mut self) {
        self.order(guard::KILL);
        if timeout(MARGIN, self.gone()).await.is_err() {
            // The guard itself does not answer: our task takes over once it is dead.
            let _ = kill(Pid::from_raw(self.guard), Signal::SIGKILL);
            let _ = timeout(MARGIN, self.gone()).await;
        }
    }

    /// A guard that is gone takes no orders, and needs none.
    fn order(&mut self, order: u8) {
        let _ = self.orders.write_all(&[order]);
    }
}

/// Kills every process of a tree whose guard is lost: those of the leader's session, those with the tree's mark, and
/// all their descendants. They are our children now (we are a subreaper), so we also reap them.
async fn end_orphans(leader: Option<i32>, mark: &str) {
    // By number and start: a number may be given out again while we wait.
    let mut killed: HashSet<(i32, u64)> = HashSet::new();
    for _ in 0..100 {
        let all = procfs::processes();
        let is_marked = |pid| procfs::environment(pid, TREE).is_some_and(|found| found == mark);
        let ours = |p: &&procfs::Process| Some(p.session) == leader || is_marked(p.pid);
        let roots: HashSet<i32> = all.iter().filter(ours).map(|p| p.pid).collect();
        let below = procfs::below(&all, &roots);
        let found = all.iter().filter(|p| roots.contains(&p.pid)).chain(&below);
        killed.extend(found.map(|p| (p.pid, p.started)));
        killed.retain(|&(pid, started)| {
            let is_there = procfs::process(pid).is_some_and(|process| process.started == started);
            if is_there {
                let pid = Pid::from_raw(pid);
                let _ = kill(pid, Signal::SIGKILL);
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            is_there
        });
        if killed.is_empty() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
