//! The figures of one run's JSON, without its arrays. A run file may hold a latency for each of thousands of requests; a table needs none
//! of them, so they are skipped.

use super::Cell;
use crate::journal::Figures;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;

/// The figures of one run by name, in order. A run has about a hundred figures, so runs of one benchmark share the names in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFigures {
    names: Arc<[Box<str>]>,
    /// The cell that belongs to each name.
    cells: Vec<Cell>,
}

impl RunFigures {
    /// Returns the names.
    pub fn names(&self) -> &Arc<[Box<str>]> {
        &self.names
    }

    /// Returns the figures with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.names.iter().map(|name| &**name).zip(&self.cells)
    }

    /// Returns the figure of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Cell> {
        let at = self.names.iter().position(|known| **known == *name)?;
        Some(&self.cells[at])
    }

    /// Adds further figures.
    pub fn extend(&mut self, more: impl IntoIterator<Item = (Box<str>, Cell)>) {
        let (names, cells): (Vec<Box<str>>, Vec<Cell>) = more.into_iter().unzip();
        if !names.is_empty() {
            self.names = self.names.iter().cloned().chain(names).collect();
            self.cells.extend(cells);
        }
    }
}

impl<N: Into<Box<str>>> FromIterator<(N, Cell)> for RunFigures {
    fn from_iter<I: IntoIterator<Item = (N, Cell)>>(figures: I) -> RunFigures {
        let figures = figures.into_iter().map(|(name, cell)| (name.into(), cell));
        let (names, cells): (Vec<Box<str>>, Vec<Cell>) = figures.unzip();
        RunFigures {
            names: names.into(),
            cells,
        }
    }
}

impl From<&Figures> for RunFigures {
    fn from(figures: &Figures) -> RunFigures {
        RunFigures {
            names: Arc::clone(figures.names()),
            cells: figures.iter().map(|(_, value)| value.into()).collect(),
        }
    }
}

/// The first key after the figures of a run. From this key on, the run's file repeats parameters.
const END: &str = "run_number";

/// Returns every scalar at the top level of the JSON object of a run, in order, up to `run_number`. Arrays and objects are left out. Names
/// that equal those of `like` share its memory.
pub fn read_scalars(json: &[u8], like: &RunFigures) -> Result<RunFigures, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let scalars = deserializer.deserialize_map(Scalars { like: &like.names })?;
    deserializer.end()?;
    Ok(scalars)
}

struct Scalars<'l> {
    like: &'l Arc<[Box<str>]>,
}

impl<'de> Visitor<'de> for Scalars<'_> {
    type Value = RunFigures;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the JSON object of one run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RunFigures, A::Error> {
        let mut cells = Vec::with_capacity(self.like.len());
        // The run's own names, once one of them is not the expected one.
        let mut own: Option<Vec<Box<str>>> = None;
        loop {
            let expected = self.like.get(cells.len()).filter(|_| own.is_none());
            let expected = expected.map(|name| &**name);
            let Some(name) = map.next_key_seed(Name { expected })? else {
                break;
            };
            if name.as_deref() == Some(END) {
                map.next_value::<IgnoredAny>()?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                break;
            }
            let Some(cell) = map.next_value_seed(Scalar)? else {
                continue;
            };
            if let Some(name) = name {
                let begin = || self.like[..cells.len()].to_vec();
                own.get_or_insert_with(begin).push(name);
            }
            cells.push(cell);
        }
        let names = match own {
            Some(own) => own.into(),
            None if cells.len() < self.like.len() => self.like[..cells.len()].into(),
            None => Arc::clone(self.like),
        };
        Ok(RunFigures { names, cells })
    }
}

/// Reads a key; `None` if it is the expected one.
struct Name<'l> {
    expected: Option<&'l str>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<Box<str>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self
            .expected
            .is_none_or(|expected| expected != name)
            .then(|| name.into()))
    }
}

/// Reads the cell of a scalar; `None` for an array or an object.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<Cell>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Option<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Some(Cell::Missing))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Some(Cell::Bool(flag)))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<Self::Value, E> {
        Ok(Some(Cell::Integer(whole)))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<Self::Value, E> {
        Ok(Some(
            i64::try_from(whole).map_or(Cell::Float(whole as f64), Cell::Integer),
        ))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Cell::Float(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cell::from_text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn read(json: &str, like: &RunFigures) -> RunFigures {
        read_scalars(json.as_bytes(), like).expect("valid")
    }

    #[test]
    fn arrays_and_objects_are_stepped_over_and_parameters_left_out() {
        let json = r#"{"a":1,"latencies":[0.1,[2]],"b":null,"o":{"x":[1]},"c":"inf","run_number":0,"d":2}"#;
        let expected = [
            ("a", Cell::Integer(1)),
            ("b", Cell::Missing),
            ("c", Cell::Float(f64::INFINITY)),
        ];
        assert_eq!(read(json, &RunFigures::default()), expected.into_iter().collect());
    }

    #[test]
    fn runs_of_one_benchmark_share_their_names() {
        let first = read(r#"{"a":1,"l":[],"b":2,"run_number":0}"#, &RunFigures::default());
        let next = read(r#"{"a":3,"l":[1],"b":4,"run_number":1}"#, &first);
        assert!(Arc::ptr_eq(first.names(), next.names()));
        assert_eq!(
            next,
            [("a", Cell::Integer(3)), ("b", Cell::Integer(4))].into_iter().collect()
        );
        for (json, names) in [
            (r#"{"a":1}"#, &["a"][..]),
            (r#"{"b":1,"a":2}"#, &["b", "a"]),
            (r#"{"a":1,"b":2,"c":3}"#, &["a", "b", "c"]),
            (r#"{"a":1,"c":3,"b":2}"#, &["a", "c", "b"]),
        ] {
            let found = read(json, &first);
            assert_eq!(found.iter().map(|(name, _)| name).collect::<Vec<_>>(), names, "{json}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "3", "{\"a\":", "{} {}", "{\"a\":NaN}"] {
            assert!(read_scalars(text.as_bytes(), &RunFigures::default()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read_scalars(&bytes, &RunFigures::default());
        }

        #[test]
        fn a_scalar_is_the_cell_of_its_value(number: f64, whole: i64, count: u64, text: String) {
            let values = [Value::from(number), whole.into(), count.into(), text.into(), true.into()];
            for value in values {
                let found = read(&format!("{{\"a\":{value}}}"), &RunFigures::default());
                prop_assert_eq!(found.get("a"), Some(&Cell::from_json(&value)));
            }
        }
    }
}
