//! Whether a server answered as it was asked to: with as many tokens, and from what it computed rather than from its cache.

use crate::validity::{Code, Doubt};

/// So much shorter than asked for, all answers together are another load.
const SHORTER: f64 = 0.99;
/// Above this share of hits beyond what the prompts share on purpose, a run was answered from the cache.
const UNEXPECTED_HITS: f64 = 0.1;

/// What to object to if the server counted more output tokens than were asked for, which makes its counts doubtful, or fewer although
/// answers were to go on after the end of sequence. `answers` are tokens counted and asked for, of each answer.
pub fn lengths(answers: &[(u64, u64)], goes_on: bool) -> Option<Doubt> {
    let doubt = |detail| Some(Doubt::new(Code::OutputLengthsDiffer, detail));
    let exceeding = || answers.iter().filter(|(counted, asked)| counted > asked);
    if let Some((tokens, asked)) = exceeding().max_by_key(|(counted, asked)| counted - asked) {
        return doubt(format!(
            "the server counted more output tokens than were asked for in {} of {} requests ({tokens} instead of {asked} in one)",
            exceeding().count(),
            answers.len()
        ));
    }
    let (counted, asked) = answers
        .iter()
        .fold((0, 0), |sum, (counted, asked)| (sum.0 + counted, sum.1 + asked));
    match goes_on && (counted as f64) < SHORTER * asked as f64 {
        true => doubt(format!("{counted} output tokens came of {asked} that were asked for")),
        false => None,
    }
}

/// The same if the prefix cache held more than `expected` of the prompts' tokens, the share that they have in common.
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
