//! One request in flight: turns the bytes of its answer into a [`Sample`]. This module reads no sockets.

use super::chunk::{Scanner, Usage, error_text};
use super::http::Response;
use super::sse;
use crate::api::backend::Reply;
use crate::api::responses;
use crate::drive::Load;
use crate::stock::Properties;
use reqwest::StatusCode;
use serde::Deserialize;
use vsweep_base::printable::shorten;
use vsweep_metrics::{Nanos, Sample};

/// Maximum number of bytes of an error response's body, and of characters of an error in a stream, that are kept.
const KEPT_OF_REFUSAL: usize = 400;
/// Maximum number of bytes of an error response's body that are read so that the connection can be used again.
const READ_OF_REFUSAL: usize = 64 << 10;
/// Longest answer that is kept as a text, in bytes. Texts are answers outside the measured load, such as `/metrics` of many engines or a
/// million token ids.
const LONGEST_TEXT: usize = 8 << 20;
/// Content type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";
/// Longest measured answer that is kept as a whole, in bytes.
const LONGEST_BODY: usize = 1 << 30;

/// One request in flight, or none; its memory is reused from request to request.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    response: Response,
    events: sse::Parser,
    answer: Answer,
    heard_at: Nanos,
}

/// State of one answer: a stream, an answer that is read as a whole, or an error response.
#[derive(Debug, Default)]
struct Answer {
    reply: Reply,
    scanner: Scanner,
    sample: Sample,
    /// True once an event of a stream was seen.
    has_event: bool,
    /// True once a stream is complete: `[DONE]`, a finish reason or the usage at the end was seen.
    is_complete: bool,
    /// Number of output tokens that the request asks for; 0 if it is unknown.
    asked: u64,
    /// Arrival of an event without text that has the finish reason, and the token count up to it. Some servers send the reason in an event
    /// of its own, which is not a token. So the event is not counted as output if earlier events account for all tokens that the server
    /// counted, or, without its count, for all that were asked for.
    ending: Option<(Nanos, Option<u64>)>,
    /// True once `[DONE]` was seen. Later data is ignored.
    is_over: bool,
    error: Option<String>,
    /// True if the answer broke off or could not be read. The text of the answer is then dropped.
    is_broken: bool,
    /// Beginning of an error response's body, or an answer that is read as a whole.
    body: Vec<u8>,
    /// Number of bytes of an error response's body that have arrived.
    refusal_bytes: usize,
}

/// Content of a response that is not a stream.
#[derive(Deserialize)]
struct Whole {
    usage: Option<WholeUsage>,
}

/// Token counts of such a response. Some servers report only the total.
#[derive(Deserialize)]
struct WholeUsage {
    #[serde(flatten)]
    counts: Usage,
    total_tokens: Option<u64>,
}

impl Exchange {
    pub fn begin(&mut self, load: &Load, (index, request): (usize, Properties), (due, ready): (Nanos, Nanos)) {
        self.response.reset();
        self.events.reset();
        let Answer {
            mut scanner, mut body, ..
        } = std::mem::take(&mut self.answer);
        scanner.reset();
        body.clear();
        self.answer = Answer {
            reply: load.reply,
            scanner,
            body,
            sample: Sample {
                due,
                ready,
                prompt_len: request.prompt_len,
                class: load.class_of(index),
                sequences: request.sequences,
                audio_s: request.audio_s,
                text: load.keep_texts.then(String::new),
                ..Sample::default()
            },
            asked: request.output_len,
            ..Answer::default()
        };
    }

    pub fn sent(&mut self, now: Nanos) {
        (self.answer.sample.sent, self.heard_at) = (now, now);
    }

    /// Takes bytes that arrived at `at`. Returns true once the answer is complete, or has failed.
    pub fn feed(&mut self, bytes: &[u8], at: Nanos) -> bool {
        let Exchange {
            response,
            events,
            answer,
            heard_at,
        } = self;
        *heard_at = at;
        let fed = response.feed(bytes, &mut |status, piece| {
            if status != StatusCode::OK {
                answer.keep(piece, KEPT_OF_REFUSAL);
                answer.refusal_bytes += piece.len();
                if answer.refusal_bytes > READ_OF_REFUSAL {
                    answer.fail(refusal_text(status, &answer.body));
                }
            } else if !answer.reply.is_stream() {
                let most = match answer.reply {
                    Reply::Text => LONGEST_TEXT,
                    Reply::Usage => LONGEST_BODY,
                    _ => return,
                };
                if !answer.keep(piece, most) {
                    answer.fail(format!("the answer is longer than {} MiB", most >> 20));
                }
            } else if events.feed(piece, at, &mut |data, at| answer.take(data, at)).is_err() {
                answer.fail(format!("an event is longer than {} MiB", sse::LONGEST_EVENT >> 20));
            }
        });
        if let Err(error) = fed {
            answer.fail(error);
            response.close();
            return true;
        }
        // After an error nothing further is needed.
        response.is_done() || answer.error.is_some()
    }

    /// Ends the answer before it is complete, for `reason`. Without a reason, the server closed the connection, which completes an answer
    /// of unknown length.
    pub fn break_off(&mut self, reason: Option<String>) {
        if !self.response.close() || reason.is_some() {
            let reason = reason.unwrap_or_else(|| {
                let when = match self.response.has_begun() {
                    true => "in the middle of",
                    false => "before",
                };
                format!("the server closed the connection {when} its answer")
            });
            self.answer.fail(match self.response.refusal() {
                // The server's message explains more than the end of the connection.
                Some(status) => format!("{}; {reason}", refusal_text(status, &self.answer.body)),
                None => reason,
            });
        }
    }

    /// Arrival of the latest bytes of the answer; before the first, the time at which the request was sent.
    pub fn heard_at(&self) -> Nanos {
        self.heard_at
    }

    /// The timeline so far.
    pub fn sample(&self) -> &Sample {
        &self.answer.sample
    }

    /// Returns the timeline of a request that is given up.
    pub fn cut(&mut self, now: Nanos) -> Sample {
        let mut sample = std::mem::take(&mut self.answer.sample);
        sample.end = sample.events.last().unwrap_or(now);
        sample
    }

    /// Time since the request was sent.
    pub fn age(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.answer.sample.sent)
    }

    /// Time since the request was sent, or since the latest bytes of its answer.
    pub fn silence(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.heard_at)
    }

    /// Returns true if no byte of the answer has arrived.
    pub fn is_unanswered(&self) -> bool {
        !self.response.has_begun()
    }

    /// Returns true if the connection can carry another request.
    pub fn keeps_alive(&self) -> bool {
        self.response.is_done() && !self.response.closes
    }

    /// Returns the finished timeline. Without an output event, or with an error, `now` is used as the end.
    pub fn finish(&mut self, now: Nanos) -> Sample {
        let Exchange {
            response,
            events,
            answer,
            heard_at,
        } = self;
        let _ = events.finish(&mut |data, at| answer.take(data, at));
        answer.count_ending();
        let mut sample = std::mem::take(&mut answer.sample);
        if !answer.reply.is_stream() && response.is_done() && response.status == StatusCode::OK {
            sample.events.push(*heard_at);
        }
        sample.end = sample.events.last().unwrap_or(now);
        sample.error = answer.error.take();
        if answer.is_broken
            && let Some(text) = &mut sample.text
        {
            text.clear();
        }
        if sample.error.is_none() && response.is_done() {
            sample.error = answer.verdict(response, &sample);
        }
        sample.error_status = response.refusal().map(|status| status.as_u16());
        if sample.error.is_none() && !answer.reply.is_stream() {
            sample.error = answer.read_whole(&response.metadata, &mut sample).err();
        }
        if sample.error.is_some() {
            sample.end = now;
        }
        sample
    }
}

impl Answer {
    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
        self.is_broken = true;
    }

    /// Counts an output event.
    fn count(&mut self, at: Nanos, tokens: Option<u64>) {
        self.sample.events.push(at);
        if let Some(tokens) = tokens {
            self.sample.tokens_by_event.push(tokens as u32);
        }
    }

    /// Counts the event with the finish reason as output, unless earlier events account for all tokens.
    fn count_ending(&mut self) {
        if let Some((at, tokens)) = self.ending.take() {
            let before = self.sample.events.len() as u64;
            let asked = Some(self.asked).filter(|asked| *asked > 0);
            if before == 0 || self.sample.output_tokens.or(asked).is_none_or(|all| before < all) {
                self.count(at, tokens);
            }
        }
    }

    /// Keeps a piece of the body, of which at most `most` bytes are kept. Returns false if not all of the piece fits.
    fn keep(&mut self, piece: &[u8], most: usize) -> bool {
        let room = most.saturating_sub(self.body.len());
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
        piece.len() <= room
    }

    /// Reads the figures of an answer that is not a stream.
    fn read_whole(&mut self, metadata: &[u8], sample: &mut Sample) -> Result<(), String> {
        let json = match self.reply {
            Reply::Usage => &self.body[..],
            Reply::UsageInHeader => metadata,
            Reply::Text => {
                sample.text = Some(String::from_utf8_lossy(&self.body).into_owned());
                return Ok(());
            }
            _ => return Ok(()),
        };
        let whole: Whole =
            serde_json::from_slice(json).map_err(|error| format!("the answer is not a JSON object: {error}"))?;
        let Some(usage) = whole.usage else { return Ok(()) };
        let prompt_tokens = usage.counts.prompt_tokens.or(usage.total_tokens);
        let usage = Usage {
            prompt_tokens,
            ..usage.counts
        };
        if let Some(tokens) = usage.checked()?.prompt_tokens {
            // Nothing was generated, and the server has counted.
            (sample.prompt_len, sample.output_tokens) = (tokens, Some(0));
        }
        Ok(())
    }

    fn take(&mut self, data: &[u8], at: Nanos) {
        self.has_event = true;
        if self.is_over {
            return;
        }
        if data == b"[DONE]" {
            self.is_over = true;
            // The Responses API has its own event for the end.
            self.is_complete |= self.reply == Reply::Choices;
            return;
        }
        let scanned = match self.reply {
            Reply::Responses if data.is_empty() => return,
            Reply::Responses => responses::parse(data),
            _ => self.scanner.scan(data),
        };
        let scanned = scanned.and_then(|facts| match facts.usage.map(Usage::checked) {
            Some(Err(error)) => Err(error),
            _ => Ok(facts),
        });
        match scanned {
            Err(error) => self.fail(error),
            Ok(facts) => {
                if facts.output {
                    let tokens = facts.usage.and_then(|usage| usage.completion_tokens);
                    self.count_ending();
                    if facts.finished && facts.text.is_empty() {
                        self.ending = Some((at, tokens));
                    } else {
                        self.count(at, tokens);
                    }
                    if let Some(text) = &mut self.sample.text {
                        text.push_str(&facts.text);
                    }
                }
                self.is_complete |= facts.finished;
                if let Some(usage) = facts.usage {
                    // An event with counts but no choices is the last one.
                    self.is_complete |= facts.has_no_choices && !self.sample.events.is_empty();
                    self.sample.output_tokens = usage.completion_tokens.or(self.sample.output_tokens);
                    self.sample.prompt_len = usage.prompt_tokens.unwrap_or(self.sample.prompt_len);
                }
                if let Some(error) = facts.error {
                    let error = shorten(&error, KEPT_OF_REFUSAL);
                    self.error
                        .get_or_insert(format!("the server reported an error in the stream: {error}"));
                }
            }
        }
    }

    /// Returns the reason why a complete response is not a success, if it is not.
    fn verdict(&self, response: &Response, sample: &Sample) -> Option<String> {
        if response.status != StatusCode::OK {
            return Some(refusal_text(response.status, &self.body));
        }
        let kind = String::from_utf8_lossy(&response.content_type);
        if sample.events.is_empty() && !self.has_event && !kind.is_empty() && !kind.starts_with(EVENT_STREAM) {
            let kind = shorten(&kind, KEPT_OF_REFUSAL);
            return Some(format!("the answer is not an event stream (Content-Type {kind})"));
        }
        if sample.events.is_empty() {
            return Some("the stream ended without any output event".to_owned());
        }
        let missing = match self.reply {
            _ if self.is_complete || !self.reply.is_stream() => return None,
            Reply::Responses => "the stream ended without response.completed or response.incomplete",
            _ => "the stream ended without [DONE], a finish reason or usage",
        };
        Some(missing.to_owned())
    }
}

/// `HTTP 404: the model does not exist`, from the API's error object or the body's beginning.
fn refusal_text(status: StatusCode, body: &[u8]) -> String {
    let text = match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => error_text(value.get("error").unwrap_or(&value)),
        Err(_) => String::from_utf8_lossy(body)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    };
    let status = status.as_u16();
    match text.is_empty() {
        true => format!("HTTP {status}"),
        false => format!("HTTP {status}: {text}"),
    }
}
