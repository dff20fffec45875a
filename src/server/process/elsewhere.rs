//! Ends a server that does not run below its command: in a container, or on another machine. Only the plan's stop command reaches it, so
//! the promise that no server is left rests on that command.

use super::procfs;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of the stop command.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Interval at which the end of the stop command is looked for.
const TICK: Duration = Duration::from_millis(50);

/// Runs the stop command in its folder, or in vsweep's own if that folder is gone, and returns true if it ends with 0. Otherwise the reason
/// is written to standard error.
pub(super) fn end(stop: &[String], folder: &Path) -> bool {
    let ended = try_end(stop, folder, LIMIT);
    if let Err(why) = &ended {
        // The command is tried again even if this message is lost. Its arguments may contain a secret.
        let _ = writeln!(
            io::stderr(),
            "vsweep: the stop command ({}) {why}; its server may still run",
            stop[0]
        );
    }
    ended.is_ok()
}

fn try_end(stop: &[String], folder: &Path, limit: Duration) -> Result<(), String> {
    let [program, arguments @ ..] = stop else {
        return Ok(());
    };
    let cannot_run = |error: io::Error| format!("cannot be run: {error}");
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = Command::new(program);
    if folder.is_dir() {
        command.current_dir(folder);
    }
    let mut child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output().map_err(cannot_run)?)
        .stderr(output().map_err(cannot_run)?)
        .process_group(0)
        .spawn()
        .map_err(cannot_run)?;
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(cannot_run)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if start.elapsed() < limit => thread::sleep(TICK),
            None => {
                let leader = child.id() as i32;
                // A process that began a group of its own is still a descendant.
                for process in procfs::descendants(leader) {
                    let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
                }
                let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
                let _ = child.wait();
                return Err(format!("did not end within {} s", limit.as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_stop_command_runs_even_if_its_folder_is_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stop = ["true".to_owned()];
        assert_eq!(try_end(&stop, &folder.path().join("gone"), LIMIT), Ok(()));
    }

    #[test]
    fn a_stop_command_that_hangs_ends_with_its_children() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pids = folder.path().join("pids");
        let script = format!(
            "sleep 600 & echo $! > {0}; setsid sleep 600 & echo $! >> {0}; wait",
            pids.display()
        );
        let stop = ["sh", "-c", &script].map(str::to_owned);
        assert!(try_end(&stop, folder.path(), Duration::from_secs(2)).is_err());
        let pids = fs::read_to_string(&pids).expect("written");
        let pids: Vec<i32> = pids.lines().map(|pid| pid.parse().expect("a pid")).collect();
        assert_eq!(pids.len(), 2);
        let deadline = Instant::now() + Duration::from_secs(20);
        let lives = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        while pids.iter().any(lives) {
            assert!(Instant::now() < deadline, "still there: {pids:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
