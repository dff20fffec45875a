//! Runs the real binary as a user would and looks at what it leaves: its files and its processes.

#![allow(dead_code, reason = "every test binary uses its own part")]

use crate::deadline::{self, PATIENCE};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A scratch folder whose processes are identified by an environment variable.
pub struct Harness {
    pub folder: tempfile::TempDir,
    marker: String,
}

impl Harness {
    pub fn new() -> Harness {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let marker = format!("VSWEEP_TEST_MARKER={}", folder.path().display());
        Harness { folder, marker }
    }

    /// Writes a file into the scratch folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a writable scratch folder");
        path
    }

    /// A command that runs the real binary in the scratch folder. Every signal has its default effect, even if the tests were started with
    /// some ignored (`nohup`, or a shell's `&`).
    pub fn vsweep(&self, args: &[&str]) -> Command {
        let (name, value) = self.marker.split_once('=').expect("made with =");
        let mut command = Command::new("env");
        command
            .args(["--default-signal", env!("CARGO_BIN_EXE_vsweep")])
            .args(args)
            .current_dir(self.folder.path())
            .env(name, value)
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        deadline::output(&mut self.vsweep(args))
    }

    /// Starts the binary in the background and discards its output.
    pub fn start(&self, args: &[&str]) -> Child {
        self.vsweep(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts")
    }

    /// Kills a vsweep once `is_due` returns true, and waits until all processes that it started are gone. Returns false if vsweep ended
    /// with success before.
    pub fn kill_when(&self, mut vsweep: Child, mut is_due: impl FnMut() -> bool) -> bool {
        let mut ended = None;
        wait_for("the moment to kill it", || {
            ended = vsweep.try_wait().expect("a child");
            ended.is_some() || is_due()
        });
        if let Some(status) = ended {
            assert!(status.success(), "{status}");
            return false;
        }
        vsweep.kill().expect("alive until now");
        vsweep.wait().expect("reaped");
        self.wait_until_alone();
        true
    }

    /// Kills a vsweep and its guards, so that neither can react to the other's end. The guards die first, while vsweep is stopped: a stopped
    /// guard would go on when vsweep dies, because the kernel then continues its orphaned process group.
    pub fn kill_with_guards(&self, vsweep: &mut Child) {
        let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let pids = self.processes().into_iter().map(|(pid, _)| pid);
        let guards: Vec<i32> = pids.filter(|pid| name(*pid) == "server-guard\n").collect();
        assert!(!guards.is_empty(), "vsweep has a guard");
        let pid = Pid::from_raw(vsweep.id() as i32);
        kill(pid, Signal::SIGSTOP).expect("it lives");
        let state = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("a child");
        assert_eq!(state, WaitStatus::Stopped(pid, Signal::SIGSTOP));
        for guard in guards {
            kill(Pid::from_raw(guard), Signal::SIGKILL).expect("it lives");
        }
        vsweep.kill().expect("it lives");
        vsweep.wait().expect("reaped");
    }

    /// Pids and command lines of living processes that carry the marker.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("a proc file system").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environ
                .split(|&byte| byte == 0)
                .any(|variable| variable == self.marker.as_bytes())
            {
                let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                found.push((pid, command.replace('\0', " ")));
            }
        }
        found
    }

    /// Shared memory that the marked processes have open. A test may kill the very processes that would remove it.
    pub fn segments(&self) -> Vec<PathBuf> {
        let open = |(pid, _)| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let files = self.processes().into_iter().flat_map(open);
        let files = files.filter_map(|fd| fs::read_link(fd.path()).ok());
        // A process may have the folder itself open, to list it.
        files
            .filter(|file| file.parent() == Some(Path::new("/dev/shm")))
            .collect()
    }

    /// Waits until no process with the marker lives.
    pub fn wait_until_alone(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes are left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let segments = self.segments();
        for (pid, _) in self.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        for segment in segments {
            let _ = fs::remove_file(segment);
        }
    }
}

/// Prints why something is not tested here. Written to standard error directly, because the test runner hides what `eprintln!` prints.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Standard output and error as text, for messages.
pub fn said(output: &Output) -> String {
    format!(
        "exit {:?}\n--- stdout\n{}\n--- stderr\n{}",
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The files of a folder with an ending, in the order of their names; none if it is not there.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

/// The journals of a directory, one for each session.
pub fn journal_files(directory: &Path) -> Vec<PathBuf> {
    files(&directory.join("journal"), ".jsonl")
}

/// The files of all runs of a directory, point by point.
pub fn run_files(directory: &Path) -> Vec<PathBuf> {
    let points = files(&directory.join("runs"), "");
    points.iter().flat_map(|point| files(point, ".json")).collect()
}

/// Files with the telemetry of a point's runs.
pub fn telemetry_files(directory: &Path, point: &str) -> Vec<PathBuf> {
    files(&directory.join("runs").join(point), ".telemetry.csv")
}

/// The texts of all journals.
pub fn journals(directory: &Path) -> Vec<String> {
    let journals = journal_files(directory);
    journals
        .iter()
        .map(|path| fs::read_to_string(path).expect("text"))
        .collect()
}

/// Number of complete lines in all journals.
pub fn journal_lines(directory: &Path) -> usize {
    journals(directory)
        .iter()
        .map(|journal| journal.matches('\n').count())
        .sum()
}

/// Number of results of each (point, run): in a journal line, or in the file of a run whose vsweep was killed between its file and its
/// line. Runs of the start alone (slot 100 000) are not counted.
pub fn recorded_outcomes(directory: &Path) -> BTreeMap<(String, u64), usize> {
    let mut count: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for path in journal_files(directory) {
        let nonce = path.file_stem().and_then(|stem| stem.to_str()).expect("a nonce");
        let journal = fs::read_to_string(&path).expect("text");
        let mut begun = BTreeMap::new();
        for line in journal.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let entry: serde_json::Value = serde_json::from_str(line).expect("a whole line is JSON");
            let event = &entry["event"];
            if let Some(started) = event.get("run_started") {
                let point = started["point"].as_str().expect("a point").to_owned();
                let (run, seq) = (started["run"].as_u64().expect("a run"), entry["seq"].as_u64());
                let name = format!("{}.{run}-{nonce}-{}.json", started["slot"], entry["seq"]);
                let is_alone = started["slot"] == 100_000;
                begun.insert(
                    seq,
                    (directory.join("runs").join(&point).join(name), (point, run), is_alone),
                );
            } else if let Some(finished) = event.get("run_finished") {
                let (_, run, is_alone) = begun.remove(&finished["started"].as_u64()).expect("it was begun");
                if !is_alone {
                    *count.entry(run).or_default() += 1;
                }
            } else if let Some(given_up) = event.get("group_given_up") {
                for point in given_up["points"].as_array().expect("points") {
                    for run in point["runs"].as_array().expect("runs") {
                        let point = point["point"].as_str().expect("a point").to_owned();
                        *count.entry((point, run.as_u64().expect("a number"))).or_default() += 1;
                    }
                }
            }
        }
        for (_, run, _) in begun
            .into_values()
            .filter(|(file, _, is_alone)| file.exists() && !is_alone)
        {
            *count.entry(run).or_default() += 1;
        }
    }
    count
}

/// Rows of a CSV file as maps from column to text.
pub fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).expect("a CSV file");
    let header = reader.headers().expect("a header").clone();
    reader
        .records()
        .map(|record| {
            let record = record.expect("a row");
            header
                .iter()
                .map(str::to_owned)
                .zip(record.iter().map(str::to_owned))
                .collect()
        })
        .collect()
}
