//! `vsweep report --live` during a sweep that runs, is killed, and continues; and reports written to a separate place.

use crate::harness::{Harness, said, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

const PLAN: &str = r#"
version = 1
name = "live"
runs = 40
[serve]
command = "vsweep sim serve demo-8b --sim-start 20ms"
[bench]
warmup_prompts = 0
[bench.params]
dataset_name = "random"
random_input_len = 16
random_output_len = 24
num_prompts = 8
max_concurrency = [1, 4]
"#;

/// A running `vsweep report --live`. It is killed at the end of the test.
struct Live {
    child: Child,
    host: String,
    path: String,
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Live {
    fn start(harness: &Harness, directory: &str) -> Live {
        let mut command = harness.vsweep(&["report", "--live", directory]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        lines.read_line(&mut line).expect("an address");
        let address = line.trim().strip_prefix("http://").expect("an address").to_owned();
        let (host, path) = address.split_once('/').expect("a path");
        Live {
            child,
            host: host.to_owned(),
            path: format!("/{path}"),
        }
    }

    /// Returns the status, the headers and the body of the answer.
    fn ask(&self, method: &str, path: &str, more: &str) -> (String, String, String) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{more}\r\n",
            self.host
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        (status, head.to_owned(), body.to_owned())
    }

    fn now(&self) -> Value {
        let (status, _, body) = self.ask("GET", &format!("{}now.json", self.path), "");
        assert_eq!(status, "200");
        serde_json::from_str(&body).expect("JSON")
    }

    fn done(&self) -> u64 {
        let count = self.now()["count"].as_str().expect("a text").to_owned();
        count
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default()
    }

    fn page(&self) -> String {
        self.ask("GET", &self.path, "").2
    }
}

#[test]
fn a_report_is_served_while_the_sweep_runs_is_killed_and_goes_on() {
    let harness = Harness::new();
    harness.write("live.toml", PLAN);
    let mut sweep = harness.start(&["run", "live.toml", "-o", "out"]);
    let directory = harness.folder.path().join("out");
    wait_for("a first result", || {
        std::fs::read_to_string(directory.join("summary.csv")).is_ok_and(|text| text.lines().count() > 2)
    });
    let live = Live::start(&harness, "out");
    assert!(live.host.starts_with("127.0.0.1:"), "{}", live.host);
    let page = live.page();
    assert!(
        page.contains("id=\"live\"") && page.contains("connect-src 'self'"),
        "a page of its own"
    );
    wait_for("what runs", || {
        live.now()["doing"][0]["what"]
            .as_str()
            .is_some_and(|what| what.contains("concurrency"))
    });
    assert_eq!(live.now()["working"], true);
    let before = live.done();
    wait_for("more results", || live.done() > before + 2);
    wait_for("a newer page", || live.now()["version"].as_u64() > Some(1));
    assert_ne!(live.page(), page);
    wait_for("readings of the last minutes", || {
        live.now()["recent"][0]["read"]["charts"]
            .as_array()
            .is_some_and(|charts| !charts.is_empty())
    });

    sweep.kill().expect("killed");
    sweep.wait().expect("gone");
    wait_for("nobody at work", || live.now()["working"] == false);
    assert_eq!(live.now()["doing"], serde_json::json!([]));
    let before = live.done();
    let mut again = harness.start(&["run", "live.toml", "-o", "out"]);
    wait_for("the sweep to go on", || {
        live.now()["working"] == true && live.done() > before
    });
    again.kill().expect("killed");
    again.wait().expect("gone");
}

#[test]
fn a_killed_worker_does_nothing_while_another_goes_on() {
    let harness = Harness::new();
    let endless = PLAN
        .replace("--sim-start 20ms", "--sim-start 20ms --sim-fault hang-after:1")
        .replace("[serve]\n", "[serve]\nanswer_check = false\n")
        .replace("[bench]\n", "[serve.params]\nmax_num_seqs = [4, 8]\n[bench]\n");
    harness.write("live.toml", &endless);
    let submitted = harness.run(&["submit", "live.toml", "-o", "out"]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    let mut workers = [(); 2].map(|()| harness.start(&["worker", "out"]));
    let live = Live::start(&harness, "out");
    let doing = || live.now()["doing"].as_array().map(Vec::len);
    wait_for("both at work", || doing() == Some(2));
    workers[0].kill().expect("killed");
    workers[0].wait().expect("gone");
    wait_for("one at work", || doing() == Some(1));
    workers[1].kill().expect("killed");
    workers[1].wait().expect("gone");
    drop(live);
    harness.wait_until_alone();
}

#[test]
fn readings_of_a_run_are_shown_while_it_goes_on() {
    let harness = Harness::new();
    harness.write(
        "live.toml",
        &PLAN
            .replace("random_output_len = 24", "random_output_len = 20000")
            .replace("runs = 40", "runs = 1"),
    );
    let mut sweep = harness.start(&["run", "live.toml", "-o", "out"]);
    let directory = harness.folder.path().join("out");
    wait_for("a run that goes on", || {
        std::fs::read_dir(directory.join("runs"))
            .is_ok_and(|mut points| points.any(|point| point.is_ok_and(|point| point.path().is_dir())))
    });
    let live = Live::start(&harness, "out");
    let seconds = || {
        live.now()["recent"][0]["read"]["seconds"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    wait_for("its readings", || seconds().len() > 2);
    let last = seconds().last().and_then(Value::as_f64).expect("a number");
    assert!((-120.0..=1.0).contains(&last), "{last} seconds before now");
    assert_eq!(live.done(), 0, "nothing has ended yet");
    let charts = live.now()["recent"][0]["read"]["charts"].clone();
    assert_eq!(charts[0]["title"], "Requests", "{charts}");
    sweep.kill().expect("killed");
    sweep.wait().expect("gone");
    wait_for("no readings of a run that nobody measures", || {
        let now = live.now();
        now["working"] == false && now["recent"] == serde_json::json!([])
    });
}

#[test]
fn nobody_reads_a_live_report_without_its_address_and_nobody_writes() {
    let harness = Harness::new();
    harness.write("live.toml", &PLAN.replace("runs = 40", "runs = 1"));
    let ran = harness.run(&["run", "live.toml", "-o", "out"]);
    assert!(ran.status.success(), "{}", said(&ran));
    let live = Live::start(&harness, "out");
    let own = format!("origin: http://{}\r\n", live.host);
    let short = &live.path[..live.path.len() - 2];
    let asked = [
        ("GET", live.path.as_str(), "", "200"),
        ("GET", &live.path, &own, "200"),
        ("GET", &live.path, "origin: http://elsewhere.example\r\n", "403"),
        ("GET", "/", "", "404"),
        ("GET", "/now.json", "", "404"),
        ("GET", short, "", "404"),
        ("GET", &format!("{}../plan.toml", live.path), "", "404"),
        ("POST", &live.path, "content-length: 0\r\n", "405"),
        ("DELETE", &live.path, "", "405"),
    ];
    for (method, path, more, expected) in asked {
        let (status, head, body) = live.ask(method, path, more);
        assert_eq!(status, expected, "{method} {path} {more}");
        assert!(
            head.contains("referrer-policy: no-referrer") && head.contains("cache-control: no-store"),
            "{head}"
        );
        assert!(!head.contains("access-control"), "{head}");
        // A refusal may say why.
        assert!(body.is_empty() != (expected == "200") || expected == "403", "{body}");
    }
    let taken = harness.run(&["report", "--live", "out", "--listen", &live.host]);
    assert!(
        taken.status.code() == Some(2) && said(&taken).contains("--listen"),
        "{}",
        said(&taken)
    );
}

#[test]
fn a_report_is_written_where_it_is_asked_for_and_nothing_else() {
    let harness = Harness::new();
    harness.write("live.toml", &PLAN.replace("runs = 40", "runs = 1"));
    let ran = harness.run(&["run", "live.toml", "-o", "out"]);
    assert!(ran.status.success(), "{}", said(&ran));
    let out = harness.folder.path().join("out");
    std::fs::remove_dir_all(out.join("charts")).expect("there were charts");
    for (place, begin) in [("there.html", "<!DOCTYPE html>"), ("there.md", "## out")] {
        let wrote = harness.run(&["report", "out", "-o", place]);
        assert!(wrote.status.success(), "{}", said(&wrote));
        let text = std::fs::read_to_string(harness.folder.path().join(place)).expect("written");
        assert!(text.starts_with(begin), "{}", &text[..80]);
        assert!(!text.contains("id=\"live\"") && !text.contains("connect-src"));
    }
    let printed = harness.run(&["report", "out", "-o", "-"]);
    assert!(printed.stdout.starts_with(b"<!DOCTYPE html>"), "{}", said(&printed));
    assert!(!out.join("charts").exists());
    let refused = harness.run(&["report", "out", "-o", "nowhere/there.html"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let refused = harness.run(&["report", "out", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

#[test]
fn a_plan_that_changes_changes_the_served_page() {
    let harness = Harness::new();
    let plan = PLAN.replace("runs = 40", "runs = 1");
    harness.write("live.toml", &plan);
    assert!(harness.run(&["run", "-q", "live.toml", "-o", "out"]).status.success());
    let live = Live::start(&harness, "out");
    assert!(!live.page().contains("equirement not met"), "nothing is required yet");
    harness.write("live.toml", &format!("{plan}[[assert]]\np99_ttft_ms = \"<0.001\"\n"));
    assert_eq!(
        harness
            .run(&["run", "-q", "live.toml", "-o", "out", "--set", "runs=2"])
            .status
            .code(),
        Some(4)
    );
    wait_for("the new requirement", || live.page().contains("equirement not met"));
}
