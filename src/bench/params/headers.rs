//! What may stand in the head of a request: names and values of headers, request ids, paths. Anything else could end the
//! head early, or say twice how long the body is.

use crate::bench::params::reader::Reader;

/// Headers that follow from the body and the connection.
const OURS: [&str; 2] = ["content-length", "transfer-encoding"];

impl Reader<'_> {
    /// Headers that can be sent as they are.
    pub(in crate::bench) fn headers(&mut self) -> Vec<(String, String)> {
        let headers = self.pairs("header");
        let wrong = headers.iter().filter_map(|(name, value)| wrong_header(name, value));
        self.problems.extend(wrong);
        headers
    }

    /// A text that becomes part of a header's value.
    pub(in crate::bench) fn header_text(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        if !is_value(&text) {
            self.wrong(name, "a text without line breaks and other control characters");
        }
        Some(text)
    }

    /// A path as it can be sent.
    pub(in crate::bench) fn path(&mut self, name: &str) -> Option<String> {
        let path = self.text(name)?;
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.wrong(name, "a path without blanks, in ASCII; write other characters as %XX");
        }
        Some(path)
    }
}

fn wrong_header(name: &str, value: &str) -> Option<String> {
    if !is_name(name) {
        return Some(format!(
            "header {name:?} is no name of a header; use letters, digits and \"-\""
        ));
    }
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Some(format!("header {name} follows from the body; remove it"));
    }
    (!is_value(value)).then(|| format!("header {name} has a line break or another control character in it; remove it"))
}

/// A token after RFC 9110.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

fn is_value(value: &str) -> bool {
    value.chars().all(|letter| letter == '\t' || !letter.is_control())
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::Settings;
    use serde_json::{Value, json};

    fn problems(params: Value) -> Vec<String> {
        let params = params.as_object().expect("an object");
        Settings::read(params).err().unwrap_or_default()
    }

    #[test]
    fn what_would_break_a_request_is_refused() {
        for (params, wanted) in [
            (json!({"header": ["X=a\r\nY: b"]}), "header X has a line break"),
            (json!({"header": {"X": "a\nb"}}), "header X has a line break"),
            (
                json!({"header": ["Content-Length=5"]}),
                "header Content-Length follows from the body",
            ),
            (
                json!({"header": ["transfer-encoding=chunked"]}),
                "header transfer-encoding follows",
            ),
            (json!({"header": ["A B=1"]}), "header \"A B\" is no name"),
            (json!({"header": ["Größe=1"]}), "header \"Größe\" is no name"),
            (json!({"header": ["=1"]}), "header \"\" is no name"),
            (json!({"request_id_prefix": "a\r\nX: 1"}), "request_id_prefix is"),
            (
                json!({"endpoint": "/a b/v1/completions"}),
                "endpoint is \"/a b/v1/completions\"; it must be a path",
            ),
        ] {
            let found = problems(params);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?}");
        }
        let fine = json!({
            "header": ["X-A=ü b", "Authorization=Bearer a=b", "Host=other"], "request_id_prefix": "é ",
            "endpoint": "/x%20y/v1/completions",
        });
        assert_eq!(problems(fine), [""; 0]);
    }
}
