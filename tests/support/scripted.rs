//! A server that answers each request with exact bytes, for tests of the load generator, and native benchmarks against it.

// Not every test uses all of it.
#![allow(dead_code)]

use serde_json::Value;
use std::collections::VecDeque;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use vsweep::bench::{Job, Measurement, measure};
use vsweep::cause::Failure;

/// A native benchmark of the server at `url`, which knows the model `org/m` as `m`.
pub fn job(url: &str, params: Value) -> Job {
    let Value::Object(params) = params else {
        panic!("an object")
    };
    Job {
        timeout: Duration::from_secs(60),
        ..Job::new(url, "m", "org/m", params)
    }
}

/// Performs such a benchmark.
pub async fn run(url: &str, params: Value) -> Result<Measurement, Failure> {
    measure(&job(url, params)).await
}

/// Time limit for a process under test on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a command to its end and returns what it printed.
pub async fn output(command: &mut Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    output_of(piped.spawn().expect("the binary runs")).await
}

/// Waits until a child ends, and returns what it printed to its piped streams.
pub async fn output_of(child: Child) -> Output {
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    ended.expect("it ends by itself").expect("its output can be read")
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub head: String,
    pub body: Value,
}

/// Reaction of the server to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Sends these pieces, each in a write of its own, and keeps the connection.
    Bytes(Vec<Vec<u8>>),
    /// Sends this and closes the connection.
    ThenClose(Vec<u8>),
    /// Sends this and then nothing, for ever.
    ThenSilence(Vec<u8>),
    /// Sends the first, then the second again and again.
    Forever(Vec<u8>, Vec<u8>),
    /// Sends this and resets the connection.
    ThenReset(Vec<u8>),
}

pub type Script = Arc<dyn Fn(&HttpRequest) -> Answer + Send + Sync>;

/// The server; it ends with the test's runtime.
pub struct Server {
    pub url: String,
    pub seen: Arc<Mutex<Vec<HttpRequest>>>,
    /// Answers of `/metrics`, one after the other; then the route does not exist. These requests are not among `seen`.
    pub metrics: Arc<Mutex<VecDeque<String>>>,
}

impl Server {
    /// Starts a server without a tokenizer. Requests to `/tokenize` are not among `seen`.
    pub async fn start(script: impl Fn(&HttpRequest) -> Answer + Send + Sync + 'static) -> Server {
        Server::listen(Arc::new(script), false).await
    }

    /// Starts a server whose script answers `/tokenize` and `/detokenize` too.
    pub async fn with_tokenizer(script: impl Fn(&HttpRequest) -> Answer + Send + Sync + 'static) -> Server {
        Server::listen(Arc::new(script), true).await
    }

    async fn listen(script: Script, has_tokenizer: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(vec![]));
        let metrics = Arc::<Mutex<VecDeque<String>>>::default();
        let (log, counters) = (seen.clone(), metrics.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(
                    stream,
                    log.clone(),
                    script.clone(),
                    counters.clone(),
                    has_tokenizer,
                ));
            }
        });
        Server { url, seen, metrics }
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<HttpRequest>>>,
    script: Script,
    metrics: Arc<Mutex<VecDeque<String>>>,
    has_tokenizer: bool,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![];
    loop {
        let Some(seen) = read_request(&mut stream, &mut buffer).await? else {
            return Ok(());
        };
        if seen.head.starts_with("GET /metrics") {
            let text = metrics.lock().expect("no panic").pop_front();
            if text.as_deref() == Some("never answered") {
                std::future::pending::<()>().await;
            }
            let (status, text) = text.map_or(("404 Not Found", String::new()), |text| ("200 OK", text));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await?;
            continue;
        }
        if !has_tokenizer && seen.head.starts_with("POST /tokenize") {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                .await?;
            continue;
        }
        let answer = script(&seen);
        log.lock().expect("no panic").push(seen);
        match answer {
            Answer::Bytes(pieces) => {
                for piece in pieces {
                    stream.write_all(&piece).await?;
                    tokio::task::yield_now().await;
                }
            }
            Answer::ThenClose(bytes) => return stream.write_all(&bytes).await,
            Answer::Forever(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Answer::ThenReset(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.set_zero_linger();
            }
            Answer::ThenSilence(bytes) => {
                stream.write_all(&bytes).await?;
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<HttpRequest>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length:")
                        .map(|n| n.trim().parse::<usize>())
                })
                .and_then(Result::ok)
                .unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = serde_json::from_slice(&buffer[end + 4..end + 4 + length]).unwrap_or_default();
                buffer.drain(..end + 4 + length);
                return Ok(Some(HttpRequest { head, body }));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// An SSE event as one chunk of a chunked HTTP body.
pub fn chunk(event: &str) -> Vec<u8> {
    let event = format!("data: {event}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

pub const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A stream of `tokens` completion events, usage and `[DONE]`, as vLLM sends it.
pub fn completion(tokens: usize, prompt_tokens: usize) -> Answer {
    let mut pieces = vec![STREAM_HEAD.to_vec()];
    for i in 0..tokens {
        let finish = if i + 1 == tokens { "\"length\"" } else { "null" };
        pieces.push(chunk(&format!(
            r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"text":" t{i}","logprobs":null,"finish_reason":{finish}}}],"usage":null}}"#
        )));
    }
    pieces.push(chunk(&format!(
        r#"{{"id":"cmpl-1","choices":[],"usage":{{"prompt_tokens":{prompt_tokens},"total_tokens":0,"completion_tokens":{tokens}}}}}"#
    )));
    pieces.push(chunk("[DONE]"));
    pieces.push(LAST_CHUNK.to_vec());
    Answer::Bytes(pieces)
}

/// A complete answer with a content length.
pub fn refusal(status: &str, body: &str) -> Answer {
    Answer::Bytes(vec![
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes(),
    ])
}

/// A stream of chat events that say `words`, usage and `[DONE]`, as vLLM sends it.
pub fn chat(words: &[String], prompt_tokens: usize) -> Answer {
    let mut pieces = vec![STREAM_HEAD.to_vec()];
    let event = |delta: Value, finish: Option<&str>| {
        chunk(&serde_json::json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).to_string())
    };
    pieces.push(event(serde_json::json!({"role": "assistant", "content": ""}), None));
    for (i, word) in words.iter().enumerate() {
        let finish = (i + 1 == words.len()).then_some("length");
        pieces.push(event(serde_json::json!({"content": word}), finish));
    }
    pieces.push(chunk(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":{prompt_tokens},"completion_tokens":{}}}}}"#,
        words.len()
    )));
    pieces.extend([chunk("[DONE]"), LAST_CHUNK.to_vec()]);
    Answer::Bytes(pieces)
}
