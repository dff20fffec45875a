//! The `timed_trace` dataset: recorded traffic with the times, lengths and shared prefixes of its requests.
//!
//! Prefixes are identified by the hashes of their chunks: equal hashes become equal tokens. The tokens of a chunk are those of `vllm bench
//! serve` under `PYTHONHASHSEED=0`. Without that setting, the tokens of `vllm bench serve` differ from run to run.

use super::kind::PATH;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Material, Prompt, Traits};
use crate::Backend;
use crate::params::ParamReader;
use serde_json::Value;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher;
use std::path::PathBuf;
use vsweep_metrics::rng::PythonRandom;

/// Upper limit of valid times, in seconds. Unix times are far below it.
const LATEST: f64 = 1e11;

pub(super) const KIND: Kind = Kind::of::<TimedTrace>(
    "timed_trace",
    "token ids with the times, lengths and shared prefixes of recorded traffic",
);

crate::params! {
    /// The `timed_trace` dataset.
    pub struct TimedTrace {
        /// Rows of times, lengths and hashes.
        path: PathBuf = PATH,
        /// Tokens per hash of a trace.
        chunk_size: u64 = param("timed_trace_chunk_hash_size").least(1).default("16"),
        /// Seconds in one unit of a trace's timestamps.
        second_multiplier: f64 = param("timed_trace_sec_multiplier")
            .within("a number above 0", |factor| factor > 0.0 && factor.is_finite())
            .default("1"),
        /// Column of the time.
        timestamp: String = param("timed_trace_label_timestamp").default("timestamp"),
        /// Column of the prompt tokens.
        input_length: String = param("timed_trace_label_input_length").default("input_length"),
        /// Column of the output tokens.
        output_length: String = param("timed_trace_label_output_length").default("output_length"),
        /// Column of the chunk hashes.
        hash_ids: String = param("timed_trace_label_hash_ids").default("hash_ids"),
    }
}

impl Dataset for TimedTrace {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::TokenIds,
            fixes_outputs: true,
            is_timed: true,
            // Any chunk may be one of an earlier prompt.
            shared_share: 1.0,
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, _: usize, reader: &mut ParamReader<'_>) {
        if backend != Backend::Completions {
            reader.problem("dataset_name timed_trace sends token ids to be continued; set backend to openai");
        }
    }

    fn lasts_s(&self, num_prompts: usize) -> Option<f64> {
        let rows = rows::read(&self.path).ok()?;
        let times = rows.iter().take(num_prompts).map(|row| row.number(&self.timestamp));
        let times = times.collect::<Result<Vec<f64>, String>>().ok()?;
        let last = times.iter().copied().reduce(f64::max)?;
        let first = times.iter().copied().reduce(f64::min)?;
        Some((last - first) * self.second_multiplier)
    }

    /// Returns the requests in the order of their rows; [`sort_by_time`] sorts them.
    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let rows = rows::read(&self.path)?;
        let allowed = vocabulary.allowed_with_added()?;
        let mut chunks: HashMap<(String, u64), Vec<u32>> = HashMap::new();
        let taken = rows.iter().take(sampling.num_prompts).enumerate();
        let items = taken
            .map(|(i, row)| {
                let mut left = row.count(&self.input_length)?;
                let mut ids = Vec::new();
                for hash in self.hashes(row)? {
                    let size = left.min(self.chunk_size);
                    if size == 0 {
                        break;
                    }
                    let chunk = (hash, size);
                    let tokens = chunks
                        .entry(chunk)
                        .or_insert_with_key(|(hash, size)| tokens_of(hash, *size, &allowed));
                    ids.extend_from_slice(tokens);
                    left -= size;
                }
                if ids.is_empty() {
                    let problem = format!("no tokens for a prompt; \"{}\" must be a list of hashes", self.hash_ids);
                    return Err(row.wrong(&problem));
                }
                let (length, output) = (ids.len() as u64, row.count(&self.output_length)?);
                let mut item = Item::new(i, Prompt::Ids(ids), length, output);
                if output == 0 {
                    let problem = format!("\"{}\" is less than a token; correct or remove the row", self.output_length);
                    return Err(row.wrong(&problem));
                }
                let time = row.number(&self.timestamp)? * self.second_multiplier;
                if !(0.0..LATEST).contains(&time) {
                    let problem = format!(
                        "its time is {time} s after 0, later than 10^11 s; correct \"{}\" or the seconds that a unit of it has",
                        self.timestamp
                    );
                    return Err(row.wrong(&problem));
                }
                item.timestamp = Some(time);
                Ok(item)
            })
            .collect::<Result<Vec<Item>, String>>()?;
        self.check_lengths(&items, &rows)?;
        Ok(items)
    }
}

impl TimedTrace {
    /// Checks that the prompts have at least half of the tokens that the trace says. With fewer, each hash covers more than `chunk_size`.
    fn check_lengths(&self, items: &[Item], rows: &[DataRow]) -> Result<(), String> {
        let lengths = rows.iter().zip(items).map(|(row, _)| row.count(&self.input_length));
        let said: u64 = lengths.sum::<Result<u64, String>>()?;
        let drawn: u64 = items.iter().map(|item| item.prompt_len).sum();
        if 2 * drawn >= said {
            return Ok(());
        }
        let size = (self.chunk_size * said).div_ceil(drawn.max(1)).next_power_of_two();
        Err(format!(
            "{}: its prompts have {drawn} tokens, of {said} by \"{}\"; set timed_trace_chunk_hash_size to the tokens of a hash, such as {size}",
            self.path.display(),
            self.input_length
        ))
    }

    fn hashes(&self, row: &DataRow) -> Result<Vec<String>, String> {
        let hashes = row.fields.get(&self.hash_ids).and_then(Value::as_array);
        let Some(hashes) = hashes else {
            let problem = format!(
                "no list of hashes in \"{}\"; name its column with timed_trace_label_hash_ids",
                self.hash_ids
            );
            return Err(row.wrong(&problem));
        };
        let text = |hash: &Value| hash.as_str().map_or_else(|| hash.to_string(), str::to_owned);
        Ok(hashes.iter().map(text).collect())
    }
}

/// Sorts requests by their times. Returns the times, in seconds after the first one.
pub fn sort_by_time(items: &mut [Item]) -> Vec<f64> {
    let time = |item: &Item| item.timestamp.unwrap_or(0.0);
    items.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let first = items.first().map_or(0.0, time);
    items.iter().map(|item| time(item) - first).collect()
}

/// Returns the tokens of a chunk, in Python: `Random(hash(f"{hash}:{size}") & 0xffffffff).choices(allowed, k=size)`.
fn tokens_of(hash: &str, size: u64, allowed: &[u32]) -> Vec<u32> {
    let mut random = PythonRandom::new(python_hash(&format!("{hash}:{size}")) & 0xffff_ffff);
    (0..size)
        .map(|_| allowed[random.choices_index(allowed.len())])
        .collect()
}

/// CPython's hash of an ASCII text when `PYTHONHASHSEED` is 0.
fn python_hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::{Sampling, Vocabulary};
    use super::*;

    #[test]
    fn hashes_are_those_of_an_unsalted_cpython() {
        let low = |text| python_hash(text) & 0xffff_ffff;
        assert_eq!(
            (low("1:16"), low("9:16"), low("2:4")),
            (4_276_743_264, 4_016_882_020, 2_500_958_548)
        );
    }

    #[test]
    fn rows_that_cannot_be_sent_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        let refusal = |output: u64, second_multiplier: f64| {
            let row = format!(r#"{{"timestamp": 3, "input_length": 4, "output_length": {output}, "hash_ids": [1]}}"#);
            std::fs::write(&path, row).expect("written");
            let trace = TimedTrace {
                path: path.clone(),
                chunk_size: 16,
                second_multiplier,
                timestamp: "timestamp".to_owned(),
                input_length: "input_length".to_owned(),
                output_length: "output_length".to_owned(),
                hash_ids: "hash_ids".to_owned(),
            };
            let sampling = Sampling {
                num_prompts: 1,
                seed: 0,
                shuffle: false,
                oversample: false,
            };
            trace.draw(&Draw::of(sampling, &Vocabulary::Ids(260..1000))).err()
        };
        assert_eq!(refusal(5, 0.001), None);
        assert!(refusal(0, 1.0).is_some_and(|why| why.contains("\"output_length\" is less than a token")));
        for multiplier in [1e300, f64::INFINITY] {
            assert!(refusal(5, multiplier).is_some_and(|why| why.contains("later than 10^11 s")));
        }
    }

    #[test]
    fn requests_are_put_in_the_order_of_their_times() {
        let item = |i: usize, time| Item {
            timestamp: time,
            ..Item::new(i, Prompt::Ids(vec![1]), 1, 1)
        };
        let mut items = [item(0, Some(7.0)), item(1, Some(5.5)), item(2, Some(7.0))];
        let times = sort_by_time(&mut items);
        let ids: Vec<_> = items.iter().filter_map(|item| item.id.as_deref()).collect();
        assert_eq!((ids, times), (vec!["1", "0", "2"], vec![0.0, 1.5, 1.5]));
    }
}
