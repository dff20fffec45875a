//! The guard: a small process between vsweep and one command. It outlives both, and leaves no process of the command's tree behind.
//!
//! Its standard input is a pipe that vsweep holds. [`STOP`] or end of file (vsweep died) means: TERM to every
//! descendant, a grace period, KILL. [`KILL`] skips the grace period. The guard is a child subreaper, so the processes of the tree stay
//! below it, in spite of double forks and new sessions. If it has no children, nothing of the tree is left. It reports on its standard
//! output ([`Report`]), and continues if nobody reads that any more. Its standard error is the command's log.
//!
//! It is synchronous and single-threaded, because the kernel ends the leader (PDEATHSIG) when the thread that started it ends, and because
//! simple code has fewer faults.

mod log;

use crate::server::claim::Presence;
use crate::server::cpus::Cpus;
use crate::server::process::leftovers::{self, Leftovers};
use crate::server::process::procfs::{self, GUARD};
use log::Log;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::Inotify;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid, setsid};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Byte that asks the guard to stop the tree with a grace period, as closing the pipe does.
pub const STOP: u8 = b's';
/// Byte that asks the guard to kill the tree at once.
pub const KILL: u8 = b'k';
/// Exit code of a leader that could not execute its program, as in a shell.
pub const NOT_EXECUTED: i32 = 127;

/// Interval at which the log's length and the shared memory of the tree are checked. If possible, inotify reports new shared memory
/// earlier.
const QUIET_TICK: Duration = Duration::from_secs(1);
/// Interval at which new processes are looked for while the tree is being ended.
const STOPPING_TICK: Duration = Duration::from_millis(100);

/// A message of the guard to its owner: one line of JSON for each fact, on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The leader runs, under this process id.
    Started(i32),
    /// The leader ended.
    Exited(Exit),
    /// The guard cannot do its work, for this reason, and ends.
    Failed(String),
    /// No process of the tree is left.
    Gone,
}

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => match Signal::try_from(*signal) {
                Ok(known) => write!(f, "killed by {known}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// Runs `command` on these CPUs, with this limit of open files, as the leader of a tree, and owns that tree until nothing of it is left.
/// With `has_stop`, the owner first sends a stop command, which ends what the tree started elsewhere, and which runs at the end. In that
/// case, a leader that ends with 0 has started its server elsewhere, and the guard stays. Errors are also reported to the owner.
pub fn own_tree(
    command: &[OsString],
    grace: Duration,
    cpus: Option<&Cpus>,
    open_files: Option<u64>,
    has_stop: bool,
) -> io::Result<()> {
    let owned = limit_open_files(open_files).and_then(|()| try_own_tree(command, grace, cpus, has_stop));
    if let Err(error) = &owned {
        say(&Report::Failed(error.to_string()));
    }
    owned
}

/// Sets the soft limit of open files of this process and of the commands that it starts.
fn limit_open_files(limit: Option<u64>) -> io::Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, limit.min(hard), hard)?)
}

fn try_own_tree(command: &[OsString], grace: Duration, cpus: Option<&Cpus>, has_stop: bool) -> io::Result<()> {
    cpus.map_or(Ok(()), Cpus::pin)?;
    prctl::set_name(&CString::new(GUARD)?)?;
    prctl::set_child_subreaper(true)?;
    let mut watched = SigSet::empty();
    watched.add(Signal::SIGCHLD);
    let mut blocked = watched;
    blocked.extend([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT]);
    blocked.thread_block()?;
    let deaths = SignalFd::with_flags(&watched, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let new_memory = leftovers::watch_shared_memory();
    let mut orders = File::from(io::stdin().as_fd().try_clone_to_owned()?);

    let stop = if has_stop { read_stop(&mut orders)? } else { Vec::new() };
    let mut tree = Tree::start(command, grace, stop)?;
    while !tree.reap() || tree.is_elsewhere() {
        let mut ready: Vec<PollFd> = [Some(deaths.as_fd()), new_memory.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .flatten()
            // A closed pipe would be ready for ever.
            .chain((!tree.owner_gone).then_some(orders.as_fd()))
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(
            &mut ready,
            PollTimeout::try_from(tree.tick()).unwrap_or(PollTimeout::MAX),
        ) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ordered = !tree.owner_gone && ready.last().and_then(PollFd::any) == Some(true);
        while let Ok(Some(_)) = deaths.read_signal() {}
        // The events only show that there are files; the folder has their names.
        let _ = new_memory.as_ref().map(Inotify::read_events);
        if ordered {
            tree.obey(&mut orders);
        }
        tree.advance();
    }
    tree.finish();
    Ok(())
}

/// Reads the stop command, which is one line before all orders.
fn read_stop(orders: &mut File) -> io::Result<Vec<String>> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        orders.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Turns this process into the leader: begins a session, arranges to be killed when the guard dies, and executes the command. Returns only
/// if that fails.
pub fn lead(guard: i32, command: &[OsString]) -> io::Error {
    let prepared = || -> io::Result<()> {
        setsid()?;
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The guard may have died before the line above took effect.
        if getppid() != Pid::from_raw(guard) {
            return Err(io::Error::other("the guard is gone"));
        }
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    match (prepared(), command) {
        (Err(error), _) => error,
        (Ok(()), [program, arguments @ ..]) => Command::new(program).args(arguments).exec(),
        (Ok(()), []) => io::Error::other("no command"),
    }
}

/// The tree below the guard, and the progress of its end.
struct Tree {
    leader: Pid,
    grace: Duration,
    /// Time from which the remaining processes are killed; `None` until the end is requested. From the request to that time, they get TERM.
    killed_from: Option<Instant>,
    owner_gone: bool,
    /// True if the leader has started the server elsewhere and ended.
    has_moved: bool,
    /// Processes that got TERM.
    got_term: HashSet<i32>,
    leftovers: Leftovers,
    log: Log,
}

impl Tree {
    fn start(command: &[OsString], grace: Duration, stop: Vec<String>) -> io::Result<Tree> {
        let leftovers = Leftovers::before_launch(stop);
        let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
        let leader = Command::new(crate::server::this_program())
            .args(["guard", "--lead-for", &std::process::id().to_string(), "--"])
            .args(command)
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            .spawn()?;
        let leader = Pid::from_raw(leader.id() as i32);
        say(&Report::Started(leader.as_raw()));
        Ok(Tree {
            leader,
            grace,
            killed_from: None,
            owner_gone: false,
            has_moved: false,
            got_term: HashSet::new(),
            leftovers,
            log: Log::of_stderr(),
        })
    }

    /// Reaps children that have ended. Returns true if no child is left, which means that the whole tree is gone.
    fn reap(&mut self) -> bool {
        loop {
            let (pid, exit) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Exit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Exit::Signal(signal as i32)),
                Ok(WaitStatus::StillAlive) => return false,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return true,
            };
            if pid == self.leader
                && exit == Exit::Code(0)
                && self.leftovers.is_elsewhere()
                && self.killed_from.is_none()
            {
                self.has_moved = true;
            } else if pid == self.leader {
                // The owner reads the log after this report.
                self.log.bound();
                say(&Report::Exited(exit));
                self.stop();
            }
        }
    }

    /// Returns true if the server runs elsewhere and its end is not requested. The tree may then be empty.
    fn is_elsewhere(&self) -> bool {
        self.has_moved && self.killed_from.is_none()
    }

    /// Reads the owner's orders and carries them out.
    fn obey(&mut self, orders: &mut File) {
        let mut bytes = [0; 16];
        match orders.read(&mut bytes) {
            Ok(0) | Err(_) => {
                self.owner_gone = true;
                self.stop();
            }
            Ok(n) if bytes[..n].contains(&KILL) => self.killed_from = Some(Instant::now()),
            Ok(_) => self.stop(),
        }
    }

    fn stop(&mut self) {
        if self.killed_from.is_none() {
            self.leftovers.look_closely();
            self.killed_from = Some(Instant::now() + self.grace);
        }
    }

    /// Shortens the log if necessary, looks for leftovers, and sends the signals that are due.
    fn advance(&mut self) {
        self.log.bound();
        let tree = || procfs::descendants(std::process::id() as i32);
        match self.killed_from {
            None => self.leftovers.look(self.leader.as_raw()),
            Some(killed_from) if Instant::now() < killed_from => {
                for process in tree() {
                    // Sent once to each process: a second TERM makes some programs skip their own clean-up.
                    if self.got_term.insert(process.pid) {
                        signal(process.pid, Signal::SIGTERM);
                    }
                }
            }
            Some(_) => {
                self.leftovers.look_closely();
                for process in tree() {
                    signal(process.pid, Signal::SIGKILL);
                }
            }
        }
    }

    fn tick(&self) -> Duration {
        match self.killed_from {
            None => QUIET_TICK,
            Some(_) => STOPPING_TICK,
        }
    }

    fn finish(mut self) {
        self.log.bound();
        self.leftovers.look_closely();
        self.leftovers.remove(false);
        if self.owner_gone {
            // A killed vsweep has not removed the files of its presences.
            Presence::forget_dead();
        }
        say(&Report::Gone);
    }
}

/// Sends a report to the owner. Errors are ignored, because the owner may be gone.
fn say(report: &Report) {
    let mut out = io::stdout().lock();
    let line = serde_json::to_string(report).expect("plain data always serialises");
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Sends a signal. Ignores processes that have ended already.
fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}
