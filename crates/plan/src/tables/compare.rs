//! The `[compare]` table: the metrics in which the servers of a plan are compared, the margin, and the limits.

use crate::{Node, Reader, table};
use serde::Serialize;
use std::time::Duration;
use vsweep_strategy::stats::{Better, Margins, split_class};

table! {
    /// Compares the servers of the plan, start by start, until it is decided which is better (docs/verdicts.md). Two servers, the base
    /// first, are measured in pairs of starts. More than two are an ordered axis, such as versions, which is bisected to find where the
    /// metric changes. Not with `starts`, `url`, `[sla]`, `[explore]` or `runs = { until }`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Compare("CompareTable", "compare.") {
        /// Metrics of the result, judged at every load. Default: `output_throughput`, or those of `fail_on` alone.
        pub metrics: Vec<String> = by::<Vec<String>, _>(metrics),
        /// A smaller change does not matter, such as `3 %`. Default: derived from the machine's own noise, if other experiments in this
        /// one's folder show it, else 3 %.
        pub margins as "margin": Margins = by::<String, _>(margin),
        /// At most this many server starts, failed ones included. Default: 40.
        pub max_starts: u32 = whole(8..=1000).or(40u32),
        /// No start begins after this much time in starts, failed ones included, and runs, such as `2h`. Default: no limit.
        pub max_time: Option<Duration>,
        /// Changes that must not happen, such as `p99_ttft_ms:+5%` or `output_throughput:-3%`. `run` and `report` end with exit code 4 if one does, with
        /// 5 if that could not be decided. Two servers only.
        pub fail_on: Vec<Limit> = by::<Vec<String>, _>(limits),
    }
    then Compare::check
}

/// A change of one metric that must not happen, at any load or point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// The change in percent: `+5` forbids ratios above 1.05, `-5` forbids ratios below 0.95.
    pub percent: f64,
}

impl Compare {
    /// Returns every metric that is judged.
    pub fn judged(&self) -> Vec<String> {
        let limited = self.fail_on.iter().map(|limit| &limit.metric);
        self.metrics.iter().chain(limited).cloned().collect()
    }

    fn check(&mut self, _: &mut Reader<'_>, _: &Node) {
        if self.metrics.is_empty() && self.fail_on.is_empty() {
            self.metrics.push("output_throughput".to_owned());
        }
    }
}

impl Limit {
    /// Reads `p99_ttft_ms:+5%`.
    ///
    /// # Errors
    /// Fails with a sentence that names the remedy if the text is not a metric with a signed percentage.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = || format!("`{text}` is not a limit; write a metric and a signed change, such as p99_ttft_ms:+5%");
        let (metric, change) = text.rsplit_once(':').ok_or_else(wrong)?;
        let change = change.trim();
        let digits = change.strip_suffix('%').unwrap_or(change).trim();
        let percent: f64 = digits.parse().map_err(|_| wrong())?;
        let is_signed = digits.starts_with(['+', '-']) && percent != 0.0;
        let metric = metric.trim();
        if !is_signed || !percent.is_finite() || percent <= -100.0 || metric.is_empty() {
            return Err(wrong());
        }
        if split_class(metric).1 == "failed" {
            return Err(format!(
                "`{text}` is a change in percent of a count that is 0 in a good run; write `failed = \"<=0\"` below [[assert]] in the plan"
            ));
        }
        let (good, sign) = match Better::by_name(metric) {
            Some(Better::Higher) if percent > 0.0 => ("more", '-'),
            Some(Better::Lower) if percent < 0.0 => ("less", '+'),
            _ => {
                return Ok(Limit {
                    metric: metric.to_owned(),
                    percent,
                });
            }
        };
        Err(format!(
            "`{text}` forbids an improvement, since {good} {metric} is better; write {metric}:{sign}{}%",
            percent.abs()
        ))
    }
}

fn metrics(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<String>> {
    let remedy = "write a list of metrics, such as [\"output_throughput\"]";
    reader.each(node, what, remedy, |reader, node| reader.metric(node, what))
}

fn margin(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Margins> {
    Some(Margins {
        stated: Some(reader.percent(node, what, 0.1..=100.0)?),
        ..Margins::default()
    })
}

fn limits(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Limit>> {
    const REMEDY: &str = "write a metric and a signed change, such as [\"p99_ttft_ms:+5%\"]";
    reader.each(node, what, REMEDY, |reader, node| {
        let text = reader.text(node, what)?;
        let Limit { metric, percent } = match Limit::parse(&text) {
            Ok(limit) => limit,
            Err(why) => {
                let (what, remedy) = why.split_once("; ").unwrap_or((&why, REMEDY));
                return reader.refuse(node.span, what.to_owned(), remedy);
            }
        };
        let metric = reader.known_metric(metric, node.span)?;
        Some(Limit { metric, percent })
    })
}
