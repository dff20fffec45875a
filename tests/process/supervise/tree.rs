//! A marked process tree, and the questions that tests ask about it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};
use vsweep::cause::Failure;
use vsweep::server::cpus::Cpus;
use vsweep::server::process::guarded::{GuardHandle, Order};
use vsweep::server::{Launch, Server, create_log};

pub const VSWEEP: &str = env!("CARGO_BIN_EXE_vsweep");

/// Limit of every wait. It is generous, because nothing here asserts a time.
const PATIENCE: Duration = Duration::from_secs(180);

/// Launches a server with a log of its own.
pub async fn spawn(launch: &Launch) -> Result<Server, Failure> {
    Server::spawn(launch, create_log(&launch.log).expect("a new log")).await
}

/// A folder and an environment entry that belong to one test alone.
pub struct Marked {
    pub folder: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
    entry: String,
}

impl Marked {
    pub fn new(test: &str) -> Marked {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| vsweep::server::use_program(VSWEEP));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = format!("{test}-{}", folder.path().display());
        let temporary = folder.path().display().to_string();
        let env = BTreeMap::from([
            ("VSWEEP_TEST".to_owned(), mark.clone()),
            ("TMPDIR".to_owned(), temporary),
        ]);
        Marked {
            folder,
            env,
            entry: format!("VSWEEP_TEST={mark}"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a shell script under a guard.
    pub fn script(&self, script: &str, grace: Duration) -> GuardHandle {
        self.script_on(None, script, grace)
    }

    /// Like `script`, but only on some CPUs.
    pub fn script_on(&self, cpus: Option<&Cpus>, script: &str, grace: Duration) -> GuardHandle {
        let argv = ["sh", "-c", script].map(str::to_owned);
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.path("log"))
            .expect("a log");
        GuardHandle::start(Order {
            stop: &[],
            argv: &argv,
            env: &self.env,
            without: &[],
            cpus,
            log,
            grace,
        })
        .expect("sh can be started")
    }

    /// Pids of the processes with the mark, without zombies. Guards are among them.
    pub fn alive(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").expect("proc is mounted").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| self.marks(pid)).collect()
    }

    /// Shared memory that the marked processes have open.
    pub fn segments(&self) -> Vec<PathBuf> {
        let open = |pid| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let files = self
            .alive()
            .into_iter()
            .flat_map(open)
            .filter_map(|fd| fs::read_link(fd.path()).ok());
        // A process may have the folder itself open, to list it.
        files
            .filter(|file| file.parent() == Some(Path::new("/dev/shm")))
            .collect()
    }

    fn marks(&self, pid: i32) -> bool {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|&byte| byte == 0)
            .any(|entry| entry == self.entry.as_bytes())
    }

    pub fn assert_empty(&self) {
        let alive = self.alive();
        assert!(alive.is_empty(), "still alive: {alive:?}");
    }

    /// Waits until all marked processes have ended.
    pub fn wait_until_empty(&self) {
        wait_for("the tree to end", || self.alive().is_empty());
    }
}

/// Kills what a failed test has left.
impl Drop for Marked {
    fn drop(&mut self) {
        self.alive().into_iter().for_each(end);
    }
}

/// A process that neither its parent nor its environment connects with the test.
pub struct Daemon(pub i32);

impl Daemon {
    pub fn parent(&self) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("PPid:"))?
            .trim()
            .parse()
            .ok()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(self.0);
    }
}

/// Kills a process, if it has not ended already.
fn end(pid: i32) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
}

/// Waits until a file has a complete line, and returns the first.
pub fn first_line(path: &Path) -> String {
    let line = || fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'));
    wait_for(&format!("{}", path.display()), || line().is_some());
    line().unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
