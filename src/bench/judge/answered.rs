//! Checks that a server answered as requested: with the right number of tokens, without prompts from its cache, and as fast at the end of a
//! run as at its beginning.

use crate::checks::changing;
use crate::metrics::{Sample, Samples, median, seconds};
use crate::validity::{Code, Doubt};

/// Share of the requested output tokens below which a run has measured another load.
const LEAST_OF_OUTPUT: f64 = 0.99;
/// Share of all requested tokens by which the server's counts may exceed them. One more token of each answer is accepted besides, because
/// some servers count the end of sequence.
const EXCESS: f64 = 0.01;
/// Most tokens that a tokenizer adds to a prompt, or leaves out, whatever its length.
const SPECIAL_TOKENS: u64 = 8;
/// Least share of a prompt's tokens that a server counts if it has read all of it.
const LEAST_OF_PROMPT: f64 = 0.99;
/// Least such share if the number of tokens is only estimated.
const LEAST_OF_WORDS: f64 = 0.5;
/// Share of all prompt tokens above which a run with missing tokens has measured another load.
const MISSING: f64 = 0.01;
/// Share of prompt tokens from the cache above which a run counts as answered from the cache. Tokens that the prompts share on purpose come
/// in addition.
const UNEXPECTED_HITS: f64 = 0.1;

/// Returns a doubt if the server counted more output tokens than requested, or fewer although answers had to continue after the end of
/// sequence (`goes_on`). A large excess makes the figures invalid, not only suspect. `answers` has the counted and the requested tokens of
/// each answer.
pub fn output_lengths(answers: &[(u64, u64)], goes_on: bool) -> Option<Doubt> {
    let counted: u64 = answers.iter().map(|(counted, _)| counted).sum();
    let asked: u64 = answers.iter().map(|(_, asked)| asked).sum();
    let exceeding = || answers.iter().filter(|(counted, asked)| counted > asked);
    if let Some((most, limit)) = exceeding().max_by_key(|(counted, asked)| counted - asked) {
        let excess: u64 = exceeding().map(|(counted, asked)| counted - asked - 1).sum();
        let code = match excess as f64 > EXCESS * asked as f64 {
            true => Code::TooManyOutputTokens,
            false => Code::OutputLengthsDiffer,
        };
        let detail = format!(
            "the server counted more output tokens than were asked for in {} of {} requests ({most} instead of {limit} in one)",
            exceeding().count(),
            answers.len()
        );
        return Some(Doubt::new(code, detail));
    }
    (goes_on && (counted as f64) < LEAST_OF_OUTPUT * asked as f64).then(|| {
        let detail = format!("{counted} output tokens were produced, and {asked} were asked for");
        Doubt::new(Code::OutputLengthsDiffer, detail)
    })
}

/// Returns a doubt if the server counted fewer prompt tokens than were sent. `prompts` has the counted and the sent tokens of each request.
/// If `is_estimate` is true, the sent tokens are estimates.
pub fn prompt_lengths(prompts: &[(u64, u64)], is_estimate: bool) -> Option<Doubt> {
    let least = if is_estimate { LEAST_OF_WORDS } else { LEAST_OF_PROMPT };
    let is_cut = |(counted, sent): &&(u64, u64)| (counted + SPECIAL_TOKENS) as f64 <= least * *sent as f64;
    let cut: Vec<&(u64, u64)> = prompts.iter().filter(is_cut).collect();
    let missing: u64 = cut.iter().map(|(counted, sent)| sent - counted).sum();
    let sent: u64 = prompts.iter().map(|(_, sent)| sent).sum();
    let (counted, of) = cut.iter().max_by_key(|(counted, sent)| sent - counted)?;
    (missing as f64 > MISSING * sent as f64).then(|| {
        let detail = format!(
            "the server counted fewer prompt tokens than were sent in {} of {} requests ({counted} instead of {of} in one)",
            cut.len(),
            prompts.len()
        );
        Doubt::new(Code::InputLengthsDiffer, detail)
    })
}

/// Returns a doubt if the share of prompt tokens from the prefix cache is well above `expected`, the share that the prompts have in common
/// on purpose.
pub fn cached(share: f64, expected: f64) -> Option<Doubt> {
    (share > expected + UNEXPECTED_HITS).then(|| {
        let detail = format!(
            "{:.0} % of the prompt tokens came from the server's prefix cache, but by design only {:.0} % would",
            share * 100.0,
            expected * 100.0
        );
        Doubt::new(Code::PrefixCacheHits, detail)
    })
}

/// Returns the share of all prompt tokens that the prompts have in common on purpose. `shares` has that of each class of the load.
pub(in crate::bench) fn shared_on_purpose(samples: &Samples, shares: &[f64]) -> f64 {
    let (mut shared, mut all) = (0.0, 0.0);
    for sample in samples.ok() {
        let tokens = sample.prompt_len as f64;
        shared += tokens * shares.get(usize::from(sample.class)).copied().unwrap_or(0.0);
        all += tokens;
    }
    if all > 0.0 { shared / all } else { 0.0 }
}

/// Maximum number of equal time spans in which a trend is looked for.
const SPANS: usize = 30;
/// Minimum average number of requests in a span. Fewer do not show the pace of the span.
const FEWEST: usize = 4;

/// Times of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// Time at which it was sent, in seconds.
    pub sent: f64,
    /// Time at which it ended, in seconds.
    pub end: f64,
    /// Mean time per output token, in seconds.
    pub tpot: f64,
}

impl Served {
    /// Returns the times of a request, or `None` if it failed or had a single token.
    pub fn of(sample: &Sample) -> Option<Served> {
        let tpot = sample.tpot().filter(|tpot| *tpot > 0.0 && sample.is_ok())?;
        Some(Served {
            sent: seconds(sample.sent),
            end: seconds(sample.end),
            tpot,
        })
    }
}

/// Checks the pace of a whole run.
pub(in crate::bench) fn check_pace(samples: &Samples) -> Option<Doubt> {
    let served: Vec<Served> = samples.iter().filter_map(|sample| Served::of(&sample)).collect();
    steady_pace(&served)
}

/// Returns a doubt if the time per output token had a trend. Requests that were sent before the first one ended (the ramp), or ended after
/// the last one was sent (the drain), are left out, because fewer others ran at the same time.
pub fn steady_pace(served: &[Served]) -> Option<Doubt> {
    let ramp = served.iter().map(|request| request.end).reduce(f64::min)?;
    let drain = served.iter().map(|request| request.sent).reduce(f64::max)?;
    let is_between = |request: &&Served| request.sent >= ramp && request.end <= drain;
    let between: Vec<&Served> = served.iter().filter(is_between).collect();
    let spans = SPANS.min(between.len() / FEWEST);
    // Too few requests show no pace.
    let last = spans.checked_sub(1)?;
    let mut tpots: Vec<Vec<f64>> = vec![Vec::new(); spans];
    for request in &between {
        let at = (request.end - ramp) / (drain - ramp) * spans as f64;
        tpots[(at as usize).min(last)].push(request.tpot);
    }
    let medians: Vec<f64> = tpots.into_iter().filter_map(median).collect();
    let found = changing(&medians)?;
    let percent = 100.0 * found;
    let detail = format!(
        "the time per output token changed by {percent:+.0} % from the end of the ramp to the start of the drain"
    );
    Some(Doubt::new(Code::NoSteadyState, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_the_limit_are_no_figures() {
        let code = |counted: u64| output_lengths(&[(counted, 8), (8, 8)], true).map(|doubt| doubt.code);
        assert_eq!(code(8), None);
        assert_eq!(code(9), Some(Code::OutputLengthsDiffer), "the end of sequence");
        assert_eq!(code(11), Some(Code::TooManyOutputTokens));
        assert_eq!(code(7), Some(Code::OutputLengthsDiffer));
    }

    #[test]
    fn each_class_shares_its_own_tokens() {
        let sample = |class, prompt_len| Sample {
            class,
            prompt_len,
            ..Sample::default()
        };
        let samples = Samples::from(vec![sample(0, 100), sample(0, 100), sample(1, 600)]);
        assert_eq!(shared_on_purpose(&samples, &[1.0, 0.0]), 0.25);
        assert_eq!(shared_on_purpose(&samples, &[0.0, 1.0]), 0.75);
    }

    #[test]
    fn prompts_that_were_cut_show() {
        let cut = |counted: u64, sent: u64| {
            prompt_lengths(&[(sent + 1, sent), (counted, sent)], false).map(|doubt| doubt.code)
        };
        assert_eq!(cut(6_000, 16_384), Some(Code::InputLengthsDiffer));
        assert_eq!(cut(900, 1_000), Some(Code::InputLengthsDiffer));
        assert_eq!(cut(16_380, 16_384), None, "special tokens");
        assert_eq!(cut(1, 5), None);
        assert_eq!(prompt_lengths(&[(800, 1_000)], true), None, "words are an estimate");
        assert!(prompt_lengths(&[(400, 1_000)], true).is_some());
        let one_of_many: Vec<(u64, u64)> = (0..200).map(|at| (if at == 0 { 900 } else { 1_000 }, 1_000)).collect();
        assert_eq!(prompt_lengths(&one_of_many, false), None, "hardly another load");
        assert_eq!(prompt_lengths(&[], false), None);
    }
}

#[cfg(test)]
mod pace_tests {
    use super::*;

    /// Judges a closed loop of eight slots. Until its end, the time per token grows by the share `slowing`.
    fn run(slowing: f64) -> Option<Code> {
        let mut free = [0.0f64; 8];
        let served: Vec<Served> = (0..240u64)
            .map(|at| {
                let slot = (0..8).min_by(|a, b| free[*a].total_cmp(&free[*b])).expect("a slot");
                let noise = 1.0 + 0.05 * ((at * 7919 % 101) as f64 / 50.0 - 1.0);
                let tpot = 0.02 * noise * (1.0 + slowing * at as f64 / 240.0);
                let sent = free[slot];
                free[slot] = sent + 100.0 * tpot;
                let end = free[slot];
                Served { sent, end, tpot }
            })
            .collect();
        steady_pace(&served).map(|doubt| doubt.code)
    }

    #[test]
    fn a_fifth_more_is_seen_in_two_hundred_requests() {
        assert_eq!(run(0.0), None);
        assert_eq!(run(0.2), Some(Code::NoSteadyState));
        assert_eq!(run(-0.2), Some(Code::NoSteadyState));
    }

    #[test]
    fn few_requests_have_no_pace() {
        let one_after_another = |count: u32| {
            let served = (0..count).map(f64::from).map(|sent| Served {
                sent,
                end: sent + 1.0,
                tpot: 0.1,
            });
            served.collect::<Vec<_>>()
        };
        for count in 0..20 {
            assert_eq!(steady_pace(&one_after_another(count)), None, "{count} requests");
        }
    }
}
