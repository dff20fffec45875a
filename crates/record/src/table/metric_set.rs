//! The figures by which the points of a workload are judged. They depend on the kind of load: complete requests, prefill only, decode only,
//! or single batches. Answers, tables and charts take these figures from here, so that they never contradict each other.

use super::{Point, Points, Section, Table, Workload};
use vsweep_strategy::stats::split_class;

/// Latencies of the question "Lowest latency", of which the first measured one is used. Latencies of whole requests come before those of
/// first tokens, and tails before medians and means.
const LATENCIES: [&str; 7] = [
    "p99_e2el_ms",
    "p95_e2el_ms",
    "median_e2el_ms",
    "mean_e2el_ms",
    "p99_ttft_ms",
    "median_ttft_ms",
    "mean_ttft_ms",
];

/// A figure in a table for the terminal.
#[derive(Debug)]
pub struct TableFigure {
    /// The heading of its column.
    pub heading: &'static str,
    /// The metric.
    pub metric: &'static str,
}

/// The figures by which the points of a workload are judged.
#[derive(Debug)]
pub struct MetricSet {
    /// Throughput: the question, and the figure that answers it. More is better.
    pub throughput: (&'static str, &'static str),
    /// Latency: the question, and figures of which the first measured one answers it. Less is better.
    pub latency: (&'static str, &'static [&'static str]),
    /// True if the load is for output tokens, so that speed per user and throughput per GPU are meaningful.
    pub gives_output: bool,
    /// The figures that a table shows.
    pub shown: &'static [TableFigure],
}

const fn shown(heading: &'static str, metric: &'static str) -> TableFigure {
    TableFigure { heading, metric }
}

static REQUESTS: MetricSet = MetricSet {
    throughput: ("Highest throughput", "output_throughput"),
    latency: ("Lowest latency", &LATENCIES),
    gives_output: true,
    shown: &[
        shown("tokens/s", "output_throughput"),
        shown("per GPU", "tokens_per_gpu"),
        shown("per user", "tokens_per_user"),
        shown("p99 TTFT ms", "p99_ttft_ms"),
        shown("p99 TPOT ms", "p99_tpot_ms"),
    ],
};

static PREFILL: MetricSet = MetricSet {
    throughput: ("Highest prefill throughput", "total_throughput"),
    latency: ("Soonest first token", &["p99_ttft_ms", "median_ttft_ms"]),
    gives_output: false,
    shown: &[
        shown("prefill tokens/s", "total_throughput"),
        shown("median TTFT ms", "median_ttft_ms"),
        shown("p99 TTFT ms", "p99_ttft_ms"),
    ],
};

static DECODE: MetricSet = MetricSet {
    throughput: ("Highest decode throughput", "output_throughput"),
    latency: (
        "Shortest gap between tokens",
        &["p99_itl_ms", "median_itl_ms", "p99_ttft_ms"],
    ),
    gives_output: true,
    shown: &[
        shown("tokens/s", "output_throughput"),
        shown("per GPU", "tokens_per_gpu"),
        shown("per user", "tokens_per_user"),
        shown("median ITL ms", "median_itl_ms"),
        shown("p99 ITL ms", "p99_itl_ms"),
    ],
};

static PREFILL_BATCHES: MetricSet = MetricSet {
    throughput: ("Highest prefill throughput", "new_tokens_per_second"),
    latency: ("Shortest prefill", &["first_token_ms", "total_latency_ms"]),
    gives_output: false,
    shown: &[
        shown("new tokens/s", "new_tokens_per_second"),
        shown("prefill ms", "first_token_ms"),
        shown("by server ms", "server_prefill_ms"),
    ],
};

static DECODE_BATCHES: MetricSet = MetricSet {
    throughput: ("Highest decode throughput", "output_throughput"),
    latency: ("Shortest decode step", &["step_ms", "total_latency_ms"]),
    gives_output: true,
    shown: &[
        shown("step ms", "step_ms"),
        shown("by server ms", "server_step_ms"),
        shown("tokens/s", "output_throughput"),
        shown("per GPU", "tokens_per_gpu"),
        shown("per user", "tokens_per_user"),
    ],
};

/// Latencies that are judged for each class of a mixed load.
const CLASS_LATENCIES: [&str; 2] = ["p99_ttft_ms", "p99_tpot_ms"];

impl MetricSet {
    /// Returns the names of the columns that hold the judged latencies of single classes.
    pub fn of_classes(table: &Table) -> impl Iterator<Item = &str> {
        let columns = table
            .columns()
            .iter()
            .filter(|column| column.section == Section::Metric);
        let names = columns.map(|column| column.name.as_str());
        names.filter(|name| matches!(split_class(name), (Some(_), metric) if CLASS_LATENCIES.contains(&metric)))
    }

    /// Returns every metric by which points of any kind are judged.
    pub fn all_metrics() -> impl Iterator<Item = &'static str> {
        let all = [&REQUESTS, &PREFILL, &DECODE, &PREFILL_BATCHES, &DECODE_BATCHES];
        all.into_iter().flat_map(|set| {
            let shown = set.shown.iter().map(|shown| shown.metric);
            shown.chain([set.throughput.1]).chain(set.latency.1.iter().copied())
        })
    }

    /// Returns the metric set of a workload, whose points are of one kind.
    pub fn of(points: &Points<'_>, workload: &Workload<'_>) -> &'static MetricSet {
        let first = workload.points.first().map(|at| &points.points[*at]);
        first.map_or(&REQUESTS, |first| Self::of_point(points, first))
    }

    /// Returns the metric set of a point.
    pub fn of_point(points: &Points<'_>, point: &Point) -> &'static MetricSet {
        let is_set = |name: &str, value: &str| points.param(point, name).to_string() == value;
        let sends_batches = points.runs.column("global_batch_size").is_some();
        match sends_batches {
            true if is_set("mode", "prefill") => &PREFILL_BATCHES,
            true if is_set("mode", "decode") => &DECODE_BATCHES,
            false if is_set("phase", "prefill") => &PREFILL,
            false if is_set("phase", "decode") => &DECODE,
            _ => &REQUESTS,
        }
    }

    /// Returns true if a figure is meaningful for points that are judged by this set.
    pub fn knows(&self, metric: &str) -> bool {
        self.gives_output || !["output_throughput", "tokens_per_gpu", "tokens_per_user"].contains(&metric)
    }

    /// Returns the throughput, per GPU if possible, and the latency by which a workload is judged; each `None` if it was not measured.
    pub fn measured(points: &Points<'_>, workload: &Workload<'_>) -> [Option<&'static str>; 2] {
        let is_measured = |metric: &&str| {
            let mut of_workload = workload.points.iter().map(|at| &points.points[*at]);
            of_workload.any(|point| points.spread(point, metric).is_some())
        };
        let metric_set = MetricSet::of(points, workload);
        let mut throughputs = ["tokens_per_gpu", metric_set.throughput.1].into_iter();
        [
            throughputs.find(|metric| metric_set.knows(metric) && is_measured(metric)),
            metric_set.latency.1.iter().copied().find(is_measured),
        ]
    }
}
