//! The parameters of our benchmarks. Each benchmark has a table of them, which the checks of plans, the command lines and their help read.
//! `load::params` declares and reads parameters. Each group is declared where it is used, the group of a dataset next to the dataset.

use crate::dataset::{self, KINDS};
use crate::load::ServerAddress;
use crate::params::ParamReader;
pub use crate::params::{FromParam, Param, ParamGroup, Takes};
use crate::plan::reference::write_rows;
use crate::plan::{Params, nearest, show};
use crate::units::parse_duration;
use itertools::Itertools;
use reqwest::header::HeaderName;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// The parameters of one benchmark.
#[derive(Debug)]
pub struct Table {
    /// Name of the benchmark in sentences.
    pub benchmark: &'static str,
    /// The benchmark's own parameters, in the order of the help.
    pub groups: &'static [ParamGroup],
    /// True if the table includes the parameters of all datasets.
    pub has_datasets: bool,
    /// Remedy for an unknown name without similar ones.
    pub remedy: &'static str,
    /// Names that are refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
}

impl Table {
    /// Returns every parameter with the title of its group, each name once.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static Param)> {
        let datasets = dataset::groups().filter(|_| self.has_datasets);
        let mut seen = BTreeSet::new();
        self.groups
            .iter()
            .copied()
            .chain(datasets)
            .flat_map(|ParamGroup { title, params }| params.iter().map(move |param| (title, param)))
            .filter(move |(_, param)| seen.insert(param.name))
    }

    /// Returns the parameter of a name, which may be spelt with `-` or `_`.
    pub fn find(&self, name: &str) -> Option<&'static Param> {
        let name = name.replace('-', "_");
        self.all().map(|(_, param)| param).find(|param| param.name == name)
    }

    /// Returns a reader of these parameters.
    pub(in crate::bench) fn reader<'a>(&self, params: &'a Params) -> ParamReader<'a> {
        ParamReader::new(params, |name| self.find(name), |name| self.unknown(name))
    }

    /// Returns the message for an unknown name.
    pub(in crate::bench) fn unknown(&self, name: &str) -> String {
        let wanted = name.replace('-', "_");
        let refused = self.refused.iter().find(|(refused, _)| *refused == wanted);
        let near = nearest(&wanted, self.all().map(|(_, param)| param.name));
        let reason = match (refused, near.as_slice()) {
            (Some((_, reason)), _) => format!(": {reason}"),
            (None, []) => format!("; {}", self.remedy),
            (None, near) => format!("; did you mean \"{}\"?", near.join("\" or \"")),
        };
        format!("{} has no parameter \"{name}\"{reason}", self.benchmark)
    }
}

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
    /// Reads the values, and reports addresses and headers that cannot be used.
    pub(in crate::bench) fn checked(reader: &mut ParamReader<'_>) -> ServerParams {
        let server = ServerParams::read(reader);
        if let Some(url) = &server.base_url {
            // The endpoints of the API begin with /v1 already.
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

    /// Returns the header lines of every request: the API key from `OPENAI_API_KEY`, then the key that the server is known to ask for, then
    /// those that the user gave. Of several headers with the same name, the last one counts.
    pub fn all_headers(&self, known_key: Option<&str>) -> Vec<(String, String)> {
        let key = std::env::var("OPENAI_API_KEY").ok();
        // A key that was read from a file often ends in a line break.
        let key = key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let keys = key.into_iter().chain(known_key);
        let authorizations = keys.map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
        authorizations.chain(self.headers.iter().cloned()).collect()
    }
}

/// Headers that follow from the body. A second such header could give the body another length, so it is refused.
const OURS: [&str; 2] = ["content-length", "transfer-encoding"];

/// Returns the problem with a header that cannot be sent as it is. Invalid characters could end the head of the request early.
fn wrong_header(name: &str, value: &str) -> Option<String> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Some(format!(
            "header {name:?} is not a valid header name; use letters, digits and \"-\""
        ));
    }
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Some(format!("header {name} follows from the body; remove it"));
    }
    (!is_value(value)).then(|| format!("header {name} has a line break or another control character in it; remove it"))
}

/// Returns true if a path can be sent in the head of a request.
pub(in crate::bench) fn is_path(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns true if a text can be part of a header's value.
pub(in crate::bench) fn is_value(value: &str) -> bool {
    value.chars().all(|letter| letter == '\t' || !letter.is_control())
}

/// A time such as `60s`; a bare number is refused because its unit would be a guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeSpan(pub Duration);

/// Description of the values that a [`TimeSpan`] takes.
pub const TIME: &str = "a time with a unit, such as \"60s\"";

impl FromParam for TimeSpan {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let time = parse_duration(&show(value));
        time.map(TimeSpan).map_err(|_| param.wrong(value, TIME))
    }
}

const ABOUT: &str = "# Parameters of a benchmark

A plan sets them in `[bench.params]`, a command line as flags (`--num-prompts`). Defaults are in brackets.
";

/// Returns the reference of the parameters of benchmarks, each under its title.
pub fn markdown(benchmarks: &[(&str, &Table)]) -> String {
    let mut out = String::from(ABOUT);
    let mut known = BTreeSet::new();
    // Writing to a string cannot fail.
    for (title, table) in benchmarks {
        let _ = write!(out, "\n## {title}\n");
        for (title, groups) in &table.groups.iter().chunk_by(|group| group.title) {
            let _ = write!(out, "\n### {title}\n");
            rows(&mut out, &mut known, groups.flat_map(|group| group.params.iter()));
        }
        for kind in KINDS.iter().filter(|_| table.has_datasets) {
            let _ = write!(
                out,
                "\n### `dataset_name = \"{}\"`\n\nPrompts: {}.\n",
                kind.name, kind.prompts
            );
            rows(&mut out, &mut known, kind.all_params());
        }
    }
    out
}

/// Writes a row for each parameter.
fn rows<'a>(out: &mut String, known: &mut BTreeSet<String>, params: impl Iterator<Item = &'a Param>) {
    let rows = params.map(|param| {
        let [takes, help] = [short(&param.wants()), param.help().replace('|', "\\|")];
        (&param.name, format!("| `{}`: {takes} | {help} |", param.name))
    });
    write_rows("| parameter | meaning |", rows, known, out);
}

/// Shortens the description of a value for a table: `a whole number of at least 1` becomes `integer ≥ 1`.
fn short(wants: &str) -> String {
    let words = [
        ("a whole number", "integer"),
        ("a number of milliseconds", "milliseconds"),
        ("a number of seconds", "seconds"),
        (" of at least ", " ≥ "),
        (" at least ", " ≥ "),
        (" above ", " > "),
        (" below ", " < "),
        (" at most ", " ≤ "),
        ("nothing", "switch"),
    ];
    let short = words
        .iter()
        .fold(wants.to_owned(), |text, (from, to)| text.replace(from, to));
    short.strip_prefix("a ").map(str::to_owned).unwrap_or(short)
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

#[cfg(test)]
mod headers_tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::{Value, json};

    fn problems(params: Value) -> Vec<String> {
        let params = params.as_object().expect("an object");
        NativeSettings::read(params).err().unwrap_or_default()
    }

    #[test]
    fn what_would_break_a_request_is_refused() {
        for (params, wanted) in [
            (json!({"header": ["X=a\r\nY: b"]}), "header X has a line break"),
            (json!({"header": {"X": "a\nb"}}), "header X has a line break"),
            (
                json!({"header": ["Content-Length=5"]}),
                "header Content-Length follows from the body",
            ),
            (
                json!({"header": ["transfer-encoding=chunked"]}),
                "header transfer-encoding follows",
            ),
            (json!({"header": ["A B=1"]}), "header \"A B\" is not a valid"),
            (json!({"header": ["Größe=1"]}), "header \"Größe\" is not a valid"),
            (json!({"header": ["=1"]}), "header \"\" is not a valid"),
            (json!({"request_id_prefix": "a\r\nX: 1"}), "request_id_prefix is"),
            (
                json!({"endpoint": "/a b/v1/completions"}),
                "endpoint is \"/a b/v1/completions\"; it must be a path",
            ),
        ] {
            let found = problems(params);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?}");
        }
        let fine = json!({
            "header": ["X-A=ü b", "Authorization=Bearer a=b", "Host=other"], "request_id_prefix": "é ",
            "endpoint": "/x%20y/v1/completions",
        });
        assert_eq!(problems(fine), [""; 0]);
    }
}
