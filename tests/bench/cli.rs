//! `vsweep bench` as a process against a server that answers with exact bytes.

use crate::scripted::{self, Server, completion, refusal};
use serde_json::Value;
use std::process::Output;

async fn bench(url: &str, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .args(["bench", "--base-url", url])
        .args(args)
        .env_remove("OPENAI_API_KEY");
    scripted::output(&mut command).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn server() -> Server {
    Server::start(|seen| match seen.head.starts_with("GET /v1/models") {
        true => refusal("200 OK", r#"{"data":[{"id":"nice","root":"org/m"}]}"#),
        false => completion(3, 11),
    })
    .await
}

/// Returns a line of the printed block, with `N` for a figure that differs from run to run.
fn shape_of(line: &str) -> String {
    let (label, value) = line.split_at(line.len().min(41));
    let is_measured = value.contains('.');
    format!("{label}{}\n", if is_measured { "N" } else { value })
}

#[tokio::test]
async fn the_block_and_the_file_are_those_of_vllm() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let folder_name = folder.path().to_str().expect("a plain path");
    let output = bench(
        &server.url,
        &[
            "--num_prompts",
            "5",
            "--random-input-len",
            "4",
            "--random-output-len=3",
            "--max-concurrency",
            "2",
            "--save-result",
            "--save_detailed",
            "--result-dir",
            folder_name,
            "--label",
            "lab",
            "--metadata",
            "tp=1",
            "version=x",
            "--request-rate",
            "50",
            "--goodput",
            "ttft:10000",
            "e2el:50000",
            "--metric-percentiles",
            "50,99.9",
            "--percentile-metrics",
            "ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue",
            "--num-warmups",
            "2",
        ],
    )
    .await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let vectors: Value = serde_json::from_str(include_str!("../data/vectors/bench.json")).expect("JSON");
    let vector = &vectors["end_to_end"]["random_save_detailed_concurrency_rate_goodput"];
    let shape = |text: &str| -> String {
        let block = text.lines().skip_while(|line| !line.starts_with("===="));
        block.map(shape_of).collect()
    };
    let (printed, wanted) = (text(&output.stdout), vector["stdout"].as_str().expect("a text"));
    let ours = shape(&printed);
    let ours = ours.strip_prefix(&shape(wanted)).expect("vLLM's block, then ours");
    assert!(ours.contains("Prompts made of:"), "{ours}");

    let file = std::fs::read_dir(folder.path())
        .expect("a folder")
        .next()
        .expect("a file")
        .expect("readable");
    let name = file.file_name().into_string().expect("a plain name");
    assert!(
        name.starts_with("lab-50.0qps-concurrency2-m-20") && name.ends_with(".json"),
        "{name}"
    );
    let written: Value = serde_json::from_slice(&std::fs::read(file.path()).expect("readable")).expect("JSON");
    let expected = vector["returned_keys"].as_array().expect("keys");
    let found = written
        .as_object()
        .expect("an object")
        .keys()
        .map(|key| Value::from(key.as_str()));
    assert_eq!(&found.collect::<Vec<_>>()[..expected.len()], expected);
    assert_eq!(written["model_id"], "org/m");
    let seen = server.seen.lock().expect("no panic");
    assert_eq!(seen[1].body["model"], "nice");
}

#[tokio::test]
async fn results_are_appended_line_by_line() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("all.json");
    for _ in 0..2 {
        let args = [
            "--num-prompts",
            "1",
            "--random-input-len",
            "4",
            "--append-result",
            "--result-dir",
        ];
        let args = [
            &args[..],
            &[folder.path().to_str().expect("plain"), "--result-filename", "all.json"],
        ]
        .concat();
        let output = bench(&server.url, &args).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(path).expect("written").lines().count(), 2);
}

#[tokio::test]
async fn exit_codes_say_what_happened() {
    let server = server().await;
    let wrong = bench(&server.url, &["--num-prompts", "none"]).await;
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        text(&wrong.stderr),
        "vsweep: num_prompts is \"none\"; it must be a whole number of at least 1, or 0 for every row of a custom file\n"
    );
    let plot = bench(&server.url, &["--plot_timeline", "--num-prompts", "1"]).await;
    assert_eq!(
        text(&plot.stderr),
        "vsweep: the native benchmark has no parameter \"plot_timeline\": \"vsweep report --timeline\" shows the requests of a \
         sweep's run; use that\n"
    );
    let nobody = bench("http://127.0.0.1:9", &["--num-prompts", "1"]).await;
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("cannot ask http://127.0.0.1:9/v1/models for its models"));
}

/// Two short requests.
const SHORT: [&str; 4] = ["--num-prompts", "2", "--random-input-len", "4"];

#[tokio::test]
async fn a_closed_or_full_standard_output_loses_nothing() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    for (name, out) in [
        ("full.json", std::process::Stdio::from(full)),
        ("closed.json", closed.into()),
    ] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
        command.args(["bench", "--base-url", &server.url, "--save-result", "--result-filename"]);
        command.arg(folder.path().join("new").join(name)).args(SHORT);
        let child = command
            .stdout(out)
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let output = scripted::output_of(child.expect("the binary runs")).await;
        let words = text(&output.stderr);
        assert!(words.contains(&format!("new/{name}\n")), "{words}");
        let code = output.status.code();
        assert_eq!(code, Some(if name == "full.json" { 1 } else { 0 }), "{words}");
        let saved = std::fs::read(folder.path().join("new").join(name)).expect("written");
        let saved: Value = serde_json::from_slice(&saved).expect("JSON");
        assert_eq!(saved["completed"], 2);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_before_anything_is_sent() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("written");
    let file = file.to_str().expect("plain");
    let refused = bench(
        &server.url,
        &[&SHORT[..], &["--save-result", "--result-dir", file]].concat(),
    )
    .await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains(file), "{}", text(&refused.stderr));
    assert!(server.seen.lock().expect("no panic").is_empty());

    let long = "x".repeat(300);
    let labels = [
        ("a/b", "a-b-infqps-m-"),
        ("a\nb", "a-b-infqps-m-"),
        ("", "openai-infqps-m-"),
        (&long, &long[..200]),
    ];
    for (place, (label, begin)) in labels.into_iter().enumerate() {
        let args = [&SHORT[..], &["--save-result", "--label", label, "--result-dir"]].concat();
        let folder = folder.path().join(place.to_string());
        let output = bench(&server.url, &[&args[..], &[folder.to_str().expect("plain")]].concat()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let file = std::fs::read_dir(&folder)
            .expect("a folder")
            .next()
            .expect("a file")
            .expect("readable");
        assert!(file.file_name().to_string_lossy().starts_with(begin), "{file:?}");
    }
}

#[tokio::test]
async fn flags_are_taken_as_argparse_does_and_idle_ones_are_named() {
    let server = server().await;
    let args = [
        "--num-prompts",
        "9",
        "--num_prompts",
        "1",
        "--random-input-len",
        "4",
        "--save-detailed",
        "--save-detailed",
    ];
    let ignored = ["--trust-remote-code", "--tokenizer-mode", "auto"];
    let output = bench(&server.url, &[&args[..], &ignored].concat()).await;
    let words = text(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(
        words.contains("--save-detailed has no effect without --save-result"),
        "{words}"
    );
    assert!(
        words.contains("--trust-remote-code is ignored") && words.contains("--tokenizer-mode is ignored"),
        "{words}"
    );
    assert!(
        words.contains("there is no tokenizer.json of org/m on this machine, so prompts are lists of token ids"),
        "{words}"
    );
    let asked = server
        .seen
        .lock()
        .expect("no panic")
        .iter()
        .filter(|seen| seen.head.starts_with("POST"))
        .count();
    assert_eq!(asked, 1);
    let quiet = bench(&server.url, &[&args[..], &["-q", "--format", "json"]].concat()).await;
    let told = text(&quiet.stderr);
    assert!(quiet.status.success() && !told.contains("tokenizer"), "{told}");
    let refused = bench(
        &server.url,
        &["--tokenizer-mode", "mistral", "--num-warmups", "99999999999"],
    )
    .await;
    let words = text(&refused.stderr);
    assert!(
        words.contains("\"tokenizer_mode\"") && words.contains("at most 100000"),
        "{words}"
    );
}

#[tokio::test]
async fn failed_warm_ups_are_named() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.head.split(' ').nth(1) {
        Some("/v1/models") => refusal("200 OK", r#"{"data":[{"id":"nice","root":"org/m"}]}"#),
        _ if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3 => {
            refusal("500 Internal Server Error", "cold")
        }
        _ => completion(3, 11),
    })
    .await;
    let output = bench(&server.url, &[&SHORT[..], &["--num-warmups", "3"]].concat()).await;
    let words = text(&output.stderr);
    assert!(
        words.contains("3 of 3 warm-ups failed, so the server may be cold: HTTP 500"),
        "{words}"
    );
}

#[tokio::test]
async fn an_interrupted_run_says_so_and_stops_the_profiler() {
    let server = Server::start(|seen| match seen.head.split(' ').nth(1) {
        Some("/v1/models") => refusal("200 OK", r#"{"data":[{"id":"nice","root":"org/m"}]}"#),
        Some("/start_profile" | "/stop_profile") => refusal("200 OK", ""),
        _ => scripted::Answer::ThenSilence(scripted::STREAM_HEAD.to_vec()),
    })
    .await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .args(["bench", "--base-url", &server.url, "--profile"])
        .args(SHORT);
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn().expect("the binary runs");
    let has_seen = |path: &str| {
        let seen = server.seen.lock().expect("no panic");
        seen.iter().any(|seen| seen.head.contains(path))
    };
    let is_measuring = async {
        while !has_seen("/v1/completions") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(scripted::PATIENCE, is_measuring)
        .await
        .expect("it measures");
    let process = nix::unistd::Pid::from_raw(child.id().expect("alive") as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).expect("sent");
    let output = scripted::output_of(child).await;
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(
        words.contains("interrupted after 0 of 2 requests; nothing was saved"),
        "{words}"
    );
    assert!(has_seen("/stop_profile"));
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_a_server_that_does_not_name_its_models() {
    let server = Server::start(|_| scripted::Answer::ThenSilence(vec![])).await;
    let decode = ["bench", "iterations", "--mode", "decode", "--context-len", "8"];
    let commands: [&[&str]; 3] = [&["bench"], &decode, &["bench", "phases"]];
    for args in commands {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
        command.args(args).args(["--base-url", &server.url]).kill_on_drop(true);
        let asked = server.seen.lock().expect("no panic").len();
        let child = command.spawn().expect("the binary runs");
        let is_asking = async {
            while server.seen.lock().expect("no panic").len() == asked {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(scripted::PATIENCE, is_asking)
            .await
            .expect("it asks");
        let process = nix::unistd::Pid::from_raw(child.id().expect("alive") as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).expect("sent");
        let output = scripted::output_of(child).await;
        assert_eq!(
            (args, output.status.code()),
            (args, Some(130)),
            "{}",
            text(&output.stderr)
        );
    }
}

#[tokio::test]
async fn every_wrong_target_and_a_mistyped_dataset_are_named() {
    let server = server().await;
    let output = bench(
        &server.url,
        &[
            "--goodput",
            "ttft:abc",
            "tpot:",
            "--dataset-name",
            "shargpt",
            "--dataset-path",
            "x.json",
        ],
    )
    .await;
    let words = text(&output.stderr);
    assert!(
        words.contains("\"abc\"") && words.contains("goodput tpot must be"),
        "{words}"
    );
    assert!(
        words.contains("did you mean \"sharegpt\"?") && !words.contains("has no meaning"),
        "{words}"
    );
}

#[tokio::test]
async fn a_list_of_models_that_wants_a_key_or_has_no_end_is_told() {
    let server = Server::start(|_| refusal("401 Unauthorized", "no")).await;
    let words = text(&bench(&server.url, &["--num-prompts", "1"]).await.stderr);
    assert!(
        words.contains("/v1/models answers 401 Unauthorized; set OPENAI_API_KEY"),
        "{words}"
    );
    let server = Server::start(|_| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec();
        scripted::Answer::Forever(head, vec![b' '; 1 << 20])
    })
    .await;
    let words = text(&bench(&server.url, &["--num-prompts", "1"]).await.stderr);
    assert!(
        words.contains("/v1/models for its models: the answer is longer than 8 MiB"),
        "{words}"
    );
}

/// An open loop of 400 requests within a limit of open files. The server answers the first, and never another.
async fn within_limit_of_files(limit: &str) -> Output {
    let answered = std::sync::atomic::AtomicBool::new(false);
    let server = Server::start(move |seen| match seen.head.starts_with("GET /v1/models") {
        true => refusal("200 OK", r#"{"data":[{"id":"nice","root":"org/m"}]}"#),
        false if !answered.swap(true, std::sync::atomic::Ordering::SeqCst) => completion(3, 11),
        false => scripted::Answer::ThenSilence(vec![]),
    })
    .await;
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let mut command = tokio::process::Command::new("sh");
    command
        .args([
            "-c",
            &script,
            env!("CARGO_BIN_EXE_vsweep"),
            "bench",
            "--base-url",
            &server.url,
        ])
        .args([
            "--num-prompts",
            "400",
            "--random-input-len",
            "4",
            "--request-rate",
            "1000",
            "--num-warmups",
            "0",
            "--request-timeout",
            "3",
        ])
        .env_remove("OPENAI_API_KEY");
    scripted::output(&mut command).await
}

#[tokio::test]
async fn the_limit_of_open_files_is_no_fault_of_the_server() {
    let fits = within_limit_of_files("-Sn 330").await;
    assert!(!text(&fits.stderr).contains("open files"), "{}", text(&fits.stderr));
    assert!(
        text(&fits.stderr).contains("no complete answer"),
        "{}",
        text(&fits.stderr)
    );
    let lacks = within_limit_of_files("-n 330").await;
    let expected =
        "the generator could not go on: Too many open files (os error 24); raise the limit of open files (ulimit -n)";
    assert!(text(&lacks.stderr).contains(expected), "{}", text(&lacks.stderr));
}
