//! Parses events of the Responses API. Of its types of events, those that end in `.delta` carry output, and two end the stream.

use crate::wire::chunk::{EventFacts, Usage, error_text};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Deserialize)]
struct ResponseEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
    error: Option<Value>,
    message: Option<Value>,
    response: Option<ResponseBody>,
}

/// The delta of an event: a text, or an object that is only known to be there.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct ResponseBody {
    usage: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// Parses the data of one event. The error is a sentence that says what is wrong with it.
pub(crate) fn parse(data: &[u8]) -> Result<EventFacts<'_>, String> {
    let event: ResponseEvent<'_> = serde_json::from_slice(data)
        .map_err(|error| format!("an event is not what a stream of responses holds: {error}"))?;
    let kind = event.kind.as_deref().unwrap_or_default();
    let finished = matches!(kind, "response.completed" | "response.incomplete");
    let answer = event.response;
    let given = |error: &Option<Value>| error.clone().filter(|error| !error.is_null());
    let error = given(&event.error)
        .or_else(|| answer.as_ref().and_then(|answer| given(&answer.error)))
        .or_else(|| matches!(kind, "error" | "response.failed").then(|| event.message.clone().unwrap_or_default()));
    let is_text = kind == "response.output_text.delta";
    let usage = answer.and_then(|answer| answer.usage).filter(|_| finished);
    // A token may have no text. An empty delta of another type, such as the arguments of a call, is not a token.
    let may_be_empty = is_text || kind == "response.reasoning_text.delta";
    let is_filled = match &event.delta {
        Some(Text::Text(text)) => !text.is_empty(),
        Some(Text::Other(_)) => true,
        None => false,
    };
    let output = may_be_empty || (kind.ends_with(".delta") && is_filled);
    Ok(EventFacts {
        output,
        text: match event.delta {
            Some(Text::Text(text)) if is_text => text,
            _ => Cow::Borrowed(""),
        },
        has_no_choices: false,
        finished,
        usage: usage.map(|usage| Usage {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
        }),
        error: error.as_ref().map(error_text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_deltas_are_output_and_only_text_is_text() {
        let read = |data: &'static str| parse(data.as_bytes()).expect("valid");
        let text = read(r#"{"type":"response.output_text.delta","delta":"A"}"#);
        assert!(text.output && text.text == "A");
        let thought = read(r#"{"type":"response.reasoning_text.delta","delta":"th"}"#);
        assert!(thought.output && thought.text.is_empty());
        for kind in [
            "reasoning_summary_text",
            "refusal",
            "function_call_arguments",
            "mcp_call_arguments",
            "code_interpreter_call_code",
        ] {
            let is_output = |delta: &str| {
                let data = format!(r#"{{"type":"response.{kind}.delta","delta":{delta}}}"#);
                let facts = parse(data.as_bytes()).expect("valid");
                assert!(facts.text.is_empty());
                facts.output
            };
            assert!(is_output("\"{\"") && is_output("{}") && !is_output("\"\""), "{kind}");
        }
        assert_eq!(
            read(r#"{"type":"response.created","response":{"error":null}}"#),
            EventFacts::default()
        );
        let end = read(r#"{"type":"response.completed","response":{"usage":{"input_tokens":11,"output_tokens":2}}}"#);
        assert!(end.finished && end.usage.is_some_and(|usage| usage.prompt_tokens == Some(11)));
        assert_eq!(
            read(r#"{"type":"response.failed","error":{"message":"x"}}"#)
                .error
                .as_deref(),
            Some("x")
        );
        assert!(read(r#"{"type":"error"}"#).error.is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&data);
        }
    }
}
