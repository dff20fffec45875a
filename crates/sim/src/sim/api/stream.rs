//! Answers as server-sent events, one chunk a step, byte for byte as vLLM writes them. The bytes around the text are
//! made once for each choice; a token costs one copy. Whatever is ready when the connection asks goes out in one write.

use super::answer::{Choice, PendingAnswer, Style};
use super::error::ENGINE_DEAD;
use super::whole::{self, Usage};
use crate::sim::driver::EngineEvent;
use crate::sim::tokenizer::escape;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The fixed bytes of one choice's chunks.
struct Frame {
    /// Up to the text.
    before: String,
    /// The end of the text.
    close: &'static str,
    /// From the log probabilities to the token ids, for a chunk that is not the last.
    after: String,
    /// The same for the last one.
    after_last: String,
    /// Everything after the text, for a chunk that is neither first nor last, if it is the same for all of them.
    rest: Option<String>,
    /// Tokens written.
    written: usize,
}

impl Frame {
    fn of(answer: &PendingAnswer, index: usize, choice: &Choice) -> Frame {
        let head = head(answer);
        let reason = choice.finish_reason;
        let stop = json!(choice.stop_reason);
        let (before, close, after) = match answer.style {
            Style::Completion => (
                format!("{head}\"choices\":[{{\"index\":{index},\"text\":\""),
                "\",\"logprobs\":",
                "\"finish_reason\":null,\"stop_reason\":null,",
            ),
            Style::Chat => (
                format!("{head}\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\""),
                "\"},\"logprobs\":",
                "\"finish_reason\":null,",
            ),
        };
        let prompt_ids = match answer.style {
            Style::Completion => "\"prompt_token_ids\":null,",
            Style::Chat => "",
        };
        let same = answer.logprobs.is_none() && !answer.token_ids && !answer.continuous_usage;
        Frame {
            before,
            close,
            after: after.into(),
            after_last: format!("\"finish_reason\":\"{reason}\",\"stop_reason\":{stop},"),
            rest: same.then(|| format!("{close}null,{after}{prompt_ids}\"token_ids\":null}}]}}\n\n")),
            written: 0,
        }
    }
}

/// `data: {"id":…,"model":…,`
fn head(answer: &PendingAnswer) -> String {
    let object = match answer.style {
        Style::Completion => "text_completion",
        Style::Chat => "chat.completion.chunk",
    };
    let (id, model) = (json!(answer.id), json!(answer.model));
    format!(
        "data: {{\"id\":{id},\"object\":\"{object}\",\"created\":{},\"model\":{model},",
        answer.created
    )
}

/// The body of a streaming answer.
struct Chunks {
    answer: PendingAnswer,
    frames: Vec<Frame>,
    events: Vec<EngineEvent>,
    out: Vec<u8>,
    /// Tokens of all choices.
    tokens: usize,
    ended: bool,
}

/// A streaming answer.
pub fn respond(answer: PendingAnswer) -> Response {
    let frames = answer
        .choices
        .iter()
        .enumerate()
        .map(|(index, choice)| Frame::of(&answer, index, choice))
        .collect();
    let chunks = Chunks {
        answer,
        frames,
        events: Vec::new(),
        out: Vec::new(),
        tokens: 0,
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
        match this.answer.poll_events(context, &mut this.events) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(0) => return Poll::Ready(None),
            Poll::Ready(_) => {}
        }
        let mut events = std::mem::take(&mut this.events);
        for event in events.drain(..) {
            this.write(event);
            if this.ended {
                break;
            }
        }
        this.events = events;
        Poll::Ready(Some(Ok(Bytes::from(std::mem::take(&mut this.out)))))
    }
}

impl Chunks {
    fn write(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Tokens { choice, count, last } => {
                self.chunk(choice as usize, count as usize, last);
                if self.answer.spoilt.cut && self.tokens >= 2 {
                    self.ended = true;
                } else if last && self.answer.finish_choice() {
                    self.end();
                }
            }
            EngineEvent::Aborted => self.abort(),
            EngineEvent::EngineDead => {
                let error = format!(
                    "{{\"error\": {{\"message\": \"{ENGINE_DEAD}\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}}}"
                );
                self.out
                    .extend_from_slice(format!("data: {error}\n\ndata: [DONE]\n\n").as_bytes());
                self.ended = true;
            }
        }
    }

    /// Writes the next tokens of a choice as one chunk: those of one step, as vLLM does.
    fn chunk(&mut self, index: usize, count: usize, last: bool) {
        let frame = &mut self.frames[index];
        let choice = &self.answer.choices[index];
        let place = frame.written;
        let tokens = place..place + count;
        frame.written += count;
        self.tokens += count;
        if place == 0 && self.answer.style == Style::Chat {
            role_chunk(&self.answer, index, &mut self.out);
        }
        let out = &mut self.out;
        out.extend_from_slice(frame.before.as_bytes());
        if let (0, Some(echo)) = (place, &choice.echo) {
            escape(echo, out);
        }
        for place in tokens.clone() {
            self.answer.app.tokenizer.append(self.answer.token(choice, place), out);
        }
        if let Some(rest) = frame.rest.as_deref().filter(|_| place > 0 && !last) {
            out.extend_from_slice(rest.as_bytes());
            return;
        }
        out.extend_from_slice(frame.close.as_bytes());
        match self.answer.logprobs {
            None => out.extend_from_slice(b"null,"),
            Some(_) => {
                let logprobs = whole::logprobs(&self.answer, choice, tokens.clone());
                out.extend_from_slice(format!("{logprobs},").as_bytes());
            }
        }
        out.extend_from_slice(if last { &frame.after_last } else { &frame.after }.as_bytes());
        if self.answer.style == Style::Completion {
            let ids = choice.prompt_ids.as_ref().filter(|_| place == 0);
            out.extend_from_slice(format!("\"prompt_token_ids\":{},", json!(ids)).as_bytes());
        }
        let ids: Option<Vec<u32>> = match self.answer.token_ids {
            true => Some(tokens.map(|place| self.answer.token(choice, place)).collect()),
            false => None,
        };
        out.extend_from_slice(format!("\"token_ids\":{}}}]", json!(ids)).as_bytes());
        if self.answer.continuous_usage {
            let usage = Usage {
                prompt: choice.prompt_len,
                completion: self.answer.counted(place + count),
            };
            out.extend_from_slice(format!(",\"usage\":{usage}").as_bytes());
        }
        out.extend_from_slice(b"}\n\n");
    }

    /// The usage chunk, if asked for, and the end mark.
    fn end(&mut self) {
        if self.answer.usage {
            let usage = Usage {
                prompt: self.answer.prompt_tokens,
                completion: self.answer.counted(self.tokens),
            };
            let fingerprint = &self.answer.app.fingerprint;
            let head = head(&self.answer);
            let chunk =
                format!("{head}\"choices\":[],\"usage\":{usage},\"system_fingerprint\":\"{fingerprint}\"}}\n\n");
            self.out.extend_from_slice(chunk.as_bytes());
        }
        self.out.extend_from_slice(b"data: [DONE]\n\n");
        self.ended = true;
    }

    /// Every unfinished choice ends with an empty chunk that says why.
    fn abort(&mut self) {
        for (index, choice) in self.answer.choices.iter().enumerate() {
            if self.frames[index].written < choice.len {
                let aborted = Choice {
                    finish_reason: "abort",
                    stop_reason: None,
                    ..choice.clone()
                };
                let frame = Frame::of(&self.answer, index, &aborted);
                let Frame {
                    before,
                    close,
                    after_last,
                    ..
                } = frame;
                let chunk = format!("{before}{close}null,{after_last}\"token_ids\":null}}]}}\n\n");
                self.out.extend_from_slice(chunk.as_bytes());
            }
        }
        self.end();
    }
}

/// The chunk that only names the role; it carries no token.
fn role_chunk(answer: &PendingAnswer, index: usize, out: &mut Vec<u8>) {
    let choice = &answer.choices[index];
    let ids = json!(choice.prompt_ids);
    let chunk = format!(
        "{}\"choices\":[{{\"index\":{index},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
         \"finish_reason\":null}}],\"prompt_token_ids\":{ids},\"prompt_text\":null",
        head(answer)
    );
    out.extend_from_slice(chunk.as_bytes());
    if answer.continuous_usage {
        let usage = Usage {
            prompt: choice.prompt_len,
            completion: 0,
        };
        out.extend_from_slice(format!(",\"usage\":{usage}").as_bytes());
    }
    out.extend_from_slice(b"}\n\n");
}
