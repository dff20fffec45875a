//! The form of a native benchmark's requests: the API, the name of the model or adapter, and the bodies apart from the prompt.

use crate::bench::params::{is_path, is_value};
use crate::load::Backend;
use crate::params::{Param, ParamReader, param};
use crate::rng::PythonRandom;
use serde_json::{Map, Value, json};

crate::params! {
    /// Content of requests apart from their prompts.
    pub struct Api {
        /// API to speak: openai or vllm (completions), openai-chat, openai-responses, openai-embeddings, vllm-rerank, ….
        backend_name: String = param("backend").default("openai"),
        /// Path of the API.
        path: Option<String> = param("endpoint").otherwise("that of the backend"),
        /// Model name in requests.
        served_model_name: Option<String> = param("served_model_name").otherwise("the model"),
        /// Adapters to use instead of the model.
        adapters: Vec<String> = param("lora_modules"),
        /// Choice of adapters: random or round-robin.
        assignment: Assignment = param("lora_assignment").default("random"),
        /// Start of each x-request-id.
        request_id_prefix: Option<String> = param("request_id_prefix").otherwise("bench-RANDOM-"),
        /// Generate on after the end-of-sequence token.
        ignore_eos: Option<bool> = param("ignore_eos"),
        /// Log probabilities per token (completions only).
        logprobs: Option<u64> = param("logprobs"),
        /// JSON object added to every request body.
        extra_body: Map<String, Value> = param("extra_body"),
    }
}

crate::one_of! {
    /// Choice of adapters.
    pub enum Assignment {
        /// By chance.
        Random = "random",
        /// In turn.
        RoundRobin = "round-robin",
    }
}

/// Sampling parameters. Request bodies have them as keys under the same names, in this order.
pub const SAMPLING: &[Param] = &[
    sampling("top_p", "Nucleus sampling"),
    sampling("top_k", "Top-k sampling"),
    sampling("min_p", "Min-p sampling"),
    sampling("temperature", "Sampling temperature"),
    sampling("frequency_penalty", "Frequency penalty"),
    sampling("presence_penalty", "Presence penalty"),
    sampling("repetition_penalty", "Repetition penalty"),
];

const fn sampling(name: &'static str, help: &'static str) -> Param {
    param(name).within("a number", f64::is_finite).described::<f64>(help)
}

impl Api {
    /// Reads the values, and reports those that no request can have.
    pub(super) fn checked(reader: &mut ParamReader<'_>) -> Api {
        let mut api = Api::read(reader);
        if Backend::named(&api.backend_name).is_none() {
            let names: Vec<&str> = Backend::names().collect();
            reader.wrong("backend", &format!("one of {}", names.join(", ")));
            // The rest is checked as if the default had been given.
            "openai".clone_into(&mut api.backend_name);
        }
        if let Some(path) = &api.path {
            if !is_path(path) {
                reader.wrong(
                    "endpoint",
                    "a path without blanks, in ASCII; write other characters as %XX",
                );
            }
            let ends = api.backend().endpoint_ends();
            if !ends.iter().any(|end| path.ends_with(end)) {
                let (ends, name) = (ends.join("\" or \""), &api.backend_name);
                reader.wrong(
                    "endpoint",
                    &format!("a path that ends in \"{ends}\" for backend {name}"),
                );
            }
        }
        if api.request_id_prefix.as_deref().is_some_and(|prefix| !is_value(prefix)) {
            reader.wrong(
                "request_id_prefix",
                "a string without line breaks and other control characters",
            );
        }
        let is_off = api.extra_body.get("stream").is_some_and(|stream| *stream != true);
        if is_off && api.backend().generates() {
            reader.problem("extra_body turns stream off, but tokens are timed as they arrive; remove stream from it");
        }
        let mut body = api.sampling(reader);
        body.append(&mut api.extra_body);
        api.extra_body = body;
        api
    }

    /// The API.
    pub fn backend(&self) -> Backend {
        Backend::named(&self.backend_name).unwrap_or(Backend::Completions)
    }

    /// Number of choices in each answer.
    pub fn choices(&self) -> u64 {
        let wanted = self.extra_body.get("n").and_then(Value::as_u64);
        wanted.filter(|_| self.backend().generates()).unwrap_or(1)
    }

    /// Path below the base URL.
    pub fn endpoint(&self) -> String {
        match &self.path {
            None => self.backend().endpoint().to_owned(),
            Some(path) if path.starts_with('/') => path.clone(),
            Some(path) => format!("/{path}"),
        }
    }

    /// Returns the adapter of each request, without end. Random ones are drawn by Python's `random.choice` after `random.seed(seed)`.
    pub fn adapters(&self, seed: u32) -> impl Iterator<Item = Option<&str>> {
        let mut random = PythonRandom::new(seed.into());
        (0..).map(move |i: usize| {
            let chosen = match (self.adapters.len(), self.assignment) {
                (0, _) => None,
                (count, Assignment::RoundRobin) => Some(i % count),
                (count, Assignment::Random) => Some(random.below(count as u32) as usize),
            };
            chosen.map(|chosen| self.adapters[chosen].as_str())
        })
    }

    fn sampling(&self, reader: &mut ParamReader<'_>) -> Map<String, Value> {
        if self.backend() == Backend::Audio && SAMPLING.iter().any(|param| reader.has(param.name)) {
            reader.problem("backend openai-audio takes no sampling parameters; use extra_body");
        }
        let mut body = Map::new();
        for param in SAMPLING {
            let value: Option<f64> = reader.take(param);
            // A backend that generates no tokens does not sample.
            let Some(value) = value.filter(|_| self.backend().generates()) else {
                continue;
            };
            let value = match param.name {
                "top_k" => json!(value as i64),
                _ => json!(value),
            };
            body.insert(param.name.to_owned(), value);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::json;

    #[test]
    fn adapters_are_chosen_in_turn_or_as_python_does() {
        let chosen = |assignment: &str| {
            let params = json!({"lora_modules": ["A", "B", "C"], "lora_assignment": assignment});
            let settings = NativeSettings::read(params.as_object().expect("an object")).expect("sound");
            settings.api.adapters(0).take(8).flatten().collect::<String>()
        };
        assert_eq!(chosen("round-robin"), "ABCABCAB");
        assert_eq!(chosen("random"), "BBABCBBB");
        let settings = NativeSettings::read(&serde_json::Map::new()).expect("sound");
        assert_eq!(settings.api.adapters(0).next(), Some(None));
    }
}
