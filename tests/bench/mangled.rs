//! Damaged answers: bytes are changed, lost, repeated or inserted at any place of a valid stream. Nothing panics, every request ends, and
//! none with a detectable loss counts as a success.

use crate::scripted::{self, Answer, STREAM_HEAD, Server, completion, run};
use serde_json::{Value, json};
use vsweep::rng::NumpyPcg64;

const REQUESTS: usize = 400;

/// Damage to an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Harm {
    None,
    Flip,
    Lose,
    Repeat,
    Insert,
    CutOff,
}

const HARMS: [Harm; 6] = [
    Harm::None,
    Harm::Flip,
    Harm::Lose,
    Harm::Repeat,
    Harm::Insert,
    Harm::CutOff,
];

/// Returns the kind of damage to the `index`-th answer, and the damaged answer.
fn mangled(index: usize, whole: &[u8]) -> (Harm, Vec<u8>) {
    let harm = HARMS[index % HARMS.len()];
    let mut random = NumpyPcg64::new(index as u64);
    let at = random.integer(0, whole.len() as u64) as usize;
    let end = whole.len().min(at + random.integer(1, 200) as usize);
    let mut bytes = whole.to_vec();
    match harm {
        Harm::None => {}
        Harm::Flip => bytes[at] ^= random.integer(1, 256) as u8,
        Harm::Lose => drop(bytes.drain(at..end)),
        Harm::Repeat => drop(bytes.splice(at..at, whole[at..end].to_vec())),
        Harm::Insert => drop(bytes.splice(at..at, random.bytes(end - at))),
        Harm::CutOff => bytes.truncate(at),
    }
    (harm, bytes)
}

/// Returns the bytes after the head's empty line.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let ends = (0..answer.len()).filter(|at| answer[*at] == b'\n');
    let mut bodies = ends.filter_map(|at| {
        let rest = &answer[at + 1..];
        rest.strip_prefix(b"\n").or(rest.strip_prefix(b"\r\n"))
    });
    bodies.next()
}

fn without_chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole = vec![];
    loop {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let size = String::from_utf8_lossy(&bytes[..line]);
        let size = size.split([';', ' ', '\t']).next().unwrap_or_default().trim_end();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        bytes = &bytes[line + 1..];
        whole.extend_from_slice(bytes.get(..size)?);
        let end = bytes[size..].iter().position(|byte| *byte == b'\n')?;
        bytes = &bytes[size + end + 1..];
    }
}

/// Returns the text of a stream, by a simple reader that is independent of the load generator's. `None` if the stream cannot be read or has
/// no sign of its end.
fn text_of(stream: &[u8]) -> Option<String> {
    let stream = String::from_utf8_lossy(stream)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let (mut text, mut has_ended, mut data) = (String::new(), false, vec![]);
    for line in stream.split('\n').chain([""]) {
        if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
        if !line.is_empty() || data.is_empty() {
            continue;
        }
        let event = std::mem::take(&mut data).join("\n");
        if event == "[DONE]" {
            has_ended = true;
            continue;
        }
        let event: Value = serde_json::from_str(&event).ok()?;
        for choice in event["choices"].as_array().into_iter().flatten() {
            has_ended |= !choice["finish_reason"].is_null();
        }
        let choice = &event["choices"][0];
        let piece = choice["text"].as_str().or(choice["delta"]["content"].as_str());
        text.push_str(piece.unwrap_or_default());
    }
    has_ended.then_some(text)
}

/// Returns true if the answer can be read as this text, with chunks or, because the head may have lost its line about them, without.
fn can_mean(answer: &[u8], text: &str) -> bool {
    let Some(body) = body(answer) else { return false };
    let in_chunks = without_chunks(body);
    [in_chunks.as_deref(), Some(body)]
        .into_iter()
        .flatten()
        .any(|stream| text_of(stream).as_deref() == Some(text))
}

async fn mangle(backend: &str, whole: Answer) {
    let Answer::Bytes(pieces) = whole else {
        panic!("a stream")
    };
    // With this header the client opens a new connection for each request.
    let closing = [&STREAM_HEAD[..STREAM_HEAD.len() - 2], b"connection: close\r\n\r\n"].concat();
    let whole = [closing, pieces[1..].concat()].concat();
    let answers: Vec<(Harm, Vec<u8>)> = (0..REQUESTS).map(|index| mangled(index, &whole)).collect();
    let sent = answers.clone();
    let server = Server::start(move |seen| {
        let index = seen
            .head
            .split("x-request-id: mangled-")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|index| index.parse::<usize>().ok());
        match index {
            // Some connections stay open in silence instead of being closed.
            Some(index) if index % 20 == 1 => Answer::ThenSilence(sent[index].1.clone()),
            Some(index) => Answer::ThenClose(sent[index].1.clone()),
            None => completion(1, 1),
        }
    })
    .await;
    let params = json!({
        "backend": backend, "num_prompts": REQUESTS, "max_concurrency": 40, "random_input_len": 5, "random_output_len": 6,
        "request_id_prefix": "mangled-", "save_detailed": true, "silence_timeout": 5,
    });
    let result = run(&server.url, params).await.expect("some succeed").result.to_values();
    let (mut succeeded, mut harmed_but_fine) = (0, 0);
    for (index, (harm, bytes)) in answers.iter().enumerate() {
        let error = result["errors"][index].as_str().expect("a text");
        let text = result["generated_texts"][index].as_str().expect("a text");
        let shown = String::from_utf8_lossy(bytes);
        if !error.is_empty() {
            // The damage before may have removed the header `connection: close`. Then this request may have met a connection that the
            // server had closed.
            let is_lost = error == "the server closed the connection before its answer";
            assert!(*harm != Harm::None || is_lost, "answer {index} failed: {error}");
            continue;
        }
        assert_ne!(*harm, Harm::CutOff, "answer {index} is a success:\n{shown}");
        assert!(
            can_mean(bytes, text),
            "answer {index} ({harm:?}) is \"{text}\":\n{shown}"
        );
        succeeded += 1;
        harmed_but_fine += usize::from(*harm != Harm::None);
    }
    assert_eq!(result["completed"], succeeded);
    assert_eq!(result["failed"], REQUESTS - succeeded);
    assert!(
        harmed_but_fine > 0 && (REQUESTS / 10..REQUESTS / 2).contains(&succeeded),
        "{harmed_but_fine} of {succeeded}"
    );
}

#[tokio::test]
async fn mangled_completions_are_no_silent_success() {
    mangle("openai", completion(6, 5)).await;
}

#[tokio::test]
async fn mangled_chats_are_no_silent_success() {
    let words: Vec<String> = (0..6).map(|i| format!("w{i} é\n")).collect();
    mangle("openai-chat", scripted::chat(&words, 5)).await;
}
