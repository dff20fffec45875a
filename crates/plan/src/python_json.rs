//! JSON as Python's `json` module writes it: with the bare words `NaN`, `Infinity` and `-Infinity`, which JSON lacks. This
//! module turns them into what vsweep writes instead; it does not parse.

use std::borrow::Cow;

/// The words, and what stands for each: vLLM's own texts for infinite numbers, and null for what is no number.
const WORDS: [(&[u8], &[u8]); 3] = [
    (b"-Infinity", b"\"-inf\""),
    (b"Infinity", b"\"inf\""),
    (b"NaN", b"null"),
];

/// The same document as strict JSON. Texts keep whatever they say, and what is strict already is not copied.
pub fn strict(json: &[u8]) -> Cow<'_, [u8]> {
    let mut strict = Vec::new();
    let (mut at, mut copied, mut is_text) = (0, 0, false);
    while at < json.len() {
        match json[at] {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b'-' | b'I' | b'N' if !is_text => {
                if let Some((word, instead)) = WORDS.iter().find(|(word, _)| json[at..].starts_with(word)) {
                    strict.extend_from_slice(&json[copied..at]);
                    strict.extend_from_slice(instead);
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    strict.extend_from_slice(&json[copied..]);
    Cow::Owned(strict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strict_text(json: &str) -> String {
        String::from_utf8(strict(json.as_bytes()).into_owned()).expect("text")
    }

    #[test]
    fn bare_numbers_are_what_our_own_files_say_and_texts_stay() {
        let read = strict_text(r#"{"a": NaN, "b": [-Infinity, Infinity, -3], "c": "NaN \" Infinity", "NaN": "\\"}"#);
        let expected = r#"{"a": null, "b": ["-inf", "inf", -3], "c": "NaN \" Infinity", "NaN": "\\"}"#;
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn strict_json_stays_as_it_is(text in ".{0,20}", number: f64) {
            let json = serde_json::json!({"text": text, "list": [number, null]}).to_string();
            prop_assert!(matches!(strict(json.as_bytes()), Cow::Borrowed(_)));
        }

        #[test]
        fn any_bytes_pass(bytes: Vec<u8>) {
            strict(&bytes);
        }
    }
}
