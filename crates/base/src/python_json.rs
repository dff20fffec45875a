//! JSON as Python's `json` module writes it. Python's bare words `NaN`, `Infinity` and `-Infinity`, which JSON lacks, are replaced when a
//! document is read. Python's layout (a blank after each comma and colon, ASCII only) is used for files that must equal those of
//! vLLM byte for byte, and for words of command lines. Apart from the search for repeated keys, this module does not parse JSON.

use serde::Serialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};

/// Python's words and their replacements: vLLM's own texts for infinite numbers, and null for NaN.
const WORDS: [(&[u8], &[u8]); 3] = [
    (b"-Infinity", b"\"-inf\""),
    (b"Infinity", b"\"inf\""),
    (b"NaN", b"null"),
];

/// Converts a document to strict JSON. Strings are unchanged, and a document that is already strict is not copied.
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

/// Returns a key that occurs twice at the top level of a document; readers differ in which value they use. `None` if the document is not an
/// object.
pub fn repeated_key(json: &[u8]) -> Option<String> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(json);
    // Other errors are reported when the document is read.
    let _ = reader.deserialize_map(Keys(&mut found));
    found
}

/// Reads an object, and stores the first key that occurs twice.
struct Keys<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
            if let Some(key) = seen.replace(key) {
                self.0.get_or_insert(key);
            }
        }
        Ok(())
    }
}

/// Writes a value as `json.dump` does.
pub fn write(value: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let layout = PythonLayout { has_its_floats: true };
    let written = value.serialize(&mut Serializer::with_formatter(to, layout));
    written.map_err(io::Error::from)
}

/// Returns a value as `json.dumps` does, except for numbers below 0.0001 (`1e-6` for `1e-06`): it becomes a word of a command line, of which
/// ids are digests.
pub fn dumps(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let layout = PythonLayout { has_its_floats: false };
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, layout));
    written.expect("plain data can be written to memory");
    String::from_utf8(bytes).expect("the layout is ASCII")
}

struct PythonLayout {
    /// Python writes an exponent for numbers below 0.0001, with at least two digits.
    has_its_floats: bool,
}

impl Formatter for PythonLayout {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if !self.has_its_floats || size == 0.0 || size >= 1e-4 {
            return CompactFormatter.write_f64(out, value);
        }
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once("e-").expect("a small number");
        write!(out, "{digits}e-{exponent:0>2}")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            match character {
                '\0'..='\x7e' => write!(out, "{character}")?,
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_key_that_stands_there_twice_is_found() {
        assert_eq!(repeated_key(br#"{"a":1,"b":{"a":2},"a":3}"#).as_deref(), Some("a"));
        for json in [r#"{"a":1,"b":{"a":2}}"#, "[]", "{", "3"] {
            assert_eq!(repeated_key(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn text_is_what_python_writes() {
        let value = json!({"a": [1, 2.5], "b": {"c": "é\n😀\u{7f}"}, "d": null});
        assert_eq!(
            dumps(&value),
            r#"{"a": [1, 2.5], "b": {"c": "\u00e9\n\ud83d\ude00\u007f"}, "d": null}"#
        );
    }

    #[test]
    fn floats_are_what_python_writes_in_files_and_stay_in_words() {
        let value = json!([0.0, 0.0001, -0.000015, 1e-6, 1.5e-300, 1e15, 1e16, 0.1]);
        let mut file = Vec::new();
        write(&value, &mut file).expect("written");
        let expected = "[0.0, 0.0001, -1.5e-05, 1e-06, 1.5e-300, 1000000000000000.0, 1e+16, 0.1]";
        assert_eq!(String::from_utf8_lossy(&file), expected);
        assert_eq!(dumps(&json!([0.000015, 1e-6])), "[0.000015, 1e-6]");
    }

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
