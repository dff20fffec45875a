//! Recognises names of secrets by lists of words, which cover English and the usual names of clouds, databases and benchmarks. Values are
//! not examined. A plan can add further names (`secrets = [...]`).

use regex::Regex;
use std::sync::LazyLock;

/// Words that end in `KEY` and mean something else.
const NO_KEYS: [&str; 7] = ["MONKEY", "DONKEY", "TURKEY", "HOCKEY", "JOCKEY", "WHISKEY", "HOTKEY"];

/// Ends of a name that mean a secret, also in the plural.
const LAST_PARTS: [&str; 5] = ["CREDENTIAL", "AUTHORIZATION", "AUTH", "COOKIE", "JWT"];

/// Last words that mean a secret only after another word: `GH_PAT`, `DB_PWD`, but not `PWD`, the working directory, nor `keys`, which is
/// a list.
const LATER_WORDS: [&str; 5] = ["PAT", "PATS", "PWD", "PWDS", "KEYS"];

/// Words that mean a password in any position.
const PASSWORDS: [&str; 5] = ["PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "PASSKEY"];

/// Words that end in `PASS` and mean something else.
const NO_PASSWORDS: [&str; 4] = ["BYPASS", "COMPASS", "UNDERPASS", "OVERPASS"];

/// Words after `PASS` that mean a step of a compiler or of a test: vLLM has `pass_config`.
const AFTER_PASS: [&str; 6] = ["CONFIG", "MANAGER", "THROUGH", "RATE", "COUNT", "CRITERIA"];

/// Words before `TOKEN` or `TOKENS` by which the name means a token of text, or a number of such tokens.
const OF_TEXT: &str = "\
    BOS EOS EOT PAD UNK SEP CLS MASK STOP SPECIAL IMAGE AUDIO VIDEO PROMPT INPUT OUTPUT BATCHED SPECULATIVE DRAFT \
    MAX MIN NUM TOTAL PER FIRST NEXT LAST";

/// Parts of words. A name without any of these parts is not the name of a secret.
static STEM: LazyLock<Regex> = LazyLock::new(|| {
    let stems = "(?i)PASS|SECRET|TOKEN|KEY|CRED|AUTH|COOKIE|JWT|PAT|PWD|SIGNATURE";
    Regex::new(stems).expect("a pattern")
});

/// Returns true if a name has one of the stems. This check is fast: most names have no stem, and a large plan asks a million times.
fn has_stem(name: &str) -> bool {
    // A name with letters beyond ASCII counts as one with a stem, because such letters may become letters of a stem in upper case.
    !name.is_ascii() || STEM.is_match(name)
}

/// Returns true if a variable, header or parameter of this name holds a secret. Case does not matter, dashes equal underscores, and of a
/// name with dots only the last part counts.
pub(super) fn is_secret_name(name: &str) -> bool {
    has_stem(name) && is_secret_by_words(&words(name))
}

fn is_secret_by_words(words: &[String]) -> bool {
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let is_password = |(at, word): (usize, &String)| match word.as_str() {
        "PASS" => words
            .get(at + 1)
            .is_none_or(|next| !AFTER_PASS.contains(&next.as_str())),
        word if NO_PASSWORDS.contains(&word) => false,
        word => word.ends_with("PASS") || PASSWORDS.iter().any(|password| word.contains(password)),
    };
    // `secrets` alone is a list of names.
    let is_secret = |word: &String| {
        word.ends_with("SECRET") || (word.ends_with("SECRETS") && (word != "SECRETS" || words.len() > 1))
    };
    if words.iter().enumerate().any(is_password) || words.iter().any(is_secret) {
        return true;
    }
    if last.ends_with("TOKEN") || last == "TOKENS" {
        let is_of_text = before
            .last()
            .is_some_and(|word| OF_TEXT.split(' ').any(|other| other == word));
        return !is_of_text && (last != "TOKENS" || !before.is_empty());
    }
    let singular = last.strip_suffix('S').unwrap_or(last);
    // `CRED` must be a whole word: `sacred` is none.
    last == "KEY"
        || singular == "CRED"
        || LAST_PARTS.iter().any(|part| singular.ends_with(part))
        || singular.ends_with("TOKEN")
        || (singular != "KEY" && singular.ends_with("KEY") && !NO_KEYS.contains(&singular))
        || (!before.is_empty() && LATER_WORDS.contains(&last.as_str()))
        || (words[0] == "X" && last == "SIGNATURE")
}

/// Last words that announce a secret in the query of a URL or in a connection string (`…;Pwd=x`); elsewhere they mean many things.
const IN_QUERIES: [&str; 6] = ["SIG", "SIGNATURE", "PWD", "JSESSIONID", "PHPSESSID", "SESSIONID"];

/// Returns true if a name announces a secret in the query of a URL or in a connection string. Elsewhere, [`is_secret_name`] decides.
pub(super) fn is_secret_in_query(name: &str) -> bool {
    words(name)
        .last()
        .is_some_and(|last| IN_QUERIES.contains(&last.as_str()))
}

/// Returns true if a number under this name is a count: `HF_TOKENS` holds secrets, `chunk_tokens = 512` does not.
pub(super) fn may_count(name: &str) -> bool {
    words(name)
        .last()
        .is_some_and(|last| last == "TOKENS" || last == "KEYS")
}

/// Returns the words of a name's last part, in upper case and without digits at their ends: `db.apiKey_2` has `API` and `KEY`.
fn words(name: &str) -> Vec<String> {
    let part = name.trim().rsplit('.').next().unwrap_or_default();
    let letters: Vec<char> = part.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let begins = letter.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit())
                || (before.is_some_and(char::is_uppercase)
                    && letters.get(at + 1).is_some_and(|next| next.is_lowercase())));
        if !letter.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(letter.to_uppercase());
        }
    }
    let bare = |word: &String| word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    words.iter().map(bare).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            "a.token",
            "--a.token",
            "Proxy-Authorization",
            "X-Api-Key",
            "apikey",
            "X-Auth-Token",
            "X-Auth",
            "Set-Cookie",
            "Ocp-Apim-Subscription-Key",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "PGPASSWORD",
            "DB_PASS",
            "MYSQL_PASS_RO",
            "GH_PAT",
            "HF_TOKENS",
            "API_KEYS",
            "SECRET_ID",
            "CLIENT_SECRETS",
            "apiKey",
            "accessToken",
            "dbPassword",
            "AUTHTOKEN",
            "DB_PWD",
            "TOKEN_2",
            "TOKEN2",
            "SSH_PASSPHRASE",
            "AWS_SECRET_ACCESS_KEY",
            "OpenAIKey",
            "COOKIES",
            "private_key",
            "sslkey",
            "OPENAIKEY",
            "SSHKEY",
            "MYSERVERKEYS",
            "MYTOKENS",
            "MYSECRETS",
            "X-Amz-Signature",
            "MYAUTH",
            "SESSIONCOOKIE",
            "AWSCREDENTIALS",
            "GITHUBJWT",
            "DB_PWDS",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn settings_are_no_secrets() {
        for name in [
            "max_tokens",
            "max_num_batched_tokens",
            "num_speculative_tokens",
            "eos_token",
            "skip_special_tokens",
            "tokens",
            "keys",
            "secrets",
            "monkey",
            "hotkeys",
            "author",
            "sacred",
            "pwds",
            "tokenizer",
            "X-Request-Id",
            "compilation_config.pass_config.enable_fusion",
            "pass_config",
            "PWD",
            "OLDPWD",
            "PATH",
            "pat",
            "bypass",
            "num_passes",
            "passthrough",
            "compass",
            "sim_speed",
            "",
            "long_prefill_token_threshold",
            "SSH_AUTH_SOCK",
            "key_size",
            "ssl_keyfile",
            "ssl-key-file",
            "function_signature",
            "signature",
            "sig",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    proptest! {
        /// The stems are a quick first test. They exclude no name that the words would find.
        #[test]
        fn every_secret_name_has_a_stem(name in "((pass|[Kk]ey|TOKENS?|Secrets?|cred|auth|cookie|jwt|pat|pwd|signature|x|ſ|[a-zA-Z0-9])[_.-]?){1,5}") {
            prop_assert!(has_stem(&name) || !is_secret_by_words(&words(&name)), "{name}");
        }
    }
}
