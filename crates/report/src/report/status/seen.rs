//! What runs saw, like with like, and in words.

use crate::report::failures::{Detail, Group};
use crate::report::words::short_detail;
use itertools::Itertools;
use serde::Serialize;
use std::cmp::Reverse;

/// What is told of one cause.
const MOST_SEEN: usize = 3;
/// Length of what is told.
const MOST_CHARACTERS: usize = 160;

/// Something that runs saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeenAlike {
    /// What one of them said.
    pub example: String,
    /// Number of runs.
    pub runs: u64,
    /// Whether others of them said it with other numbers.
    #[serde(skip)]
    pub differs: bool,
}

/// One paragraph a reason: how many runs, what was seen, what to do.
pub fn describe_reasons(groups: &[Group]) -> String {
    let mut text = String::new();
    for group in groups {
        let plural = if group.runs == 1 { "" } else { "s" };
        let (verb, name) = (group.reason.verb(), group.reason.name());
        let counted = format!("{} run{plural} {verb}: {name}", group.runs);
        text += &match like_with_like(&group.details).as_slice() {
            [] => counted,
            [only] if only.differs => format!("{counted} (such as: {})", shorten(&only.example)),
            [only] => format!("{counted} ({})", shorten(&only.example)),
            several => {
                let told: Vec<String> = several
                    .iter()
                    .map(|seen| one_line(&short_detail(&seen.example)))
                    .collect();
                let line = |(at, seen): (usize, &SeenAlike)| {
                    let such_as = if seen.differs { ", such as" } else { "" };
                    format!("\n    {}{such_as}: {}", seen.runs, shorten_among(&told, at))
                };
                let lines: String = several.iter().enumerate().take(MOST_SEEN).map(line).collect();
                match several.len().saturating_sub(MOST_SEEN) {
                    0 => counted + &lines,
                    more => format!("{counted}{lines}\n    and {more} more; see `detail` in summary.csv"),
                }
            }
        };
        text += &format!("\n    {}\n", group.advice());
    }
    text
}

/// What was seen, without regard to the numbers in it: `3 of 40 requests failed` is `5 of 40 requests failed`. What most
/// requests of a run failed with tells its kind, digits (an HTTP status) included.
pub(super) fn like_with_like(details: &[Detail]) -> Vec<SeenAlike> {
    let kind = |detail: &Detail| match &detail.request_error {
        Some(error) => error.said.clone(),
        None => detail.text.replace(|letter: char| letter.is_ascii_digit(), ""),
    };
    let mut kinds: Vec<(String, SeenAlike)> = Vec::new();
    for detail in details {
        let (kind, example) = (kind(detail), one_line(&detail.text));
        let at = kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            let first = SeenAlike {
                example: example.clone(),
                runs: 0,
                differs: false,
            };
            kinds.push((kind, first));
            kinds.len() - 1
        });
        let seen = &mut kinds[at].1;
        seen.runs += detail.runs as u64;
        seen.differs |= seen.example != example;
    }
    let seen = kinds.into_iter().map(|(_, seen)| seen);
    seen.sorted_by_key(|seen| Reverse(seen.runs)).collect()
}

/// A sentence for a terminal, cut between words.
fn shorten(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS) else {
        return text.to_owned();
    };
    let end = text[..end].rfind(' ').unwrap_or(end);
    format!("{} …", &text[..end])
}

/// One of several sentences, cut so that it still differs from those that begin alike: what they share loses its middle.
fn shorten_among(all: &[String], at: usize) -> String {
    let (text, short) = (&all[at], shorten(&all[at]));
    let alike = all.iter().filter(|other| *other != text && shorten(other) == short);
    let shared = |other: &String| {
        let letters = text.char_indices().zip(other.chars());
        let differs = letters
            .skip_while(|((_, one), other)| one == other)
            .map(|((at, _), _)| at);
        differs.into_iter().next().unwrap_or(text.len())
    };
    let Some(shared) = alike.map(shared).max() else {
        return short;
    };
    let words = |end: usize| text[..end].rfind(' ').unwrap_or(end);
    let begin = words(text.char_indices().nth(MOST_CHARACTERS / 2).map_or(0, |(end, _)| end));
    format!("{} … {}", &text[..begin], shorten(text[words(shared)..].trim_start()))
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::failures::Reason;
    use vsweep_plan::cause::{Cause, Failure};
    use vsweep_plan::request_error::RequestError;

    #[test]
    fn unlike_things_are_told_apart() {
        let detail = |failure: Failure| Detail {
            text: failure.detail,
            request_error: failure.request_error,
            runs: 1,
        };
        let requests = |failed: u32, error: &str| {
            let counted = format!("{failed} of 40 requests failed");
            detail(Failure::of_requests(counted, Some(RequestError::read(error))))
        };
        let port = |port: u32| detail(Failure::new(Cause::RequestErrors, format!("port {port} is taken")));
        let details = [
            requests(3, "HTTP 500"),
            requests(40, "HTTP 429"),
            requests(5, "HTTP 429"),
            port(8000),
            port(8001),
            port(8002),
        ];
        let seen = like_with_like(&details);
        let counts: Vec<u64> = seen.iter().map(|seen| seen.runs).collect();
        assert_eq!(counts, [3, 2, 1]);
        assert!(seen[1].example.ends_with("HTTP 429") && seen[2].example.ends_with("HTTP 500"));
        let told = describe_reasons(&[Group {
            reason: Reason::Failed(Cause::RequestErrors),
            runs: 6,
            rows: Vec::new(),
            details: details.to_vec(),
            log: None,
        }]);
        assert!(
            told.starts_with(
                "6 runs failed: request_errors\n    3, such as: port 8000 is taken\n    2, such as: 40 of"
            ),
            "{told}"
        );
    }

    #[test]
    fn lines_that_differ_stay_different() {
        let alike = "word ".repeat(40);
        let all = ["auto", "fp8"].map(|end| format!("{alike}cache {end}"));
        let told = [0, 1].map(|at| shorten_among(&all, at));
        assert!(
            told[0].ends_with("word … auto") && told[1].ends_with("word … fp8"),
            "{told:?}"
        );
        let hungry = |cache: &str| {
            let name =
                format!("tensor_parallel_size=1, max_num_seqs=32, max_num_batched_tokens=2048, kv_cache_dtype={cache}");
            let why = "torch.OutOfMemoryError: CUDA out of memory".repeat(3);
            Detail {
                text: format!(
                    "not started: it needs at least as much memory (max_num_seqs 256 > 32) as {name}, which did not start: {why}"
                ),
                request_error: None,
                runs: 24,
            }
        };
        let told = describe_reasons(&[Group {
            reason: Reason::Failed(Cause::OomAtLoad),
            runs: 48,
            rows: Vec::new(),
            details: vec![hungry("auto"), hungry("fp8")],
            log: None,
        }]);
        assert!(
            told.contains("memory (seqs 256 > 32) as TP 1, seqs 32, batched tokens 2048, KV cache fp8"),
            "{told}"
        );
    }

    #[test]
    fn long_sentences_are_cut_between_words() {
        let long = "word ".repeat(50);
        let short = shorten(&long);
        assert!(short.ends_with("word …") && short.chars().count() <= MOST_CHARACTERS + 2);
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&"é".repeat(200)).chars().count(), MOST_CHARACTERS + 2);
    }
}
