//! Machines, files and clients that must do no harm: little stack, a wrong clock, huge sizes, bad requests.

use crate::deadline::{ended, output};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use vsweep::cause::{Cause, Failure};

const PLAN: &str =
    "[serve]\ncommand = 'vsweep sim serve m'\n[bench.params]\nmax_concurrency = 1\nvocab_size = 4194304\n";
/// A recorded experiment.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results/h100");

fn vsweep(folder: &Path, args: &[&str]) -> Output {
    output(
        Command::new(env!("CARGO_BIN_EXE_vsweep"))
            .args(args)
            .current_dir(folder),
    )
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

#[test]
fn little_stack_is_enough() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("plan.toml"), PLAN).expect("a file");
    let script = "ulimit -s 64; exec \"$@\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash", env!("CARGO_BIN_EXE_vsweep"), "check", "plan.toml"]);
    let checked = output(bash.current_dir(folder.path()).env_clear());
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
}

#[test]
fn a_vocabulary_of_no_model_is_refused() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("plan.toml"), PLAN).expect("a file");
    let checked = |size: &str| {
        let size = format!("bench.params.vocab_size={size}");
        vsweep(folder.path(), &["check", "plan.toml", "--set", &size])
    };
    assert_eq!(checked("4194304").status.code(), Some(0));
    for size in ["4194305", "1000000000", "0"] {
        let wrong = checked(size);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(
            said(&wrong).contains("a whole number from 1 to 4194304"),
            "{}",
            said(&wrong)
        );
    }
}

#[test]
fn a_message_is_recorded_up_to_some_length() {
    let failure = Failure::new(Cause::BenchFailed, "x".repeat(1 << 20));
    assert_eq!(failure.detail.chars().count(), 2000);
}

#[test]
fn a_clock_before_1970_is_named() {
    let folder = TempDir::new().expect("a folder");
    let library = folder.path().join("skewed.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/skewed.c");
    let mut built = Command::new("cc");
    built
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl"]);
    assert!(built.status().expect("a C compiler").success());
    let server = ["sim", "serve", "demo-8b", "--port", "0"];
    for words in [&server[..], &["run", "plan.toml"], &["submit", "plan.toml"]] {
        let mut skewed = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        skewed.args(words).current_dir(folder.path());
        skewed.env("LD_PRELOAD", &library).env("VSWEEP_SKEW_S", "-4000000000");
        let refused = output(&mut skewed);
        assert_eq!(refused.status.code(), Some(1));
        assert!(
            said(&refused).contains("clock is not between 1970 and 9999"),
            "{}",
            said(&refused)
        );
    }
}

#[test]
fn a_table_that_is_far_too_long_is_not_read() {
    let folder = TempDir::new().expect("a folder");
    let copied = Command::new("cp").args(["-r", RECORD]).arg(folder.path()).status();
    assert!(copied.expect("cp").success());
    // The files of an earlier version are not of this record.
    vsweep(folder.path(), &["report", "h100"]);
    let table = File::options().append(true).open(folder.path().join("h100/starts.csv"));
    table.and_then(|table| table.set_len(1 << 40)).expect("a sparse file");
    let verified = vsweep(folder.path(), &["verify", "h100"]);
    let line = "starts.csv: is more than twice as long as recomputed";
    assert!(said(&verified).contains(line), "{}", said(&verified));
}

#[test]
fn a_request_to_two_hosts_is_a_bad_one() {
    let mut live = Command::new(env!("CARGO_BIN_EXE_vsweep"))
        .args(["report", "--live", RECORD])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let out = live.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("an address");
    let (host, path) = line
        .trim()
        .trim_start_matches("http://")
        .split_once('/')
        .expect("a path");
    let status = |hosts: &str| {
        let mut stream = TcpStream::connect(host).expect("accepted");
        write!(stream, "GET /{path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer[9..12].to_owned()
    };
    let own = format!("host: {host}\r\n");
    let statuses = [own.clone(), format!("{own}host: evil.example\r\n")].map(|hosts| status(&hosts));
    live.kill().expect("it lives");
    ended(&mut live);
    assert_eq!(statuses, ["200", "400"]);
}
