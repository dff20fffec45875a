//! Finds values next to a secret's name in any text: `HF_TOKEN=abc`, `"api_key": "abc"`, `--api-key abc`, `Authorization: Bearer abc`,
//! `http://user:abc@host`, `curl -u user:abc`. The search parses no particular format, so it works on command lines, logs and half-written
//! plans alike. A plan's own tables are read by their keys instead.

use super::names::is_secret_in_query;
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A value that is marked as a secret, with the name that announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credential {
    /// The name that announces it, or [`URL_PASSWORD`], [`URL_SIGNATURE`] or [`CURL_PASSWORD`].
    pub name: String,
    /// Beginning of the announcement.
    pub begin: usize,
    /// Range of the value.
    pub value: Range<usize>,
    /// True if it is a table. Names within it announce values of their own.
    pub is_table: bool,
}

impl Credential {
    fn plain(name: &str, begin: usize, value: Range<usize>) -> Credential {
        Credential {
            name: name.to_owned(),
            begin,
            value,
            is_table: false,
        }
    }
}

/// Credentials in a URL.
pub(super) const URL_PASSWORD: &str = "URL_PASSWORD";
/// The signature in a URL's query, or the path of a webhook, which grants access to what the URL names.
pub(super) const URL_SIGNATURE: &str = "URL_SIGNATURE";
/// The password that curl logs in with.
pub(super) const CURL_PASSWORD: &str = "CURL_PASSWORD";

/// Schemes that precede the secret in a header's value.
const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "digest ", "apikey "];
/// Words that are never a secret.
const NEVER_SECRET: [&str; 6] = ["none", "null", "true", "false", "***", ""];
/// Characters that end a value without quotes.
const ENDS: &str = "'\",;&]})<>";

/// A word that may be a name.
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9A-Za-z_-]+").expect("a pattern"));

/// Returns every value that is marked as a secret: by a URL, by a curl command, or by a name before it that `announces` accepts. The
/// values are in the order of the text. They do not overlap, except that a table may contain other values.
pub(super) fn announced(text: &str, announces: impl Fn(&str) -> bool) -> Vec<Credential> {
    let mut found = in_urls(text);
    found.extend(in_curl(text));
    // A user or a password called `token` does not announce the host after it.
    let credentials: Vec<Range<usize>> = found.iter().map(|it| it.begin..it.value.end).collect();
    let mut at = 0;
    while let Some(word) = WORD.find_at(text, at) {
        let (begin, end) = (word.start(), word.end());
        at = end;
        let name = word.as_str().trim_start_matches('-');
        if credentials.iter().any(|credentials| credentials.contains(&begin)) {
            continue;
        }
        let is_bearer = name.eq_ignore_ascii_case("bearer");
        let in_query = text[..begin].ends_with(['?', '&', ';']) && text[end..].starts_with('=');
        let is_signature = in_query && is_secret_in_query(name);
        if is_bearer || is_signature || announces(name) {
            let is_flag = word.as_str().starts_with("--");
            let values = values_after(text, begin..end, is_bearer || is_flag);
            // The members of a table may have names of their own.
            let mut whole = values.iter().filter(|(_, is_table)| !is_table);
            at = whole.next_back().map_or(at, |(value, _)| value.end);
            found.extend(values.into_iter().map(|(value, is_table)| Credential {
                name: if is_signature { URL_SIGNATURE } else { name }.to_owned(),
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
        // A table does not cover the values within it.
        if is_free && !announced.is_table {
            covered = announced.value.end;
        }
        is_free
    });
    found
}

/// Returns the values that follow a name: one, or the items of a list. Each comes with true if it is a table. With `may_be_apart`, a blank
/// between the name and the value is enough.
fn values_after(text: &str, name: Range<usize>, may_be_apart: bool) -> Vec<(Range<usize>, bool)> {
    let end = name.end;
    let is_gap = |c: char| " \t'\"\\:=([{".contains(c);
    let mut start = text[end..]
        .find(|c| !is_gap(c))
        .map_or(text.len(), |offset| end + offset);
    let between = &text[end..start];
    let is_announced = between.contains([':', '=']) || (may_be_apart && between.starts_with(' '));
    if !is_announced || text[start..].starts_with("//") {
        return Vec::new();
    }
    if between.contains('{') {
        let close = text[start..].find('}').map_or(text.len(), |offset| start + offset);
        return vec![(start..close, true)];
    }
    let is_list = between.contains('[');
    if is_list {
        // The first item may be on the next line.
        let item = text[start..].find(|c: char| !(is_gap(c) || c == '\n')).unwrap_or(0);
        start += item;
    }
    let mut values = Vec::new();
    loop {
        let value = value_at(text, name.start, start);
        let after = value.end;
        let shown = &text[value.clone()];
        if reveals_secret(shown) {
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

/// Returns the range of the value that begins at `start`, after the name at `begin`: up to the closing quote if a quote precedes it, else
/// to the end of the word.
fn value_at(text: &str, begin: usize, start: usize) -> Range<usize> {
    let quote = text[..start].chars().next_back().filter(|c| "'\"".contains(*c));
    let lower = text[start..].chars().take(8).collect::<String>().to_ascii_lowercase();
    let scheme = SCHEMES.iter().find(|scheme| lower.starts_with(*scheme));
    let start = start + scheme.map_or(0, |scheme| scheme.len());
    let length = match quote {
        Some(quote) => closing(&text[start..], quote),
        None => length_without_quotes(&text[..begin], &text[start..]),
    };
    start..length.map_or(text.len(), |length| start + length)
}

/// Returns the length of a value without quotes, or `None` if it reaches to the end of the text. After a semicolon, as in `Server=x;Pwd=y`,
/// only another semicolon, a blank or a quote ends it. Outside a URL's query, `&` ends it only before a blank, another `&` or another name.
fn length_without_quotes(before_name: &str, value: &str) -> Option<usize> {
    static NEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(?:&|\s|$|[\w.-]+=)").expect("a pattern"));
    let ends = |(at, c): &(usize, char)| match c {
        c if c.is_whitespace() || "'\";".contains(*c) => true,
        _ if before_name.ends_with(';') => false,
        '&' => before_name.ends_with(['?', '&']) || NEXT.is_match(&value[at + 1..]),
        c => ENDS.contains(*c),
    };
    value.char_indices().find(ends).map(|(at, _)| at)
}

/// Returns the beginning of a value without quotes, up to the first character that may end it.
pub(super) fn sure_part(value: &str) -> &str {
    value.split(|c| ENDS.contains(c)).next().unwrap_or(value)
}

/// Returns true if a text only refers to a variable, so that it reveals nothing.
pub(crate) fn is_reference(text: &str) -> bool {
    static REFERENCE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\$(\{[0-9A-Za-z_]+\}?|[0-9A-Za-z_]+)$").expect("a pattern"));
    REFERENCE.is_match(text)
}

/// Returns the position at which a quoted value ends: the closing quote, or the end of the line. A backslash escapes both.
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

/// Finds the passwords of URLs. Without a password, the user is the secret, because tokens are given that way.
fn in_urls(text: &str) -> Vec<Credential> {
    static GIVEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"://([^\s\p{Cc}/?\#'"<>\\]*)@"#).expect("a pattern"));
    let urls = GIVEN.captures_iter(text).filter_map(|url| {
        let (begin, given) = (url.get_match().start(), url.get(1)?);
        let value = match given.as_str().split_once(':') {
            Some((user, NO_PASSWORD | "")) => given.start()..given.start() + user.len(),
            Some((_, password)) => given.end() - password.len()..given.end(),
            None => given.range(),
        };
        (!NEVER_SECRET.contains(&&text[value.clone()])).then(|| Credential::plain(URL_PASSWORD, begin, value))
    });
    urls.chain(in_webhooks(text)).collect()
}

/// Finds the paths of webhooks, which allow their holder to post.
fn in_webhooks(text: &str) -> impl Iterator<Item = Credential> {
    static HOOK: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/([^\s\p{Cc}?\#'"<>\\]+)"#;
        Regex::new(pattern).expect("a pattern")
    });
    HOOK.captures_iter(text).filter_map(|hook| {
        let begin = hook.get_match().start();
        Some(Credential::plain(URL_SIGNATURE, begin, hook.get(1)?.range()))
    })
}

/// Placeholder password with which GitHub takes a token as the user.
const NO_PASSWORD: &str = "x-oauth-basic";

/// Finds the passwords in curl commands within any text: `curl -u user:password`.
fn in_curl(text: &str) -> Vec<Credential> {
    static CURL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w-])curl .*").expect("a pattern"));
    // The password may follow `-u` without a blank.
    static USER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#" (?:-u|(?:-U|--user|--proxy-user) )[ \\]*['"]?"#).expect("a pattern"));
    let mut found = Vec::new();
    for line in CURL.find_iter(text) {
        for flag in USER.find_iter(line.as_str()) {
            let begin = line.start() + flag.end();
            let given = value_at(text, begin, begin);
            let password = text[given.clone()].split_once(':').map(|(_, password)| password);
            if let Some(password) = password.filter(|password| reveals_secret(password)) {
                let value = given.end - password.len()..given.end;
                found.push(Credential::plain(CURL_PASSWORD, begin, value));
            }
        }
    }
    found
}

/// The flags of curl that give a user.
const USER_FLAGS: [&str; 4] = ["-u", "--user", "-U", "--proxy-user"];

/// Returns the pairs of user and password that a command line gives curl.
pub(super) fn curl_users(argv: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let is_curl = argv.iter().any(|word| word.rsplit('/').next() == Some("curl"));
    let words = argv.iter().enumerate().filter(move |_| is_curl);
    let given = words.filter_map(|(at, word)| match USER_FLAGS.contains(&word.as_str()) {
        true => argv.get(at + 1).map(String::as_str),
        false => word.strip_prefix("-u"),
    });
    given
        .filter_map(|given| given.split_once(':'))
        .filter(|(_, password)| reveals_secret(password))
}

/// Returns true if a text may be a secret: it is neither a word such as `none`, nor a reference to a variable.
fn reveals_secret(secret: &str) -> bool {
    !NEVER_SECRET.contains(&secret.to_ascii_lowercase().as_str()) && !is_reference(secret)
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
        let cases: [(&str, &[&str]); 17] = [
            (
                r#"{"auth": {"x": 1, "api_key": "abc"}}"#,
                &[r#"x": 1, "api_key": "abc""#, "abc"],
            ),
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

    #[test]
    fn no_user_name_hides_the_password_or_the_host() {
        for user in ["__token__", "token", "api-key", "x-access-token", "bearer", "bob", ""] {
            let text = format!("https://{user}:SEKRIT01@host.example/simple?key=k1&n=2");
            assert_eq!(values(&text), ["SEKRIT01", "k1"], "{text}");
        }
        assert_eq!(
            values("git+https://SEKRIT02:x-oauth-basic@h/o https://SEKRIT03:@h"),
            ["SEKRIT02", "SEKRIT03"]
        );
        assert_eq!(values("HF_TOKEN=https://u:pw@h/x next"), ["https://u:pw@h/x"]);
    }

    #[test]
    fn signatures_are_secrets_in_queries_alone() {
        let text = "https://h/x?X-Amz-Signature=ab12&sig=c%2Bd&x=1&Signature=ef#top";
        assert_eq!(values(text), ["ab12", "c%2Bd", "ef#top"]);
        assert_eq!(values("sig=5 signature: f(x), design=a&signs=b"), [""; 0]);
        let text = "Server=db;Uid=bob;Pwd=SEKRIT06;Port=1 http://h/x;jsessionid=SEKRIT07?a=b PWD=/home/bob";
        assert_eq!(values(text), ["SEKRIT06", "SEKRIT07?a=b"]);
        assert_eq!(
            values("post to https://hooks.slack.com/services/T0/B0/SEKRIT08 now"),
            ["T0/B0/SEKRIT08"]
        );
    }

    #[test]
    fn curl_is_given_passwords() {
        let cases: [(&str, &[&str]); 6] = [
            ("curl -s -u bob:SEKRIT04 http://h/reset", &["SEKRIT04"]),
            ("sh -c 'curl --user \"token:SEK RIT\" h'", &["SEK RIT"]),
            ("/usr/bin/curl -ubob:SEKRIT05 -U a:b h", &["SEKRIT05", "b"]),
            ("curl -u bob h; curl -u bob:$PW h; curl --url a:b", &[]),
            ("docker run -u 1000:1000 image\nlibcurl -u a:b", &[]),
            ("curl h\nrun -u 1:2 --user-agent a:b", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_scanned(text in "(?s)[ -~\n]{0,80}|.{0,40}", noise in "[a-zé='\":\\[{, \\\\]{0,30}") {
            for text in [text.clone(), format!("api_key{noise}"), format!("curl -u{noise}"), format!("{text}token={noise}://{text}@")] {
                let found = announced(&text, is_secret_name);
                for announced in &found {
                    let _ = &text[announced.value.clone()];
                }
            }
        }
    }
}
