//! Writing a page of metrics in the Prometheus text format, with vLLM's labels. What is told is the business of `metrics`.

use crate::sim::engine::stats::Histogram;
use std::fmt::Write;

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// A page in the making.
pub struct Page {
    text: String,
    model: String,
}

impl Page {
    /// An empty page about engines that serve this model.
    pub fn new(model: &str) -> Page {
        Page {
            text: String::with_capacity(16 << 10),
            model: model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
        }
    }

    /// What was written.
    pub fn text(self) -> String {
        self.text
    }

    /// A gauge: the engine, labels and value of each sample.
    pub fn gauge(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (usize, Labels, f64)>) {
        self.metric(&format!("vllm:{name}"), "gauge", help, samples);
    }

    /// The same of a counter; `name` without `_total`.
    pub fn counter(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (usize, Labels, f64)>) {
        self.metric(&format!("vllm:{name}_total"), "counter", help, samples);
    }

    /// A histogram of each engine.
    pub fn histogram<'h>(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (usize, &'h Histogram)>) {
        self.head(&format!("vllm:{name}"), "histogram", help);
        for (engine, histogram) in samples {
            let mut below = 0;
            let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}"));
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&histogram.counts) {
                below += count;
                self.sample_of(
                    &format!("vllm:{name}_bucket"),
                    engine,
                    vec![("le", bound)],
                    below as f64,
                );
            }
            self.sample_of(&format!("vllm:{name}_count"), engine, vec![], below as f64);
            self.sample_of(&format!("vllm:{name}_sum"), engine, vec![], histogram.sum);
        }
    }

    /// A gauge that is not of a model, by its whole name: labels and value of each sample.
    pub fn bare_gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (Labels, f64)>) {
        self.head(name, "gauge", help);
        samples
            .into_iter()
            .for_each(|(labels, value)| self.sample(name, labels, value));
    }

    fn metric(&mut self, name: &str, kind: &str, help: &str, samples: impl Iterator<Item = (usize, Labels, f64)>) {
        self.head(name, kind, help);
        samples.for_each(|(engine, labels, value)| self.sample_of(name, engine, labels, value));
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample_of(&mut self, name: &str, engine: usize, mut labels: Labels, value: f64) {
        labels.extend([("engine", engine.to_string()), ("model_name", self.model.clone())]);
        self.sample(name, labels, value);
    }

    /// One sample, its labels in alphabetical order as Python's client writes them.
    fn sample(&mut self, name: &str, mut labels: Labels, value: f64) {
        labels.sort_unstable();
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{name}{labels} {value:?}");
    }
}
