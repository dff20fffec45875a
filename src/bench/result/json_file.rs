//! A result as a file of `vllm bench serve`: its name and its text.

use crate::bench::native::settings::Settings;
use crate::plan::Params;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// The name that a result gets unless the user chose one:
/// `{label or backend}-{rate}qps{-concurrencyN}-{model}-{date}.json`.
pub fn name(settings: &Settings, result: &Params) -> String {
    let text = |key: &str| match result.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // A slash would make a folder of it.
    let label = settings.figures.label.as_deref().filter(|label| !label.is_empty());
    let label = label.unwrap_or(settings.api.backend_name()).replace('/', "-");
    let load = match settings.arrival.arrivals().ramp {
        Some(ramp) => format!("ramp-up-{}-{}qps-{}qps", ramp.shape.name(), ramp.start, ramp.end),
        None => format!("{}qps", text("request_rate")),
    };
    let limit = settings
        .concurrency()
        .map(|limit| format!("-concurrency{limit}"))
        .unwrap_or_default();
    let model_id = text("model_id");
    let model = model_id.rsplit('/').next().unwrap_or_default();
    format!("{label}-{load}{limit}-{model}-{}.json", text("date"))
}

/// Writes it as Python's `json.dump` does: a space after each comma and colon, ASCII only.
pub fn write(result: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let written = result.serialize(&mut Serializer::with_formatter(to, PythonStyle));
    written.map_err(io::Error::from)
}

struct PythonStyle;

impl Formatter for PythonStyle {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            let mut units = [0; 2];
            match character {
                '\0'..='\x7e' => write!(writer, "{character}")?,
                _ => {
                    for unit in character.encode_utf16(&mut units) {
                        write!(writer, "\\u{unit:04x}")?;
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
    use serde_json::json;

    #[test]
    fn text_is_what_python_writes() {
        let Value::Object(result) = json!({"a": [1, 2.5], "b": {"c": "é\n😀"}, "d": null}) else {
            unreachable!("an object")
        };
        let mut text = vec![];
        write(&result, &mut text).expect("written to memory");
        assert_eq!(
            String::from_utf8_lossy(&text),
            r#"{"a": [1, 2.5], "b": {"c": "\u00e9\n\ud83d\ude00"}, "d": null}"#
        );
    }
}
