//! A supervised server with every fault of the simulator: each fault is found with its cause, and leaves no process, port or segment.

use super::tree::{Marked, spawn};
use std::cell::RefCell;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use vsweep::cause::{Cause, Failure};
use vsweep::plan::Reset;
use vsweep::server::{Identity, Launch, Server, create_log};

const PATIENCE: Duration = Duration::from_secs(120);

/// A simulated server of one test.
struct SimServer {
    marked: Marked,
    launch: Launch,
    /// Shared memory that the server had open when it was ready.
    segments: RefCell<Vec<PathBuf>>,
}

impl SimServer {
    fn new(test: &str, flags: &str) -> SimServer {
        let marked = Marked::new(test);
        let argv = format!("vsweep sim serve org/tiny --sim-zero --sim-start 100ms {flags}");
        let launch = Launch {
            protocol: Default::default(),
            argv: argv.split_whitespace().map(str::to_owned).collect(),
            env: marked.env.clone(),
            cpus: None,
            log: marked.path("server.log"),
            ready_timeout: PATIENCE,
            stop_grace: Duration::from_millis(500),
            hang_timeout: Duration::from_secs(5),
        };
        SimServer {
            marked,
            launch,
            segments: RefCell::default(),
        }
    }

    async fn spawn(&self) -> Server {
        spawn(&self.launch).await.expect("it can be launched")
    }

    /// Launches the server and waits until it is ready or has failed.
    async fn start(&self) -> (Server, Result<Identity, Failure>) {
        let mut server = self.spawn().await;
        let outcome = server.ready().await;
        if outcome.is_ok() {
            self.segments.replace(self.marked.segments());
            assert!(!self.segments.borrow().is_empty(), "the simulator's engine has one");
        }
        (server, outcome)
    }

    /// Stops the server, and checks that no process, port or segment of it is left.
    async fn finish(&self, mut server: Server) {
        server.stop().await;
        self.marked.assert_empty();
        let port = server
            .base_url()
            .rsplit(':')
            .next()
            .and_then(|port| port.parse::<u16>().ok())
            .expect("a port");
        TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
        for segment in self.segments.borrow().iter() {
            assert!(!segment.exists(), "{} is left", segment.display());
        }
    }
}

/// Sends a streaming request. The returned connection keeps the request in flight.
fn request(server: &Server) -> io::Result<TcpStream> {
    let body = r#"{"model":"org/tiny","prompt":"hello","max_tokens":64,"stream":true,"ignore_eos":true}"#;
    let address = server.base_url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes())?;
    Ok(stream)
}

#[tokio::test]
async fn a_healthy_server_says_who_it_is() {
    let simulated = SimServer::new("healthy", "--served-model-name one two");
    let (mut server, identity) = simulated.start().await;
    let identity = identity.expect("ready");
    assert_eq!(
        (identity.served_model.as_str(), identity.model_root.as_str()),
        ("one", "org/tiny")
    );
    assert!(identity.simulated && identity.version.is_some() && identity.max_model_len.is_some());
    server.reset(&Reset::Caches).await.expect("accepted");
    simulated.finish(server).await;
}

#[tokio::test]
async fn faults_while_starting_have_their_causes() {
    let cases = [
        ("--sim-fault crash-at-start", Cause::CrashedStarting),
        ("--sim-fault bad-exit:3", Cause::CrashedStarting),
        ("--sim-fault oom-at-load", Cause::OomAtLoad),
        ("--sim-fault kv-too-small", Cause::KvCacheTooSmall),
        ("--sim-fault port-taken", Cause::PortTaken),
        ("--sim-fault wrong-model", Cause::WrongServer),
        ("--no-such-flag 3", Cause::BadFlag),
        ("--max-num-seqs abc", Cause::BadFlag),
        ("--max-num-seqs 0", Cause::BadConfig),
        ("--max-model-len 99999999", Cause::BadConfig),
        ("--tensor-parallel-size 7", Cause::BadConfig),
    ];
    for (flags, cause) in cases {
        let simulated = SimServer::new("starting", flags);
        let (server, outcome) = simulated.start().await;
        let failure = outcome.expect_err(flags);
        assert_eq!(failure.cause, cause, "{flags}: {failure}");
        simulated.finish(server).await;
    }
}

#[tokio::test]
async fn a_missing_model_or_program_is_named() {
    let mut simulated = SimServer::new("missing", "");
    simulated.launch.argv[3] = "/no/such/model/folder".into();
    let (server, outcome) = simulated.start().await;
    assert_eq!(outcome.expect_err("no model").cause, Cause::ModelNotFound);
    simulated.finish(server).await;
    simulated.launch.argv[0] = "no-such-program".into();
    simulated.launch.log = simulated.marked.path("second.log");
    let failure = spawn(&simulated.launch).await.expect_err("no program");
    assert_eq!(failure.cause, Cause::CommandNotFound);
}

#[tokio::test]
async fn a_server_that_is_never_ready_ends_at_its_deadline() {
    let mut simulated = SimServer::new("never-ready", "--sim-fault never-ready");
    simulated.launch.ready_timeout = Duration::from_secs(1);
    let (server, outcome) = simulated.start().await;
    assert_eq!(outcome.expect_err("too late").cause, Cause::ReadyTimeout);
    simulated.finish(server).await;
}

#[tokio::test]
async fn faults_under_load_have_their_causes() {
    let cases = [
        ("--sim-fault crash-after:1", Cause::CrashedUnderLoad),
        ("--sim-fault engine-death-after:1", Cause::CrashedUnderLoad),
        ("--sim-fault oom-after:1", Cause::OomUnderLoad),
        ("--sim-fault hang-after:1", Cause::Hung),
    ];
    for (flags, cause) in cases {
        let simulated = SimServer::new("under-load", flags);
        let (mut server, outcome) = simulated.start().await;
        outcome.expect("ready");
        // The first request may kill the server before the second is sent.
        let in_flight = [request(&server), request(&server)];
        assert!(in_flight[0].is_ok(), "it listens");
        let failure = tokio::time::timeout(PATIENCE, server.failed())
            .await
            .expect("the failure is found");
        assert_eq!(failure.cause, cause, "{flags}: {failure}");
        drop(in_flight);
        simulated.finish(server).await;
    }
}

#[tokio::test]
async fn servers_that_will_not_stop_are_stopped() {
    for fault in ["ignore-term", "hang-on-term", "leak-child"] {
        let simulated = SimServer::new(fault, &format!("--sim-fault {fault}"));
        let (server, outcome) = simulated.start().await;
        outcome.expect("ready");
        let in_flight = request(&server).expect("it listens");
        simulated.finish(server).await;
        drop(in_flight);
    }
}

#[tokio::test]
async fn a_dropped_server_ends() {
    let simulated = SimServer::new("dropped-server", "--sim-fault ignore-term");
    let (server, outcome) = simulated.start().await;
    outcome.expect("ready");
    drop(server);
    simulated.marked.wait_until_empty();
}

#[tokio::test]
async fn a_refused_reset_is_retried_and_then_reported() {
    let simulated = SimServer::new("reset", "--sim-fault reset-refused:2");
    let (mut server, outcome) = simulated.start().await;
    outcome.expect("ready");
    server.reset(&Reset::Caches).await.expect("the third try is accepted");
    simulated.finish(server).await;

    let simulated = SimServer::new("reset-never", "--sim-fault reset-refused:1000");
    let (mut server, outcome) = simulated.start().await;
    outcome.expect("ready");
    let refusal = server.reset(&Reset::Caches).await.expect_err("never accepted");
    assert!(refusal.contains("/reset_prefix_cache"), "{refusal}");

    let command = |script: &str| Reset::Command(["sh", "-c", script].map(str::to_owned).to_vec());
    let told = simulated.marked.path("told");
    server
        .reset(&command(&format!("echo $VSWEEP_BASE_URL > {}", told.display())))
        .await
        .expect("exit code 0");
    assert_eq!(super::tree::first_line(&told), server.base_url());
    let refusal = server.reset(&command("exit 5")).await.expect_err("exit code 5");
    assert!(refusal.contains("exit code 5"), "{refusal}");
    simulated.finish(server).await;
}

#[tokio::test]
async fn a_port_that_another_server_holds_is_refused_before_the_launch() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = holder.local_addr().expect("bound").port();
    let simulated = SimServer::new("port", &format!("--port {port}"));
    let failure = spawn(&simulated.launch).await.expect_err("taken");
    assert_eq!(failure.cause, Cause::PortTaken);
    assert!(failure.detail.contains(&std::process::id().to_string()), "{failure}");
    simulated.marked.assert_empty();
}

#[tokio::test]
async fn a_server_of_someone_else_can_be_attached_to() {
    let simulated = SimServer::new("attach", "");
    let (server, outcome) = simulated.start().await;
    let identity = outcome.expect("ready");
    let mut attached = Server::attach(&format!("{}/", server.base_url()), PATIENCE, PATIENCE);
    assert_eq!(attached.base_url(), server.base_url());
    assert_eq!(attached.ready().await.expect("ready"), identity);
    attached.stop().await;
    drop(attached);
    assert_eq!(
        Server::attach(server.base_url(), PATIENCE, PATIENCE)
            .ready()
            .await
            .expect("still there"),
        identity
    );
    simulated.finish(server).await;
}

/// A log is created for each launch, and never overwritten.
#[test]
fn an_existing_log_is_kept() {
    let simulated = SimServer::new("log", "");
    std::fs::write(&simulated.launch.log, "precious").expect("written");
    create_log(&simulated.launch.log).expect_err("refused");
    assert_eq!(
        std::fs::read_to_string(&simulated.launch.log).expect("kept"),
        "precious"
    );
}
