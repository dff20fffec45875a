//! Numbers of a run by the name of the metric. A run has dozens of numbers, so runs of one benchmark share the names in memory, and copies
//! share everything.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

thread_local! {
    /// For each count of names, the names of the last run with so many that this thread read. The next run usually has the same names.
    static NAMES: RefCell<HashMap<usize, Arc<[Box<str>]>>> = RefCell::default();
}

/// Numbers by the name of the metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    names: Arc<[Box<str>]>,
    /// The number that belongs to each name.
    values: Arc<[f64]>,
}

impl Figures {
    /// Returns the number of a metric, if there is one.
    pub fn get(&self, metric: &str) -> Option<f64> {
        let at = self.names.iter().position(|name| **name == *metric)?;
        Some(self.values[at])
    }

    /// Returns the names with their numbers, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.names.iter().map(|name| &**name).zip(self.values.iter().copied())
    }

    /// Returns the names, in order.
    pub(crate) fn names(&self) -> &Arc<[Box<str>]> {
        &self.names
    }

    /// Returns true if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Shares the memory of the names with another run, if the names are equal.
    pub(super) fn share(&mut self, other: &Figures) {
        if self.names == other.names {
            self.names = Arc::clone(&other.names);
        }
    }
}

impl FromIterator<(String, f64)> for Figures {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(numbers: I) -> Figures {
        let numbers = numbers.into_iter().map(|(name, number)| (name.into(), number));
        Figures::of(numbers.collect())
    }
}

impl Figures {
    fn of(mut numbers: Vec<(Cow<'_, str>, f64)>) -> Figures {
        numbers.sort_by(|(one, _), (other, _)| one.cmp(other));
        let values = numbers.iter().map(|(_, number)| *number).collect();
        let names = numbers.iter().map(|(name, _)| &**name);
        NAMES.with_borrow_mut(|last| {
            let known = last.get(&numbers.len());
            let known = known.filter(|known| known.iter().map(|name| &**name).eq(names.clone()));
            let names = known.cloned().unwrap_or_else(|| names.map(Box::from).collect());
            last.insert(numbers.len(), Arc::clone(&names));
            Figures { names, values }
        })
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Figures, D::Error> {
        struct Numbers;

        impl<'de> Visitor<'de> for Numbers {
            type Value = Figures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number for each of some metrics")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                #[derive(Deserialize)]
                struct Name<'n>(#[serde(borrow)] Cow<'n, str>);

                let mut numbers = Vec::with_capacity(64);
                while let Some((Name(name), number)) = map.next_entry()? {
                    numbers.push((name, number));
                }
                Ok(Figures::of(numbers))
            }
        }

        from.deserialize_map(Numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_a_map_and_runs_share_their_names() {
        let text = r#"{"mean_ttft_ms":0.01,"output_throughput":0.5}"#;
        let read = || serde_json::from_str::<Figures>(text).expect("a map");
        let (one, mut other) = (read(), read());
        assert_eq!(serde_json::to_string(&one).expect("plain data"), text);
        assert_eq!((one.get("output_throughput"), one.get("duration")), (Some(0.5), None));
        assert!(Arc::ptr_eq(&one.names, &other.names), "read by one thread");
        other.names = other.names.iter().cloned().collect();
        other.share(&one);
        assert!(Arc::ptr_eq(&one.names, &other.names));
        assert_eq!(one, other);
        other.share(&Figures::default());
        assert_eq!(one, other);
    }
}
