//! Checks the parts of a request's head: names and values of headers, request ids, paths. Invalid characters could end the head early, or
//! give the body a second length.

use reqwest::header::HeaderName;

/// Headers that follow from the body and the connection.
const OURS: [&str; 2] = ["content-length", "transfer-encoding"];

/// Returns the problem of a header that cannot be sent as it is.
pub(super) fn wrong_header(name: &str, value: &str) -> Option<String> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Some(format!(
            "header {name:?} is not a valid header name; use letters, digits and \"-\""
        ));
    }
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Some(format!("header {name} follows from the body; remove it"));
    }
    (!is_value(value)).then(|| format!("header {name} has a line break or another control character in it; remove it"))
}

/// A path that can be sent.
pub(in crate::bench) fn is_path(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A text that can be part of a header's value.
pub(in crate::bench) fn is_value(value: &str) -> bool {
    value.chars().all(|letter| letter == '\t' || !letter.is_control())
}

#[cfg(test)]
mod tests {
    use crate::bench::native::settings::NativeSettings;
    use serde_json::{Value, json};

    fn problems(params: Value) -> Vec<String> {
        let params = params.as_object().expect("an object");
        NativeSettings::read(params).err().unwrap_or_default()
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
            (json!({"header": ["A B=1"]}), "header \"A B\" is not a valid"),
            (json!({"header": ["Größe=1"]}), "header \"Größe\" is not a valid"),
            (json!({"header": ["=1"]}), "header \"\" is not a valid"),
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
