//! Answers as server-sent events, one chunk a step, as vLLM writes them. Most chunks of a choice differ in their text alone: what
//! is around it is made once. Whatever is ready when the connection asks goes out in one write.

use super::answer::{EVENTS_AT_ONCE, PendingAnswer, Style};
use super::error::ENGINE_DEAD;
use super::whole::{head, usage};
use crate::sim::driver::EngineEvent;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::Write;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What stands before and after the text in the chunks of a choice.
type Frame = (String, String);

/// The frame of all chunks of a choice that are neither the first nor the last, if these differ in their text alone.
fn frame(answer: &PendingAnswer, index: usize) -> Option<Frame> {
    if answer.logprobs.is_some() || answer.token_ids || answer.continuous_usage {
        return None;
    }
    let text = match answer.style {
        Style::Completion => r#""text":""#,
        Style::Chat => r#""content":""#,
    };
    let chunk = chunk(answer, index, "", 1..1, false).to_string();
    let (before, after) = chunk.split_once(text)?;
    Some((format!("data: {before}{text}"), format!("{after}\n\n")))
}

/// The body of a streaming answer.
struct Chunks {
    answer: PendingAnswer,
    frames: Vec<Option<Frame>>,
    out: Vec<u8>,
    ended: bool,
}

/// A streaming answer.
pub fn respond(answer: PendingAnswer) -> Response {
    let choices = 0..answer.choices.len();
    let chunks = Chunks {
        frames: choices.map(|index| frame(&answer, index)).collect(),
        answer,
        out: Vec::new(),
        ended: false,
    };
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
    fn write(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Tokens { choice, count, last } => {
                self.write_tokens(choice as usize, count as usize, last);
                if self.answer.spoilt.cut && self.answer.written() >= 2 {
                    self.ended = true;
                } else if last && self.answer.is_complete() {
                    self.end();
                }
            }
            EngineEvent::Aborted => self.abort(),
            EngineEvent::EngineDead => {
                // Unlike the chunks it is written by Python's `json.dumps`, with blanks.
                let error = format!(
                    "{{\"error\": {{\"message\": \"{ENGINE_DEAD}\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}}}"
                );
                send(&mut self.out, error);
                send(&mut self.out, "[DONE]");
                self.ended = true;
            }
        }
    }

    /// Writes the next tokens of a choice as one chunk: those of one step, as vLLM does.
    fn write_tokens(&mut self, index: usize, count: usize, last: bool) {
        let tokens = self.answer.advance(index, count);
        let (answer, is_first) = (&self.answer, tokens.start == 0);
        let choice = &answer.choices[index];
        if let Some((before, after)) = self.frames[index].as_ref().filter(|_| !is_first && !last) {
            self.out.extend_from_slice(before.as_bytes());
            for place in tokens {
                answer.app.tokenizer.append(answer.token(choice, place), &mut self.out);
            }
            self.out.extend_from_slice(after.as_bytes());
            return;
        }
        if is_first && answer.style == Style::Chat {
            send(&mut self.out, role_chunk(answer, index));
        }
        let text = answer.text(choice, tokens.clone());
        send(&mut self.out, chunk(answer, index, &text, tokens, last));
    }

    /// The usage chunk, if asked for, and the end mark.
    fn end(&mut self) {
        if self.answer.usage {
            let mut chunk = head(&self.answer, OBJECTS, vec![]);
            chunk["usage"] = usage(self.answer.prompt_tokens, self.answer.counted(self.answer.written()));
            chunk["system_fingerprint"] = self.answer.app.fingerprint.as_str().into();
            send(&mut self.out, chunk);
        }
        send(&mut self.out, "[DONE]");
        self.ended = true;
    }

    /// Every unfinished choice ends with an empty chunk that says why.
    fn abort(&mut self) {
        for index in self.answer.abort() {
            let written = self.answer.choices[index].written;
            send(&mut self.out, chunk(&self.answer, index, "", written..written, true));
        }
        self.end();
    }
}

fn send(out: &mut Vec<u8>, data: impl std::fmt::Display) {
    write!(out, "data: {data}\n\n").expect("memory can be written");
}

/// What vLLM calls a chunk of a completion and of a chat.
const OBJECTS: [&str; 2] = ["text_completion", "chat.completion.chunk"];

/// A chunk with these tokens of a choice.
fn chunk(answer: &PendingAnswer, index: usize, text: &str, tokens: Range<usize>, last: bool) -> Value {
    let choice = &answer.choices[index];
    let logprobs = answer.logprobs_of(choice, tokens.clone());
    let reason = last.then_some(choice.finish_reason);
    let stop = choice.stop_reason.as_ref().filter(|_| last);
    let ids = answer.ids(choice, tokens.clone());
    let choice_of_chunk = match answer.style {
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
    let mut chunk = head(answer, OBJECTS, vec![choice_of_chunk]);
    if answer.continuous_usage {
        chunk["usage"] = usage(choice.prompt_len, answer.counted(tokens.end));
    }
    chunk
}

/// The chunk that only names the role; it carries no token.
fn role_chunk(answer: &PendingAnswer, index: usize) -> Value {
    let choice = &answer.choices[index];
    let delta = json!({"role": "assistant", "content": ""});
    let choices = vec![json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null})];
    let mut chunk = head(answer, OBJECTS, choices);
    chunk["prompt_token_ids"] = json!(choice.prompt_ids);
    chunk["prompt_text"] = Value::Null;
    if answer.continuous_usage {
        chunk["usage"] = usage(choice.prompt_len, 0);
    }
    chunk
}
