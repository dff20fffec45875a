//! Client and server as separate processes, each pinned to a core, and the cost of the client.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Cost of a client, including its start and its end.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From exec to exit.
    pub wall_s: f64,
    /// CPU time of all its threads and children.
    pub cpu_s: f64,
    /// The part of `cpu_s` that was spent in the kernel.
    pub system_s: f64,
    /// Peak resident memory.
    pub rss_mb: f64,
}

/// Runs a command on core 0 and prints its [`Cost`]. This is a separate process, because the system only reports the peak memory of all
/// children together.
pub fn watch(command: &[String]) -> io::Result<()> {
    pin(0);
    let began = Instant::now();
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    let wall_s = began.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let s = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let system_s = s(usage.system_time());
    println!(
        "{wall_s} {} {system_s} {} {}",
        s(usage.user_time()) + system_s,
        usage.max_rss() as f64 / 1024.0,
        status.success()
    );
    Ok(())
}

/// Runs a client through [`watch`]; `None` if it failed.
pub fn cost(command: &[String]) -> io::Result<Option<Cost>> {
    let output = Command::new(std::env::current_exe()?)
        .arg("watch")
        .args(command)
        .stderr(Stdio::piped())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut fields = text.split_whitespace();
    let mut next = || fields.next().and_then(|field| field.parse().ok());
    let (Some(wall_s), Some(cpu_s), Some(system_s), Some(rss_mb)) = (next(), next(), next(), next()) else {
        return Ok(None);
    };
    if fields.next() != Some("true") {
        let said = String::from_utf8_lossy(&output.stderr);
        eprintln!("{}: {}", command[0], said.lines().last().unwrap_or_default());
        return Ok(None);
    }
    Ok(Some(Cost {
        wall_s,
        cpu_s,
        system_s,
        rss_mb,
    }))
}

/// A mock server. It is killed when the value is dropped.
pub struct Server {
    child: Child,
    /// Host and port.
    pub address: String,
}

impl Server {
    /// Starts a mock server. `pace` is either the number of tokens in a write, without delay, or the times to the first token and between
    /// tokens, in milliseconds.
    pub fn start(pace: &[usize]) -> io::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("mock").args(pace.iter().map(usize::to_string));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        Ok(Server {
            child,
            address: address.trim().to_owned(),
        })
    }

    /// Returns the server's measurements since the last call.
    pub fn truth(&self) -> io::Result<serde_json::Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(b"GET /truth HTTP/1.1\r\n\r\n")?;
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.ends_with('}') {
            match stream.read(&mut buffer)? {
                0 => break,
                n => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
            }
        }
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(io::Error::other)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps this process, and those that it starts, on one core. If the machine lacks that core, nothing changes.
pub fn pin(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}
