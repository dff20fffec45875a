//! Words and command lines as a POSIX shell reads them back: for scripts, and for command lines to copy or to give again.

use crate::printable::has_effect;
use itertools::Itertools;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Returns a word, in quotes if it needs them. Characters that would act on a terminal, and bytes that are not UTF-8, become calls of
/// `printf`, which writes them when the shell runs. Line feeds and tabs are kept.
pub fn shell_word<W: AsRef<OsStr> + ?Sized>(word: &W) -> String {
    let bytes = word.as_ref().as_bytes();
    if bytes.is_empty() {
        return "''".to_owned();
    }
    let mut quoted = String::new();
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(needs_printf) {
            let (plain, from) = rest.split_at(at);
            let (made, after) = from.split_at(from.find(|c| !needs_printf(c)).unwrap_or(from.len()));
            quoted += &in_quotes(plain);
            quoted += &by_printf(made.as_bytes());
            rest = after;
        }
        quoted += &in_quotes(rest);
        quoted += &by_printf(chunk.invalid());
    }
    quoted
}

/// Returns words as one command line.
pub fn shell_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|word| shell_word(&word)).join(" ")
}

/// Splits a command line into words as Python's `shlex.split` does. Returns `None` if a quote is never closed, or if nothing follows a
/// backslash. A shell would treat comments, and `\$` within double quotes, differently.
pub fn shlex(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        plain => word.push(plain),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            plain => word.extend(['\\', plain]),
                        },
                        plain => word.push(plain),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

fn needs_printf(c: char) -> bool {
    has_effect(c) && c != '\n' && c != '\t'
}

fn in_quotes(text: &str) -> String {
    match text {
        "" => String::new(),
        text => shell_words::quote(text).into_owned(),
    }
}

fn by_printf(bytes: &[u8]) -> String {
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    match octal.as_str() {
        "" => octal,
        octal => format!("\"$(printf '{octal}')\""),
    }
}

/// Returns a command line for a shell, with its environment in front.
pub fn shell_command(env: &BTreeMap<String, String>, argv: &[String]) -> String {
    let mut line = String::new();
    for (name, value) in env {
        line += &format!("{name}={} ", shell_word(value));
    }
    line + &shell_line(argv)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn words_are_those_of_pythons_shlex() {
        let read = |line| shlex(line).map(|words| words.join("|"));
        let line = r#"a 'b c'"d\"e\$" \# #f '' "\\" x\ y"#;
        assert_eq!(read(line).as_deref(), Some(r#"a|b cd"e\$|#|#f||\|x y"#));
        for open in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(read(open), None, "{open}");
        }
        assert_eq!(read("  "), Some(String::new()));
    }

    #[test]
    fn only_what_needs_it_is_quoted() {
        assert_eq!(
            shell_line(["vsweep", "run", "it's x.toml", ""]),
            r"vsweep run 'it'\''s x.toml' ''"
        );
        assert_eq!(shell_word("a\u{1b}b"), "a\"$(printf '\\033')\"b");
        assert_eq!(shell_word(OsStr::from_bytes(b"a\xff")), "a\"$(printf '\\377')\"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_reads_back_every_word(
            texts in prop::collection::vec("(?s)[^\\x00]{0,12}|[\\x01-\\x1f'\"$`\\\\ \u{7f}-\u{9f}\u{202e}]{0,6}", 1..20),
            bytes in prop::collection::vec(1u8..=255, 0..8),
        ) {
            let mut words: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            words.push(bytes);
            let line = shell_line(words.iter().map(|word| OsStr::from_bytes(word)));
            prop_assert!(!line.contains(|c| has_effect(c) && c != '\n' && c != '\t'), "{line:?}");
            let script = format!("printf '%s\\0' {line}");
            let output = Command::new("sh").args(["-c", &script]).output().expect("a shell runs");
            let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
            prop_assert_eq!(&read[..words.len()], words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let env = BTreeMap::from([("A".to_owned(), "b c".to_owned())]);
        let argv = ["vllm", "--x", r#"{"a": 1}"#].map(str::to_owned);
        assert_eq!(shell_command(&env, &argv), r#"A='b c' vllm --x '{"a": 1}'"#);
    }
}
