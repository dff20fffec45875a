//! A process that looks to a supervisor like vLLM's `EngineCore`. It computes nothing. It has the name of that process, holds a shared
//! memory segment, survives a killed parent, then outlives SIGTERM by a while, and leaves nothing behind after an orderly stop.

use super::log;
use nix::sys::prctl;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The name that vLLM gives its engine process.
const NAME: &str = "VLLM::EngineCore";
/// Time for which an orphan lives on after SIGTERM.
const TERM_DELAY: Duration = Duration::from_secs(3);
/// Longest life of an orphan or a stray: long enough to be in the way, short enough not to accumulate after failed tests.
const ORPHAN_LIFE: Duration = Duration::from_secs(180);
/// Time that the parent waits for an orderly end before it kills the engine.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Role of a simulated process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The engine, tied to its parent.
    Engine,
    /// A process that leaves its parent's session, ignores SIGTERM and outlives its parent.
    Stray,
}

/// A running engine process, seen from the API server.
pub struct EngineProcess {
    child: Child,
    /// The child's standard input. Kept apart, because waiting for a child closes its pipe, and the engine takes a closed pipe for a dead
    /// parent.
    orders: Option<ChildStdin>,
}

impl EngineProcess {
    /// Starts this executable again in a role.
    pub fn spawn(role: Role) -> std::io::Result<EngineProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg0(NAME)
            .args(["sim", "engine"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match role {
            Role::Engine => command.stdin(Stdio::piped()),
            Role::Stray => command.arg("--stray").stdin(Stdio::null()),
        };
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        Ok(EngineProcess { child, orders })
    }

    /// Its pid; 0 once it is gone.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Resolves when it has ended.
    pub async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Ends it in an orderly way, or kills it if it does not end in time.
    pub async fn stop(&mut self) {
        let pid = self.pid();
        if let Some(mut orders) = self.orders.take() {
            let _ = orders.write_all(b"s").await;
        }
        if pid != 0 && tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            log::line(
                None,
                "WARNING",
                "utils.py:653",
                &format!("[shutdown] Process manager: force killing remaining process EngineCore pid {pid}"),
            );
            self.kill().await;
        }
    }

    /// Kills it at once; its shared memory stays.
    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }
}

/// A POSIX shared memory segment like those of Python's `multiprocessing`. Dropping the value removes the segment.
struct Segment {
    path: PathBuf,
    /// Held open, so that the system shows which process uses it.
    file: File,
}

impl Segment {
    fn create() -> io::Result<Segment> {
        // Containers that share the folder may have equal process ids.
        for number in u64::from(std::process::id()).. {
            let path = Path::new("/dev/shm").join(format!("psm_{number:08x}"));
            match File::create_new(&path) {
                Ok(file) => {
                    let segment = Segment { path, file };
                    // Sparse, as vLLM's message queues are until they are used.
                    segment.file.set_len(1 << 20)?;
                    return Ok(segment);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A cleaner may already have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs the child process in a role until its end.
pub fn live(role: Role) -> std::io::Result<()> {
    let name = std::ffi::CString::new(NAME)?;
    prctl::set_name(&name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let _interrupt = signal(SignalKind::interrupt())?;
        match role {
            Role::Stray => {
                nix::unistd::setsid()?;
                tokio::time::sleep(ORPHAN_LIFE).await;
            }
            Role::Engine => {
                let segment = Segment::create()?;
                let mut parent = Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
                let mut order = [0u8; 1];
                if parent.read(&mut order).await? == 0 {
                    orphaned(&mut terminate).await;
                }
                drop(segment);
            }
        }
        Ok(())
    })
}

async fn orphaned(terminate: &mut tokio::signal::unix::Signal) {
    let terminated = async {
        terminate.recv().await;
        tokio::time::sleep(TERM_DELAY).await;
    };
    let _ = tokio::time::timeout(ORPHAN_LIFE, terminated).await;
}
