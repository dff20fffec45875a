//! The result of one run: figures by their keys, and columns with one entry a request. Columns are written straight from
//! the timelines, so that a million requests need not be in memory twice.

use super::moments::seconds;
use super::sample::Sample;
use super::samples::Samples;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A list with one entry a request, in the order of the requests; keys of `vllm bench serve`. Times are in seconds and 0 for
/// failed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Prompt tokens.
    InputLens,
    /// Output tokens.
    OutputLens,
    /// Times to first token.
    Ttfts,
    /// Lists of gaps between output events.
    Itls,
    /// End-to-end latencies.
    Latencies,
    /// When each was sent, after t0; of failed ones too.
    StartTimes,
    /// Waits between due and sent; of failed ones too.
    QueueTimes,
    /// What was generated.
    GeneratedTexts,
    /// Why each failed; empty for those that did not.
    Errors,
}

impl Column {
    /// Every column under its key, in the order of a result file.
    pub const KEYS: [(&str, Column); 9] = [
        ("input_lens", Column::InputLens),
        ("output_lens", Column::OutputLens),
        ("ttfts", Column::Ttfts),
        ("itls", Column::Itls),
        ("latencies", Column::Latencies),
        ("start_times", Column::StartTimes),
        ("queue_times", Column::QueueTimes),
        ("generated_texts", Column::GeneratedTexts),
        ("errors", Column::Errors),
    ];

    fn named(name: &str) -> Option<Column> {
        let (_, column) = Column::KEYS.into_iter().find(|(key, _)| *key == name)?;
        Some(column)
    }
}

/// A column with the timelines it is made from.
struct Cells<'a>(Column, &'a Samples);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let samples = || self.1.in_order();
        // A latency of 0 is the mark of a failed request where the errors are not in the file.
        let latency = |sample: Sample| if sample.is_ok() { seconds(sample.latency()) } else { 0.0 };
        match self.0 {
            Column::InputLens => to.collect_seq(samples().map(|sample| sample.prompt_len)),
            Column::OutputLens => to.collect_seq(samples().map(|sample| sample.output_len())),
            Column::Ttfts => to.collect_seq(samples().map(|sample| seconds(sample.ttft()))),
            Column::Itls => {
                let gaps = |sample: Sample| -> Vec<f64> { sample.gaps().map(seconds).collect() };
                to.collect_seq(samples().map(gaps))
            }
            Column::Latencies => to.collect_seq(samples().map(latency)),
            Column::StartTimes => to.collect_seq(samples().map(|sample| seconds(sample.sent))),
            Column::QueueTimes => to.collect_seq(samples().map(|sample| seconds(sample.queue()))),
            Column::GeneratedTexts => to.collect_seq(samples().map(|sample| sample.text.unwrap_or_default())),
            Column::Errors => to.collect_seq(samples().map(|sample| sample.error.unwrap_or_default())),
        }
    }
}

/// What is known of one run, in the order of a result file.
#[derive(Debug, Clone, Default)]
pub struct RunResult {
    /// Figures and settings; the key of a column holds null.
    pub values: Map<String, Value>,
    samples: Option<Arc<Samples>>,
}

impl RunResult {
    /// With columns, wherever a value has a column's name and is null.
    pub fn new(values: Map<String, Value>, samples: Samples) -> RunResult {
        RunResult {
            values,
            samples: Some(Arc::new(samples)),
        }
    }

    /// A figure or a setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Those values that `is_wanted` picks by their keys, with their columns.
    pub fn only(&self, is_wanted: impl Fn(&str) -> bool) -> RunResult {
        let values = self.values.iter().filter(|(key, _)| is_wanted(key));
        RunResult {
            values: values.map(|(key, value)| (key.clone(), value.clone())).collect(),
            samples: self.samples.clone(),
        }
    }

    /// All of it as values, columns too.
    pub fn to_values(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("numbers and texts are JSON") {
            Value::Object(values) => values,
            _ => Map::new(),
        }
    }

    fn column(&self, key: &str, value: &Value) -> Option<Cells<'_>> {
        let samples = self.samples.as_ref().filter(|_| value.is_null())?;
        Some(Cells(Column::named(key)?, samples))
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
