//! Secrets in a plan: which names announce one, which values are ones, and how they are kept out of everything that is
//! written or shown.

use super::Params;
use serde_json::Value;
use std::collections::BTreeMap;

/// What stands in place of a secret.
pub const HIDDEN: &str = "***";

/// Shorter values are hidden only where their name announces them: replacing every `1` of a text would ruin it.
const SHORTEST_IN_TEXT: usize = 4;

/// The last words of a name that announce a secret; gateways and clouds write `apikey` and `passwd` as one word.
const ANNOUNCING: [&str; 12] = [
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
];

/// Whether a variable, header or parameter of this name holds a secret: its last word is `TOKEN`, `KEY`, `SECRET`,
/// `PASSWORD`, `AUTHORIZATION`, `COOKIE` or the like, in any case, dashes like underscores.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim().to_ascii_uppercase().replace('-', "_");
    let ends = |ending: &str| {
        name.strip_suffix(ending)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    ANNOUNCING.into_iter().any(ends)
}

/// The secret values of one plan, each with the name it goes by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    names_by_value: BTreeMap<String, String>,
}

impl Secrets {
    /// Remembers a value if its name announces a secret.
    pub fn note(&mut self, name: &str, value: &str) {
        if is_secret_name(name) && !value.is_empty() {
            let name = name.trim().to_ascii_uppercase().replace(['-', '.'], "_");
            if !self.names_by_value.contains_key(value) {
                let name = self.unused(&name);
                self.names_by_value.insert(value.to_string(), name);
            }
        }
    }

    /// The name, with a number if another value goes by it already.
    fn unused(&self, name: &str) -> String {
        let is_taken = |name: &String| self.names().any(|taken| taken == name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_string()).chain(numbered);
        names.find(|name| !is_taken(name)).expect("numbers do not end")
    }

    /// The names that the values go by.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names_by_value.values().map(String::as_str)
    }

    /// Remembers the secrets of a command line: values of flags such as `--api-key`, and headers.
    pub fn note_argv(&mut self, argv: &[String]) {
        let mut words = argv.iter().peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--") else {
                self.note_header(word);
                continue;
            };
            match flag.split_once('=') {
                Some((name, value)) => {
                    self.note(name, value);
                    self.note_header(value);
                }
                None if is_secret_name(flag) => {
                    if let Some(value) = words.next_if(|word| !word.starts_with("--")) {
                        self.note(flag, value);
                    }
                }
                None => {}
            }
        }
    }

    /// Remembers the secrets of a parameter's value: by the parameter's name, and headers (`NAME=VALUE`) in it.
    pub fn note_param(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(text) => {
                self.note(name, text);
                self.note_header(text);
            }
            Value::Array(items) => items.iter().for_each(|item| self.note_param(name, item)),
            Value::Object(members) => members.iter().for_each(|(key, member)| self.note_param(key, member)),
            _ => {}
        }
    }

    fn note_header(&mut self, text: &str) {
        if let Some((name, value)) = text.split_once(['=', ':']) {
            self.note(name, value.trim());
        }
    }

    /// Any text without the secrets in it.
    pub fn redact(&self, text: &str) -> String {
        let mut redacted = text.to_string();
        for value in self
            .longest_first()
            .filter(|value| value.len() >= SHORTEST_IN_TEXT || *value == text)
        {
            redacted = redacted.replace(value.as_str(), HIDDEN);
        }
        redacted
    }

    /// An environment without the secrets in it.
    pub fn redact_env(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let redacted = env.iter().map(|(name, value)| match is_secret_name(name) {
            true => (name.clone(), HIDDEN.to_string()),
            false => (name.clone(), self.redact(value)),
        });
        redacted.collect()
    }

    /// A command line without the secrets in it.
    pub fn redact_argv(&self, argv: &[String]) -> Vec<String> {
        argv.iter().map(|word| self.redact(word)).collect()
    }

    /// Parameters without the secrets in them.
    pub fn redact_params(&self, params: &Params) -> Params {
        params
            .iter()
            .map(|(name, value)| (name.clone(), self.redact_value(name, value)))
            .collect()
    }

    fn redact_value(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::String(_) if is_secret_name(name) => Value::String(HIDDEN.into()),
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.redact_value(name, item)).collect()),
            Value::Object(members) => Value::Object(self.redact_params(members)),
            scalar => scalar.clone(),
        }
    }

    /// The pieces of a word: plain text, and names of the secrets between.
    pub fn pieces<'a>(&'a self, word: &'a str) -> Vec<Piece<'a>> {
        let secrets = self.names_by_value.iter();
        let found = secrets.filter(|(value, _)| value.len() >= SHORTEST_IN_TEXT || *value == word);
        let found = found.filter_map(|(value, name)| word.find(value.as_str()).map(|at| (at, value, name)));
        let earliest = found.min_by_key(|(at, value, _)| (*at, usize::MAX - value.len()));
        match earliest {
            Some((at, value, name)) => {
                let mut pieces = vec![Piece::Plain(&word[..at]), Piece::Secret(name)];
                pieces.extend(self.pieces(&word[at + value.len()..]));
                pieces.retain(|piece| *piece != Piece::Plain(""));
                pieces
            }
            None => vec![Piece::Plain(word)],
        }
    }

    fn longest_first(&self) -> impl Iterator<Item = &String> {
        let mut values: Vec<&String> = self.names_by_value.keys().collect();
        values.sort_by_key(|value| usize::MAX - value.len());
        values.into_iter()
    }
}

/// A part of a word that may be shown, or the name of a secret that stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// May be shown.
    Plain(&'a str),
    /// A secret of this name.
    Secret(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_announce_secrets() {
        for name in [
            "HF_TOKEN",
            "api-key",
            "OPENAI_API_KEY",
            "x_Secret",
            "db.password",
            "Authorization",
            "token",
        ] {
            assert_eq!(is_secret_name(name), name != "db.password", "{name}");
        }
        assert!(!is_secret_name("max_tokens") && !is_secret_name("monkey") && !is_secret_name("author"));
    }

    #[test]
    fn headers_that_authenticate_are_secrets() {
        for name in [
            "Proxy-Authorization",
            "X-Api-Key",
            "Api-Key",
            "apikey",
            "X-Auth-Token",
            "X-Auth",
            "Set-Cookie",
            "Ocp-Apim-Subscription-Key",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ] {
            let mut secrets = Secrets::default();
            secrets.note_param("header", &json!([format!("{name}=Basic dXNlcg==")]));
            let shown = secrets.redact(&format!("--header {name}=Basic dXNlcg=="));
            assert_eq!(shown, format!("--header {name}={HIDDEN}"));
        }
        assert!(!is_secret_name("X-Request-Id"));
    }

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let mut secrets = Secrets::default();
        secrets.note_argv(&[
            "serve".into(),
            "--api-key".into(),
            "hunter22".into(),
            "--other_key=pw".into(),
        ]);
        secrets.note_param("header", &json!(["Authorization=Bearer abc", "X=1"]));
        assert_eq!(secrets.redact("a hunter22 b"), "a *** b");
        assert_eq!(secrets.redact("pw"), "***");
        assert_eq!(secrets.redact("pwd"), "pwd");
        assert_eq!(secrets.redact("Authorization=Bearer abc"), "Authorization=***");
        assert_eq!(
            secrets.pieces("x=hunter22!"),
            [Piece::Plain("x="), Piece::Secret("API_KEY"), Piece::Plain("!")]
        );
    }
}
