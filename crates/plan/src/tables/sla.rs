//! The `[sla]` table, and the bounds of metrics in targets and assertions.

use crate::written::Scalar;
use crate::{Entry, FromNode, Kind, Node, Reader, Span, Table, suggest, table};
use itertools::Itertools;
use vsweep_strategy::search::{Criterion, RequestLimit, Settings, THROUGHPUTS, Target, Vary};
use vsweep_strategy::stats::split_class;

table! {
    /// The search for the highest load that meets each target, instead of an axis over the load (docs/search.md). Every run sends
    /// `num_prompts` requests; without it, ten for each unit of load, from 200 to 2000. `runs` does not apply.
    #[derive(Debug)]
    pub struct SlaTable("SlaTable", "sla.") {
        /// The load parameter to vary: `max_concurrency` or `request_rate`.
        vary: Option<Vary> = one_of::<Vary, _>().required(
            "[sla] does not say what to vary",
            "add vary = \"max_concurrency\" or \"request_rate\"",
        ),
        /// The lowest load to try. Default: 1 for `max_concurrency`, 0.01 for `request_rate`. A rate is never so low that
        /// sending the requests of a run takes more than 80 % of `bench.timeout`.
        min: Option<f64> = maybe::<f64, _>(load),
        /// The highest load to try. Default: 8192.
        max: Option<f64> = maybe::<f64, _>(load),
        /// Greatest distance of the answer below the true limit, as a ratio; an answer that is less certain says so. Default: 0.05.
        tolerance: f64 = by::<f64, _>(tolerance).or(0.05),
        /// The most runs that each target may request, 2 to 1000. From three quarters of them on, a safe answer ends the search. Default:
        /// 16.
        max_probes: u32 = whole(2..=1000).or(16u32),
        /// Whole runs at the load found, 0 to 100; their pooled requests must meet the target. Default: 1.
        confirmations: u32 = whole(0..=100).or(1u32),
        /// Ends a config's search as soon as another config is known or predicted to hold more (docs/search.md). Default: false.
        skip_beaten: bool,
        /// The targets. They share runs: each run answers every target it can.
        targets as "target": Vec<TargetTable> = key().required(
            "[sla] has no targets",
            "add [[sla.target]] with a bound such as p99_ttft_ms = \"<=500\"",
        ),
    }
    then SlaTable::check
}

table! {
    /// One target. It is met if all its bounds hold. Every other key is a metric of the result such as `p99_ttft_ms`, every value
    /// a bound such as `<=500` (`<=`, `<`, `>=`, `>`). `attainment = ">=99%"` bounds the share of requests within the limits `ttft_ms`,
    /// `tpot_ms` and `e2el_ms` in the same table, such as `ttft_ms = "<500"`.
    #[derive(Debug)]
    pub struct TargetTable("TargetTable", "") {
        /// Name shown in tables.
        name: String,
        /// The class that the bounds are about. Default: all requests.
        class: Option<String>,
        /// Requires that the target is met, for each load: `true` (by some server) or `"all"` (by every server). If it is not, `run`
        /// and `report` end with exit code 4; if that could not be decided, with 5. Default: false; the result is only an answer.
        required: Option<bool> = by::<Scalar, _>(required),
        ..String
    }
    internal {
        /// The bounds.
        criteria: Vec<Criterion>,
        /// Its place in the plan.
        place: Span,
    }
    then TargetTable::check
}

/// Names of latencies in `vllm bench serve`. The name of a metric begins with `mean_`, `median_`, `std_` or a percentile such as `p99_`.
const LATENCIES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// Latencies of a single request that an attainment can bound.
const OF_REQUEST: [&str; 3] = ["ttft_ms", "tpot_ms", "e2el_ms"];

/// Key of the share of requests that are within the limits for single requests.
const ATTAINMENT: &str = "attainment";

/// The throughput of requests that are within the limits of the benchmark.
const GOODPUT: &str = "request_goodput";

/// Metrics of a whole run that a target may bound.
fn totals() -> impl Iterator<Item = &'static str> {
    THROUGHPUTS.into_iter().chain([GOODPUT, "completed", "failed"])
}

impl SlaTable {
    /// Returns the lowest and the highest load to try.
    fn bounds(&self) -> (f64, f64) {
        let defaults = Settings::new(self.vary.unwrap_or(Vary::MaxConcurrency), Vec::new());
        (self.min.unwrap_or(defaults.lower), self.max.unwrap_or(defaults.upper))
    }

    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let is_whole = |load: f64| load >= 1.0 && load.fract() == 0.0;
        for (key, load) in [("min", self.min), ("max", self.max)] {
            let is_wrong = load.is_some_and(|load| self.vary != Some(Vary::RequestRate) && !is_whole(load));
            if let Some(node) = node.child(key).filter(|_| is_wrong) {
                let message = format!("`sla.{key}` must be a whole number of requests in flight");
                reader.object(node.span, message, "write a whole number from 1");
            }
        }
        let (lower, upper) = self.bounds();
        if let Some(node) = node.child("max").or(node.child("min")).filter(|_| lower > upper) {
            let message = format!("the search has no room between {lower} and {upper}");
            reader.object(node.span, message, "make sla.min at most sla.max");
        }
        let asks_all = self.targets.iter().any(|target| target.required == Some(true));
        if let Some(node) = node.child("skip_beaten").filter(|_| self.skip_beaten && asks_all) {
            let message = "`skip_beaten` skips servers, and a target with required = \"all\" needs the answer of each";
            reader.object(node.span, message, "remove it, or write required = true");
        }
        for (position, target) in self.targets.iter().enumerate() {
            let is_taken = self.targets[..position].iter().any(|other| other.name == target.name);
            // A target without a valid bound may have no name.
            if is_taken && !target.name.is_empty() {
                let message = format!("two targets are called `{}`", target.name);
                reader.object(target.place, message, "give each a name of its own");
            }
        }
    }
}

impl TargetTable {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let criteria = reader.criteria("this target", node, &TargetTable::others(node));
        self.criteria = of_class(criteria, self.class.as_deref());
        self.place = node.span;
        if self.name.is_empty() {
            self.name = self.criteria.iter().join(", ");
        }
    }
}

/// Returns the bounds; if a class is named, they apply to its requests only.
pub(crate) fn of_class(criteria: Vec<Criterion>, class: Option<&str>) -> Vec<Criterion> {
    criteria
        .into_iter()
        .map(|criterion| criterion.of_class(class))
        .collect()
}

/// Builds the search that the table describes. The reader notes the required targets, and the matrix sets the number of requests.
impl FromNode for Settings {
    type Written = SlaTable;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Settings> {
        let table = SlaTable::from_node(reader, node, what)?;
        let required = table.targets.iter();
        let required = required.filter_map(|target| Some((target.name.clone(), target.required?)));
        reader.required.extend(required);
        let targets = table.targets.iter().map(|target| Target {
            name: target.name.clone(),
            criteria: target.criteria.clone(),
        });
        let (lower, upper) = table.bounds();
        Some(Settings {
            lower,
            upper,
            tolerance: table.tolerance,
            max_probes: table.max_probes as usize,
            confirmations: table.confirmations as usize,
            skip_beaten: table.skip_beaten,
            ..Settings::new(table.vary?, targets.collect())
        })
    }
}

/// Reads `required`: `Some(true)` if every server must meet the target (`"all"`), `Some(false)` if one is enough (`true`), `None` for
/// `false`.
fn required(reader: &mut Reader<'_>, node: &Node, _: &str) -> Option<Option<bool>> {
    match &node.kind {
        Kind::Bool(false) => Some(None),
        Kind::Bool(true) => Some(Some(false)),
        Kind::Text(text) if text == "all" => Some(Some(true)),
        _ => {
            let remedy = "write true (some server must meet the target) or \"all\" (every server)";
            reader.refuse(node.span, "`required` is neither true, false nor \"all\"", remedy)
        }
    }
}

/// Reads a bound of the loads that a search tries. The lowest value allowed, a rate of one request in 17 minutes, is below any useful load.
fn load(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    reader.ratio(node, what, 0.001..=1e6)
}

fn tolerance(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    let percent = match &node.kind {
        Kind::Number(number) => number.as_f64().filter(|value| *value > 1.0 && *value <= 100.0),
        Kind::Text(text) => {
            let percent = text.trim().strip_suffix('%');
            percent.and_then(|percent| percent.trim().parse().ok())
        }
        _ => None,
    };
    match percent {
        Some(percent) => {
            let remedy = format!("write {} for {percent} %", percent / 100.0);
            reader.refuse(node.span, format!("`{what}` must be a ratio from 0.001 to 1"), remedy)
        }
        None => reader.ratio(node, what, 0.001..=1.0),
    }
}

impl Reader<'_> {
    /// Reads the bounds of a target or an assertion, which messages call `whose`.
    pub(crate) fn criteria(&mut self, whose: &str, node: &Node, entries: &[&Entry]) -> Vec<Criterion> {
        if entries.is_empty() {
            let remedy = "add a bound such as p99_ttft_ms = \"<=500\"";
            self.object(node.span, format!("{whose} has no bounds"), remedy);
        }
        let is_of_request = |entry: &&&Entry| OF_REQUEST.contains(&entry.key.as_str());
        let limits = entries
            .iter()
            .filter(is_of_request)
            .filter_map(|entry| self.read(entry, |condition| RequestLimit::parse(&entry.key, condition)));
        let limits: Vec<RequestLimit> = limits.collect();
        let share = entries.iter().find(|entry| entry.key == ATTAINMENT);
        if let (None, Some(limit)) = (share, entries.iter().find(is_of_request)) {
            let message = format!("`{}` is a limit for single requests", limit.key);
            let remedy = "say how many must keep it, such as attainment = \">=99%\", or bound p99_ttft_ms";
            self.object(limit.key_span, message, remedy);
        }
        let attainment = share.and_then(|entry| self.read(entry, |share| Criterion::attainment(limits, share)));
        let metrics = entries
            .iter()
            .filter(|entry| !is_of_request(entry) && entry.key != ATTAINMENT);
        let metrics: Vec<Criterion> = metrics.filter_map(|entry| self.criterion(entry)).collect();
        attainment.into_iter().chain(metrics).collect()
    }

    fn criterion(&mut self, entry: &Entry) -> Option<Criterion> {
        if !is_metric(&entry.key) {
            let others = OF_REQUEST.into_iter().chain([ATTAINMENT]).map(String::from);
            return self.no_metric(entry.key_span, &entry.key, known_metrics().chain(others));
        }
        self.read(entry, |condition| {
            let criterion = Criterion::metric(&entry.key, condition)?;
            objection(&entry.key, &criterion).map_or(Ok(criterion), Err)
        })
    }

    /// Reads the name of a metric of the result.
    pub(crate) fn metric(&mut self, node: &Node, what: &str) -> Option<String> {
        let name = self.text(node, what)?;
        self.known_metric(name, node.span)
    }

    /// Returns the name if the result may have a metric of this name; otherwise reports an unknown metric.
    pub(crate) fn known_metric(&mut self, name: String, span: Span) -> Option<String> {
        match is_metric(split_class(&name).1) {
            true => Some(name),
            false => self.no_metric(span, &name, known_metrics()),
        }
    }

    fn no_metric<T>(&mut self, span: Span, name: &str, known: impl Iterator<Item = String>) -> Option<T> {
        self.refuse(span, format!("no metric is called `{name}`"), suggest(name, known))
    }

    /// Reads a bound by `read`, whose error consists of a message and, after `; `, a remedy.
    fn read<T>(&mut self, entry: &Entry, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if let Kind::Number(number) = &entry.value.kind {
            let message = format!("`{}` needs a comparison", entry.key);
            let sign = match entry.key == ATTAINMENT || is_throughput(&entry.key) {
                true => ">=",
                false => "<=",
            };
            return self.refuse(entry.value.span, message, format!("write \"{sign}{number}\""));
        }
        let condition = self.text(&entry.value, &entry.key)?;
        read(&condition).map_or_else(
            |why| {
                let without_remedy = (why.as_str(), "write a bound such as \"<=500\"");
                let (message, remedy) = why.split_once("; ").unwrap_or(without_remedy);
                self.refuse(entry.value.span, message, remedy)
            },
            Some,
        )
    }
}

/// Returns true for metrics that are better when higher, so that a target bounds them from below.
fn is_throughput(metric: &str) -> bool {
    metric == GOODPUT || THROUGHPUTS.contains(&metric)
}

/// Returns the objection to a bound that makes no sense: it is on the latency of a single request, on the wrong side, or not above 0.
fn objection(key: &str, criterion: &Criterion) -> Option<String> {
    let (operator, limit) = (criterion.operator, criterion.limit);
    let latency = key.split_once('_').filter(|(_, rest)| LATENCIES.contains(rest));
    let is_throughput = is_throughput(key);
    if latency.is_none() && !is_throughput {
        return None;
    }
    if let Some((extreme @ ("p0" | "p100"), name)) = latency {
        return Some(format!(
            "`{key}` is the latency of a single request ({extreme}), which no share of requests bounds; bound p99_{name}, or \
             another percentile between 0 and 100"
        ));
    }
    if operator.is_upper_bound() == is_throughput {
        let (good, sign) = match is_throughput {
            true => ("high", ">="),
            false => ("low", "<="),
        };
        return Some(format!(
            "`{key}` is better when it is {good}, and this bounds the good side; write a bound such as \"{sign}{limit}\""
        ));
    }
    (limit <= 0.0).then(|| format!("`{key}{operator}{limit}` bounds nothing; write a limit above 0"))
}

/// Names of the usual metrics of a result, for suggestions.
fn known_metrics() -> impl Iterator<Item = String> {
    let latencies = LATENCIES
        .iter()
        .flat_map(|name| [format!("p99_{name}"), format!("mean_{name}")]);
    latencies.chain(totals().map(String::from))
}

/// Returns true if a result may contain a metric of this name.
fn is_metric(name: &str) -> bool {
    let Some((statistic, _)) = name.split_once('_').filter(|(_, rest)| LATENCIES.contains(rest)) else {
        return totals().any(|total| total == name);
    };
    let percentile = statistic.strip_prefix('p').and_then(|text| text.parse::<f64>().ok());
    ["mean", "median", "std"].contains(&statistic) || percentile.is_some_and(|percent| (0.0..=100.0).contains(&percent))
}
