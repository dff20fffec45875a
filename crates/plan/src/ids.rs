//! Identities made from content: the canonical JSON of a thing and the SHA-256 of it.
//!
//! Two configurations have one id exactly if everything that can change their measurement is equal, so nothing stale
//! is ever reused and editing a plan re-measures exactly what changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// Identity of one server config: first 16 hex digits of the SHA-256 of its canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub String);

/// Identity of one point (server config plus bench config), made the same way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PointId(pub String);

/// Identity of one search (server config, load without its height, targets and settings), made the same way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SearchId(pub String);

impl fmt::Display for SearchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// JSON text that is equal for equal values: object keys sorted, no spaces.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(&Value::String(key.clone()), out);
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// SHA-256 of some bytes as 64 lower-case hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 16 hex digits of the SHA-256 of a text: short enough for a path, and among a million points the odds that
/// two share one are below 1 in 10^7.
pub fn short_digest(text: &str) -> String {
    let mut digest = sha256_hex(text.as_bytes());
    digest.truncate(16);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_change_the_identity() {
        let a: Value = serde_json::from_str(r#"{"b":[1,{"d":null,"c":"x"}],"a":1.5}"#).expect("valid");
        assert_eq!(canonical_json(&a), r#"{"a":1.5,"b":[1,{"c":"x","d":null}]}"#);
        assert_eq!(
            canonical_json(&json!({"a": 1, "b": 2})),
            canonical_json(&json!({"b": 2, "a": 1}))
        );
    }

    #[test]
    fn digest_is_sha256() {
        assert_eq!(short_digest("abc"), "ba7816bf8f01cfea");
    }
}
