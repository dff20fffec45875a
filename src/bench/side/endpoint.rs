//! One server of a benchmark: its address, how requests to it look, and a connection for what goes beside the measured
//! requests.

use super::control::{ControlClient, NoAnswer, SHORT};
use crate::bench::params::server::ServerParams;
use crate::load::{Backend, BodyOptions, Content, Generator, Request, RequestOptions, Target, Tls, unopened};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Limit for opening the connection beside the load.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One server.
pub(in crate::bench) struct Endpoint {
    pub url: String,
    target: Target,
    options: RequestOptions,
    control: Generator,
}

impl Endpoint {
    /// Finds the server at `url`; the generator is for the measured requests. Asks the name service, so it may block.
    pub fn open(url: &str, server: &ServerParams, model: &str) -> Result<(Endpoint, Generator), String> {
        let target = Target::parse(url)?;
        let addresses = target.resolve()?;
        let tls = target.is_https.then(|| Tls::new(&target.host, server.insecure));
        let tls = tls.transpose()?;
        let generator = || {
            Generator::new(addresses.clone(), tls.clone())
                .map_err(|error| format!("cannot start the generator: {error}"))
        };
        let (control, traffic) = (generator()?, generator()?);
        let endpoint = Endpoint {
            url: url.to_owned(),
            options: options(server, &target, model),
            target,
            control,
        };
        Ok((endpoint, traffic))
    }

    /// The body of the answer to a request beside the load.
    pub fn ask(&mut self, method: &str, path: &str, limit: Duration) -> Result<String, NoAnswer> {
        // Replaces a connection that the server has closed since it was last used.
        self.control
            .connect(1, CONNECT_TIMEOUT)
            .map_err(|error| NoAnswer::because(unopened("a connection", &self.target, &error, CONNECT_TIMEOUT)))?;
        let mut control = ControlClient {
            generator: &mut self.control,
            options: &self.options,
            base: &self.target.path,
        };
        control.ask(method, path, None, limit)
    }

    /// Empties the prefix cache, so that prompts of an earlier run are not found there. A server that will not is noticed
    /// by what it then finds.
    pub fn forget_prefixes(&mut self) {
        let _ = self.ask("POST", "/reset_prefix_cache", SHORT);
    }

    /// The server's counters as text, if it shows any.
    pub fn metrics(&mut self) -> Option<String> {
        self.ask("GET", "/metrics", SHORT).ok()
    }

    /// A prompt that gets exactly so many tokens. With a rank, the request goes to that engine of the server.
    pub fn request(&self, prompt: &[u32], output_len: usize, rank: Option<usize>) -> Result<Request, String> {
        let mut overrides = Map::new();
        overrides.insert("min_tokens".to_owned(), json!(output_len));
        let prompt_value = Value::from(prompt);
        let content = Content {
            prompt: Some(&prompt_value),
            overrides: Some(&overrides),
            prompt_len: prompt.len() as u64,
            output_len: output_len as u64,
            ..Content::default()
        };
        match rank {
            None => self.options.request(&content),
            Some(rank) => {
                let mut options = self.options.clone();
                options
                    .headers
                    .push(("X-data-parallel-rank".to_owned(), rank.to_string()));
                options.request(&content)
            }
        }
    }
}

/// Requests to one server: completions that say with every event how many tokens there are so far.
fn options(server: &ServerParams, target: &Target, model: &str) -> RequestOptions {
    let mut extra = Map::new();
    extra.insert("temperature".to_owned(), json!(0));
    let counted = json!({"include_usage": true, "continuous_usage_stats": true});
    extra.insert("stream_options".to_owned(), counted);
    RequestOptions {
        host: target.authority(),
        path: format!("{}{}", target.path, Backend::Completions.endpoint()),
        headers: server.all_headers(),
        body: BodyOptions {
            backend: Backend::Completions,
            model: server.model.as_deref().unwrap_or(model).to_owned(),
            ignore_eos: true,
            logprobs: None,
            extra,
        },
    }
}
