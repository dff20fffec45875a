//! Ending a server that does not run below its command: in a container, or on another machine. Only the plan's stop command
//! reaches it, so the promise that no server is left rests on that command.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of the command.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(50);

/// Runs the command and says on standard error if it does not end with 0; returns whether it does.
pub(super) fn end(stop: &[String]) -> bool {
    let ended = try_end(stop);
    if let Err(why) = &ended {
        let stop = crate::shell::shell_line(stop);
        // The command is tried again even if this message is lost.
        let _ = writeln!(
            io::stderr(),
            "vsweep: the stop command `{stop}` {why}; its server may still run"
        );
    }
    ended.is_ok()
}

fn try_end(stop: &[String]) -> Result<(), String> {
    let [program, arguments @ ..] = stop else {
        return Ok(());
    };
    let cannot_run = |error: io::Error| format!("cannot be run: {error}");
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output().map_err(cannot_run)?)
        .stderr(output().map_err(cannot_run)?)
        .spawn()
        .map_err(cannot_run)?;
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(cannot_run)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if start.elapsed() < LIMIT => thread::sleep(TICK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", LIMIT.as_secs()));
            }
        }
    }
}
