//! Requests for text: reads the body of a completion or a chat, checks it against the limits, and hands its sequences to the engine. The
//! modules `stream` and `answer` write the answer.

use super::answer::{AnswerFaults, Choice, PendingAnswer, RANKS, Style};
use super::error::{ApiError, ENGINE_DEAD};
use super::request::{Body, Prompt, Stop, output_limit, prompts};
use super::{App, answer, stream};
use crate::driver::Submission;
use crate::engine::SequenceRequest;
use crate::engine::noise::mix_text;
use crate::fault::Fault;
use crate::log;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::unbounded_channel;
use vsweep_metrics::rng::{mix, uniform};

/// Maximum number of output tokens of a completion that states no limit (OpenAI's default).
const DEFAULT_MAX_TOKENS: i64 = 16;

/// `POST /v1/completions`
pub async fn completions(app: State<Arc<App>>, headers: HeaderMap, bytes: Bytes) -> Result<Response, ApiError> {
    answer(app.0, Style::Completion, &headers, &bytes).await
}

/// `POST /v1/chat/completions`
pub async fn chat(app: State<Arc<App>>, headers: HeaderMap, bytes: Bytes) -> Result<Response, ApiError> {
    answer(app.0, Style::Chat, &headers, &bytes).await
}

async fn answer(app: Arc<App>, style: Style, headers: &HeaderMap, bytes: &[u8]) -> Result<Response, ApiError> {
    let body = Body::read(bytes)?;
    let prompts = prompts(&app, style, &body)?;
    let adapter = app.adapter(body.text("model")?)?;
    let streaming = body.flag("stream")?;
    let number = app.requests.fetch_add(1, Ordering::Relaxed);
    let answer_faults = random_faults(&app, number)?;
    if app.is_engine_dead.load(Ordering::Relaxed) {
        return Err(ApiError::internal(ENGINE_DEAD));
    }
    let kind = if style == Style::Chat { "chatcmpl" } else { "cmpl" };
    let rank = rank(&app, headers)?;
    let prompt_tokens = prompts.iter().map(|prompt| prompt.ids.len()).sum();
    let salt = adapter.map_or(0, |adapter| mix_text(1, &adapter.name));
    let (choices, sequences) = choices(&app, style, &body, prompts, salt)?.into_iter().unzip();
    let (usage, continuous_usage) = usage(&app, &body);
    let (events_in, events) = unbounded_channel();
    let answer = PendingAnswer {
        id: format!("{kind}-{}", request_id(headers, number)),
        number,
        style,
        choices,
        prompt_tokens,
        token_ids: body.flag("return_token_ids")?,
        logprobs: logprobs(style, &body)?,
        usage,
        continuous_usage,
        answer_faults,
        model: adapter.map_or(app.model_name(), |adapter| &adapter.name).to_owned(),
        created: super::unix_seconds() as u64,
        app: app.clone(),
        events,
    };
    app.in_flight.fetch_add(1, Ordering::Relaxed);
    // The sender of this channel lives as long as the server. While earlier requests finish before a pause, later ones wait.
    let _ = app.is_draining.subscribe().wait_for(|draining| !draining).await;
    app.driver.submit(Submission {
        id: answer.id.clone(),
        number,
        sequences,
        rank,
        events: events_in,
    });
    match streaming {
        true => Ok(stream::respond(answer)),
        false => answer::respond(answer).await,
    }
}

/// Returns the id that the client gave the request, as vLLM does, or a new id if the client gave none.
fn request_id(headers: &HeaderMap, number: u64) -> String {
    let new_id = || format!("{:016x}", mix(number ^ u64::from(std::process::id()) << 32));
    header(headers, "x-request-id").map_or_else(new_id, str::to_owned)
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the index of the engine that the client chose, if any. vLLM offers this choice to routers.
fn rank(app: &App, headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let rank = header(headers, "x-data-parallel-rank").and_then(|rank| rank.parse::<usize>().ok());
    let engines = app.settings.cost.data_parallel;
    match rank.filter(|rank| *rank >= engines) {
        None => Ok(rank),
        Some(rank) => {
            let sentence = format!("data_parallel_rank {rank} is out of range [0, {engines}).");
            Err(ApiError::bad_request("data_parallel_rank", sentence))
        }
    }
}

/// Draws the random faults of the request with this number. Returns their effects on its answer, or the error that replaces the answer.
fn random_faults(app: &App, number: u64) -> Result<AnswerFaults, ApiError> {
    let mut answer_faults = AnswerFaults::default();
    for (index, fault) in app.settings.faults.iter().enumerate() {
        let drawn = |share: f64| uniform(app.settings.seed ^ mix(index as u64), number) < share;
        match *fault {
            Fault::ErrorRate(share) if drawn(share) => return Err(ApiError::internal("Internal server error")),
            Fault::RejectRate(share) if drawn(share) => return Err(ApiError::too_many()),
            Fault::TruncateRate(share) => answer_faults.cut |= drawn(share),
            Fault::WrongCounts(share) => answer_faults.miscounted |= drawn(share),
            Fault::WrongTokens(share) => answer_faults.wrong = share,
            Fault::RepeatedTokens(share) => answer_faults.repeated = share,
            Fault::BatchNoise(nats) if app.in_flight.load(Ordering::Relaxed) > 0 => {
                (answer_faults.noise, answer_faults.batch) = (nats, mix(number ^ app.settings.seed));
            }
            Fault::LogFlood => {
                let line = |n: u32| log::api("async_llm.py:420", &format!("Added request {number}, detail {n}."));
                (0..1000).for_each(line);
            }
            _ => {}
        }
    }
    Ok(answer_faults)
}

/// Returns the choices of the answer to a request, `n` for each prompt, each with its sequence for the engine.
fn choices(
    app: &App,
    style: Style,
    body: &Body,
    prompts: Vec<Prompt>,
    salt: u64,
) -> Result<Vec<(Choice, SequenceRequest)>, ApiError> {
    let asked = match style {
        Style::Chat => body.int("max_completion_tokens")?.or(body.int("max_tokens")?),
        Style::Completion => Some(body.int("max_tokens")?.unwrap_or(DEFAULT_MAX_TOKENS)),
    };
    let n = match body.int("n")?.unwrap_or(1) {
        n @ 1..=4096 => n as usize,
        n => return Err(ApiError::bad_request("n", format!("n must be 1 to 4096, got {n}."))),
    };
    let stop = Stop::read(body)?;
    // A greedy answer depends on the prompt and the adapter, not on a seed.
    let is_greedy = body.get("temperature").and_then(Value::as_f64) == Some(0.0);
    let drawn = body.int("seed")?.unwrap_or(0) as u64 ^ app.settings.seed;
    let seed = mix(if is_greedy { 0 } else { drawn }) ^ salt;
    let priority = body.int("priority")?.unwrap_or(0);
    let token_ids = body.flag("return_token_ids")?;
    let echo = body.flag("echo")?;

    let mut choices = Vec::with_capacity(prompts.len() * n);
    for prompt in prompts {
        let (most, read) = shortened(app, output_limit(app, style, prompt.ids.len(), asked)?, &prompt);
        let content = read.iter().fold(seed, |hash, id| mix(hash ^ u64::from(*id)));
        for sample in 0..n {
            let seed = mix(content ^ sample as u64);
            let (len, finish_reason, stop_reason) = stop.apply(app, seed, most, asked.is_none());
            let sequence = SequenceRequest {
                prompt: read.to_vec(),
                output_len: len,
                seed,
                priority,
                stops: finish_reason == "stop",
                salt,
            };
            let choice = Choice {
                seed,
                len,
                written: 0,
                prompt_len: prompt.ids.len(),
                finish_reason,
                stop_reason,
                prompt_ids: token_ids.then(|| prompt.ids.clone()),
                echo: prompt.text.clone().filter(|_| echo),
            };
            choices.push((choice, sequence));
        }
    }
    Ok(choices)
}

/// Returns the maximum number of tokens of an answer, and the part of its prompt that is read. Faults may shorten both.
fn shortened<'p>(app: &App, mut most: usize, prompt: &'p Prompt) -> (usize, &'p [u32]) {
    let mut read = &prompt.ids[..];
    for fault in &app.settings.faults {
        match *fault {
            Fault::CutAnswers(tokens) => most = most.min(tokens as usize),
            Fault::TruncatedPrompts(tokens) => read = &read[read.len().saturating_sub(tokens as usize)..],
            _ => {}
        }
    }
    (most.max(1), read)
}

fn logprobs(style: Style, body: &Body) -> Result<Option<usize>, ApiError> {
    Ok(match style {
        Style::Completion => body.int("logprobs")?.map(|count| count.clamp(0, RANKS as i64) as usize),
        Style::Chat if body.flag("logprobs")? => {
            Some(body.int("top_logprobs")?.unwrap_or(0).clamp(0, RANKS as i64) as usize)
        }
        Style::Chat => None,
    })
}

/// Returns two flags: the stream ends with usage, and every chunk has usage.
fn usage(app: &App, body: &Body) -> (bool, bool) {
    let options = body.get("stream_options");
    let option = |name: &str| options.is_some_and(|options| options[name] == true);
    let include = option("include_usage") || app.settings.force_usage;
    (include, include && option("continuous_usage_stats"))
}
