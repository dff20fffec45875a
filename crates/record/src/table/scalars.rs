//! The figures of one run's JSON, without its arrays: a run file may hold a latency for each of thousands of requests,
//! and a table needs none of them, so they are stepped over instead of built.

use super::Cell;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
        while let Some(key) = map.next_key::<Box<str>>()? {
            if let Scalar(Some(cell)) = map.next_value()? {
                scalars.push((key, cell));
            }
        }
        Ok(scalars)
    }
}

/// A scalar, or nothing where the value was an array or an object, whose elements are not built.
#[derive(Debug, Clone)]
struct Scalar(Option<Cell>);

impl<'de> serde::Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(Scalar)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Option<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Cell::Missing))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Some(Cell::Bool(flag)))
    }

    fn visit_i64<E>(self, whole: i64) -> Result<Self::Value, E> {
        Ok(Some(Cell::Integer(whole)))
    }

    fn visit_u64<E>(self, whole: u64) -> Result<Self::Value, E> {
        Ok(Some(
            i64::try_from(whole).map_or(Cell::Float(whole as f64), Cell::Integer),
        ))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Cell::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cell::from_text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_map(map).map(|_| None)
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
