//! Requests beside the measured ones, over the generator's own connections: the profiler, the server's counters, and its
//! tokenizer. They are sent with the headers of the run, before t0 or after the end.

use crate::dataset::{Item, Prompt};
use crate::load::{Generator, Load, Reply, RequestOptions};
use serde_json::{Value, json};
use std::time::Duration;

/// Tokenizer calls in flight.
const ALIGNING_AT_ONCE: usize = 64;
pub(super) const SHORT: Duration = Duration::from_secs(10);
/// Starting and stopping a profiler writes traces.
pub(super) const PROFILER: Duration = Duration::from_secs(600);

/// The generator and how requests to its server look.
pub(super) struct Aside<'a> {
    pub generator: &'a mut Generator,
    pub options: &'a RequestOptions,
    /// Path before every route.
    pub base: &'a str,
}

/// How prompts compared with the server's own tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    /// The server counts as we do.
    Equal,
    /// So many prompts were cut to their length by the server's count.
    Cut(usize),
    /// The server could not be asked.
    Unknown,
}

impl Alignment {
    /// The text in a result file.
    pub fn describe(self) -> String {
        match self {
            Alignment::Equal => "equal".to_owned(),
            Alignment::Cut(prompts) => format!("{prompts} prompts cut"),
            Alignment::Unknown => "not checked".to_owned(),
        }
    }
}

impl Aside<'_> {
    /// The body of the answer to one request; the error says why there is none.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>, limit: Duration) -> Result<String, String> {
        let bodies = [body.map(Value::to_string).unwrap_or_default()];
        self.ask_all(method, path, &bodies, limit)?
            .pop()
            .unwrap_or_else(|| Err("no answer".to_owned()))
    }

    fn ask_all(
        &mut self,
        method: &str,
        path: &str,
        bodies: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<String, String>>, String> {
        let path = format!("{}{path}", self.base);
        let requests = bodies
            .iter()
            .map(|body| self.options.aside(method, &path, body.as_bytes()))
            .collect();
        let load = Load {
            requests,
            due: vec![0; bodies.len()],
            limit: Some(ALIGNING_AT_ONCE),
            reply: Reply::Text,
            request_timeout: limit,
            silence_timeout: limit,
            ..Load::default()
        };
        let outcome = self
            .generator
            .drive(&load, &mut |_| {})
            .map_err(|error| error.to_string())?;
        let answers = outcome.samples.into_iter().map(|sample| match sample.error {
            Some(error) => Err(error),
            None => Ok(sample.text.unwrap_or_default()),
        });
        Ok(answers.collect())
    }

    /// The server's counters as text, if it shows any.
    pub fn metrics(&mut self) -> Option<String> {
        self.ask("GET", "/metrics", None, SHORT).ok()
    }

    /// Starts or stops the server's profiler.
    pub fn profile(&mut self, path: &str) -> Result<(), String> {
        self.ask("POST", path, None, PROFILER).map(drop)
    }

    /// Cuts text prompts that the server's tokenizer finds longer than they should be. Asks for the first prompt alone,
    /// and for all others only if it differs; a prompt that cannot be checked stays as it is.
    pub fn align(&mut self, model: &str, items: &mut [Item]) -> Alignment {
        let question = |item: &Item| json!({"model": model, "prompt": item.prompt, "add_special_tokens": false});
        let Some(first) = items.first() else {
            return Alignment::Unknown;
        };
        let answer = self.ask("POST", "/tokenize", Some(&question(first)), SHORT);
        match answer.ok().as_deref().and_then(token_ids) {
            None => return Alignment::Unknown,
            Some(ids) if ids.len() as u64 == first.prompt_len => return Alignment::Equal,
            Some(_) => {}
        }
        let questions: Vec<String> = items.iter().map(|item| question(item).to_string()).collect();
        let Ok(answers) = self.ask_all("POST", "/tokenize", &questions, SHORT) else {
            return Alignment::Unknown;
        };
        let too_long: Vec<(usize, String)> = answers
            .iter()
            .enumerate()
            .filter_map(|(i, answer)| {
                let mut ids = token_ids(answer.as_deref().ok()?)?;
                let wanted = items[i].prompt_len as usize;
                (ids.len() > wanted).then(|| {
                    ids.truncate(wanted);
                    (i, json!({"model": model, "tokens": ids}).to_string())
                })
            })
            .collect();
        let questions: Vec<String> = too_long.iter().map(|(_, question)| question.clone()).collect();
        let Ok(answers) = self.ask_all("POST", "/detokenize", &questions, SHORT) else {
            return Alignment::Unknown;
        };
        let mut cut = 0;
        for ((i, _), answer) in too_long.iter().zip(answers) {
            let answer: Value = answer
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default();
            if let Some(text) = answer["prompt"].as_str() {
                items[*i].prompt = Prompt::Text(text.to_owned());
                cut += 1;
            }
        }
        Alignment::Cut(cut)
    }
}

/// The ids in an answer of `/tokenize`.
fn token_ids(answer: &str) -> Option<Vec<u32>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let ids = answer["tokens"].as_array()?.iter();
    ids.map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
        .collect()
}
