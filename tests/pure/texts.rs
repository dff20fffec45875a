//! Texts that a user may see: messages in the sources, the help and the templates. The test writes all of them into one file, so that a
//! person can read them in one go.

use super::layers::files_below;
use super::wording::count;
use regex::Regex;
use std::fs;
use std::path::Path;
use vsweep::validity::Code;

/// Most words of a sentence.
const MOST_WORDS: usize = 45;

/// Words for which plainer ones exist.
const UNWANTED: [&str; 5] = ["whoever", "beside", "whilst", "per cent", "in order to"];

/// Folder whose texts are not checked, because the simulator repeats vLLM's messages.
const FOREIGN: &str = "crates/sim/";

/// Folders whose snapshots are texts in the words of a report. Those of plans have criteria as the plan writes them.
const RENDERED: [&str; 2] = ["crates/report", "tests/report"];

/// A text with the file and line where it is written.
struct Text {
    place: String,
    text: String,
}

#[test]
fn texts_are_short_and_without_codes() {
    let texts = all_texts();
    assert!(texts.len() > 1000, "{} texts", texts.len());
    let list: Vec<String> = texts
        .iter()
        .map(|text| format!("{}: {}", text.place, text.text))
        .collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("texts.txt");
    fs::write(&path, list.join("\n")).expect("writable");

    let codes = Code::ALL
        .iter()
        .map(|code| code.name())
        .filter(|code| code.contains('_'));
    let codes: Vec<&str> = codes.collect();
    let faults = texts
        .iter()
        .flat_map(|text| faults(text, &codes))
        .collect::<Vec<String>>();
    assert!(
        faults.is_empty(),
        "of the texts in {}:\n{}",
        path.display(),
        faults.join("\n")
    );
}

#[test]
fn rendered_texts_have_criteria_in_words() {
    let id = Regex::new("[a-z]+_[a-z_]+(<=|>=)").expect("a pattern");
    for path in RENDERED
        .map(|folder| files_below(Path::new(folder), &["snap"]))
        .concat()
    {
        let text = fs::read_to_string(&path).expect("readable");
        assert_eq!(id.find(&text).map(|id| id.as_str()), None, "in {}", path.display());
    }
}

fn faults(text: &Text, codes: &[&str]) -> Vec<String> {
    let lower = text.text.to_lowercase();
    let mut faults = Vec::new();
    let sentences = text.text.split(['.', ';', '\n', ':', '|']);
    let longest = sentences
        .map(|sentence| sentence.split_whitespace().filter(|word| !word.contains('_')).count())
        .max()
        .unwrap_or(0);
    if longest > MOST_WORDS {
        faults.push(format!("{}: a sentence of {longest} words: {}", text.place, text.text));
    }
    for word in UNWANTED.iter().filter(|word| count(&lower, word) > 0) {
        faults.push(format!("{}: \"{word}\": {}", text.place, text.text));
    }
    if text.text.contains("{criterion}") {
        faults.push(format!(
            "{}: a criterion's id instead of words: {}",
            text.place, text.text
        ));
    }
    for code in codes.iter().filter(|code| count(&lower, code) > 0) {
        faults.push(format!(
            "{}: the code {code} instead of words: {}",
            text.place, text.text
        ));
    }
    faults
}

/// Returns the texts of at least three words, file by file.
fn all_texts() -> Vec<Text> {
    let mut texts = Vec::new();
    let files = ["src", "crates"].map(|folder| files_below(Path::new(folder), &["rs", "jinja"]));
    for path in files.concat() {
        let place = path.to_string_lossy().into_owned();
        let is_test = ["/tests", "/laws", "/benches/"].iter().any(|part| place.contains(part));
        if is_test || place.starts_with(FOREIGN) {
            continue;
        }
        let source = fs::read_to_string(&path).expect("readable");
        let found = match place.ends_with(".rs") {
            true => literals(source.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()),
            false => template_texts(&source),
        };
        let is_text = |text: &str| {
            text.split_whitespace()
                .filter(|word| word.contains(char::is_alphabetic))
                .count()
                >= 3
        };
        texts.extend(
            found
                .into_iter()
                .filter(|(_, text)| is_text(text))
                .map(|(line, text)| Text {
                    place: format!("{place}:{line}"),
                    text,
                }),
        );
    }
    texts
}

/// Returns the string literals of a source and the help of its command-line options, with their lines. Texts of `expect` are left out,
/// because only a broken invariant shows them.
fn literals(source: &str) -> Vec<(usize, String)> {
    let token =
        Regex::new(r#"(?s)//[^\n]*|r"[^"]*"|r\#"(.*?)"\#|(expect\(\s*)?"((?:\\.|[^"\\])*)"|'(?:\\.[^']*|[^\\'])'"#)
            .expect("a pattern");
    let continued = Regex::new(r"\\\n\s*").expect("a pattern");
    let has_help = source.contains("clap::");
    let mut found = Vec::new();
    for token in token.captures_iter(source) {
        let whole = token.get(0).expect("a match");
        let text = match (token.get(1).or(token.get(3)), whole.as_str().strip_prefix("/// ")) {
            (Some(text), _) if token.get(2).is_none() => continued
                .replace_all(text.as_str(), "")
                .replace("\\n", "\n")
                .replace("\\\"", "\""),
            (None, Some(help)) if has_help => help.to_owned(),
            _ => continue,
        };
        found.push((source[..whole.start()].matches('\n').count() + 1, text));
    }
    found
}

/// Returns the lines of a template without its markup.
fn template_texts(source: &str) -> Vec<(usize, String)> {
    let code = Regex::new(r"\{%.*?%\}|\{#.*?#\}|</?[a-z][^>]*>").expect("a pattern");
    let value = Regex::new(r"\{\{.*?\}\}").expect("a pattern");
    let lines = source.lines().enumerate();
    let plain = lines.map(|(at, line)| {
        (
            at + 1,
            value.replace_all(&code.replace_all(line, ""), "{}").trim().to_owned(),
        )
    });
    plain.collect()
}
