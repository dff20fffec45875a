//! The result of one run: figures by their keys, and columns with one entry per request. Columns are written directly from the timelines,
//! so that a million requests need not be in memory twice.

use super::moments::seconds;
use super::sample::Sample;
use super::samples::Samples;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A function that returns the entry of a column for a request.
type ColumnEntry = fn(Sample) -> Value;

/// Lists with one entry per request, in the order of the requests, by the keys of `vllm bench serve`. Times are in seconds: `start_times`
/// since the run's start (t0), `queue_times` from the moment at which a request was due until it was sent. A failed request has latency and
/// output length 0, and keeps its other times.
pub const COLUMNS: [(&str, ColumnEntry); 9] = [
    ("input_lens", |sample| sample.prompt_len.into()),
    ("output_lens", |sample| sample.output_len().into()),
    ("ttfts", |sample| seconds(sample.ttft()).into()),
    ("itls", |sample| sample.events.into_gaps().map(seconds).collect()),
    // A latency of 0 marks a failed request, in case the errors are not in the file.
    ("latencies", |sample| match sample.is_ok() {
        true => seconds(sample.latency()).into(),
        false => 0.0.into(),
    }),
    ("start_times", |sample| seconds(sample.sent).into()),
    ("queue_times", |sample| seconds(sample.queue()).into()),
    ("generated_texts", |sample| sample.text.unwrap_or_default().into()),
    ("errors", |sample| sample.error.unwrap_or_default().into()),
];

/// A column with the timelines from which its entries are made.
struct Cells<'a>(fn(Sample) -> Value, &'a Samples);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.1.in_order().map(self.0))
    }
}

/// The result of one run, in the order of a result file.
#[derive(Debug, Clone, Default)]
pub struct RunResult {
    /// Figures and settings. The value of a column's key is null.
    pub values: Map<String, Value>,
    samples: Option<Arc<Samples>>,
}

impl RunResult {
    /// A result in which every null under a column's key is replaced by the column.
    pub fn new(values: Map<String, Value>, samples: Samples) -> RunResult {
        RunResult {
            values,
            samples: Some(Arc::new(samples)),
        }
    }

    /// Returns a figure or a setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns the values whose keys `is_wanted` accepts, with their columns.
    pub fn only(&self, is_wanted: impl Fn(&str) -> bool) -> RunResult {
        let values = self.values.iter().filter(|(key, _)| is_wanted(key));
        RunResult {
            values: values.map(|(key, value)| (key.clone(), value.clone())).collect(),
            samples: self.samples.clone(),
        }
    }

    /// Returns everything as values, including columns.
    pub fn to_values(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("numbers and texts are JSON") {
            Value::Object(values) => values,
            _ => Map::new(),
        }
    }

    fn column(&self, key: &str, value: &Value) -> Option<Cells<'_>> {
        let samples = self.samples.as_ref().filter(|_| value.is_null())?;
        let (_, entry) = COLUMNS.into_iter().find(|(name, _)| *name == key)?;
        Some(Cells(entry, samples))
    }
}

impl From<Map<String, Value>> for RunResult {
    fn from(values: Map<String, Value>) -> Self {
        RunResult { values, samples: None }
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.values.len()))?;
        for (key, value) in &self.values {
            match self.column(key, value) {
                Some(cells) => map.serialize_entry(key, &cells)?,
                None => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}
