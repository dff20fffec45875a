//! Checks that servers give the same answers: a few fixed questions are asked greedily at every start, and the answers are compared.
//!
//! Greedy answers of two sound servers part only where two tokens are nearly equally probable, because the order of sums differs from batch
//! to batch and from kernel to kernel. So the token at which one answer parts must be among the five most probable of the other, or nearly
//! so. vLLM's own tests compare implementations in this way. The noise of batching is measured by asking the questions alone and together.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Change of log probabilities, in nats, that rounding alone may explain. The change from bf16 to f32 was 0.14.
const ROUNDING: f64 = 0.5;
/// Largest change of log probabilities that noise explains, as a multiple of the noise of batching.
const TIMES_NOISE: f64 = 4.0;
/// Largest noise of batching that is taken into account, in nats.
const MOST_NOISE: f64 = 1.0;
/// Distance, in nats, up to which the answers to two long prompts with different beginnings count as equal.
const NO_DISTANCE: f64 = 1e-3;
/// Lower bound of the number of tokens of a line of a long prompt, for any tokenizer. A line has ten words.
const TOKENS_A_LINE: u64 = 4;

/// Result of asking the questions at one start of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerCheck {
    /// The answers.
    #[serde(rename = "told")]
    Answered(Answers),
    /// The reason why there are no answers.
    Refused(String),
}

/// Answers of one start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// The model that the server loaded. Only answers of one model are compared.
    pub model: String,
    /// Answers to each question, asked alone.
    pub alone: Vec<Reply>,
    /// Distance from each answer in `alone` to the answer that was given when all questions were asked at once.
    pub together: Vec<Distance>,
    /// Answers to the first two questions with as many filler lines as the server takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<Long>,
}

/// The replies to two questions whose answers are at the beginning of a long text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Long {
    /// Number of lines of the text.
    pub lines: u32,
    /// The answers.
    pub replies: Vec<Reply>,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Number of tokens of the prompt, by the server's count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Number of tokens that were asked for.
    pub asked: u32,
    /// True if it ended by itself, without being cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_complete: bool,
    /// Its tokens; words if the server does not report tokens.
    pub tokens: Vec<Token>,
}

/// A token with its log probability, and the most probable tokens at its position with theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "TokenTuple", into = "TokenTuple")]
pub struct Token {
    /// Its text.
    pub text: String,
    /// Its log probability, in nats; `None` if the server does not report it.
    pub logprob: Option<f64>,
    /// The most probable tokens, including this one.
    pub top: Vec<(String, f64)>,
}

type TokenTuple = (String, Option<f64>, Vec<(String, f64)>);

impl From<TokenTuple> for Token {
    fn from((text, logprob, top): TokenTuple) -> Token {
        Token { text, logprob, top }
    }
}

impl From<Token> for TokenTuple {
    fn from(token: Token) -> TokenTuple {
        (token.text, token.logprob, token.top)
    }
}

impl Token {
    /// Returns the difference in log probability from this token to another, in nats. If the other is not among the most probable tokens,
    /// the difference is a lower bound.
    fn gap(&self, other: &str) -> Option<f64> {
        let mut top = self.top.iter();
        let given = top.find(|(text, _)| text == other).map(|(_, logprob)| *logprob);
        let least = || self.top.iter().map(|(_, logprob)| *logprob).reduce(f64::min);
        Some(self.logprob? - given.or_else(least)?)
    }

    /// Returns true if a token with this text is among the most probable ones.
    fn lists(&self, other: &str) -> bool {
        self.top.iter().any(|(text, _)| text == other)
    }
}

/// Distance between two answers to one question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Index of the first token that differs; `None` if all are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_at: Option<u32>,
    /// Change of log probabilities, in nats: the mean over the common tokens or, if greater, the mean of the two gaps where the answers
    /// part. It may be too low, because a gap to a token that is not listed is a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<f64>,
    /// True if one of the two tokens at which they part is not among the most probable tokens of the other answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unlikely: bool,
}

impl Reply {
    /// Returns the distance to another reply.
    pub fn distance(&self, other: &Reply) -> Distance {
        let pairs = || self.tokens.iter().zip(&other.tokens);
        let common = pairs().take_while(|(one, other)| one.text == other.text).count();
        let changes = pairs()
            .take(common)
            .map(|(one, other)| Some((one.logprob? - other.logprob?).abs()));
        let mean = changes.sum::<Option<f64>>().map(|sum| sum / common.max(1) as f64);
        let (Some(one), Some(another)) = (self.tokens.get(common), other.tokens.get(common)) else {
            return Distance {
                parts_at: (self.tokens.len() != other.tokens.len()).then_some(common as u32),
                nats: mean,
                is_unlikely: false,
            };
        };
        let gap = one.gap(&another.text).zip(another.gap(&one.text));
        Distance {
            parts_at: Some(common as u32),
            nats: gap
                .zip(mean)
                .map(|((here, there), mean)| mean.max((here + there) / 2.0)),
            is_unlikely: gap.is_some() && !(one.lists(&another.text) && another.lists(&one.text)),
        }
    }

    fn is_cut(&self) -> bool {
        !self.is_complete
            && self.tokens.len() < self.asked as usize
            && self.tokens.iter().any(|token| token.logprob.is_some())
    }
}

impl Distance {
    fn is_beyond(self, noise: f64) -> bool {
        let limit = ROUNDING.max(TIMES_NOISE * noise.min(MOST_NOISE));
        self.is_unlikely && self.nats.is_some_and(|nats| nats > limit)
    }
}

impl Answers {
    /// Returns a fault of the answers that shows without a comparison with other servers.
    fn fault(&self) -> Option<String> {
        let long = self.long.iter().flat_map(|long| &long.replies);
        if let Some(cut) = self.alone.iter().chain(long).find(|reply| reply.is_cut()) {
            let (got, asked) = (cut.tokens.len(), cut.asked);
            return Some(format!(
                "an answer was cut after {got} of the {asked} tokens that were asked for"
            ));
        }
        if let Some(long) = &self.long {
            let least = u64::from(long.lines) * TOKENS_A_LINE;
            let counted = long.replies.iter().filter_map(|reply| reply.prompt_tokens).min();
            if let Some(tokens) = counted.filter(|tokens| *tokens < least) {
                return Some(format!("a prompt of {} lines was cut to {tokens} tokens", long.lines));
            }
            if self.forgets(long) {
                return Some(format!(
                    "two texts of {} lines that begin differently have the same answer, so their beginnings were not read",
                    long.lines
                ));
            }
        }
        let mut together = self.together.iter().enumerate();
        let (at, apart) = together.find(|(_, distance)| distance.is_beyond(0.0))?;
        Some(format!(
            "question {} has another answer when all are asked at once: {}",
            at + 1,
            show(apart)
        ))
    }

    /// Returns true if the server does not use the beginning of a long text, although it does use the beginning of a short one.
    fn forgets(&self, long: &Long) -> bool {
        let ([amber, cobalt, ..], [one, other]) = (&self.alone[..], &long.replies[..]) else {
            return false;
        };
        let apart = one.distance(other);
        let knows = amber.says("amber") && cobalt.says("cobalt");
        let guesses = !one.says("amber") && !other.says("cobalt");
        knows
            && guesses
            && apart.parts_at.is_none()
            && apart.nats.is_none_or(|nats| nats <= NO_DISTANCE.max(self.noise()))
    }

    /// Returns the largest change of log probabilities by batching alone, in nats.
    fn noise(&self) -> f64 {
        self.together
            .iter()
            .filter_map(|distance| distance.nats)
            .fold(0.0, f64::max)
    }

    /// Returns pairs of replies to the same question. Replies to long texts are paired only if the texts have equal length.
    fn paired_replies<'a>(&'a self, other: &'a Answers) -> impl Iterator<Item = (&'a Reply, &'a Reply)> {
        let long = self
            .long
            .iter()
            .zip(&other.long)
            .filter(|(one, other)| one.lines == other.lines);
        let long = long.flat_map(|(one, other)| one.replies.iter().zip(&other.replies));
        self.alone.iter().zip(&other.alone).chain(long)
    }

    /// Returns the difference from the baseline's answers, if noise does not explain it.
    fn difference(&self, base: &Answers, noise: f64) -> Option<String> {
        let distances: Vec<Distance> = self
            .paired_replies(base)
            .map(|(own, other)| own.distance(other))
            .collect();
        for (at, (own, other)) in self.paired_replies(base).enumerate() {
            if let (Some(tokens), Some(of_base)) = (own.prompt_tokens, other.prompt_tokens)
                && 10 * tokens < 9 * of_base
            {
                return Some(format!(
                    "the server counts {tokens} tokens in question {}, the baseline {of_base}",
                    at + 1
                ));
            }
            if distances[at].is_beyond(noise) {
                return Some(format!("question {}: {}", at + 1, show(&distances[at])));
            }
        }
        // Without log probabilities, noise cannot be distinguished from another answer, unless nothing agrees.
        let is_mute = distances.iter().all(|distance| distance.nats.is_none());
        let parts_at_once = distances.iter().all(|distance| distance.parts_at == Some(0));
        (is_mute && parts_at_once && !distances.is_empty())
            .then(|| "no answer begins with the same word as the baseline's".to_owned())
    }
}

impl Reply {
    fn says(&self, word: &str) -> bool {
        let text: String = self.tokens.iter().map(|token| token.text.as_str()).collect();
        text.to_lowercase().contains(word)
    }
}

fn show(distance: &Distance) -> String {
    let at = distance.parts_at.map_or(0, |at| at + 1);
    let nats = distance.nats.unwrap_or_default();
    format!("token {at} differs, with log probabilities at least {nats:.2} nats apart")
}

/// A start of a server and its answers.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredStart<'a> {
    /// The server config.
    pub server: &'a str,
    /// Its name for readers.
    pub name: &'a str,
    /// Number of the config's settings.
    pub settings: usize,
    /// Its answers.
    pub answers: &'a Answers,
}

/// Returns the fault of each start's answers, if any, for starts in the order in which they were made. Starts of one model are compared
/// with a baseline: of the starts whose answers alone show no fault, the one with the fewest settings and, among equals, the first.
pub fn judge(starts: &[AnsweredStart<'_>]) -> Vec<Option<String>> {
    let mut faults: Vec<Option<String>> = starts.iter().map(|start| start.answers.fault()).collect();
    let mut baselines: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, start) in starts.iter().enumerate().filter(|(at, _)| faults[*at].is_none()) {
        let best = baselines.entry(&start.answers.model).or_insert(at);
        if start.settings < starts[*best].settings {
            *best = at;
        }
    }
    for (model, base) in baselines {
        let base = starts[base];
        let is_of_base = |start: &&AnsweredStart<'_>| start.server == base.server && start.answers.model == model;
        let between = starts.iter().filter(is_of_base);
        let between = between.flat_map(|start| start.answers.paired_replies(base.answers));
        let between = between.map(|(own, other)| own.distance(other));
        let noise = between
            .filter(|distance| !distance.is_unlikely)
            .filter_map(|distance| distance.nats)
            .fold(base.answers.noise(), f64::max);
        for (at, start) in starts.iter().enumerate() {
            if start.answers.model == model && faults[at].is_none() {
                let difference = start.answers.difference(base.answers, noise);
                faults[at] = difference.map(|difference| format!("against {}, {difference}", base.name));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests;
