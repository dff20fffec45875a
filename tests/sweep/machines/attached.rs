//! Sweeps of a server that somebody else runs: messages about its failures, and results of one server that must never be taken for those of
//! another.

use crate::deadline;
use crate::harness::{Harness, journals, rows, said, wait_for};
use crate::standing::Standing;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use vsweep::cause::Cause;
use vsweep::server::Server;

#[test]
fn the_rows_tell_how_it_died_not_that_it_is_gone() {
    let harness = Harness::new();
    let server = Standing::start(&harness, &["--sim-fault", "crash-after:4"], false);
    let plan = format!(
        "runs = 3\n[serve]\nurl = \"{}\"\nready_timeout = \"10s\"\nreset = \"none\"\n\
         [bench.params]\nnum_prompts = 16\nmax_concurrency = 2\nrandom_input_len = 8\nrandom_output_len = 4\n",
        server.url()
    );
    let path = harness.write("plan.toml", &plan);
    let output = harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let runs = rows(&harness.folder.path().join("out/summary.csv"));
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert_eq!(run["cause"], "crashed_under_load", "{run:?}");
        assert_eq!(run["advice"], Cause::CrashedUnderLoad.advice());
        assert!(
            run["detail"].contains("did not start again: no healthy server at"),
            "{run:?}"
        );
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for wrong in [": starting", ": stopped"] {
        assert!(!told.contains(wrong), "vsweep does not start or stop it: {told}");
    }
}

#[tokio::test]
async fn what_answers_instead_is_told() {
    for (health, missing) in [
        ("404 Not Found", "the last answer of /health: HTTP 404"),
        ("200 OK", "it lists no models at /v1/models: HTTP 404"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 1024];
                let length = stream.read(&mut request).unwrap_or(0);
                let status = match request[..length].starts_with(b"GET /health") {
                    true => health,
                    false => "404 Not Found",
                };
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let limit = Duration::from_secs(3);
        let failure = Server::attach(&url, limit, limit).ready().await.expect_err("not ready");
        assert_eq!(failure.cause, Cause::ReadyTimeout);
        assert!(failure.detail.ends_with(missing), "{failure}");
    }
}

const LOADS: &str = "[bench]\nwarmup_prompts = 0\n[bench.params]\nnum_prompts = 8\nmax_concurrency = [1, 2]\n\
                     random_input_len = 8\nrandom_output_len = 4\n";

/// A plan for whatever answers at a URL, with more keys of `[serve]`.
fn plan(harness: &Harness, url: &str, serve: &str) -> String {
    let text = format!("runs = 2\n[serve]\nurl = \"{url}\"\nreset = \"none\"\n{serve}{LOADS}");
    let path = harness.write("plan.toml", &text);
    path.to_str().expect("plain").to_owned()
}

/// A server that reports its settings.
fn server(harness: &Harness, seqs: &str) -> Standing {
    Standing::start(harness, &["--max-num-seqs", seqs, "--sim-speed", "20"], true)
}

/// An address behind which the server can be changed: each connection goes to the port in `to`.
struct Proxy {
    url: String,
    to: Arc<AtomicU16>,
}

impl Proxy {
    /// A proxy to `port`. With port 0 the `others` answer in turn.
    fn to(port: u16, others: Vec<u16>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let to = Arc::new(AtomicU16::new(port));
        let chosen = Arc::clone(&to);
        std::thread::spawn(move || {
            for (turn, client) in listener.incoming().flatten().enumerate() {
                let port = match chosen.load(Ordering::SeqCst) {
                    0 => others[turn % others.len()],
                    port => port,
                };
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                for (mut from, mut into) in [(&client, &server), (&server, &client)]
                    .map(|(from, into)| (from.try_clone().expect("a handle"), into.try_clone().expect("a handle")))
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Proxy { url, to }
    }
}

/// Returns the number of runs in the tables, and the retired results.
fn counted(harness: &Harness) -> (usize, Vec<BTreeMap<String, String>>) {
    let out = harness.folder.path().join("out");
    let duplicates = out.join("duplicates.csv");
    let retired = if duplicates.exists() {
        rows(&duplicates)
    } else {
        Vec::new()
    };
    (rows(&out.join("summary.csv")).len(), retired)
}

fn verify(harness: &Harness) {
    let output = harness.run(&["verify", "out"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_server_that_says_other_settings_than_the_plan_is_doubted() {
    let harness = Harness::new();
    let server = server(&harness, "4");
    for (seqs, codes) in [(4, false), (8, true)] {
        let path = plan(&harness, &server.url(), "");
        let text = fs::read_to_string(&path).expect("the plan") + &format!("[serve.params]\nmax_num_seqs = {seqs}\n");
        harness.write("plan.toml", &text);
        let output = harness.run(&["run", &path, "-o", &format!("out{seqs}")]);
        let runs = rows(&harness.folder.path().join(format!("out{seqs}/summary.csv")));
        let doubted = runs
            .iter()
            .filter(|run| run["codes"].contains("not_as_planned"))
            .count();
        assert_eq!(doubted, if codes { runs.len() } else { 0 }, "{}", said(&output));
        assert_eq!(
            said(&output).contains("max_num_seqs is 4 instead of 8"),
            codes,
            "{}",
            said(&output)
        );
    }
}

#[test]
fn another_server_at_the_address_begins_anew() {
    let harness = Harness::new();
    let (first, second) = (server(&harness, "4"), server(&harness, "8"));
    let proxy = Proxy::to(first.port, Vec::new());
    let path = plan(&harness, &proxy.url, "");
    let output = harness.run(&["run", &path, "-o", "out", "--only", "max_concurrency=1"]);
    assert!(output.status.success(), "{}", said(&output));

    proxy.to.store(second.port, Ordering::SeqCst);
    let output = harness.run(&["run", &path, "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let reason = "another server answers now: max_num_seqs 4 became 8";
    assert!(
        said(&output).contains(&format!("earlier results leave the tables: {reason}")),
        "{}",
        said(&output)
    );
    let (runs, retired) = counted(&harness);
    assert_eq!((runs, retired.len()), (4, 2), "{retired:?}");
    assert!(
        retired.iter().all(|row| row["why"] == format!("retired: {reason}")),
        "{retired:?}"
    );
    let sentence = format!("2 earlier results are in duplicates.csv and in no table: {reason}");
    let told = said(&harness.run(&["report", "out"]));
    assert!((1..=2).contains(&told.matches(&sentence).count()), "{told}");
    // Doubts about the other results may leave no room for it.
    let told = said(&harness.run(&["status", "out"]));
    assert!(
        told.contains(&sentence) || told.contains(" more, see report.md"),
        "{told}"
    );
    verify(&harness);

    // Nothing is left to do, and the same server still answers.
    let output = harness.run(&["run", &path, "-o", "out"]);
    assert!(said(&output).contains("nothing left to do"), "{}", said(&output));
}

#[test]
fn another_server_at_the_address_has_the_whole_time() {
    let harness = Harness::new();
    let (first, second) = (server(&harness, "4"), server(&harness, "8"));
    let proxy = Proxy::to(first.port, Vec::new());
    let path = plan(&harness, &proxy.url, "");
    assert!(harness.run(&["run", &path, "-o", "out"]).status.success());
    proxy.to.store(second.port, Ordering::SeqCst);
    let output = harness.run(&["run", &path, "-o", "out", "--set", "max_time=1ms"]);
    assert!(said(&output).contains("stopped at its time limit"), "{}", said(&output));
    let journal = journals(&harness.folder.path().join("out")).concat();
    assert!(journal.contains("\"results_retired\":{"), "{journal}");
}

#[test]
fn a_search_on_another_server_begins_anew() {
    let harness = Harness::new();
    let (first, second) = (server(&harness, "4"), server(&harness, "8"));
    let proxy = Proxy::to(first.port, Vec::new());
    let text = format!(
        "[serve]\nurl = \"{}\"\nreset = \"none\"\n[bench]\nwarmup_prompts = 0\n[bench.params]\nrandom_input_len = 8\n\
         random_output_len = 4\nnum_prompts = 8\n[sla]\nvary = \"max_concurrency\"\nmax = 4\n\
         [[sla.target]]\nname = \"alive\"\nfailed = \"<=0\"\n",
        proxy.url
    );
    let path = harness.write("plan.toml", &text);
    let run = || harness.run(&["run", path.to_str().expect("plain"), "-o", "out"]);
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let before = rows(&harness.folder.path().join("out/sla.csv"));
    proxy.to.store(second.port, Ordering::SeqCst);
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (runs, retired) = counted(&harness);
    assert!(runs > 0 && !retired.is_empty(), "{runs} {retired:?}");
    let after = rows(&harness.folder.path().join("out/sla.csv"));
    assert_eq!(before.len(), after.len());
    verify(&harness);
}

#[test]
fn a_server_that_is_replaced_during_a_sweep_is_measured_from_the_beginning() {
    let harness = Harness::new();
    let (first, second) = (server(&harness, "4"), server(&harness, "8"));
    let proxy = Proxy::to(first.port, Vec::new());
    let path = plan(&harness, &proxy.url, "");
    let mut sweep = harness.start(&["run", &path, "-o", "out"]);
    let out = harness.folder.path().join("out");
    wait_for("a result", || journals(&out).concat().contains("run_finished"));
    proxy.to.store(second.port, Ordering::SeqCst);
    let status = deadline::ended(&mut sweep);
    assert!(status.success(), "{status:?}");
    let (runs, retired) = counted(&harness);
    assert_eq!(runs, 4);
    assert!(!retired.is_empty());
    let journal = journals(&out).concat();
    let after = journal.split("results_retired").nth(1).expect("it was replaced");
    assert_eq!(after.matches("run_finished").count(), 4, "{journal}");
    verify(&harness);
}

#[test]
fn servers_that_answer_in_turn_are_both_named() {
    let harness = Harness::new();
    let (first, second) = (server(&harness, "4"), server(&harness, "8"));
    let proxy = Proxy::to(0, vec![first.port, second.port]);
    let path = plan(&harness, &proxy.url, "");
    let output = harness.run(&["run", &path, "-o", "out"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = said(&output);
    assert!(
        told.contains("different servers answer in turn at http://127.0.0.1:"),
        "{told}"
    );
    assert!(
        told.contains("max_num_seqs 4") && told.contains("max_num_seqs 8"),
        "{told}"
    );
}

#[test]
fn a_server_that_was_only_started_again_goes_on() {
    let harness = Harness::new();
    let start = |port: Option<u16>| {
        let args = ["--max-num-seqs", "4", "--sim-speed", "20"];
        match port {
            None => Standing::start(&harness, &args, false),
            Some(port) => Standing::start_at(port, &harness, &args, false),
        }
    };
    let first = start(None);
    let port = first.port;
    let path = plan(&harness, &first.url(), "");
    let output = harness.run(&["run", &path, "-o", "out", "--only", "max_concurrency=1"]);
    assert!(output.status.success(), "{}", said(&output));
    drop(first);
    let _again = start(Some(port));
    let output = harness.run(&["run", &path, "-o", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    // Without the development mode the server does not report all of its settings.
    let told = "was restarted since the last run there; it does not report max_num_seqs and similar settings";
    assert!(said(&output).contains(told), "{}", said(&output));
    // Later readers of the results must see the restart too.
    for file in ["report.md", "report.html"] {
        let text = std::fs::read_to_string(harness.folder.path().join("out").join(file)).expect("readable");
        let told = "was restarted between its runs, so its figures come from 2 starts";
        assert!(text.contains(told), "{file}");
    }
    let (runs, retired) = counted(&harness);
    assert_eq!((runs, retired.len()), (4, 0), "{retired:?}");
}

#[test]
fn a_run_under_which_the_server_was_started_again_is_tried_again() {
    let harness = Harness::new();
    let slow = || Standing::start(&harness, &["--max-num-seqs", "4", "--sim-speed", "2"], true);
    let first = slow();
    // Start times are reported to a hundredth of a second, so those of the two servers must differ by more.
    std::thread::sleep(Duration::from_millis(100));
    let second = slow();
    let proxy = Proxy::to(first.port, Vec::new());
    let path = plan(&harness, &proxy.url, "");
    let mut sweep = harness.start(&["run", &path, "-o", "out"]);
    let out = harness.folder.path().join("out");
    let begun = || journals(&out).concat().matches("\"run_started\":{").count();
    wait_for("the second run", || begun() == 2);
    proxy.to.store(second.port, Ordering::SeqCst);
    let status = deadline::ended(&mut sweep);
    assert!(status.success(), "{status:?}");
    assert_eq!(begun(), 5, "one was tried again");
    let (runs, retired) = counted(&harness);
    assert_eq!((runs, retired.len()), (4, 0), "{retired:?}");
    assert_eq!(journals(&out).concat().matches("\"server_ready\":{").count(), 2);
    verify(&harness);
}

#[test]
fn what_is_behind_a_url_is_measured_anew_if_the_plan_asks() {
    let harness = Harness::new();
    let server = server(&harness, "4");
    let path = plan(&harness, &server.url(), "fresh = true\n");
    let run = |more: &[&str]| harness.run(&[&["run", path.as_str(), "-o", "out"], more].concat());
    assert!(run(&[]).status.success());
    assert_eq!(counted(&harness).0, 4);
    let told = said(&run(&["--dry-run"]));
    assert!(told.contains("1 running server, 4 runs; recorded"), "{told}");
    let page = fs::read_to_string(harness.folder.path().join("out/report.html")).expect("a page");
    assert!(
        page.contains("figures, command lines</summary>"),
        "nobody could give it a file"
    );

    // A sweep that was interrupted is finished before everything is measured anew.
    let mut sweep = harness.start(&["run", &path, "-o", "out"]);
    let results = || {
        journals(&harness.folder.path().join("out"))
            .concat()
            .matches("run_finished")
            .count()
    };
    wait_for("a new result", || results() > 4);
    sweep.kill().expect("it runs");
    sweep.wait().expect("it was killed");
    let done = results();
    let output = run(&[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(results(), if done < 8 { 8 } else { done + 4 });
    let (runs, retired) = counted(&harness);
    assert_eq!(runs, 4);
    assert!(
        retired
            .iter()
            .all(|row| row["why"] == "retired: measured anew, as serve.fresh asks"),
        "{retired:?}"
    );
    verify(&harness);
}

#[test]
fn a_server_is_measured_anew_after_a_sweep_that_ran_out_of_time() {
    let harness = Harness::new();
    let server = server(&harness, "4");
    let path = plan(&harness, &server.url(), "fresh = true\n");
    for sessions in 1..=2 {
        let output = harness.run(&["run", &path, "-o", "out", "--set", "max_time=1ms"]);
        assert!(said(&output).contains("stopped at its time limit"), "{}", said(&output));
        let journal = journals(&harness.folder.path().join("out")).concat();
        assert_eq!(journal.matches("\"session_started\":{").count(), sessions, "{journal}");
    }
}
