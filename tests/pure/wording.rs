//! The wording of comments and names: a doc comment says what a thing is or does, in words that a colleague would use.

use super::layers::files_below;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that begin a clause instead of a statement. "What it costs" is a clause; write "The cost".
const CLAUSES: [&str; 6] = ["What", "Whether", "Who", "How", "Which", "The same"];

/// Words for which plainer ones exist, with the most uses that the sources may have.
const RARE: [(&str, usize); 6] = [
    ("told", 19),
    ("tell", 18),
    ("beside", 24),
    ("whoever", 5),
    ("stands", 15),
    ("is no", 15),
];

#[test]
fn no_doc_comment_begins_with_a_clause() {
    let mut faults = Vec::new();
    for (path, text) in texts(&["src", "crates", "tests", "benches", "fuzz/src", "packaging/src"]) {
        let lines = text.lines().enumerate().filter(|(_, line)| begins_with_a_clause(line));
        faults.extend(lines.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
    }
    assert!(
        faults.is_empty(),
        "say what it is (\"The port of …\") or does (\"Returns …\"):\n{}",
        faults.join("\n")
    );
}

#[test]
fn plain_words_are_used() {
    let texts = texts(&["src", "crates"]);
    for (word, most) in RARE {
        let mut uses = Vec::new();
        for (path, text) in &texts {
            for (at, line) in text.lines().enumerate() {
                let place = format!("{}:{}: {}", path.display(), at + 1, line.trim());
                uses.extend(vec![place; count(&line.to_lowercase(), word)]);
            }
        }
        assert!(
            uses.len() <= most,
            "`{word}` is used {} times, more than {most}; choose plainer words:\n{}",
            uses.len(),
            uses.join("\n")
        );
    }
}

fn begins_with_a_clause(line: &str) -> bool {
    let line = line.trim_start();
    let text = line
        .strip_prefix("/// ")
        .or(line.strip_prefix("//! "))
        .unwrap_or_default();
    CLAUSES
        .iter()
        .any(|word| text.starts_with(word) && count(text, word) > 0)
}

/// Number of times that `words` occur in a text as whole words. `_` is part of a word.
pub fn count(text: &str, words: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let found = text.match_indices(words).filter(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + words.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    });
    found.count()
}

fn texts(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let files = folders
        .iter()
        .flat_map(|folder| files_below(Path::new(folder), &["rs"]));
    files
        .map(|path| (path.clone(), fs::read_to_string(path).expect("readable")))
        .collect()
}
