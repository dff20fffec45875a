//! When requests are due, from parameters, and the sentences about it.

use crate::bench::native::settings::Settings;
use crate::bench::params::reader::Reader;
use crate::load::arrival::{Arrivals, Ramp, RampShape};

impl Settings {
    /// The sentences of `vllm bench serve` about the load to come.
    pub fn traffic(&self) -> Vec<String> {
        if self.self_timed {
            return vec!["Self timing is set, using the timestamps from the trace file.".to_owned()];
        }
        let float = |number: f64| {
            if number.is_infinite() {
                "inf".to_owned()
            } else {
                format!("{number:?}")
            }
        };
        let shape = if self.arrivals.burstiness == 1.0 {
            "Poisson process"
        } else {
            "Gamma distribution"
        };
        let mut sentences = match self.arrivals.ramp {
            Some(Ramp { shape, start, end }) => vec![
                format!("Traffic ramp-up strategy: {}.", shape.name()),
                format!("Will increase RPS from {start} to {end} RPS over the duration of the benchmark."),
            ],
            None => vec![format!("Traffic request rate: {}", float(self.arrivals.rate))],
        };
        sentences.push(format!(
            "Burstiness factor: {} ({shape})",
            float(self.arrivals.burstiness)
        ));
        let limit = self
            .max_concurrency
            .map_or("None".to_owned(), |limit| limit.to_string());
        sentences.push(format!("Maximum request concurrency: {limit}"));
        if let Some(rate) = self.steps.probe_rate {
            sentences.push(format!("Probe request rate: {} req/s", float(rate)));
        }
        sentences
    }
}

impl Reader<'_> {
    pub(in crate::bench) fn arrivals(&mut self) -> Arrivals {
        let rate = self.number("request_rate", "a number above 0, or \"inf\"", |rate| rate > 0.0);
        let burstiness = self
            .number("burstiness", "a number above 0, or \"inf\"", |shape| shape > 0.0)
            .unwrap_or(1.0);
        let is_rate = |rate: f64| (0.0..1e9).contains(&rate);
        let start = self.number("ramp_up_start_rps", "a rate of at least 0", is_rate);
        let end = self.number("ramp_up_end_rps", "a rate of at least 0", is_rate);
        let shape = match self.text("ramp_up_strategy").as_deref() {
            None => None,
            Some("linear") => Some(RampShape::Linear),
            Some("exponential") => Some(RampShape::Exponential),
            Some(_) => {
                self.wrong("ramp_up_strategy", "\"linear\" or \"exponential\"");
                None
            }
        };
        let ramp = match (shape, start, end) {
            (None, None, None) => None,
            (Some(shape), Some(start), Some(end)) if 0.0 < start && start <= end => Some(Ramp { shape, start, end }),
            (Some(_), Some(_), Some(_)) => {
                self.wrong("ramp_up_start_rps", "above 0 and at most ramp_up_end_rps");
                None
            }
            _ if self.problems.is_empty() => {
                self.problems.push(
                    "a ramp needs all of ramp_up_strategy, ramp_up_start_rps and ramp_up_end_rps; add what is missing"
                        .to_owned(),
                );
                None
            }
            _ => None,
        };
        if ramp.is_some() && rate.is_some_and(f64::is_finite) {
            self.problems
                .push("request_rate cannot be given together with a ramp; remove one".to_owned());
        }
        Arrivals {
            rate: rate.unwrap_or(f64::INFINITY),
            burstiness,
            ramp,
        }
    }
}
