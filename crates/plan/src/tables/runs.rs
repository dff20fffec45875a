//! The number of runs of a point on one start of its server.

use crate::written::{Definitions, Written, any_of};
use crate::{FromNode, Kind, Node, Reader, table};
use serde_json::{Value, json};
use std::fmt;
use vsweep_strategy::stats::Repeats;

/// Repetitions of every point on one start.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// A fixed number.
    Exactly(u32),
    /// Repeats until the interval of a metric is narrow enough.
    Until {
        /// Name of the metric in the result.
        metric: String,
        /// The width that is enough, and the limits of the number of runs.
        rule: Repeats,
    },
}

any_of! {
    /// Repetitions of every point on each start.
    pub RunsValue {
        /// A fixed number.
        RunCount,
        /// Repeats until it is enough.
        RunsTable,
    }
}

/// A number of repetitions.
struct RunCount;

impl Written for RunCount {
    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "integer", "format": "uint32", "minimum": 1, "maximum": MOST_RUNS})
    }
}

table! {
    /// Repeats a point on a start until the 95 % interval of a metric is within `until` of its mean on either side. An example is `runs
    /// = { min = 2, max = 10, metric = "p99_ttft_ms", until = "3 %" }`. The interval stays valid although it is checked after every
    /// run. It says nothing about other starts.
    #[derive(Debug)]
    pub struct RunsTable("RunsTable", "runs.") {
        /// Least number of runs. Default: 2.
        min: u32 = whole(2..=MOST_RUNS).or(2u32),
        /// Greatest number of runs. Default: 10.
        max: Option<u32> = whole(2..=MOST_RUNS),
        /// The metric of the result. Default: `output_throughput`.
        metric: String = by::<String, _>(|reader, node, what| reader.metric(node, what)).or("output_throughput"),
        /// Half-width of the interval to reach, such as `3 %`.
        until: f64 = by::<String, _>(|reader, node, what| reader.percent(node, what, 0.1..=100.0)).required(
            "`runs` does not say how narrow the interval must be",
            "add until = \"3 %\", or write a plain number of runs",
        ),
    }
    then RunsTable::check
}

/// Maximum number of repetitions of a point on one start.
pub const MOST_RUNS: u32 = 10_000;

impl RunsTable {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let min = self.min;
        if let (Some(node), Some(max)) = (node.child("max"), self.max.filter(|max| *max < min)) {
            let message = format!("`runs.max` is {max}, which is less than `runs.min`, {min}");
            reader.object(node.span, message, format!("write {min} or more"));
        }
    }
}

impl FromNode for Runs {
    type Written = RunsValue;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Runs> {
        if !matches!(node.kind, Kind::Table(_)) {
            return reader.whole(node, what, 1..=MOST_RUNS).map(Runs::Exactly);
        }
        let table = RunsTable::from_node(reader, node, what)?;
        Some(Runs::Until {
            metric: table.metric,
            rule: Repeats {
                min: table.min as usize,
                max: table.max.unwrap_or(10).max(table.min) as usize,
                until: table.until / 100.0,
            },
        })
    }
}

impl Default for Runs {
    fn default() -> Runs {
        Runs::Exactly(3)
    }
}

impl Runs {
    /// Returns the fewest runs of a point on one start.
    pub fn least(&self) -> u32 {
        match self {
            Runs::Exactly(runs) => *runs,
            Runs::Until { rule, .. } => rule.min as u32,
        }
    }

    /// Returns the most runs of a point on one start.
    pub fn most(&self) -> u32 {
        match self {
            Runs::Exactly(runs) => *runs,
            Runs::Until { rule, .. } => rule.max as u32,
        }
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runs::Exactly(runs) => write!(f, "{runs}"),
            Runs::Until { metric, rule } => {
                let percent = rule.until * 100.0;
                write!(
                    f,
                    "{} to {}, until {metric} is known to {percent} %",
                    rule.min, rule.max
                )
            }
        }
    }
}
