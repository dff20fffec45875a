//! Answers as server-sent events, with one chunk for each step, as vLLM writes them. Most chunks of a choice differ only in their text, so
//! the JSON around it is made once. All chunks that are ready when the connection polls go out in one write.

use super::answer::{EVENTS_AT_ONCE, PendingAnswer, Style, head, usage};
use super::error::ENGINE_DEAD;
use crate::driver::EngineEvent;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a streaming answer.
struct Chunks {
    answer: PendingAnswer,
    /// The bytes before the choice in every chunk.
    head: String,
    /// Bytes of the chunks of each choice before and after their text; `None` if its chunks differ in more than their text.
    frames: Vec<Option<(String, String)>>,
    out: Vec<u8>,
    ended: bool,
}

/// Returns a streaming answer.
pub fn respond(answer: PendingAnswer) -> Response {
    let empty = head(&answer, ["text_completion", "chat.completion.chunk"], vec![]).to_string();
    let mut chunks = Chunks {
        head: format!("data: {}", empty.trim_end_matches("]}")),
        frames: Vec::new(),
        answer,
        out: Vec::new(),
        ended: false,
    };
    chunks.frames = (0..chunks.answer.choices.len())
        .map(|index| chunks.frame(index))
        .collect();
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (headers, Body::from_stream(chunks)).into_response()
}

impl futures_util::Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let mut events = Vec::new();
        match this.answer.events.poll_recv_many(context, &mut events, EVENTS_AT_ONCE) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(0) => return Poll::Ready(None),
            Poll::Ready(_) => {}
        }
        for event in events {
            this.write(event);
            if this.ended {
                break;
            }
        }
        Poll::Ready(Some(Ok(Bytes::from(std::mem::take(&mut this.out)))))
    }
}

impl Chunks {
    /// Returns the frame of all chunks of a choice but the last, if these differ only in their text.
    fn frame(&mut self, index: usize) -> Option<(String, String)> {
        let answer = &self.answer;
        let echoes = answer.choices[index].echo.is_some();
        if answer.logprobs.is_some() || answer.token_ids || answer.continuous_usage || echoes {
            return None;
        }
        let text = match answer.style {
            Style::Completion => r#""text":""#,
            Style::Chat => r#""content":""#,
        };
        self.send_tokens(index, "", 0..0, false);
        let chunk = String::from_utf8(std::mem::take(&mut self.out)).ok()?;
        let (before, after) = chunk.split_once(text)?;
        Some((format!("{before}{text}"), after.to_owned()))
    }

    fn write(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Tokens { choice, count, last } => {
                self.write_tokens(choice as usize, count as usize, last);
                if self.answer.answer_faults.cut && self.answer.written() >= 2 {
                    self.ended = true;
                } else if last && self.answer.is_complete() {
                    self.end();
                }
            }
            // Every unfinished choice ends with an empty chunk that says why.
            EngineEvent::Aborted => {
                for index in self.answer.abort() {
                    let written = self.answer.choices[index].written;
                    self.send_tokens(index, "", written..written, true);
                }
                self.end();
            }
            EngineEvent::EngineDead => {
                // vLLM writes errors, unlike chunks, with Python's `json.dumps`, which adds blanks.
                let error = format!(
                    "data: {{\"error\": {{\"message\": \"{ENGINE_DEAD}\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}}}\n\n"
                );
                self.out.extend_from_slice(error.as_bytes());
                self.finish();
            }
        }
    }

    /// Writes the next tokens of a choice, which one step produced, as one chunk.
    fn write_tokens(&mut self, index: usize, count: usize, last: bool) {
        let tokens = self.answer.advance(index, count);
        if tokens.start == 0 && self.answer.style == Style::Chat {
            self.send_role(index);
        }
        let (answer, choice) = (&self.answer, &self.answer.choices[index]);
        if let Some((before, after)) = self.frames[index].as_ref().filter(|_| !last) {
            self.out.extend_from_slice(before.as_bytes());
            for index in tokens {
                answer.app.tokenizer.append(answer.token(choice, index), &mut self.out);
            }
            self.out.extend_from_slice(after.as_bytes());
        } else {
            let text = answer.text(choice, tokens.clone());
            self.send_tokens(index, &text, tokens, last);
        }
    }

    /// Writes a chunk with these tokens of a choice.
    fn send_tokens(&mut self, index: usize, text: &str, tokens: Range<usize>, last: bool) {
        let (answer, choice) = (&self.answer, &self.answer.choices[index]);
        let logprobs = answer.logprobs_of(choice, tokens.clone());
        let reason = last.then_some(choice.finish_reason);
        let stop = choice.stop_reason.as_ref().filter(|_| last);
        let ids = answer.ids(choice, tokens.clone());
        let body = match answer.style {
            Style::Completion => {
                let prompt_ids = choice.prompt_ids.as_ref().filter(|_| tokens.start == 0);
                json!({
                    "index": index, "text": text, "logprobs": logprobs, "finish_reason": reason, "stop_reason": stop,
                    "prompt_token_ids": prompt_ids, "token_ids": ids,
                })
            }
            Style::Chat => {
                let delta = json!({"content": text});
                let mut chat = json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason});
                if last {
                    chat["stop_reason"] = json!(stop);
                }
                chat["token_ids"] = json!(ids);
                chat
            }
        };
        let usage = self.continuous_usage(index, tokens.end);
        self.send(Some(body), usage.as_slice());
    }

    /// Writes the chunk that only names the role; it carries no token.
    fn send_role(&mut self, index: usize) {
        let delta = json!({"role": "assistant", "content": ""});
        let body = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
        let prompt_ids = json!(self.answer.choices[index].prompt_ids);
        let mut more = vec![("prompt_token_ids", prompt_ids), ("prompt_text", Value::Null)];
        more.extend(self.continuous_usage(index, 0));
        self.send(Some(body), &more);
    }

    /// The usage of a choice after this many tokens, if every chunk is to have it.
    fn continuous_usage(&self, index: usize, tokens: usize) -> Option<(&'static str, Value)> {
        let answer = &self.answer;
        let usage = || usage(answer.choices[index].prompt_len, answer.counted(tokens));
        answer.continuous_usage.then(|| ("usage", usage()))
    }

    /// Writes a chunk with the given choice, if any, and further keys.
    fn send(&mut self, choice: Option<Value>, more: &[(&str, Value)]) {
        let choice = choice.map_or(Ok(String::new()), |choice| serde_json::to_string(&choice));
        let (head, choice) = (&self.head, choice.expect("a value is always written"));
        let more: String = more.iter().map(|(key, value)| format!(r#","{key}":{value}"#)).collect();
        let chunk = format!("{head}{choice}]{more}}}\n\n");
        self.out.extend_from_slice(chunk.as_bytes());
    }

    /// Writes the usage chunk, if it was requested, and the end mark.
    fn end(&mut self) {
        let answer = &self.answer;
        if answer.usage {
            let usage = usage(answer.prompt_tokens, answer.counted(answer.written()));
            let fingerprint = json!(answer.app.fingerprint);
            self.send(None, &[("usage", usage), ("system_fingerprint", fingerprint)]);
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.out.extend_from_slice(b"data: [DONE]\n\n");
        self.ended = true;
    }
}
