//! A page of metrics with one sample for each engine, labelled as vLLM labels them. What is told is the business of
//! `metrics`.

use super::page::{Labels, Page};
use crate::sim::driver::Snapshot;
use crate::sim::engine::stats::Histogram;

/// A number of an engine.
pub(super) type Of = fn(&Snapshot) -> f64;
/// A histogram of an engine.
pub(super) type OfHistogram = for<'s> fn(&'s Snapshot) -> &'s Histogram;

/// A page with one sample for each engine.
pub(super) struct Engines<'s> {
    pub(super) page: Page,
    /// The model's name as a label's value.
    pub(super) model: String,
    pub(super) states: &'s [Snapshot],
}

impl Engines<'_> {
    /// Labels of an engine's sample; `before` and `after` sort before and after `model_name`.
    pub(super) fn labels(&self, engine: usize, before: &str, after: &str) -> Labels {
        let comma = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!(",{text}")
            }
        };
        let model = &self.model;
        Labels::new(
            format!("engine=\"{engine}\"{}", comma(before)),
            format!("model_name=\"{model}\"{}", comma(after)),
        )
    }

    fn samples(&self, parts: &[(&str, &str, Of)]) -> Vec<(Labels, f64)> {
        let each = |(engine, state)| {
            parts
                .iter()
                .map(move |(before, after, of)| (self.labels(engine, before, after), of(state)))
        };
        self.states.iter().enumerate().flat_map(each).collect()
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, parts: &[(&str, &str, Of)]) {
        let samples = self.samples(parts);
        self.page.gauge(&format!("vllm:{name}"), help, &samples);
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, of: Of) {
        self.counter_by(name, help, &[("", "", of)]);
    }

    pub(super) fn counter_by(&mut self, name: &str, help: &str, parts: &[(&str, &str, Of)]) {
        let samples = self.samples(parts);
        self.page.counter(&format!("vllm:{name}"), help, &samples);
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, of: OfHistogram) {
        let states = self.states.iter().enumerate();
        let samples: Vec<(Labels, &Histogram)> = states
            .map(|(engine, state)| (self.labels(engine, "", ""), of(state)))
            .collect();
        self.page.histogram(&format!("vllm:{name}"), help, &samples);
    }
}
