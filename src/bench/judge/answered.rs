//! Checks that a server answered as requested: with the right number of tokens, computed and not taken from its cache.

use crate::validity::{Code, Doubt};

/// Share of the requested length below which all answers together are another load.
const SHORTER: f64 = 0.99;
/// Share of all requested tokens by which the server's counts may exceed them, and one token of each answer: some servers count the end
/// of sequence.
const EXCESS: f64 = 0.01;
/// Tokens that a tokenizer adds to a prompt, or leaves out, whatever its length.
const SPECIAL_TOKENS: u64 = 8;
/// Share of a prompt's tokens that a server counts at least, if it has read all of it; and if their number is that of words.
const LEAST_OF_PROMPT: f64 = 0.99;
const LEAST_OF_WORDS: f64 = 0.5;
/// Share of all prompt tokens whose lack makes another load.
const MISSING: f64 = 0.01;
/// Above this share of hits beyond what the prompts share on purpose, a run was answered from the cache.
const UNEXPECTED_HITS: f64 = 0.1;

/// Returns a doubt if the server counted more output tokens than requested, which makes its counts doubtful or wrong, or fewer although
/// answers had to continue after the end of sequence. `answers` are tokens counted and requested, of each answer.
pub fn lengths(answers: &[(u64, u64)], goes_on: bool) -> Option<Doubt> {
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
    (goes_on && (counted as f64) < SHORTER * asked as f64).then(|| {
        let detail = format!("{counted} output tokens were produced, and {asked} were asked for");
        Doubt::new(Code::OutputLengthsDiffer, detail)
    })
}

/// Returns a doubt if the server counted fewer prompt tokens than were sent. `prompts` are tokens counted and sent, of each request; the
/// number sent may be an estimate.
pub fn inputs(prompts: &[(u64, u64)], is_estimate: bool) -> Option<Doubt> {
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

/// Returns a doubt if the prefix cache held more than `expected` of the prompts' tokens, the share that they have in common.
pub fn cached(share: f64, expected: f64) -> Option<Doubt> {
    (share > expected + UNEXPECTED_HITS).then(|| {
        let detail = format!(
            "{:.0} % of the prompt tokens came from the server's prefix cache, {:.0} % would be by design",
            share * 100.0,
            expected * 100.0
        );
        Doubt::new(Code::PrefixCacheHits, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_the_limit_are_no_figures() {
        let code = |counted: u64| lengths(&[(counted, 8), (8, 8)], true).map(|doubt| doubt.code);
        assert_eq!(code(8), None);
        assert_eq!(code(9), Some(Code::OutputLengthsDiffer), "the end of sequence");
        assert_eq!(code(11), Some(Code::TooManyOutputTokens));
        assert_eq!(code(7), Some(Code::OutputLengthsDiffer));
    }

    #[test]
    fn prompts_that_were_cut_show() {
        let cut = |counted: u64, sent: u64| inputs(&[(sent + 1, sent), (counted, sent)], false).map(|doubt| doubt.code);
        assert_eq!(cut(6_000, 16_384), Some(Code::InputLengthsDiffer));
        assert_eq!(cut(900, 1_000), Some(Code::InputLengthsDiffer));
        assert_eq!(cut(16_380, 16_384), None, "special tokens");
        assert_eq!(cut(1, 5), None);
        assert_eq!(inputs(&[(800, 1_000)], true), None, "words are an estimate");
        assert!(inputs(&[(400, 1_000)], true).is_some());
        let one_of_many: Vec<(u64, u64)> = (0..200).map(|at| (if at == 0 { 900 } else { 1_000 }, 1_000)).collect();
        assert_eq!(inputs(&one_of_many, false), None, "hardly another load");
        assert_eq!(inputs(&[], false), None);
    }
}
