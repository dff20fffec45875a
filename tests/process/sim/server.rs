//! A simulated server for one test: it listens on a free port, its output is kept, and nothing of it is left, whatever the test does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for anything. Only a broken server makes a test wait so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running server.
pub struct Server {
    child: Child,
    port: Option<u16>,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// Pids of its engine process and of everything else that it started.
    family: Vec<i32>,
    /// Shared memory of the family. Some faults leave it behind, so it is removed at the end of the test.
    segments: Vec<PathBuf>,
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Server {
    /// Launches `vsweep sim serve demo-8b` with more arguments, without waiting until it is ready.
    pub fn launch(args: &[&str]) -> Server {
        Self::launch_in(&[], args)
    }

    /// Like `launch`, with more environment variables.
    pub fn launch_in(environment: &[(&str, &str)], args: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .args(["sim", "serve", "demo-8b", "--port", "0", "--sim-start", "20ms"])
            .args(args)
            .env("VLLM_SERVER_DEV_MODE", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let output = Arc::new(Mutex::new(String::new()));
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("piped")),
            Box::new(child.stderr.take().expect("piped")),
        ];
        let readers = streams.into_iter().map(|stream| {
            let output = output.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let mut output = output.lock().expect("no reader panics");
                    output.push_str(&line);
                    output.push('\n');
                }
            })
        });
        let readers = readers.collect();
        Server {
            child,
            port: None,
            output,
            readers,
            family: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Launches the server, and waits until it is ready.
    pub fn start(args: &[&str]) -> Server {
        Self::start_in(&[], args)
    }

    /// Like `start`, with more environment variables.
    pub fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Server {
        let mut server = Server::launch_in(environment, args);
        server.wait_for_output("Application startup complete.");
        let output = server.output();
        let url = output
            .split("Starting vLLM server on http://127.0.0.1:")
            .nth(1)
            .expect("the line names the port");
        server.port = url.lines().next().and_then(|port| port.parse().ok());
        server.remember_family();
        server
    }

    /// Waits until the server has printed `text`. Panics with the server's output if the server ended without it.
    pub fn wait_for_output(&self, text: &str) {
        wait(&format!("the server prints {text:?}"), || {
            let closed = self.readers.iter().all(JoinHandle::is_finished);
            let output = self.output();
            assert!(
                !closed || output.contains(text),
                "the server ended without {text:?}:\n{output}"
            );
            output.contains(text)
        });
    }

    /// Everything printed so far on standard output and error.
    pub fn output(&self) -> String {
        self.output.lock().expect("no reader panics").clone()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn remember_family(&mut self) {
        self.family.extend(descendants(self.pid()));
        self.family.dedup();
        self.segments.extend(self.family.iter().flat_map(|pid| segments(*pid)));
    }

    /// Pids of the processes that the server had started when it became ready.
    pub fn family(&self) -> &[i32] {
        &self.family
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.expect("started"))
    }

    /// Opens a connection to the server.
    pub fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port.expect("started")))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Sends a request. The answer can be read from the returned connection.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        )?;
        Ok(stream)
    }

    /// Sends a request and reads the answer. Returns an error if the server is gone or the answer is cut off.
    pub fn try_ask(&self, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<Answer> {
        let mut text = String::new();
        self.send(method, path, headers, body)?.read_to_string(&mut text)?;
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(gone)?;
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or_else(gone)?;
        let body = if head.contains("chunked") {
            unchunk(body)
        } else {
            body.to_string()
        };
        Ok(Answer {
            status,
            head: head.to_string(),
            body,
        })
    }

    /// Sends a request and reads the answer. Panics if there is none.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.try_ask(method, path, "", body).expect("the server answers")
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, body)
    }

    /// Sends a signal to the server process alone.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal);
    }

    /// Waits until the server ends by itself.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait("the server ends", || {
            status = self.child.try_wait().expect("our child");
            status.is_some()
        });
        self.readers
            .drain(..)
            .for_each(|reader| reader.join().expect("readers end with their stream"));
        status.expect("it ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.remember_family();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.family.iter().filter(|pid| is_engine(**pid)) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        for segment in &self.segments {
            let _ = std::fs::remove_file(segment);
        }
        // An engine that died before the server was ready is known from its log lines alone.
        let output = self.output();
        let numbers = output.split("EngineCore pid=").skip(1);
        let pids = numbers.filter_map(|text| text.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok());
        for pid in pids {
            let _ = std::fs::remove_file(format!("/dev/shm/psm_{pid:08x}"));
        }
    }
}

/// Waits for a condition.
pub fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process with this pid lives and is an engine process of the simulator.
pub fn is_engine(pid: i32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with("VLLM::EngineCore")
}

/// Shared memory segments that a process holds open.
pub fn segments(pid: i32) -> Vec<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|path| path.starts_with("/dev/shm")).collect()
}

fn descendants(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        text.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}
