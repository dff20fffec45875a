//! The figures of one run's JSON, without its arrays: a run file may hold a latency for each of thousands of requests,
//! and a table needs none of them, so they are stepped over instead of built.

use super::Cell;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Every scalar at the top level of a JSON object, in order; arrays and objects are left out.
pub fn read_scalars(json: &[u8]) -> Result<Vec<(Box<str>, Cell)>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let scalars = deserializer.deserialize_map(Scalars)?;
    deserializer.end()?;
    Ok(scalars)
}

struct Scalars;

impl<'de> Visitor<'de> for Scalars {
    type Value = Vec<(Box<str>, Cell)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the JSON object of one run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut scalars = Vec::with_capacity(64);
        while let Some((key, value)) = map.next_entry::<Box<str>, &RawValue>()? {
            let text = value.get();
            if !text.starts_with(['[', '{']) {
                let value = serde_json::from_str(text).map_err(A::Error::custom)?;
                scalars.push((key, Cell::from_json(&value)));
            }
        }
        Ok(scalars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays_and_objects_are_stepped_over() {
        let read = read_scalars(br#"{"a":1,"latencies":[0.1,[2]],"b":null,"o":{"x":[1]},"c":"inf"}"#);
        let expected = [
            ("a".into(), Cell::Integer(1)),
            ("b".into(), Cell::Missing),
            ("c".into(), Cell::Float(f64::INFINITY)),
        ];
        assert_eq!(read.expect("valid"), expected);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "3", "{\"a\":", "{} {}", "{\"a\":NaN}"] {
            assert!(read_scalars(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read_scalars(&bytes);
        }
    }
}
