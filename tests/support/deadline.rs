//! Commands that must end by themselves. One that does not is killed, and fails its test instead of holding it up for ever.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time limit for anything that a test waits for. It is generous, because the machine may be loaded.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a command to its end and returns what it printed.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    output_of(child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}")))
}

/// Waits until a child ends, and returns what it printed to its piped streams.
pub fn output_of(child: Child) -> Output {
    let pid = child.id();
    let (report, ended) = mpsc::channel();
    std::thread::spawn(move || report.send(child.wait_with_output()));
    match ended.recv_timeout(PATIENCE) {
        Ok(output) => output.expect("its output can be read"),
        Err(_) => {
            end(pid);
            let output = ended.recv().expect("it is killed").expect("its output can be read");
            panic!("it did not end by itself: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Waits until a child has ended.
pub fn ended(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if start.elapsed() > PATIENCE {
            end(child.id());
            panic!("process {} did not end by itself", child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(pid: u32) {
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid as i32),
        nix::sys::signal::Signal::SIGKILL,
    );
}
