//! Hides the secrets of a plan. The values are collected once, while the plan is read, and hidden in everything that is written or shown. A
//! value with a key (a variable, a parameter) is judged by the key. In other text, a secret is found by its value or by a name next to it.
//! Code that writes a file or an output must redact its text first.

mod names;
mod redact;
mod scan;

pub use redact::Piece;
pub(super) use redact::replace;
pub(super) use scan::is_reference;

use super::show;
use itertools::Itertools;
use names::is_secret_name;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use redact::{KnownSecret, MIN_ANYWHERE, MIN_WORD, Reach};
use scan::{CURL_PASSWORD, URL_PASSWORD, URL_SIGNATURE, announced, curl_users, sure_part};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use vsweep_base::printable::printable;
use vsweep_base::python_json;

/// Replacement for a secret.
pub const HIDDEN: &str = "***";

/// The secret values of one plan, each with a name, and the names that the plan itself calls secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Names that the plan itself calls secret, in their canonical form.
    named: BTreeSet<String>,
    /// Secret values, longest first, so that a secret within another is hidden after it.
    known: Vec<KnownSecret>,
    /// True if a text that is a secret as a whole is hidden wherever it stands, even if it is short or common. Ids need that.
    hides_whole_texts: bool,
}

impl Secrets {
    /// Returns the secrets of a plan that lists these names as secret, without any value yet.
    pub fn naming(names: impl IntoIterator<Item = String>) -> Secrets {
        Secrets {
            named: names.into_iter().map(|name| canonical(&name)).collect(),
            ..Secrets::default()
        }
    }

    /// Returns true if no secret value is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns true if a variable, header or parameter of this name holds a secret, because of the words in the name or because the plan
    /// lists it.
    pub fn announces(&self, name: &str) -> bool {
        let is_named = || {
            let name = canonical(name);
            let last = name.rsplit('.').next().unwrap_or_default();
            self.named.contains(&name) || self.named.contains(last)
        };
        is_secret_name(name) || (!self.named.is_empty() && is_named())
    }

    /// Returns the name by which a member of a table is judged: the table's, if it announces a secret, else the member's own.
    pub(super) fn announcing<'n>(&self, table: &'n str, member: &'n str) -> &'n str {
        if self.announces(table) { table } else { member }
    }

    /// Returns true if the value of this name is a secret. False for `HF_TOKENS = 5` and `api_key = true`.
    pub fn is_secret(&self, name: &str, value: &str) -> bool {
        let is_nothing = || {
            ["", HIDDEN, "true", "false", "none", "null"]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(value))
        };
        self.announces(name) && !is_nothing() && !(names::may_count(name) && value.parse::<f64>().is_ok())
    }

    /// Remembers a value if its name announces a secret, and the secrets that are recognised in its text (`http://user:password@proxy`).
    pub fn note(&mut self, name: &str, value: &str) {
        if self.is_secret(name, value) {
            self.keep(name, value, "");
            // Elsewhere a token may appear without the header's scheme, and the items of a list may appear one by one.
            let parts = match value.split_once(' ') {
                Some((_, token)) if token.trim().len() >= MIN_WORD => vec![token.trim()],
                _ if names::may_count(name) => value.split([',', ';']).map(str::trim).collect(),
                _ => Vec::new(),
            };
            parts.into_iter().for_each(|part| self.keep(name, part, ""));
            // A program may use the password of `user:password` alone.
            let is_user =
                |user: &str| !user.is_empty() && user.chars().all(|c| c.is_alphanumeric() || "_.-@+".contains(c));
            let pair = value.split_once(':').filter(|(user, _)| is_user(user));
            if let Some((user, password)) =
                pair.filter(|(_, it)| !it.starts_with("//") && !it.contains(char::is_whitespace))
            {
                self.keep(name, password, &format!("{user}:"));
            }
        }
        match is_proxy(name) && !value.contains("://") {
            true => self.note_text(&format!("http://{value}")),
            false => self.note_text(value),
        }
    }

    /// Remembers the secrets in vsweep's own environment, because programs inherit it: the values of variables whose names announce
    /// secrets, and the passwords in addresses of proxies.
    pub fn note_environment(&mut self, variables: &BTreeMap<String, String>) {
        let mut ambient = Secrets::naming(self.named.iter().cloned());
        for (name, value) in variables {
            if ambient.is_secret(name, value) || is_proxy(name) {
                ambient.note(name, value);
            }
        }
        for known in ambient.known {
            self.add(KnownSecret {
                is_ambient: true,
                ..known
            });
        }
    }

    /// Remembers a value that was found to be a secret.
    pub fn note_value(&mut self, value: &str) {
        self.keep("SECRET", value, "");
    }

    /// Remembers the secrets that are recognised in a text.
    pub fn note_text(&mut self, text: &str) {
        // A header's value is hidden as a whole, with its scheme and blanks.
        let header = text.split_once(['=', ':']).map(|(name, value)| (name, value.trim()));
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        if let Some((name, value)) = header.filter(|(name, value)| is_name(name) && self.is_secret(name, value)) {
            self.note(name, value);
        }
        let found = announced(text, |name| self.announces(name));
        for found in found.iter().filter(|found| !found.is_table) {
            let value = &text[found.value.clone()];
            if [URL_PASSWORD, URL_SIGNATURE].contains(&found.name.as_str())
                || self.is_secret(&found.name, value)
                || found.name.eq_ignore_ascii_case("bearer")
            {
                let before = &text[found.begin..found.value.start];
                self.keep(&found.name, value, before);
                // A URL within the value has a password of its own.
                if value.len() < text.len() {
                    self.note_text(value);
                }
                if !before.ends_with(['\'', '"']) {
                    self.keep(&found.name, sure_part(value), before);
                }
            }
        }
    }

    /// Remembers the secrets of a command line: values of flags such as `--api-key`, headers, URLs, JSON.
    pub fn note_argv(&mut self, argv: &[String]) {
        for word in argv {
            self.note_text(word);
            if let Some((flag, value)) = word.strip_prefix("--").and_then(|word| word.split_once('=')) {
                self.note_tables(flag, value);
            }
        }
        for pair in argv.windows(2) {
            if let Some(flag) = pair[0].strip_prefix("--").filter(|flag| !flag.contains('='))
                && !pair[1].starts_with("--")
            {
                self.note(flag, &pair[1]);
                self.note_tables(flag, &pair[1]);
            }
        }
        for (user, password) in curl_users(argv) {
            self.keep(CURL_PASSWORD, password, &format!("{user}:"));
        }
    }

    /// Remembers the secrets of a parameter's value: by the parameter's name, by the names of the value's members, and in its texts. All
    /// values of a table with the name of a secret are secrets, because there the members may have the names of users.
    pub fn note_param(&mut self, name: &str, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.note_param(name, item)),
            Value::Object(members) => {
                for (key, member) in members {
                    self.note_param(self.announcing(name, key), member);
                }
            }
            Value::Null | Value::Bool(_) => {}
            scalar => self.note(name, &show(scalar)),
        }
    }

    /// Remembers the secrets of a flag's value if it is a table or a list in JSON.
    fn note_tables(&mut self, flag: &str, value: &str) {
        if value.starts_with(['{', '['])
            && let Ok(value) = serde_json::from_str(value)
        {
            self.note_param(flag, &value);
        }
    }

    /// Adds a value in each form in which it may be written. `before` is the text that announces the value.
    fn keep(&mut self, name: &str, value: &str, before: &str) {
        let name = name.trim_start_matches('-').trim().to_ascii_uppercase();
        let name = name.replace(['-', '.'], "_");
        for form in forms(value) {
            if form.is_empty() || form == HIDDEN {
                continue;
            }
            let needs_name = Reach::of(&form) == Reach::Named;
            self.add(KnownSecret {
                name: match form == value {
                    true => name.clone(),
                    false => format!("{name}_WRITTEN"),
                },
                value: form,
                before: if needs_name { before.to_owned() } else { String::new() },
                is_ambient: false,
            });
        }
    }

    fn add(&mut self, known: KnownSecret) {
        let same = |other: &&mut KnownSecret| (&other.value, &other.before) == (&known.value, &known.before);
        if let Some(other) = self.known.iter_mut().find(same) {
            other.is_ambient &= known.is_ambient;
            return;
        }
        let namesake = self.known.iter().find(|other| other.value == known.value);
        let name = namesake.map_or_else(|| self.unused(&known.name), |other| other.name.clone());
        self.known.push(KnownSecret { name, ..known });
        self.known
            .sort_by_key(|known| Reverse((known.value.len(), known.before.len())));
    }

    /// Returns the name, with a number if another value has it already.
    fn unused(&self, name: &str) -> String {
        let is_taken = |name: &String| self.names().any(|taken| taken == name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_string()).chain(numbered);
        names.find(|name| !is_taken(name)).expect("numbers do not end")
    }

    /// Names of the secret values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|known| known.name.as_str())
    }

    /// Returns the secrets for ids and names, without those of vsweep's own environment: ids must not depend on where a plan is read, nor on
    /// a secret, however short.
    pub fn of_plan(&self) -> Secrets {
        let mut secrets = self.clone();
        secrets.known.retain(|known| !known.is_ambient);
        secrets.hides_whole_texts = true;
        secrets
    }
}

/// Characters that are percent-encoded in a URL: all but the unreserved ones.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Characters that are percent-encoded within the path of a URL.
const ENCODED_IN_PATHS: AsciiSet = ENCODED.remove(b'/');

/// Returns a value in the forms in which it may be written: without blanks around it, as one line, line by line, and each of these made
/// printable, within JSON (also as Python writes it, in ASCII), and in a URL.
fn forms(value: &str) -> Vec<String> {
    let joined = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= MIN_ANYWHERE);
    let texts = once(value).chain([value.trim(), &joined]).chain(lines);
    let written = texts.flat_map(|text| {
        let within = |json: String| json[1..json.len() - 1].to_owned();
        let in_url = utf8_percent_encode(text, &ENCODED).to_string();
        [
            text.to_owned(),
            within(Value::from(text).to_string()),
            within(python_json::dumps(&text)),
            // The value may itself be percent-encoded, like a password in a URL.
            percent_decode_str(text)
                .decode_utf8()
                .unwrap_or(text.into())
                .into_owned(),
            printable(text).into_owned(),
            in_url.replace("%20", "+"),
            utf8_percent_encode(text, &ENCODED_IN_PATHS).to_string(),
            in_url,
        ]
    });
    written.unique().collect()
}

/// Returns one form for all spellings of a name.
fn canonical(name: &str) -> String {
    name.trim()
        .trim_start_matches('-')
        .to_ascii_uppercase()
        .replace('-', "_")
}

/// Returns true if a variable holds the address of a proxy, which may be written without a scheme.
fn is_proxy(name: &str) -> bool {
    canonical(name).ends_with("_PROXY")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn argv(words: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.note_argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        secrets
    }

    #[test]
    fn headers_that_authenticate_are_secrets() {
        for name in ["Proxy-Authorization", "X-Api-Key", "apikey", "X-Auth", "Set-Cookie"] {
            let mut secrets = Secrets::default();
            secrets.note_param("header", &json!([format!("{name}=Basic dXNlcg==")]));
            let shown = secrets.redact(&format!("--header {name}=Basic dXNlcg== dXNlcg=="));
            assert_eq!(shown, format!("--header {name}={HIDDEN} {HIDDEN}"));
        }
    }

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let mut secrets = argv(&[
            "serve",
            "--api-key",
            "hunter22",
            "--other_key=pw",
            "http://u:pq@h/?key=abc",
        ]);
        secrets.note_param("header", &json!(["Authorization=Bearer abc", "X=1"]));
        assert_eq!(secrets.redact("a hunter22 b"), "a *** b");
        assert_eq!(secrets.redact("xhunter22y"), "x***y");
        assert_eq!(secrets.redact("pw"), "pw");
        assert_eq!(secrets.redact("--other_key=pw"), "--other_key=***");
        assert_eq!(secrets.redact("pwd of pq"), "pwd of pq");
        assert_eq!(secrets.redact("http://u:pq@h/?key=abc"), "http://u:***@h/?key=***");
        assert_eq!(secrets.redact("Authorization=Bearer abc"), "Authorization=***");
        assert_eq!(
            secrets.pieces_of("x=hunter22!"),
            [Piece::Plain("x="), Piece::Secret("API_KEY"), Piece::Plain("!")]
        );
        let words = ["pw", "--other-key", "pw", "--other_key=pw"].map(str::to_owned);
        let (name, hidden) = (Piece::Plain("--other_key="), Piece::Secret("OTHER_KEY"));
        let [plain, flag] = [Piece::Plain("pw"), Piece::Plain("--other-key")];
        assert_eq!(
            secrets.pieces(&words),
            [vec![plain], vec![flag], vec![hidden], vec![name, hidden]]
        );
    }

    #[test]
    fn the_password_of_a_url_that_is_a_secret_itself_is_one_too() {
        for word in [
            r#"{"auth": {"token": "https://u:SEKRIT1234@h/x"}}"#,
            "TOKEN=https://u:SEKRIT1234@h",
        ] {
            assert_eq!(argv(&["x", word]).redact("pw SEKRIT1234"), "pw ***", "{word}");
        }
    }

    #[test]
    fn short_and_common_values_ruin_no_text() {
        let secrets = argv(&[
            "--api-key",
            "EMPTY",
            "--auth",
            "true",
            "--b-key",
            "1",
            "--c-key",
            "4096",
            "--d-key",
            "s3cr",
        ]);
        let text = "EMPTY queue, true, 1 of 4096, s3cret";
        assert_eq!(secrets.redact(text), text);
        assert_eq!(secrets.redact("(s3cr)"), "(***)");
    }

    #[test]
    fn short_and_common_values_are_hidden_beside_their_names() {
        let mut secrets = Secrets::default();
        secrets.note("OPENAI_API_KEY", "dummy");
        secrets.note("REQUIRE_AUTH", "8");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ids = secrets
            .of_plan()
            .redact_argv(&words("--load-format dummy --max-num-seqs 8"));
        assert_eq!(
            ids,
            words("--load-format *** --max-num-seqs ***"),
            "an id must not change"
        );
        for (line, shown) in [
            (
                "vllm --load-format dummy --max-num-seqs 8 --api-key dummy",
                "vllm --load-format dummy --max-num-seqs 8 --api-key ***",
            ),
            (
                "--api-keys dummy 8 --port 8 -auth 8 dummy",
                "--api-keys *** *** --port 8 -auth *** ***",
            ),
            ("--api-key=k dummy", "--api-key=k dummy"),
        ] {
            assert_eq!(secrets.redact_argv(&words(line)), words(shown));
            let value = secrets.redact_data(json!({"argv": words(line)}));
            assert_eq!(value, json!({"argv": words(shown)}));
            let json = secrets.redact_json(value.to_string().into_bytes());
            assert_eq!(json, json!({"argv": words(shown)}).to_string().into_bytes());
        }
        let json = r#"{"auth": "8", "tp": "8", "api_keys": {"a": ["dummy", "b"], "c": "8"}, "d": {"e": "dummy"}, "dummy": "8"}"#;
        let shown = r#"{"auth": "***", "tp": "8", "api_keys": {"a": ["***", "b"], "c": "***"}, "d": {"e": "dummy"}, "dummy": "8"}"#;
        assert_eq!(secrets.redact_json(json.into()), shown.as_bytes());
    }

    #[test]
    fn values_in_a_table_with_the_name_of_a_secret_are_secrets() {
        let mut secrets = Secrets::naming(["upstream".to_owned()]);
        let params = json!({
            "hf_overrides": {"upstream": {"alice": "hunter2secretvalue", "bob": [{"old": "another-secret"}]}},
            "api_keys": {"carol": "sk-carol-key", "limit": 5},
        });
        let params = params.as_object().expect("an object");
        params.iter().for_each(|(name, value)| secrets.note_param(name, value));
        let text = "hunter2secretvalue another-secret sk-carol-key 5";
        assert_eq!(secrets.redact(text), "*** *** *** 5");
        let shown = json!({
            "hf_overrides": {"upstream": {"alice": "***", "bob": [{"old": "***"}]}},
            "api_keys": {"carol": "***", "limit": 5},
        });
        assert_eq!(
            Value::Object(Secrets::naming(["upstream".to_owned()]).redact_params(params)),
            shown
        );
        let secrets = argv(&[
            "--api-keys",
            r#"{"dave": "sk-dave-key"}"#,
            r#"--x={"auth": {"erin": "sk-erin-key"}}"#,
        ]);
        assert_eq!(secrets.redact("sk-dave-key sk-erin-key"), "*** ***");
    }

    #[test]
    fn the_beginning_of_a_secret_that_was_cut_is_hidden() {
        let secrets = argv(&["--api-key", "s3cr3t-s3cr3t-s3cr3t"]);
        let text = format!("{}:s3cr3t-s3cr3t-s3cr3t", "x".repeat(384));
        let cut = vsweep_base::printable::shorten(&text, 399);
        assert_eq!(cut, format!("{}:s3cr3t-s3cr3 …", "x".repeat(384)));
        let expected = format!("{}:*** …", "x".repeat(384));
        assert_eq!(secrets.redact(&cut), expected);
        assert_eq!(secrets.redact_foreign(&cut), expected);
        assert_eq!(secrets.redact("all of s3cr3t-s3cr3t-s3cr3t …"), "all of *** …");
    }

    #[test]
    fn json_in_ascii_is_hidden() {
        let secrets = argv(&["--api-key", "Müller\"\\\u{1f511}s"]);
        let shown = secrets.redact(r#"{"a": "M\u00fcller\"\\\ud83d\udd11s", "b": "Müller\"\\🔑s"}"#);
        assert_eq!(shown, r#"{"a": "***", "b": "***"}"#);
    }

    #[test]
    fn a_plan_names_more_secrets() {
        let mut secrets = Secrets::naming(["my-own".to_owned()]);
        secrets.note("MY_OWN", "open sesame");
        assert_eq!(secrets.redact("say open sesame"), "say ***");
        assert!(secrets.announces("x.my_own") && !secrets.announces("other"));
    }

    #[test]
    fn the_environment_is_hidden_but_decides_nothing() {
        let mut secrets = Secrets::default();
        let variables = [
            ("HF_TOKEN", "hf_ambient"),
            ("https_proxy", "user:proxypass@host:1"),
            ("EDITOR", "vi --token=abcdefgh"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        secrets.note_environment(&variables.into());
        assert_eq!(
            secrets.redact("hf_ambient user:proxypass@host abcdefgh"),
            "*** user:***@host abcdefgh"
        );
        assert_eq!(secrets.of_plan().redact("hf_ambient"), "hf_ambient");
    }

    #[test]
    fn a_password_beside_its_user_is_a_secret_alone() {
        let mut secrets = argv(&["curl", "-u", "bob:hunter22", "http://token:hunter33@host/x"]);
        assert_eq!(
            secrets.redact("-u bob:hunter22 http://token:hunter33@host/x"),
            "-u bob:*** http://token:***@host/x"
        );
        secrets.note("BASIC_AUTH", "amy:hunter44");
        secrets.note("https_proxy", "token:hunter55@proxy:1");
        assert_eq!(
            secrets.redact("amy:hunter44, hunter44 token:hunter55@proxy:1"),
            "***, *** token:***@proxy:1"
        );
        let other = argv(&["docker", "run", "-u", "10001000:10001000", "image"]);
        assert!(other.is_empty());
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_written() {
        let mut secrets = Secrets::default();
        secrets.note("DB_PASSWORD", "KtrailSEK1\n");
        secrets.note(
            "TLS_KEY",
            "-----BEGIN KEY-----\nMIIsek2line1\r\n MIIsek2line2\n-----END KEY-----\n",
        );
        secrets.note("MY_TOKEN", "sek3\u{1b}tab\tend");
        secrets.note("OTHER_TOKEN", "sek4/a b&é");
        for (text, shown) in [
            ("bad key KtrailSEK1 here", "bad key *** here"),
            ("KEY=KtrailSEK1\n", "KEY=***"),
            ("read MIIsek2line2.", "read ***."),
            ("of MIIsek2line1 MIIsek2line2", "of *** ***"),
            ("x sek3\\u{1b}tab\\tend y", "x *** y"),
            ("x sek3\\u001btab\\tend y", "x *** y"),
            ("GET /sek4%2Fa%20b%26%C3%A9?", "GET /***?"),
            ("GET /sek4/a%20b%26%C3%A9?", "GET /***?"),
            ("q=sek4%2Fa+b%26%C3%A9&x", "q=***&x"),
        ] {
            assert_eq!(secrets.redact(text), shown);
        }
    }

    #[test]
    fn a_password_goes_on_behind_what_ends_a_word() {
        for (text, secret) in [
            ("Server=x;Pwd=pw&SEKgo12345;", "pw&SEKgo12345"),
            ("Server=x;Pwd=pw,(SEKgo12345)&a=b", "pw,(SEKgo12345)&a=b"),
            ("run --x Password=pw&SEKgo12345;", "pw&SEKgo12345"),
        ] {
            let mut secrets = Secrets::default();
            secrets.note("DB", text);
            assert_eq!(secrets.redact(text), text.replace(secret, HIDDEN));
            assert_eq!(secrets.redact(secret), HIDDEN);
            assert_eq!(Secrets::default().redact_foreign(text), text.replace(secret, HIDDEN));
        }
        let mut secrets = Secrets::default();
        secrets.note("command", "cd x;HF_TOKEN=hf_12345&&run a");
        assert_eq!(secrets.redact("said hf_12345 to run a"), "said *** to run a");
    }

    #[test]
    fn numbers_and_counts() {
        let mut secrets = Secrets::default();
        let params = json!({"api_key": 12345678, "chunk_tokens": 512, "HF_TOKENS": "tok-one1,tok-two2", "auth": {"pass": "nested-1"}});
        let params = params.as_object().expect("an object");
        params.iter().for_each(|(name, value)| secrets.note_param(name, value));
        let shown = Value::Object(secrets.redact_params(params));
        let wanted = json!({"api_key": "***", "chunk_tokens": 512, "HF_TOKENS": "***", "auth": {"pass": "***"}});
        assert_eq!(shown, wanted);
        assert_eq!(secrets.redact("12345678 tok-two2 nested-1"), "*** *** ***");
    }

    #[test]
    fn texts_from_outside_announce_their_own() {
        let text = "args: {'api_key': ['sk-123'], 'seed': 1} HF_TOKEN=hf_abc max_tokens=5 HF_TOKENS=7";
        let hidden = Secrets::default().redact_foreign(text);
        assert_eq!(
            hidden,
            "args: {'api_key': ['***'], 'seed': 1} HF_TOKEN=*** max_tokens=5 HF_TOKENS=7"
        );
    }

    #[test]
    fn only_texts_of_data_are_touched() {
        let secrets = argv(&[
            "--api-key",
            "12345678",
            "--b-token",
            "a\"b-long",
            "--c-token",
            "finished",
        ]);
        let json = r#"{"a": 0.123456789, "12345678": ["x 12345678", 12345678, "a\"b-long", "\\"], "e": "finished"}"#;
        let redacted = String::from_utf8(secrets.redact_json(json.into())).expect("text");
        assert_eq!(
            redacted,
            r#"{"a": 0.123456789, "***": ["x ***", 12345678, "***", "\\"], "e": "***"}"#
        );
        let data: BTreeMap<String, f64> = [("12345678".to_owned(), 0.5)].into();
        assert_eq!(secrets.redact_data(data), [("***".to_owned(), 0.5)].into());
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Word {
            Finished,
        }
        assert_eq!(secrets.redact_data(Word::Finished), Word::Finished);
    }

    proptest! {
        #[test]
        fn a_secret_is_in_no_text(
            secret in "[!-~é]([ -~é]{6,30})[!-~é]",
            before in "(?s).{0,30}",
            after in "(?s).{0,30}",
        ) {
            prop_assume!(secret.chars().any(char::is_alphabetic) && !secret.contains("***"));
            let mut secrets = Secrets::default();
            secrets.note("X_TOKEN", &secret);
            let json = Value::from(secret.clone()).to_string();
            for text in [format!("{before}{secret}{after}"), format!("{before}{json}{after}")] {
                prop_assert!(!secrets.redact(&text).contains(&secret), "{text}");
                prop_assert!(!secrets.redact_foreign(&text).contains(&secret), "{text}");
            }
            prop_assert!(!secrets.redact(&json).contains(&json[1..json.len() - 1]));
        }
    }
}
