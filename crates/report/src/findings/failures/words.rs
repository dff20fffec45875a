//! Describes failures for a terminal.

use super::{Detail, Group, one_line};
use crate::texts::words::with_short_names;
use vsweep_base::printable::shorten;

/// Most observations shown for a reason.
const MOST_SEEN: usize = 3;
/// Length limit of an observation, in characters.
const MOST_CHARACTERS: usize = 160;

/// Writes a paragraph for each reason: the number of runs, the observations, and the advice.
pub fn describe_reasons<'g>(groups: impl IntoIterator<Item = &'g Group>) -> String {
    let mut text = String::new();
    for group in groups {
        text += &format!("{} {}: {}", group.runs_in_words(), group.verb(), group.in_words());
        text += &match group.seen.as_slice() {
            [] => String::new(),
            [only] if only.differs => format!(" (such as: {})", observation(only).0),
            [only] => format!(" ({})", observation(only).0),
            several => {
                let texts: Vec<(String, String)> = several.iter().map(observation).collect();
                let line = |(seen, (short, whole)): (&Detail, &(String, String))| {
                    let such_as = if seen.differs { ", such as" } else { "" };
                    // Lines that would be equal once shortened are shown in full, so that they stay different.
                    let is_alone = texts.iter().filter(|(other, _)| other == short).count() == 1;
                    let text = if is_alone { short } else { whole };
                    format!("\n    {}{such_as}: {text}", seen.runs)
                };
                let lines: String = several.iter().zip(&texts).take(MOST_SEEN).map(line).collect();
                match several.len().saturating_sub(MOST_SEEN) {
                    0 => lines,
                    more => format!("{lines}\n    and {more} more; see `detail` in summary.csv"),
                }
            }
        };
        text += &format!("\n    {}\n", group.advice);
    }
    text
}

/// Returns an observation as one line, shortened and in full. The claim about a server that was not started is never cut.
fn observation(seen: &Detail) -> (String, String) {
    let Some(ruled_out) = seen.ruled_out.as_deref().map(with_short_names) else {
        return (shorten(&seen.text, MOST_CHARACTERS), seen.text.clone());
    };
    let (claim, whole) = (one_line(&ruled_out.claim()), one_line(&ruled_out.to_string()));
    let short = shorten(&whole, MOST_CHARACTERS);
    (if short.starts_with(&claim) { short } else { claim }, whole)
}

#[cfg(test)]
mod tests {
    use super::super::{Reason, combine_similar};
    use super::*;
    use std::sync::Arc;
    use vsweep_base::cause::{Cause, Failure, RuledOut};
    use vsweep_base::request_error::RequestError;

    fn detail(failure: Failure, runs: usize) -> Detail {
        Detail {
            text: failure.detail,
            runs,
            request_error: failure.request_error,
            ruled_out: failure.ruled_out.map(|ruled_out| Arc::new(*ruled_out)),
            differs: false,
        }
    }

    fn describe(cause: Cause, details: &[Detail]) -> String {
        describe_reasons(&[group(cause, details)])
    }

    fn group(cause: Cause, details: &[Detail]) -> Group {
        Group {
            reason: Reason::Failed(cause),
            validity: None,
            runs: details.iter().map(|detail| detail.runs).sum(),
            skipped: 0,
            example: String::new(),
            seen: combine_similar(details),
            advice: String::new(),
            rows: Vec::new(),
            settings: String::new(),
            unlisted: 0,
            details: Vec::new(),
            log: None,
        }
    }

    #[test]
    fn different_observations_are_listed_separately() {
        let requests = |failed: u32, error: &str| {
            let counted = format!("{failed} of 40 requests failed");
            detail(Failure::of_requests(counted, Some(RequestError::read(error))), 1)
        };
        let port = |port: u32| detail(Failure::new(Cause::RequestErrors, format!("port {port} is taken")), 1);
        let details = [
            requests(3, "HTTP 500"),
            requests(40, "HTTP 429"),
            requests(5, "HTTP 429"),
            port(8000),
            port(8001),
            port(8002),
        ];
        let seen = combine_similar(&details);
        let counts: Vec<usize> = seen.iter().map(|seen| seen.runs).collect();
        assert_eq!(counts, [3, 2, 1]);
        assert!(seen[1].text.ends_with("HTTP 429") && seen[2].text.ends_with("HTTP 500"));
        let text = describe(Cause::RequestErrors, &details);
        assert!(
            text.starts_with(
                "6 runs failed: request errors\n    3, such as: port 8000 is taken\n    2, such as: 40 of"
            ),
            "{text}"
        );
    }

    #[test]
    fn skipped_runs_are_counted_apart() {
        let of = |runs: usize, skipped: usize| Group {
            runs,
            skipped,
            settings: "TP 1".to_owned(),
            ..group(Cause::OomAtLoad, &[])
        };
        let words = [(2, 0), (6, 5), (2, 1), (1_500, 1_500)].map(|(runs, skipped)| of(runs, skipped).runs_in_words());
        let wanted = [
            "2 runs with TP 1",
            "1 run and 5 skipped ones with TP 1",
            "1 run and 1 skipped one with TP 1",
            "1,500 skipped runs with TP 1",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn lines_that_differ_stay_different() {
        let alike = "word ".repeat(40);
        let long = |end: &str| detail(Failure::new(Cause::RequestErrors, format!("{alike}cache {end}")), 1);
        let said = describe(Cause::RequestErrors, &[long("auto"), long("fp8"), long("none")]);
        for end in ["word cache auto\n", "word cache fp8\n", "word cache none\n"] {
            assert!(said.contains(end), "{said}");
        }
        let hungry = |cache: &str| {
            let name =
                format!("tensor_parallel_size=1, max_num_seqs=32, max_num_batched_tokens=2048, kv_cache_dtype={cache}");
            let why = "torch.OutOfMemoryError: CUDA out of memory".repeat(3);
            let ruled_out = RuledOut {
                settings: vec![("max_num_seqs".to_owned(), "256 > 32".to_owned())],
                by: name,
                why,
            };
            detail(Failure::of_ruled_out(Cause::OomAtLoad, ruled_out), 24)
        };
        let text = describe(Cause::OomAtLoad, &[hungry("auto"), hungry("fp8")]);
        assert!(
            text.contains(
                "memory of TP 1, seqs 32, batched tokens 2048, KV cache auto, which was too much (seqs 256 > 32)"
            ) && text.contains(
                "memory of TP 1, seqs 32, batched tokens 2048, KV cache fp8, which was too much (seqs 256 > 32)"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_claim_is_never_cut() {
        let ruled_out = RuledOut {
            settings: vec![("max_num_seqs".to_owned(), "256 > 32".to_owned())],
            by: "tensor_parallel_size=1, max_num_seqs=32, speculative_config=".to_owned() + &"word ".repeat(30),
            why: "CUDA out of memory".to_owned(),
        };
        let text = describe(
            Cause::OomAtLoad,
            &[detail(Failure::of_ruled_out(Cause::OomAtLoad, ruled_out), 24)],
        );
        assert!(text.contains(", which was too much (seqs 256 > 32))\n"), "{text}");
    }

    #[test]
    fn long_sentences_are_cut_between_words() {
        let long = "word ".repeat(50);
        let short = shorten(&long, MOST_CHARACTERS);
        assert!(short.ends_with("word …") && short.chars().count() <= MOST_CHARACTERS);
        assert_eq!(shorten("short", MOST_CHARACTERS), "short");
        assert_eq!(
            shorten(&"é".repeat(200), MOST_CHARACTERS).chars().count(),
            MOST_CHARACTERS
        );
    }
}
