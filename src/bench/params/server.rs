//! What every benchmark that sends exact token counts is told about the server: where it is, how requests look, and which
//! tokens may be used.

use crate::bench::params::reader::Reader;
use crate::bench::params::{Flag, Takes, flag};
use crate::load::{Backend, BodyOptions, RequestOptions, Target};
use serde_json::{Map, json};
use std::time::Duration;

pub(in crate::bench) const BASE_URL: Flag = flag("base_url", Takes::Text, "Server address; replaces host and port");
pub(in crate::bench) const HOST: Flag = flag("host", Takes::Text, "Server host [127.0.0.1]");
pub(in crate::bench) const PORT: Flag = flag("port", Takes::Count, "Server port [8000]");
pub(in crate::bench) const HEADER: Flag = flag("header", Takes::Texts, "HTTP headers, each KEY=VALUE");
pub(in crate::bench) const INSECURE: Flag = flag("insecure", Takes::Nothing, "Do not check the server's certificate");
pub(in crate::bench) const MODEL: Flag = flag("model", Takes::Text, "Model [the first one the server lists]");
pub(in crate::bench) const VOCAB_SIZE: Flag = flag(
    "vocab_size",
    Takes::Count,
    "Token ids below this may be used in prompts [the model's, else 32000]",
);
pub(in crate::bench) const SEED: Flag = flag(
    "seed",
    Takes::Count,
    "Seed of the prompts [0 in a plan, else another each time]",
);
pub(in crate::bench) const REQUEST_TIMEOUT: Flag = flag(
    "request_timeout",
    Takes::Number,
    "Seconds after which a request counts as failed [600]",
);

/// The server as it was described.
#[derive(Debug, Clone)]
pub struct Site {
    /// Base URL, for a benchmark that stands alone.
    pub base_url: String,
    /// Header lines of every request: the API key from `OPENAI_API_KEY`, then those given.
    pub headers: Vec<(String, String)>,
    /// Do not check the server's certificate.
    pub insecure: bool,
    /// The model's name in requests, if not the first that the server lists.
    pub model: Option<String>,
    /// Ids below this may be used as tokens.
    pub vocab_size: Option<u32>,
    /// Seed of the prompts.
    pub seed: u32,
    /// Limit for one request.
    pub request_timeout: Duration,
}

/// Base URL of a server: as given, else made of host and port.
pub(in crate::bench) fn base_url(given: Option<&str>, host: &str, port: u64) -> String {
    match given {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if host.contains(':') && !host.starts_with('[') => format!("http://[{host}]:{port}"),
        None => format!("http://{host}:{port}"),
    }
}

/// Header lines of every request: the API key from `OPENAI_API_KEY`, then those given.
pub(in crate::bench) fn with_key(given: Vec<(String, String)>) -> Vec<(String, String)> {
    let key = std::env::var("OPENAI_API_KEY").ok();
    // A key that was read from a file often ends in a line break.
    let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    let authorization = key.map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
    authorization.into_iter().chain(given).collect()
}

impl Reader<'_> {
    pub(in crate::bench) fn port(&mut self) -> u64 {
        let port = self.number("port", "a whole number from 1 to 65535", |port| {
            port.fract() == 0.0 && (1.0..=65535.0).contains(&port)
        });
        port.map_or(8000, |port| port as u64)
    }

    /// The address as given, if it is one to which paths can be added.
    pub(in crate::bench) fn base_url(&mut self) -> Option<String> {
        let url = self.text("base_url")?;
        // Every endpoint begins with it.
        if url.trim_end_matches('/').ends_with("/v1") {
            self.wrong("base_url", "without the /v1 at its end, which is part of the endpoint");
        }
        self.checked(Target::parse(&url)).map(|_| url)
    }
}

impl Site {
    pub(in crate::bench) fn read(reader: &mut Reader<'_>) -> Site {
        let host = reader.text("host").unwrap_or_else(|| "127.0.0.1".to_owned());
        let (port, given) = (reader.port(), reader.base_url());
        let seed = reader.seed();
        let timeout = reader.number("request_timeout", "a number of seconds above 0", |seconds| {
            seconds > 0.0
        });
        Site {
            base_url: base_url(given.as_deref(), &host, port),
            headers: with_key(reader.headers()),
            insecure: reader.is_set("insecure"),
            model: reader.text("model"),
            vocab_size: reader.vocab_size(),
            seed,
            request_timeout: Duration::from_secs_f64(timeout.unwrap_or(600.0).min(1e9)),
        }
    }

    /// Requests to one server: completions that say with every event how many tokens there are so far.
    pub(in crate::bench) fn options(&self, target: &Target, model: &str) -> RequestOptions {
        let mut extra = Map::new();
        extra.insert("temperature".to_owned(), json!(0));
        let counted = json!({"include_usage": true, "continuous_usage_stats": true});
        extra.insert("stream_options".to_owned(), counted);
        RequestOptions {
            host: target.authority(),
            path: format!("{}{}", target.path, Backend::Completions.endpoint()),
            headers: self.headers.clone(),
            body: BodyOptions {
                backend: Backend::Completions,
                model: self.model.as_deref().unwrap_or(model).to_owned(),
                ignore_eos: true,
                logprobs: None,
                extra,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::Settings;
    use serde_json::{Value, json};

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        let problem = |params: Value| {
            let params = params.as_object().expect("an object");
            Settings::read(params).err().unwrap_or_default()
        };
        for (params, wanted) in [
            (
                json!({"port": 99_999}),
                "port is 99999; it must be a whole number from 1 to 65535",
            ),
            (
                json!({"base_url": "localhost:8000"}),
                "the server's address \"localhost:8000\" has no scheme",
            ),
            (
                json!({"base_url": "http://h/v1/"}),
                "base_url is \"http://h/v1/\"; it must be without the /v1",
            ),
        ] {
            let found = problem(params);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?}");
        }
        assert_eq!(problem(json!({"base_url": "http://h/v1/x", "port": "8"})), [""; 0]);
    }
}
