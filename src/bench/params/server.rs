//! The parameters that say where the server is and how it is spoken to: the same for each of our benchmarks.

use super::headers::wrong_header;
use crate::load::ServerAddress;
use crate::params::ParamReader;

crate::params! {
    /// A server as the user describes it.
    pub struct ServerParams {
        /// Server address; replaces host and port.
        base_url: Option<String> = param("base_url"),
        /// Server host.
        host: String = param("host").default("127.0.0.1"),
        /// Server port.
        port: u16 = param("port").least(1).default("8000"),
        /// HTTP headers, each KEY=VALUE.
        headers: Vec<(String, String)> = param("header"),
        /// Do not check the server's certificate.
        insecure: bool = param("insecure"),
        /// Model.
        model: Option<String> = param("model").otherwise("the first one the server lists"),
    }
}

impl ServerParams {
    /// Takes the values, and notes addresses and headers that cannot be used.
    pub(in crate::bench) fn checked(reader: &mut ParamReader<'_>) -> ServerParams {
        let server = ServerParams::read(reader);
        if let Some(url) = &server.base_url {
            // Every endpoint begins with it.
            if url.trim_end_matches('/').ends_with("/v1") {
                reader.wrong("base_url", "without the /v1 at its end, which is part of the endpoint");
            }
            if let Err(problem) = ServerAddress::parse(url) {
                reader.problem(problem);
            }
        }
        for (name, value) in &server.headers {
            if let Some(problem) = wrong_header(name, value) {
                reader.problem(problem);
            }
        }
        server
    }

    /// Base URL, for a benchmark outside a sweep.
    pub fn url(&self) -> String {
        let (host, port) = (&self.host, self.port);
        match &self.base_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if host.contains(':') && !host.starts_with('[') => format!("http://[{host}]:{port}"),
            None => format!("http://{host}:{port}"),
        }
    }

    /// Header lines of every request: the API key from `OPENAI_API_KEY`, in its place the one that the server is known to ask
    /// for, then those given. Of headers with one name the last counts.
    pub fn all_headers(&self, known_key: Option<&str>) -> Vec<(String, String)> {
        let key = std::env::var("OPENAI_API_KEY").ok();
        // A key that was read from a file often ends in a line break.
        let key = key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let keys = key.into_iter().chain(known_key);
        let authorizations = keys.map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
        authorizations.chain(self.headers.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::{Value, json};

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        let problem = |params: Value| {
            let params = params.as_object().expect("an object");
            NativeSettings::read(params).err().unwrap_or_default()
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
