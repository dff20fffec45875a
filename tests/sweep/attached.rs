//! Sweeps of a server that somebody else runs: what is said where it is not well.

use crate::harness::{Harness, rows, said};
use crate::standing::Standing;
use std::io::{Read, Write};
use std::net::TcpListener;
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
            run["detail"].contains("did not come back: nothing healthy at"),
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
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let limit = Duration::from_secs(5);
    let failure = Server::attach(&url, limit, limit).ready().await.expect_err("no health");
    assert_eq!(failure.cause, Cause::ReadyTimeout);
    assert!(failure.detail.ends_with("/health last gave: HTTP 404"), "{failure}");
}
