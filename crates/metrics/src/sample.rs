//! The timeline of one request, and whether it met its targets.

use super::moments::{Moments, Nanos, seconds};
use serde::{Deserialize, Serialize};

/// The timeline of one request. All times are on one clock, which is read when bytes leave or arrive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time at which the arrival process wanted the request to be sent.
    pub due: Nanos,
    /// Time at which the request could have been sent: `due`, or the moment a slot became free under `max_concurrency`.
    pub ready: Nanos,
    /// Time right before its first byte was handed to the system.
    pub sent: Nanos,
    /// Arrival of each event that carries output; for an answer that is not streamed, only of the last byte of the body.
    pub events: Moments,
    /// Output tokens up to and including each event, if the server reports them (continuous usage); else empty.
    pub tokens_by_event: Vec<u32>,
    /// Time of the last event in `events`; without events, or with an error, the time at which the request ended.
    pub end: Nanos,
    /// Prompt tokens by the server's count, else by the dataset's.
    pub prompt_len: u64,
    /// Output tokens as the server counted them.
    pub output_tokens: Option<u64>,
    /// Index of the request's class in a mixed load; 0 in any other load.
    pub class: u8,
    /// Inputs in the request (documents of a rerank, texts of an embedding batch); 1 otherwise.
    pub sequences: u32,
    /// Seconds of audio sent.
    pub audio_s: f64,
    /// The text that was generated, when it was asked for.
    pub text: Option<String>,
    /// Error of the request; `None` for a success.
    pub error: Option<String>,
    /// HTTP status of the answer, if it is not 200.
    pub error_status: Option<u16>,
}

impl Sample {
    /// Returns true if the request completed.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// Time to first token: from `sent` to the first output event.
    pub fn ttft(&self) -> Nanos {
        self.events.first().map_or(0, |first| first.saturating_sub(self.sent))
    }

    /// End-to-end latency: from `sent` to `end`.
    pub fn latency(&self) -> Nanos {
        self.end.saturating_sub(self.sent)
    }

    /// Time from `due` to `sent`: the wait for a slot under `max_concurrency`, and the generator's own lag.
    pub fn queue(&self) -> Nanos {
        self.sent.saturating_sub(self.due)
    }

    /// The generator's own lag: from `ready` to `sent`.
    pub fn lag(&self) -> Nanos {
        self.sent.saturating_sub(self.ready)
    }

    /// Inter-token latencies: gaps between consecutive output events.
    pub fn gaps(&self) -> impl Iterator<Item = Nanos> {
        self.events.gaps()
    }

    /// Returns true if every event brought one token by the server's total count of tokens. Always false if the server reported a count with
    /// each event.
    pub fn has_one_token_per_event(&self) -> bool {
        self.tokens_by_event.is_empty() && self.output_tokens == Some(self.events.len() as u64)
    }

    /// Appends the latency of each token after the first event, in seconds. The tokens of an event share the gap before it; the gap before
    /// an event without tokens is added to the next gap. `None` if tokens and events cannot be matched.
    pub fn add_gaps_by_token(&self, gaps: &mut Vec<f64>) -> Option<()> {
        if self.has_one_token_per_event() {
            gaps.extend(self.gaps().map(seconds));
            return Some(());
        }
        if self.tokens_by_event.len() != self.events.len() {
            return None;
        }
        let mut waited = 0;
        for (gap, counts) in self.gaps().zip(self.tokens_by_event.windows(2)) {
            waited += gap;
            let tokens = counts[1].saturating_sub(counts[0]);
            if tokens > 0 {
                let each = seconds(waited) / f64::from(tokens);
                gaps.extend(std::iter::repeat_n(each, tokens as usize));
                waited = 0;
            }
        }
        Some(())
    }

    /// Output tokens that each event brought: by the server's count with each event, else equal shares of all tokens.
    pub fn tokens_of_events(&self) -> impl Iterator<Item = f64> {
        let (counts, events) = (&self.tokens_by_event, self.events.len());
        let is_counted = counts.len() == events;
        let share = self.output_len() as f64 / events as f64;
        (0..events).map(move |at| match is_counted {
            true => f64::from(counts[at].saturating_sub(if at > 0 { counts[at - 1] } else { 0 })),
            false => share,
        })
    }

    /// Output tokens: the server's count, else one for each event and at least one; 0 for a failed request.
    pub fn output_len(&self) -> u64 {
        match self.output_tokens {
            _ if !self.is_ok() => 0,
            Some(tokens) if tokens > 0 => tokens,
            _ => self.events.len().max(1) as u64,
        }
    }

    /// Time per output token after the first, in seconds; `None` for outputs of less than two tokens.
    pub fn tpot(&self) -> Option<f64> {
        let tokens = self.output_len();
        (tokens > 1).then(|| seconds(self.latency().saturating_sub(self.ttft())) / (tokens - 1) as f64)
    }
}

/// Targets of one request, in milliseconds. A request is good if it meets every target that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Goodput {
    /// Largest time to first token.
    pub ttft_ms: Option<f64>,
    /// Largest time per output token. An output of one token always meets it.
    pub tpot_ms: Option<f64>,
    /// Largest end-to-end latency.
    pub e2el_ms: Option<f64>,
}

impl Goodput {
    /// Reads pairs such as `ttft:200`; `None` if there are none.
    pub fn parse(pairs: &[String]) -> Result<Option<Goodput>, String> {
        let mut goodput = Goodput::default();
        for pair in pairs {
            let (name, value) = pair
                .split_once(':')
                .ok_or_else(|| format!("goodput \"{pair}\" has no colon; write NAME:MILLISECONDS, e.g. ttft:200"))?;
            let target = match name.trim() {
                "ttft" => &mut goodput.ttft_ms,
                "tpot" => &mut goodput.tpot_ms,
                "e2el" => &mut goodput.e2el_ms,
                other => return Err(format!("goodput knows ttft, tpot and e2el, not \"{other}\"")),
            };
            let limit: f64 = value.trim().parse().ok().filter(|limit| *limit >= 0.0).ok_or_else(|| {
                format!("goodput {name} must be a number of milliseconds of at least 0, not \"{value}\"")
            })?;
            *target = Some(limit);
        }
        Ok((goodput != Goodput::default()).then_some(goodput))
    }

    /// Returns true if a request met every target (limits included); a failed request never does.
    pub fn is_met(&self, sample: &Sample) -> bool {
        let within = |limit_ms: Option<f64>, value_s: f64| limit_ms.is_none_or(|limit| limit / 1000.0 >= value_s);
        sample.is_ok()
            && within(self.ttft_ms, seconds(sample.ttft()))
            && within(self.tpot_ms, sample.tpot().unwrap_or(0.0))
            && within(self.e2el_ms, seconds(sample.latency()))
    }
}
