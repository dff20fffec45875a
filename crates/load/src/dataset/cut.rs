//! Regular expressions that cut a text into words before it is tokenized: the same pieces as by the library's general way,
//! without its going back where the expression allows it.

use regex_automata::Input;
use regex_automata::meta::{Cache, Regex};
use regex_automata::util::pool::Pool;
use std::panic::{RefUnwindSafe, UnwindSafe};
use tokenizers::utils::SysRegex;

/// How the expressions of GPT-2, Llama 3, Qwen and many others end: of several blanks before a word, the last one is left to
/// the word. Nothing else in them looks ahead.
const BLANKS: &str = r"|\s+(?!\S)|\s+";

type Caches = Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>>;

/// An expression, and how it is searched for.
pub(super) enum Cut {
    /// Any.
    General(SysRegex),
    /// One with that end: what precedes it, and runs of blanks.
    WordsAndBlanks(Box<Regex>, Caches),
}

impl Cut {
    /// `None` if it is no expression.
    pub fn new(pattern: &str) -> Option<Cut> {
        let words = pattern.strip_suffix(BLANKS);
        let quick = words.and_then(|words| Regex::new_many(&[words, r"\s+"]).ok());
        match quick.filter(|regex| !regex.is_match("")) {
            Some(regex) => {
                let maker = regex.clone();
                let caches = Pool::new(Box::new(move || maker.create_cache()) as _);
                Some(Cut::WordsAndBlanks(Box::new(regex), caches))
            }
            None => SysRegex::new(pattern).ok().map(Cut::General),
        }
    }

    /// What it finds, and what lies between; nothing empty.
    pub fn pieces(&self, text: &str) -> Vec<(usize, usize)> {
        let (mut all, mut end) = (Vec::with_capacity(text.len() / 4), 0);
        let mut add = |from, to| {
            all.extend([(end, from), (from, to)].into_iter().filter(|(from, to)| from < to));
            end = to;
        };
        match self {
            Cut::General(regex) => regex.find_iter(text).for_each(|(from, to)| add(from, to)),
            Cut::WordsAndBlanks(regex, caches) => {
                let (mut cache, mut input) = (caches.get(), Input::new(text));
                // Without progress the rest is one piece.
                while let Some(found) = regex.search_with(&mut cache, &input).filter(|found| !found.is_empty()) {
                    let to = match found.pattern().as_usize() {
                        0 => found.end(),
                        _ => end_of_blanks(text, found.start(), found.end()),
                    };
                    add(found.start(), to);
                    input.set_start(to);
                }
            }
        }
        add(text.len(), text.len());
        all
    }
}

/// Where a run of blanks ends: before its last one, if there are others and something follows.
fn end_of_blanks(text: &str, start: usize, end: usize) -> usize {
    let last = text[start..end].chars().next_back().map_or(0, char::len_utf8);
    match end - last {
        before if end < text.len() && before > start => before,
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::byte_level::GPT_2;
    use proptest::prelude::*;

    /// Those of GPT-2, Llama 3, Qwen 2 and GPT-4o.
    const PATTERNS: [&str; 4] = [
        GPT_2,
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ];
    const LETTERS: [&str; 20] = [
        " ", " ", "  ", "\n", "\r\n", "\t", "\u{a0}", "\u{3000}", "\u{85}", "a", "Bc", "é", "ſ", "字", "\u{301}", "1",
        "٣", "'s", "'", ".",
    ];

    proptest! {
        #[test]
        fn the_quick_way_cuts_as_the_general_one(which in prop::collection::vec(0..LETTERS.len(), 0..40), other in any::<String>()) {
            let text: String = which.iter().map(|which| LETTERS[*which]).collect();
            for pattern in PATTERNS {
                let quick = Cut::new(pattern).expect("an expression");
                prop_assert!(matches!(quick, Cut::WordsAndBlanks(..)), "{pattern}");
                let general = Cut::General(SysRegex::new(pattern).expect("an expression"));
                for text in [&text, &other] {
                    prop_assert_eq!(quick.pieces(text), general.pieces(text), "{:?} by {}", text, pattern);
                }
            }
        }
    }

    #[test]
    fn other_expressions_are_left_to_the_library() {
        for pattern in [r"\w+|\s+", r"(?=a)a|\s+(?!\S)|\s+", r"\s*|\s+(?!\S)|\s+"] {
            assert!(matches!(Cut::new(pattern), Some(Cut::General(_))), "{pattern}");
        }
        assert!(Cut::new("(").is_none());
    }
}
