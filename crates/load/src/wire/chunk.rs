//! Parses the events of a completion stream: output, the end, usage, errors.
//!
//! Most events of a stream differ only in their text. So one event is parsed as JSON, and the bytes before and after its text are kept as a
//! template. An event that has a plain string between the two parts of the template is recognised by two comparisons. This is correct
//! because the first part ends inside a string literal of valid JSON: everything up to an unescaped quote is that string. All other events
//! are parsed.

use memchr::{memchr, memchr2, memmem};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;

/// Largest plausible count of output tokens. A larger one is an error.
const MOST_OUTPUT: u64 = 1 << 24;
/// Largest plausible count of prompt tokens, in all inputs of a batch.
const MOST_PROMPT: u64 = 1 << 32;

/// Token counts as the server reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the output.
    pub completion_tokens: Option<u64>,
}

impl Usage {
    /// Returns the counts, or an error if one is implausibly large.
    pub fn checked(self) -> Result<Usage, String> {
        let counts = [(self.prompt_tokens, MOST_PROMPT), (self.completion_tokens, MOST_OUTPUT)];
        let absurd = counts
            .into_iter()
            .find_map(|(count, most)| count.filter(|count| *count > most));
        match absurd {
            Some(count) => Err(format!(
                "the server's usage counts {count} tokens in one request; correct the server"
            )),
            None => Ok(self),
        }
    }
}

/// Content of one event.
#[derive(Debug, Default, PartialEq)]
pub struct EventFacts<'a> {
    /// True if it is an output event: its first choice has a `text`, which may be empty, or a `delta` with output.
    pub output: bool,
    /// Text of the first choice.
    pub text: Cow<'a, str>,
    /// True if it has no choices, like the event with token counts at the end of a stream.
    pub has_no_choices: bool,
    /// True if a choice has a finish reason.
    pub finished: bool,
    /// Token counts.
    pub usage: Option<Usage>,
    /// The error that the server reports, if it reports one.
    pub error: Option<String>,
}

/// Parser of the events of a stream. It can be reset for another stream.
#[derive(Debug, Default)]
pub struct Scanner {
    before: Vec<u8>,
    after: Vec<u8>,
}

#[derive(Deserialize)]
struct CompletionEvent<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    error: Option<Value>,
    #[serde(borrow)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<Value>,
}

/// An addition to the answer of a chat. The first delta has only the role, and the last delta is often empty.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    role: Option<IgnoredAny>,
    #[serde(default)]
    reasoning: Value,
    /// Another name of `reasoning`.
    #[serde(default)]
    reasoning_content: Value,
    #[serde(default)]
    tool_calls: Value,
    #[serde(default)]
    function_call: Value,
}

impl Delta<'_> {
    /// Returns true if it is the output of a token, by the rule of `vllm bench serve` 0.33. A token without text has an empty content and
    /// no role.
    fn is_output(&self) -> bool {
        let is_content = match self.content.as_deref() {
            Some("") => self.role.is_none(),
            content => content.is_some(),
        };
        let others = [
            &self.reasoning,
            &self.reasoning_content,
            &self.tool_calls,
            &self.function_call,
        ];
        is_content || others.into_iter().any(is_not_empty)
    }
}

fn is_not_empty(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

impl Scanner {
    /// Prepares the scanner for another stream. Its memory is kept.
    pub fn reset(&mut self) {
        self.before.clear();
        self.after.clear();
    }

    /// Parses the data of one event. The error is a sentence that says what is wrong with the data.
    pub fn scan<'a>(&mut self, data: &'a [u8]) -> Result<EventFacts<'a>, String> {
        if let Some(text) = self.text_in_template(data) {
            return Ok(EventFacts {
                output: true,
                text: Cow::Borrowed(text),
                ..EventFacts::default()
            });
        }
        let facts = parse(data)?;
        let plain = EventFacts {
            output: true,
            text: Cow::Borrowed(&facts.text),
            ..EventFacts::default()
        };
        if facts == plain {
            self.learn(data, &facts.text);
        }
        Ok(facts)
    }

    fn text_in_template<'a>(&self, data: &'a [u8]) -> Option<&'a str> {
        let framed = !self.before.is_empty() && data.len() >= self.before.len() + self.after.len();
        if !framed || !data.starts_with(&self.before) || !data.ends_with(&self.after) {
            return None;
        }
        let text = &data[self.before.len()..data.len() - self.after.len()];
        let plain = memchr2(b'"', b'\\', text).is_none() && text.iter().all(|byte| *byte >= 0x20);
        if plain { std::str::from_utf8(text).ok() } else { None }
    }

    /// Keeps the bytes around the text as the template, if only one key can hold the text and no character is escaped.
    fn learn(&mut self, data: &[u8], text: &str) {
        let mut keys = [&b"\"text\""[..], b"\"content\""]
            .into_iter()
            .flat_map(|key| memmem::find_iter(data, key).map(move |at| at + key.len()));
        let (Some(key_end), None, None) = (keys.next(), keys.next(), memchr(b'\\', data)) else {
            return;
        };
        let opening = b":\"";
        let start = key_end + opening.len();
        let after = start + text.len();
        if text.is_empty() || !data[key_end..].starts_with(opening) || data.get(after) != Some(&b'"') {
            return;
        }
        self.before.clear();
        self.before.extend_from_slice(&data[..start]);
        self.after.clear();
        self.after.extend_from_slice(&data[after..]);
    }
}

fn parse(data: &[u8]) -> Result<EventFacts<'_>, String> {
    let event: CompletionEvent<'_> = serde_json::from_slice(data)
        .map_err(|error| format!("an event is not what a completion stream holds: {error}"))?;
    let is_error_object = event.object.as_deref() == Some("error");
    let error = match event.error {
        Some(error) => Some(error_text(&error)),
        None if is_error_object => Some(event.message.unwrap_or_default().into_owned()),
        None => None,
    };
    let choices = event.choices.unwrap_or_default();
    let finished = choices
        .iter()
        .any(|choice| choice.finish_reason.as_ref().is_some_and(|why| !why.is_null()));
    let has_no_choices = choices.is_empty();
    let first = choices.into_iter().next();
    let output = first
        .as_ref()
        .is_some_and(|choice| choice.text.is_some() || choice.delta.as_ref().is_some_and(Delta::is_output));
    let text = first.and_then(|choice| choice.text.or_else(|| choice.delta.and_then(|delta| delta.content)));
    Ok(EventFacts {
        output,
        text: text.unwrap_or_default(),
        has_no_choices,
        finished,
        usage: event.usage,
        error,
    })
}

/// Returns the message in an `error` value, or the whole value if it has none.
pub fn error_text(error: &Value) -> String {
    match error {
        Value::String(text) => text.clone(),
        other => match other.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn completion(text: &str, rest: &str) -> String {
        let text = serde_json::to_string(text).expect("a string");
        format!(r#"{{"id":"cmpl-1","choices":[{{"index":0,"text":{text},"logprobs":null{rest}}}],"usage":null}}"#)
    }

    #[test]
    fn a_stream_is_read_by_its_template_and_beyond_it() {
        let mut scanner = Scanner::default();
        for (text, rest, finished) in [
            (" a", r#","finish_reason":null"#, false),
            (" b", r#","finish_reason":null"#, false),
            ("\n\"", r#","finish_reason":null"#, false),
            (" c", r#","finish_reason":"length""#, true),
        ] {
            let event = completion(text, rest);
            let facts = scanner.scan(event.as_bytes()).expect("valid");
            assert_eq!(
                (facts.output, facts.text.as_ref(), facts.finished),
                (true, text, finished)
            );
        }
        let usage = br#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
        let facts = scanner.scan(usage).expect("valid");
        assert!(!facts.output);
        let counts = facts.usage.expect("it has usage");
        assert_eq!((counts.prompt_tokens, counts.completion_tokens), (Some(9), Some(3)));
    }

    #[test]
    fn counts_that_cannot_be_true_are_refused() {
        let usage = |prompt_tokens, completion_tokens| Usage {
            prompt_tokens,
            completion_tokens,
        };
        for usage in [usage(None, None), usage(Some(10_000_000), Some(1 << 24))] {
            assert_eq!(usage.checked(), Ok(usage));
        }
        for usage in [usage(Some(9), Some(u64::MAX)), usage(Some(u64::MAX), None)] {
            let refused = usage.checked().expect_err("absurd");
            assert!(refused.contains("18446744073709551615 tokens"), "{refused}");
        }
    }

    #[test]
    fn errors_are_found_in_every_shape() {
        let mut scanner = Scanner::default();
        for event in [
            r#"{"error":{"message":"EngineCore died","code":500}}"#,
            r#"{"error":"EngineCore died"}"#,
            r#"{"object":"error","message":"EngineCore died"}"#,
        ] {
            let facts = scanner.scan(event.as_bytes()).expect("valid");
            assert_eq!(facts.error.as_deref(), Some("EngineCore died"));
        }
        assert!(scanner.scan(b"{not json").is_err());
    }

    #[test]
    fn a_choice_without_text_or_delta_is_no_output() {
        let mut scanner = Scanner::default();
        let mut read = |event: &'static str| {
            let facts = scanner.scan(event.as_bytes()).expect("valid");
            (facts.output, facts.finished)
        };
        assert_eq!(read(r#"{"choices":[{"index":0,"text":""}]}"#), (true, false));
        assert_eq!(
            read(r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#),
            (false, true)
        );
        assert_eq!(read(r#"{"choices":[{"index":0}]}"#), (false, false));
    }

    #[test]
    fn a_delta_is_output_if_it_stands_for_a_token() {
        let mut scanner = Scanner::default();
        let mut is_output = |delta: &str| {
            let event = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
            scanner.scan(event.as_bytes()).expect("valid").output
        };
        for delta in [
            "{}",
            r#"{"role":"assistant","content":""}"#,
            r#"{"role":"assistant","content":null}"#,
            r#"{"reasoning":null,"reasoning_content":"","tool_calls":[]}"#,
        ] {
            assert!(!is_output(delta), "{delta}");
        }
        for delta in [
            r#"{"content":""}"#,
            r#"{"role":"assistant","content":"a"}"#,
            r#"{"reasoning":"a"}"#,
            r#"{"content":null,"reasoning_content":"a"}"#,
            r#"{"tool_calls":[{"index":0}]}"#,
            r#"{"function_call":{"name":"f"}}"#,
        ] {
            assert!(is_output(delta), "{delta}");
        }
    }

    #[test]
    fn a_text_beside_the_choice_is_not_taken_for_its_text() {
        let events = [
            [
                r#"{"echo":{"text":"a"},"choices":[{"text":"b"}]}"#,
                r#"{"echo":{"text":"c"},"choices":[{"text":"b"}]}"#,
            ],
            [
                r#"{"choices":[{"delta":{}},{"text":"a"}]}"#,
                r#"{"choices":[{"delta":{}},{"text":"c"}]}"#,
            ],
        ];
        for pair in events {
            let mut scanner = Scanner::default();
            for event in pair {
                assert_eq!(
                    scanner.scan(event.as_bytes()),
                    Scanner::default().scan(event.as_bytes()),
                    "{event}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn the_template_says_what_the_parser_says(texts in prop::collection::vec(".{0,8}", 1..8)) {
            let mut scanner = Scanner::default();
            for text in &texts {
                let event = completion(text, r#","finish_reason":null"#);
                let scanned = scanner.scan(event.as_bytes()).expect("valid");
                prop_assert_eq!(scanned, parse(event.as_bytes()).expect("valid"));
            }
        }

        #[test]
        fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scanner = Scanner::default();
            let _ = scanner.scan(completion("a", "").as_bytes());
            let _ = scanner.scan(&data);
        }
    }
}
