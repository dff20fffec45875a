//! Asks a ready server a few fixed questions, with greedy sampling, and reads its answers with their log probabilities, if it reports any.
//! `checks` judges the answers.

use super::http::{Http, Silence};
use super::{Identity, Server};
use crate::checks::{AnswerCheck, Answers, Long, Reply, Token};
use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Beginnings of the first two questions.
const BEGINNINGS: [&str; 2] = [
    "The code word of this text is amber. ",
    "The code word of this text is cobalt. ",
];
/// End of the first two questions. A long question has filler between the beginning and the end.
const ENDING: &str = "Question: what is the code word of this text? Answer: the code word of this text is";
/// The other questions.
const OTHER_QUESTIONS: [&str; 2] = [
    "Count from one to fifty in digits: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "The quick brown fox jumps over the lazy dog. The French translation of this sentence is:",
];
/// Number of questions.
pub const PROMPTS: usize = BEGINNINGS.len() + OTHER_QUESTIONS.len();
/// Number of tokens requested for an answer.
pub const TOKENS: u32 = 32;
/// Number of tokens requested for the answer to a long question.
pub const LONG_TOKENS: u32 = 8;
/// Numbers of filler lines of long questions, the longest first. The longest question has at least 4096 tokens, a length at which some
/// servers cut prompts. Models with a short context get fewer.
pub const LINES: [u32; 3] = [400, 100, 25];
/// Upper estimate of the tokens of a line, for most tokenizers.
const TOKENS_A_LINE: u64 = 14;
/// Number of most probable tokens requested at each position: the most that OpenAI's interface allows.
const TOP: u32 = 5;
/// Time limit of one answer. A slower server is not asked further questions.
const LONGEST: Duration = Duration::from_secs(60);

/// Reason for a missing answer.
enum Refusal {
    /// The server answered with this HTTP status.
    Status(StatusCode),
    /// There was no answer, or an unreadable one.
    Silence(String),
}

impl From<Silence> for Refusal {
    fn from(silence: Silence) -> Refusal {
        Refusal::Silence(silence.to_string())
    }
}

/// Asks a server questions in the form that it accepts.
struct Questioner<'a> {
    http: &'a Http,
    model: &'a str,
    /// Time limit of one answer.
    limit: Duration,
    /// Optional fields of a question. Fields that the server rejects are left out.
    extras: Map<String, Value>,
}

impl Server {
    /// Asks the fixed questions: each alone, all at once, and two of them with a long text. Asking ends if an answer takes longer than 60 s
    /// or than `hangs`, the time after which a server counts as hung.
    pub async fn ask(&self, identity: &Identity, hangs: Duration) -> AnswerCheck {
        let mut questioner = Questioner {
            http: &self.http,
            model: &identity.served_model,
            limit: hangs.min(LONGEST),
            extras: Map::from_iter([
                ("ignore_eos".to_owned(), true.into()),
                ("logprobs".to_owned(), TOP.into()),
            ]),
        };
        match questioner.ask_all(identity).await {
            Ok(answers) => AnswerCheck::Answered(answers),
            Err(Refusal::Status(status)) => {
                AnswerCheck::Refused(format!("/v1/completions answers HTTP {}", status.as_u16()))
            }
            Err(Refusal::Silence(why)) => AnswerCheck::Refused(format!("/v1/completions: {why}")),
        }
    }
}

impl Questioner<'_> {
    async fn ask_all(&mut self, identity: &Identity) -> Result<Answers, Refusal> {
        let short = BEGINNINGS.map(|first| format!("{first}{ENDING}"));
        let prompts: Vec<String> = short.into_iter().chain(OTHER_QUESTIONS.map(str::to_owned)).collect();
        let mut alone = vec![self.ask_first(&prompts[0]).await?];
        for prompt in &prompts[1..] {
            alone.push(self.reply(prompt, TOKENS).await?);
        }
        let together = join_all(prompts.iter().map(|prompt| self.reply(prompt, TOKENS))).await;
        let together = together.into_iter().zip(&alone);
        let together = together.map(|(reply, alone)| Ok(alone.distance(&reply?)));
        Ok(Answers {
            model: identity.model_root.clone(),
            together: together.collect::<Result<_, Refusal>>()?,
            long: self.ask_long(identity.max_model_len).await?,
            alone,
        })
    }

    /// Asks the first question, without the extra fields that the server rejects. Later questions lack these fields, too.
    async fn ask_first(&mut self, prompt: &str) -> Result<Reply, Refusal> {
        loop {
            match self.reply(prompt, TOKENS).await {
                // A server that knows the route but not a field answers 400 or 422.
                Err(Refusal::Status(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY))
                    if !self.extras.is_empty() =>
                {
                    let first = self.extras.keys().next().expect("not empty").clone();
                    self.extras.remove(&first);
                }
                other => return other,
            }
        }
    }

    /// Returns the answers to the longest questions that the server accepts; `None` if it accepts none.
    async fn ask_long(&self, longest: Option<u64>) -> Result<Option<Long>, Refusal> {
        let fits = |lines: &u32| longest.is_none_or(|longest| u64::from(*lines) * TOKENS_A_LINE + 100 <= longest);
        for lines in LINES.into_iter().filter(fits) {
            let text: String = (1..=lines)
                .map(|line| format!("Line {line} of {lines} says nothing about the code word. "))
                .collect();
            let mut replies = Vec::new();
            for first in BEGINNINGS {
                match self.reply(&format!("{first}{text}{ENDING}"), LONG_TOKENS).await {
                    Ok(reply) => replies.push(reply),
                    Err(Refusal::Status(
                        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY,
                    )) => break,
                    Err(refusal) => return Err(refusal),
                }
            }
            if replies.len() == BEGINNINGS.len() {
                return Ok(Some(Long { lines, replies }));
            }
        }
        Ok(None)
    }

    async fn reply(&self, prompt: &str, tokens: u32) -> Result<Reply, Refusal> {
        let mut body = json!({"model": self.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0.0});
        let fields = body.as_object_mut().expect("an object");
        fields.extend(self.extras.clone());
        let answer = self.http.ask("/v1/completions", &body, self.limit).await?;
        if !answer.status.is_success() {
            return Err(Refusal::Status(answer.status));
        }
        read(&answer.json(), tokens).ok_or_else(|| Refusal::Silence("no completion in the answer".to_owned()))
    }
}

/// Parses an answer of OpenAI's completions interface. Without log probabilities, words are taken for tokens.
fn read(answer: &Value, asked: u32) -> Option<Reply> {
    let choice = &answer["choices"][0];
    let words = || {
        choice["text"]
            .as_str()
            .map(|text| text.split_inclusive(char::is_whitespace))
    };
    let bare = |word: &str| Token {
        text: word.to_owned(),
        logprob: None,
        top: Vec::new(),
    };
    let tokens = tokens(&choice["logprobs"]).or_else(|| Some(words()?.map(bare).collect()))?;
    Some(Reply {
        prompt_tokens: answer["usage"]["prompt_tokens"].as_u64(),
        asked,
        is_complete: choice["finish_reason"] == "stop",
        tokens,
    })
}

fn tokens(logprobs: &Value) -> Option<Vec<Token>> {
    let list = |name: &str| logprobs[name].as_array();
    let (texts, of_texts, tops) = (list("tokens")?, list("token_logprobs")?, list("top_logprobs")?);
    let each = texts.iter().zip(of_texts).zip(tops);
    let read = each.map(|((text, logprob), top)| {
        let mut top: Vec<(String, f64)> = top
            .as_object()?
            .iter()
            .filter_map(|(text, logprob)| Some((text.clone(), rounded(logprob)?)))
            .collect();
        top.sort_by(|one, other| other.1.total_cmp(&one.1));
        Some(Token {
            text: text.as_str()?.to_owned(),
            logprob: Some(rounded(logprob)?),
            top,
        })
    });
    read.collect::<Option<Vec<Token>>>().filter(|tokens| !tokens.is_empty())
}

/// Rounds to four decimals. More would be noise, and each start records hundreds of numbers.
fn rounded(logprob: &Value) -> Option<f64> {
    let logprob = logprob.as_f64().filter(|logprob| logprob.is_finite())?;
    Some((logprob * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_real_vllm_answers_is_read() {
        let answer = json!({
            "choices": [{"text": " amber cobalt", "finish_reason": "length", "logprobs": {
                "text_offset": [0, 6], "tokens": [" amber", " cobalt"], "token_logprobs": [-0.12345678, -1.0],
                "top_logprobs": [{" amber": -0.12345678, " red": -2.5}, {" cobalt": -1.0, " amber": -0.9}]}}],
            "usage": {"prompt_tokens": 25, "completion_tokens": 2},
        });
        let reply = read(&answer, 32).expect("an answer");
        assert_eq!(
            (reply.prompt_tokens, reply.is_complete, reply.tokens.len()),
            (Some(25), false, 2)
        );
        assert_eq!(reply.tokens[0].logprob, Some(-0.1235));
        assert_eq!(
            reply.tokens[1].top,
            [(" amber".to_owned(), -0.9), (" cobalt".to_owned(), -1.0)]
        );
    }

    #[test]
    fn without_log_probabilities_words_are_compared() {
        let answer = json!({"choices": [{"text": "one two", "finish_reason": "stop", "logprobs": null}]});
        let reply = read(&answer, 32).expect("an answer");
        let words: Vec<&str> = reply.tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!((words, reply.is_complete), (vec!["one ", "two"], true));
        assert_eq!(read(&json!({"error": "no"}), 32), None);
    }
}
