//! What a benchmark does besides sending its load: ready check, warm-ups, profiler, probes, and which adapter answers.

use crate::bench::params::reader::Reader;
use crate::rng::PythonRandom;
use std::time::Duration;

/// Warm-ups are all in memory before the run.
const MOST_WARMUPS: u64 = 100_000;

/// The steps around the measurement.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    /// How long to wait for a first request to succeed; `None` for no such check.
    pub ready_timeout: Option<Duration>,
    /// Unmeasured requests before.
    pub num_warmups: usize,
    /// Profile the server during the run.
    pub profile: bool,
    /// Probes a second beside the load, if any.
    pub probe_rate: Option<f64>,
    /// Adapters to choose from.
    pub adapters: Adapters,
}

/// Adapters that stand in for the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adapters {
    /// Their names; none means the model itself.
    pub names: Vec<String>,
    /// In turn, rather than by chance.
    pub in_turn: bool,
}

impl Adapters {
    /// The adapter of each request, without end; by chance as Python's `random.seed(seed)` and `random.choice` draw it.
    pub fn assign(&self, seed: u32) -> impl Iterator<Item = Option<&str>> {
        let mut random = PythonRandom::new(seed.into());
        (0..).map(move |i: usize| {
            let chosen = match self.names.len() {
                0 => None,
                count if self.in_turn => Some(i % count),
                count => Some(random.below(count as u32) as usize),
            };
            chosen.map(|chosen| self.names[chosen].as_str())
        })
    }
}

impl Steps {
    pub(in crate::bench) fn read(reader: &mut Reader<'_>) -> Steps {
        let ready = reader.number(
            "ready_check_timeout_sec",
            "a number of seconds of at least 0",
            |limit| limit >= 0.0,
        );
        let probe = reader.number("probe_request_rate", "a rate of at least 0", |rate| {
            (0.0..1e6).contains(&rate)
        });
        let names = reader.texts("lora_modules");
        let in_turn = match reader.text("lora_assignment").as_deref() {
            None | Some("random") => false,
            Some("round-robin") => true,
            Some(_) => {
                reader.wrong("lora_assignment", "\"random\" or \"round-robin\"");
                false
            }
        };
        Steps {
            ready_timeout: ready
                .filter(|limit| *limit > 0.0)
                .map(|limit| Duration::from_secs_f64(limit.min(1e9))),
            num_warmups: warmups(reader),
            profile: reader.is_set("profile"),
            probe_rate: probe.filter(|rate| *rate > 0.0),
            adapters: Adapters { names, in_turn },
        }
    }
}

fn warmups(reader: &mut Reader<'_>) -> usize {
    let count = reader.count("num_warmups", 0).unwrap_or(0);
    if count > MOST_WARMUPS {
        reader.wrong("num_warmups", &format!("at most {MOST_WARMUPS}"));
    }
    count.min(MOST_WARMUPS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_chosen_in_turn_or_as_python_does() {
        let names = ["A", "B", "C"].map(str::to_owned).to_vec();
        let chosen = |in_turn: bool| {
            let adapters = Adapters {
                names: names.clone(),
                in_turn,
            };
            adapters.assign(0).take(8).flatten().collect::<String>()
        };
        assert_eq!(chosen(true), "ABCABCAB");
        assert_eq!(chosen(false), "BBABCBBB");
        assert_eq!(Adapters::default().assign(0).next(), Some(None));
    }
}
