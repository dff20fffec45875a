//! A simulated server that a test starts itself, and then measures.

use crate::harness::{Harness, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A running server. It is stopped at the end of the test.
pub struct Standing {
    child: Child,
    pub port: u16,
    /// Shared memory that the server leaves behind if it crashes.
    segments: Vec<PathBuf>,
}

impl Standing {
    /// Starts `vsweep sim serve demo-8b` with more arguments, in development mode or not, and waits until it is ready.
    pub fn start(harness: &Harness, args: &[&str], dev_mode: bool) -> Standing {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Standing::start_at(port.expect("a free port").port(), harness, args, dev_mode)
    }

    /// Like `start`, at the given port.
    pub fn start_at(port: u16, harness: &Harness, args: &[&str], dev_mode: bool) -> Standing {
        let port_text = port.to_string();
        let start = ["sim", "serve", "demo-8b", "--sim-start", "20ms", "--port", &port_text];
        let child = harness
            .vsweep(&[&start, args].concat())
            .env("VLLM_SERVER_DEV_MODE", if dev_mode { "1" } else { "0" })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut standing = Standing {
            child,
            port,
            segments: Vec::new(),
        };
        wait_for("the server to be ready", || {
            standing.try_ask("GET", "/health").is_some()
        });
        standing.segments = harness.segments();
        standing
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn try_ask(&self, method: &str, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let head = format!("{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// The body of an answer.
    pub fn ask(&self, method: &str, path: &str) -> String {
        self.try_ask(method, path).expect("the server answers")
    }

    /// Returns true if scheduling is held.
    pub fn is_held(&self) -> bool {
        self.ask("GET", "/is_sleeping").contains("true")
    }

    /// Value of a metric, of the first line with that name.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.ask("GET", "/metrics");
        let line = page.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value.and_then(|value| value.parse().ok()).expect("the metric is there")
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let patience = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for segment in &self.segments {
            let _ = std::fs::remove_file(segment);
        }
    }
}

/// One finished sequence in a truth file, which the simulator writes with `--sim-truth`.
#[derive(Debug)]
pub struct Truth {
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    pub token_ms: Vec<f64>,
}

/// Reads the sequences that a server has finished.
pub fn truth(path: &std::path::Path) -> Vec<Truth> {
    let text = std::fs::read_to_string(path).expect("a truth file");
    let read = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let times = value["token_ms"].as_array().expect("times").iter();
        Truth {
            prompt_tokens: value["prompt_tokens"].as_u64().expect("a count"),
            output_tokens: value["output_tokens"].as_u64().expect("a count"),
            token_ms: times.filter_map(serde_json::Value::as_f64).collect(),
        }
    };
    text.lines().map(read).collect()
}
