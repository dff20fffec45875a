//! `vsweep bench` as a process against a server that answers with exact bytes.

mod scripted;

use scripted::{Server, completion, refusal};
use serde_json::Value;
use std::process::Output;

async fn bench(url: &str, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vsweep"));
    command
        .args(["bench", "--base-url", url])
        .args(args)
        .env_remove("OPENAI_API_KEY");
    command.output().await.expect("the binary runs")
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

/// A line of the block with figures that differ from run to run as `N`.
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
    let vectors: Value = serde_json::from_str(include_str!("data/vectors/bench.json")).expect("JSON");
    let vector = &vectors["end_to_end"]["random_save_detailed_concurrency_rate_goodput"];
    let shape = |text: &str| -> String {
        let block = text.lines().skip_while(|line| !line.starts_with("===="));
        block.map(shape_of).collect()
    };
    assert_eq!(
        shape(&text(&output.stdout)),
        shape(vector["stdout"].as_str().expect("a text"))
    );

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
        "vsweep: num_prompts is \"none\"; it must be a whole number of at least 1\n"
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
