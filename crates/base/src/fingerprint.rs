//! Properties by which the servers behind one address are distinguished, and the differences that count as a change. Nothing here contacts
//! a server: callers fill in the fields. A field that is unknown on either side never differs.

use crate::units::show_count;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Largest relative difference between KV cache sizes that is ignored. Memory profiling gives each start a slightly different size.
const SAME_CACHE: f64 = 0.02;
/// Largest difference between start times, in seconds, that is ignored. Servers report hundredths of a second.
const SAME_START_SECONDS: f64 = 0.05;
/// Largest number of differences that a message lists. It counts the others.
const MOST_LISTED: usize = 4;

/// Properties that a server reports about itself. An unknown one is never a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fingerprint {
    /// Name of the model it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Folder or hub name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_root: Option<String>,
    /// Version of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Longest sequence, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// Number of engines behind the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<u64>,
    /// Tokens that the KV caches of all engines hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_tokens: Option<u64>,
    /// Settings by name: those of its cache and, if it reports them, of its scheduler and its parallelism.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Start time of its process, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<f64>,
}

/// Difference between two readings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// No known change.
    Same,
    /// It was started again with the same settings.
    Restarted,
    /// It is another server.
    Replaced(Differences),
}

/// Differences between two servers, at least one: the name, the earlier value and the later value of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences(Vec<[String; 3]>);

impl Fingerprint {
    /// Compares with an earlier reading. An earlier start time is not a restart: several equal servers may share one address.
    pub fn change_since(&self, before: &Fingerprint) -> Change {
        match self.differences_from(before) {
            Some(differences) => Change::Replaced(differences),
            None => match (before.started, self.started) {
                (Some(before), Some(now)) if now > before + SAME_START_SECONDS => Change::Restarted,
                _ => Change::Same,
            },
        }
    }

    /// Returns true if both readings come from the same process.
    pub fn is_same_start(&self, other: &Fingerprint) -> bool {
        let both = self.started.zip(other.started);
        both.is_some_and(|(one, other)| (one - other).abs() <= SAME_START_SECONDS)
    }

    /// Returns the differences from an earlier reading, or `None` if both may come from one server.
    pub fn differences_from(&self, before: &Fingerprint) -> Option<Differences> {
        let cache = match (before.kv_cache_tokens, self.kv_cache_tokens) {
            (Some(before), Some(now)) if is_similar_cache(before, now) => (None, None),
            other => other,
        };
        let count = |count: Option<u64>| count.map(show_count);
        let readings = [
            ("model", before.model.clone(), self.model.clone()),
            ("model root", before.model_root.clone(), self.model_root.clone()),
            ("version", before.version.clone(), self.version.clone()),
            ("max_model_len", count(before.max_model_len), count(self.max_model_len)),
            ("engines", count(before.engines), count(self.engines)),
            ("KV cache tokens", count(cache.0), count(cache.1)),
        ];
        let fields = readings.into_iter().map(|(name, before, now)| (name, before.zip(now)));
        let settings = before
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), Some(value.clone()).zip(self.settings.get(name).cloned())));
        let differences = fields.chain(settings).filter_map(|(name, known)| {
            let (before, now) = known.filter(|(before, now)| before != now)?;
            Some([name.to_owned(), before, now])
        });
        let differences: Vec<[String; 3]> = differences.collect();
        (!differences.is_empty()).then_some(Differences(differences))
    }

    /// Merges a later reading of the same server. Fields that it lacks keep their values. The KV cache size stays the first one known, and the
    /// start time becomes the latest.
    pub fn learn(&mut self, later: Fingerprint) {
        let known = std::mem::replace(self, later);
        self.model = self.model.take().or(known.model);
        self.model_root = self.model_root.take().or(known.model_root);
        self.version = self.version.take().or(known.version);
        self.max_model_len = self.max_model_len.or(known.max_model_len);
        self.engines = self.engines.or(known.engines);
        self.kv_cache_tokens = known.kv_cache_tokens.or(self.kv_cache_tokens);
        known.settings.into_iter().for_each(|(name, value)| {
            self.settings.entry(name).or_insert(value);
        });
        self.started = match (known.started, self.started) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
    }
}

fn is_similar_cache(before: u64, now: u64) -> bool {
    let (less, more) = (before.min(now) as f64, before.max(now) as f64);
    more - less <= SAME_CACHE * more
}

impl Differences {
    /// The earlier values: `version 0.31.0, max_num_seqs 64`.
    pub fn before(&self) -> String {
        self.list(|[name, before, _]| format!("{name} {before}"))
    }

    /// The later values: `version 0.32.0, max_num_seqs 256`.
    pub fn now(&self) -> String {
        self.list(|[name, _, now]| format!("{name} {now}"))
    }

    fn list(&self, text: impl Fn(&[String; 3]) -> String) -> String {
        let mut differences: Vec<String> = self.0.iter().take(MOST_LISTED).map(text).collect();
        if let more @ 1.. = self.0.len().saturating_sub(MOST_LISTED) {
            differences.push(format!("and {more} more"));
        }
        differences.join(", ")
    }
}

/// `version 0.31.0 became 0.32.0, max_num_seqs 64 became 256`.
impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list(|[name, before, now]| format!("{name} {before} became {now}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Fingerprint {
        Fingerprint {
            model: Some("m".into()),
            model_root: Some("org/m".into()),
            version: Some("0.31.0".into()),
            max_model_len: Some(2048),
            engines: Some(1),
            kv_cache_tokens: Some(100_000),
            settings: [("cache_dtype", "auto"), ("max_num_seqs", "64")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            started: Some(1000.0),
        }
    }

    fn change(now: &Fingerprint) -> String {
        match now.change_since(&server()) {
            Change::Same => "same".into(),
            Change::Restarted => "restarted".into(),
            Change::Replaced(differences) => differences.to_string(),
        }
    }

    #[test]
    fn what_is_unknown_is_no_change() {
        assert_eq!(change(&server()), "same");
        assert_eq!(change(&Fingerprint::default()), "same");
        assert_eq!(server().change_since(&Fingerprint::default()), Change::Same);
        let mut other = server();
        other.settings.remove("max_num_seqs");
        other.settings.insert("new_setting".into(), "1".into());
        assert_eq!(change(&other), "same");
    }

    #[test]
    fn a_start_time_alone_is_a_restart() {
        let started = |at: f64| Fingerprint {
            started: Some(at),
            ..server()
        };
        assert_eq!(change(&started(1000.01)), "same");
        assert_eq!(change(&started(1060.0)), "restarted");
        assert_eq!(change(&started(900.0)), "same", "one of several like servers");
    }

    #[test]
    fn every_difference_is_named() {
        let mut other = Fingerprint {
            version: Some("0.32.0".into()),
            started: Some(2000.0),
            ..server()
        };
        other.settings.insert("max_num_seqs".into(), "256".into());
        assert_eq!(
            change(&other),
            "version 0.31.0 became 0.32.0, max_num_seqs 64 became 256"
        );
        let Change::Replaced(differences) = other.change_since(&server()) else {
            panic!("another server");
        };
        assert_eq!(differences.before(), "version 0.31.0, max_num_seqs 64");
        assert_eq!(differences.now(), "version 0.32.0, max_num_seqs 256");
    }

    #[test]
    fn a_cache_scatters_a_little_from_start_to_start() {
        let cache = |tokens: u64| Fingerprint {
            kv_cache_tokens: Some(tokens),
            ..server()
        };
        assert_eq!(change(&cache(98_500)), "same");
        assert_eq!(change(&cache(90_000)), "KV cache tokens 100,000 became 90,000");
    }

    #[test]
    fn what_was_known_stays_known() {
        let mut known = server();
        known.learn(Fingerprint {
            started: Some(900.0),
            kv_cache_tokens: Some(99_000),
            ..Fingerprint::default()
        });
        assert_eq!(known, server());
    }
}
