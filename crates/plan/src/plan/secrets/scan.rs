//! Values that stand beside a secret's name in any text: `HF_TOKEN=abc`, `"api_key": "abc"`, `--api-key abc`,
//! `Authorization: Bearer abc`, `http://user:abc@host`. Reads no format in particular, so it works on command lines, logs and
//! half-written plans alike; a plan's own tables are read by their keys instead.

use std::ops::Range;

/// A value and what announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announced {
    /// What announces it: a name, or `URL_PASSWORD` for credentials in a URL.
    pub name: String,
    /// Where the announcement begins.
    pub begin: usize,
    /// Where the value stands.
    pub value: Range<usize>,
    /// Whether it is a table, of which only the members can be secrets.
    pub is_table: bool,
}

/// What stands before the secret in a header's value.
const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "digest ", "apikey "];
/// Words that are never a secret.
const NOTHING: [&str; 6] = ["none", "null", "true", "false", "***", ""];
/// What ends a value without quotes.
const ENDS: &str = "'\",;&]})<>";

/// Every value that `announces` or a URL tells to be a secret, in the order of the text; none overlaps another.
pub(super) fn announced(text: &str, announces: impl Fn(&str) -> bool) -> Vec<Announced> {
    let mut found = in_urls(text);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut at = 0;
    while let Some(begin) = text[at..].find(is_word).map(|offset| at + offset) {
        let end = text[begin..]
            .find(|c| !is_word(c))
            .map_or(text.len(), |offset| begin + offset);
        at = end;
        let word = &text[begin..end];
        let name = word.trim_start_matches('-');
        let is_bearer = name.eq_ignore_ascii_case("bearer");
        if is_bearer || announces(name) {
            let is_flag = word.starts_with("--") && !text[..begin].ends_with(is_word);
            let values = values_after(text, end, is_bearer || is_flag);
            at = values.last().map_or(at, |(value, _)| value.end);
            found.extend(values.into_iter().map(|(value, is_table)| Announced {
                name: name.to_owned(),
                begin,
                value,
                is_table,
            }));
        }
    }
    found.sort_by_key(|announced| (announced.value.start, usize::MAX - announced.value.end));
    let mut covered = 0;
    found.retain(|announced| {
        let is_free = announced.value.start >= covered;
        // What a table holds is looked at for itself.
        if is_free && !announced.is_table {
            covered = announced.value.end;
        }
        is_free
    });
    found
}

/// The values that follow a name: one, or the items of a list. `may_be_apart`: a blank is enough between them.
fn values_after(text: &str, end: usize, may_be_apart: bool) -> Vec<(Range<usize>, bool)> {
    let is_gap = |c: char| " \t'\"\\:=([{".contains(c);
    let mut start = text[end..]
        .find(|c| !is_gap(c))
        .map_or(text.len(), |offset| end + offset);
    let between = &text[end..start];
    let tells = between.contains([':', '=']) || (may_be_apart && between.starts_with(' '));
    if !tells || text[start..].starts_with("//") {
        return Vec::new();
    }
    if between.contains('{') {
        let close = text[start..].find('}').map_or(text.len(), |offset| start + offset);
        return vec![(start..close, true)];
    }
    let is_list = between.contains('[');
    if is_list {
        // The first item may stand on the next line.
        let item = text[start..].find(|c: char| !(is_gap(c) || c == '\n')).unwrap_or(0);
        start += item;
    }
    let mut values = Vec::new();
    loop {
        let value = value_at(text, start);
        let after = value.end;
        let shown = &text[value.clone()];
        if !NOTHING.contains(&shown.to_ascii_lowercase().as_str()) && !is_reference(shown) {
            values.push((value, false));
        }
        let rest = text[after..].trim_start_matches(['\'', '"', '\\']);
        let next = rest.trim_start().strip_prefix(',').map(str::trim_start);
        let next = next.and_then(|next| next.strip_prefix(['\'', '"']));
        match next.filter(|_| is_list) {
            Some(item) => start = text.len() - item.len(),
            None => return values,
        }
    }
}

/// The value that begins here: to its closing quote if one stands before it, else as far as a word goes.
fn value_at(text: &str, start: usize) -> Range<usize> {
    let quote = text[..start].chars().next_back().filter(|c| "'\"".contains(*c));
    let lower = text[start..].chars().take(8).collect::<String>().to_ascii_lowercase();
    let scheme = SCHEMES.iter().find(|scheme| lower.starts_with(*scheme));
    let start = start + scheme.map_or(0, |scheme| scheme.len());
    let length = match quote {
        Some(quote) => closing(&text[start..], quote),
        None => text[start..].find(|c: char| c.is_whitespace() || ENDS.contains(c)),
    };
    start..length.map_or(text.len(), |length| start + length)
}

/// Whether a text only refers to a variable, so that it gives nothing away.
pub(in crate::plan) fn is_reference(text: &str) -> bool {
    let braced = text
        .strip_prefix("${")
        .map(|name| name.strip_suffix('}').unwrap_or(name));
    let name = braced.or_else(|| text.strip_prefix('$'));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Where a quote closes; backslashes escape it.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = !is_escaped && (c == quote || c == '\n');
        // In JSON within a string, the escaped quote is the one that closes.
        let closes = closes || (is_escaped && c == quote && text[at + 1..].starts_with([',', '}', ']', ':']));
        is_escaped = c == '\\' && !is_escaped;
        closes.then(|| if text[..at].ends_with('\\') { at - 1 } else { at })
    })
}

/// The passwords of URLs; the user where there is no password, because tokens are given that way.
fn in_urls(text: &str) -> Vec<Announced> {
    let urls = text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let ends = |c: char| c.is_whitespace() || c.is_control() || "/?#'\"<>\\".contains(c);
        let authority = &text[start..text[start..].find(ends).map_or(text.len(), |end| start + end)];
        let user = &authority[..authority.rfind('@')?];
        let password = user.find(':').map_or(0, |colon| colon + 1);
        let value = start + password..start + user.len();
        (!NOTHING.contains(&&text[value.clone()])).then(|| Announced {
            name: "URL_PASSWORD".to_owned(),
            begin: at,
            value,
            is_table: false,
        })
    });
    urls.collect()
}

#[cfg(test)]
mod tests {
    use super::super::is_secret_name;
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<&str> {
        let found = announced(text, is_secret_name);
        found.into_iter().map(|announced| &text[announced.value]).collect()
    }

    #[test]
    fn values_are_found_beside_their_names() {
        let cases: [(&str, &[&str]); 16] = [
            ("args: {'model': 'm', 'api_key': ['sk-123'], 'seed': 1}", &["sk-123"]),
            ("HF_TOKEN=hf_abc --api-key xyz --port 80", &["hf_abc", "xyz"]),
            (
                "Authorization: Bearer abc.def next, 'hf_token': None, 12 token ids",
                &["abc.def"],
            ),
            ("Authorization: Basic dXNlcg== x", &["dXNlcg=="]),
            (
                "curl -H 'X-Api-Key: ab' http://u:pw@h/p?key=k1&x=2",
                &["ab", "pw", "k1"],
            ),
            (r#"{"apiKey": "a\"b", "n": 1}"#, &[r#"a\"b"#]),
            (r#"command = "x --json '{\"api_key\": \"abc\", \"n\": 1}'""#, &["abc"]),
            ("api_keys = [\"one\", \"two\"]\nx = 1", &["one", "two"]),
            ("api_keys = [\n  \"one\",\n  \"two\",\n]", &["one", "two"]),
            ("HF_TOKEN = abc-secret", &["abc-secret"]),
            ("serve.env.HF_TOKEN=abc", &["abc"]),
            ("https://token@host/x https://host/a@b", &["token"]),
            ("max_tokens=5, token: null, key=, key=$KEY, 'token': '${HF_TOKEN}'", &[]),
            ("the key is 5 and the token that", &[]),
            ("api_key = { value = \"abc\" }", &["value = \"abc\" "]),
            ("bearer tok1 Bearer tok2", &["tok1", "tok2"]),
        ];
        for (text, expected) in cases {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_scanned(text in "(?s)[ -~\n]{0,80}|.{0,40}", noise in "[a-zé='\":\\[{, \\\\]{0,30}") {
            for text in [text.clone(), format!("api_key{noise}"), format!("{text}token={noise}://{text}@")] {
                let found = announced(&text, is_secret_name);
                for announced in &found {
                    let _ = &text[announced.value.clone()];
                }
            }
        }
    }
}
