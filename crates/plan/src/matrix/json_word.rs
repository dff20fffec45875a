//! JSON as a word of a command line, in the layout of Python's `json.dumps`: the very bytes that `vllm bench sweep` would
//! pass, so that logs of both can be compared. `", "` and `": "` separate, and everything beyond ASCII is escaped.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// The value as one word.
pub fn json_word(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PythonLayout);
    value
        .serialize(&mut serializer)
        .expect("a JSON value can be written to memory");
    String::from_utf8(bytes).expect("the layout writes ASCII")
}

struct PythonLayout;

impl Formatter for PythonLayout {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0u16; 2];
        for character in fragment.chars() {
            if character.is_ascii() {
                out.write_all(&[character as u8])?;
            } else {
                for unit in character.encode_utf16(&mut units) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
