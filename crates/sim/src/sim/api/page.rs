//! Writing a page of metrics in the Prometheus text format, as Python's client writes it: every counter and histogram is
//! followed by a gauge of when it was made.

use crate::sim::engine::stats::Histogram;
use std::fmt::Write;

/// Labels of one sample, in the order in which they are written: `le` stands between the two parts.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// What sorts before `le`, such as `engine="0"`.
    pub before: String,
    /// What sorts after it.
    pub after: String,
}

impl Labels {
    /// Labels from their two parts; either may be empty.
    pub fn new(before: impl Into<String>, after: impl Into<String>) -> Labels {
        Labels {
            before: before.into(),
            after: after.into(),
        }
    }

    fn with(&self, between: &str) -> String {
        let parts = [self.before.as_str(), between, self.after.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", parts.join(",")),
        }
    }
}

/// A label's value between its quotes.
pub fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A page in the making.
pub struct Page {
    text: String,
    /// When the counters were made, seconds since 1970.
    created: f64,
}

impl Page {
    /// An empty page.
    pub fn new(created: f64) -> Page {
        Page {
            text: String::with_capacity(64 << 10),
            created,
        }
    }

    /// What was written.
    pub fn text(self) -> String {
        self.text
    }

    /// The lines that introduce a metric; those of no metric if there is no sample.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample.
    fn sample(&mut self, name: &str, labels: &Labels, value: f64) {
        let labels = labels.with("");
        let _ = writeln!(self.text, "{name}{labels} {value:?}");
    }

    /// A metric of one number a sample, and nothing after it.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str, samples: &[(Labels, f64)]) {
        self.head(name, kind, help);
        samples
            .iter()
            .for_each(|(labels, value)| self.sample(name, labels, *value));
    }

    /// A gauge with all its samples.
    pub fn gauge(&mut self, name: &str, help: &str, samples: &[(Labels, f64)]) {
        self.metric(name, "gauge", help, samples);
    }

    /// A counter with all its samples; `name` without `_total`.
    pub fn counter(&mut self, name: &str, help: &str, samples: &[(Labels, f64)]) {
        let total = format!("{name}_total");
        self.metric(&total, "counter", help, samples);
        self.made(name, help, samples.iter().map(|(labels, _)| labels));
    }

    /// A sum and a count without buckets.
    pub fn summary(&mut self, name: &str, help: &str, samples: &[(Labels, u64, f64)]) {
        self.head(name, "summary", help);
        for (labels, count, sum) in samples {
            self.sample(&format!("{name}_count"), labels, *count as f64);
            self.sample(&format!("{name}_sum"), labels, *sum);
        }
        self.made(name, help, samples.iter().map(|(labels, ..)| labels));
    }

    /// A histogram with all its samples.
    pub fn histogram(&mut self, name: &str, help: &str, samples: &[(Labels, &Histogram)]) {
        self.head(name, "histogram", help);
        for (labels, histogram) in samples {
            let mut below = 0;
            let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}"));
            for (bound, count) in bounds.chain(["+Inf".to_string()]).zip(&histogram.counts) {
                below += count;
                let labels = labels.with(&format!("le=\"{bound}\""));
                let _ = writeln!(self.text, "{name}_bucket{labels} {:?}", below as f64);
            }
            self.sample(&format!("{name}_count"), labels, below as f64);
            self.sample(&format!("{name}_sum"), labels, histogram.sum);
        }
        self.made(name, help, samples.iter().map(|(labels, _)| labels));
    }

    fn made<'l>(&mut self, name: &str, help: &str, labels: impl Iterator<Item = &'l Labels>) {
        let name = format!("{name}_created");
        self.head(&name, "gauge", help);
        labels.for_each(|labels| self.sample(&name, labels, self.created));
    }
}
