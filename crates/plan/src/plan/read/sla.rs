//! The `[sla]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::problem::suggest;
use crate::plan::{Required, Requirement, Servers, schema};
use std::ops::RangeInclusive;
use vsweep_strategy::search::{Criterion, RequestLimit, Settings, Target, Vary};

/// Latencies by their names in `vllm bench serve`, each with `mean_`, `median_`, `std_` or a percentile before it.
const LATENCIES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// Latencies of a single request, which an attainment bounds.
const OF_REQUEST: [&str; 3] = ["ttft_ms", "tpot_ms", "e2el_ms"];

/// What a target asks to be at least so much.
const THROUGHPUTS: [&str; 4] = [
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
];

/// Metrics of a whole run that a target may bound.
fn totals() -> impl Iterator<Item = &'static str> {
    THROUGHPUTS.into_iter().chain(["completed", "failed"])
}

/// Loads that a search may be bounded by; a rate of a request in 17 minutes is as slow as anybody waits for.
const LOADS: RangeInclusive<f64> = 0.001..=1e6;

impl Reader<'_> {
    /// The search, and which of its targets are required: no part of the search, which does not depend on it.
    pub(super) fn sla(&mut self, node: &Node) -> (Option<Settings>, Vec<Requirement>) {
        let Some(mut fields) = self.open::<schema::SlaTable>(node, "sla") else {
            return Default::default();
        };
        let mut required = Vec::new();
        let vary = self.vary(&mut fields, node, "sla");
        let mut settings = Settings::new(vary.unwrap_or(Vary::MaxConcurrency), Vec::new());
        self.bounds(&mut fields, &mut settings);
        let tolerance = fields.with("tolerance", |node, what| self.tolerance(node, what));
        settings.tolerance = tolerance.unwrap_or(settings.tolerance);
        let count = |given: Option<u32>, usual| given.map_or(usual, |count| count as usize);
        settings.max_probes = count(fields.whole(self, "max_probes"), settings.max_probes);
        settings.confirmations = count(fields.whole(self, "confirmations"), settings.confirmations);
        settings.skip_beaten = fields.yes_or_no(self, "skip_beaten").unwrap_or(false);
        let targets = fields.get("target");
        if targets.is_none() {
            let remedy = "add [[sla.target]] with a bound such as p99_ttft_ms = \"<=500\"";
            self.object(node.span, "[sla] has no targets", remedy);
        }
        let list = targets.and_then(|node| self.list(node, "sla.target", "write each below its own [[sla.target]]"));
        for node in list.unwrap_or_default() {
            let Some((target, servers)) = self.target(node) else {
                continue;
            };
            let what = Required::Target(target.name.clone());
            required.extend(servers.map(|servers| Requirement { what, servers }));
            if settings.targets.iter().any(|other| other.name == target.name) {
                let message = format!("two targets are called `{}`", target.name);
                self.object(node.span, message, "give each a name of its own");
            }
            settings.targets.push(target);
        }
        fields.close(&mut self.found);
        (vary.map(|_| settings), required)
    }

    fn bounds(&mut self, fields: &mut Fields<'_>, settings: &mut Settings) {
        let (min, max) = (fields.get("min"), fields.get("max"));
        for (node, what, bound) in [
            (min, "sla.min", &mut settings.lower),
            (max, "sla.max", &mut settings.upper),
        ] {
            let Some(node) = node else { continue };
            let value = self.ratio(node, what, LOADS);
            if settings.vary == Vary::MaxConcurrency && value.is_some_and(|value| value < 1.0 || value.fract() != 0.0) {
                let message = format!("`{what}` must be a whole number of requests in flight");
                self.object(node.span, message, "write a whole number from 1");
            }
            *bound = value.unwrap_or(*bound);
        }
        if let Some(node) = max.or(min).filter(|_| settings.lower > settings.upper) {
            let message = format!(
                "the search has no room between {} and {}",
                settings.lower, settings.upper
            );
            self.object(node.span, message, "make sla.min less than sla.max");
        }
    }

    fn tolerance(&mut self, node: &Node, what: &str) -> Option<f64> {
        let percent = match &node.kind {
            Kind::Number(number) => number.as_f64().filter(|value| *value > 1.0 && *value <= 100.0),
            Kind::Text(text) => text
                .trim()
                .strip_suffix('%')
                .and_then(|percent| percent.trim().parse().ok()),
            _ => None,
        };
        let Some(percent) = percent else {
            return self.ratio(node, what, 0.001..=1.0);
        };
        let message = format!("`{what}` is a ratio from 0.001 to 1");
        let remedy = format!("write {} for {percent} %", percent / 100.0);
        self.object(node.span, message, remedy);
        None
    }

    pub(super) fn ratio(&mut self, node: &Node, what: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = match &node.kind {
            Kind::Number(number) => number.as_f64(),
            _ => None,
        };
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let expected = format!("a number from {} to {}", range.start(), range.end());
            let message = format!("`{what}` must be {expected}");
            self.object(node.span, message, format!("write {expected}"));
        }
        value
    }

    fn target(&mut self, node: &Node) -> Option<(Target, Option<Servers>)> {
        let mut fields = self.open::<schema::TargetTable>(node, "sla.target")?.by_own_names();
        let name = fields.text(self, "name");
        let required = fields.get("required").and_then(|node| self.required(node));
        let entries: Vec<&Entry> = fields.rest().collect();
        if entries.is_empty() {
            let remedy = "add a bound such as p99_ttft_ms = \"<=500\"";
            self.object(node.span, "this target has no bounds", remedy);
        }
        let criteria = self.criteria(&entries);
        let texts = || criteria.iter().map(ToString::to_string).collect::<Vec<_>>();
        let target = Target {
            name: name.unwrap_or_else(|| texts().join(", ")),
            criteria,
        };
        Some((target, required))
    }

    /// The bounds of a target or an assertion.
    pub(super) fn criteria(&mut self, entries: &[&Entry]) -> Vec<Criterion> {
        let of_request = |entry: &&&Entry| OF_REQUEST.contains(&entry.key.as_str());
        let limits: Vec<RequestLimit> = entries
            .iter()
            .filter(of_request)
            .filter_map(|entry| self.read(entry, |condition| RequestLimit::parse(&entry.key, condition)))
            .collect();
        let share = entries.iter().find(|entry| entry.key == "attainment");
        if let (None, Some(limit)) = (share, entries.iter().find(of_request)) {
            let message = format!("`{}` is a limit for single requests", limit.key);
            let remedy = "say how many must keep it, such as attainment = \">=99%\", or bound p99_ttft_ms";
            self.object(limit.key_span, message, remedy);
        }
        let attainment =
            share.and_then(|entry| self.read(entry, |condition| Criterion::attainment(limits.clone(), condition)));
        let mut criteria: Vec<Criterion> = attainment.into_iter().collect();
        let metrics = entries
            .iter()
            .filter(|entry| !of_request(entry) && entry.key != "attainment");
        for entry in metrics {
            criteria.extend(self.criterion(entry));
        }
        criteria
    }

    fn criterion(&mut self, entry: &Entry) -> Option<Criterion> {
        if !is_metric(&entry.key) {
            let others = OF_REQUEST.into_iter().chain(["attainment"]).map(String::from);
            let known: Vec<String> = known_metrics().into_iter().chain(others).collect();
            let remedy = suggest(&entry.key, known.iter().map(String::as_str));
            self.object(entry.key_span, format!("no metric is called `{}`", entry.key), remedy);
            return None;
        }
        self.read(entry, |condition| {
            let criterion = Criterion::metric(&entry.key, condition)?;
            objection(&entry.key, &criterion).map_or(Ok(criterion), Err)
        })
    }

    /// Reads a bound; a reason why it is none consists of a message and a remedy.
    fn read<T>(&mut self, entry: &Entry, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if let Kind::Number(number) = &entry.value.kind {
            let message = format!("`{}` needs a comparison", entry.key);
            let sign = match entry.key == "attainment" || THROUGHPUTS.contains(&entry.key.as_str()) {
                true => ">=",
                false => "<=",
            };
            let remedy = format!("write \"{sign}{number}\"");
            self.object(entry.value.span, message, remedy);
            return None;
        }
        let condition = self.text(&entry.value, &entry.key)?;
        let why = match read(&condition) {
            Ok(bound) => return Some(bound),
            Err(why) => why,
        };
        let (message, remedy) = why
            .split_once("; ")
            .unwrap_or((&why, "write a bound such as \"<=500\""));
        self.object(entry.value.span, message, remedy);
        None
    }
}

/// Why a search for the highest load can do nothing with a bound.
fn objection(key: &str, criterion: &Criterion) -> Option<String> {
    let (comparison, limit) = (criterion.comparison, criterion.limit);
    let latency = key.split_once('_').filter(|(_, rest)| LATENCIES.contains(rest));
    let is_throughput = THROUGHPUTS.contains(&key);
    if latency.is_none() && !is_throughput {
        return None;
    }
    if let Some((extreme @ ("p0" | "p100"), name)) = latency {
        return Some(format!(
            "`{key}` is the latency of a single request ({extreme}), which no share of requests bounds; bound p99_{name}, or \
             another percentile between 0 and 100"
        ));
    }
    if comparison.wants_small() == is_throughput {
        let (side, sign) = match is_throughput {
            true => ("above", ">="),
            false => ("below", "<="),
        };
        return Some(format!(
            "`{key}` bounded from {side} cannot be the target of a search for the highest load; write a bound such as \"{sign}{limit}\""
        ));
    }
    (limit <= 0.0).then(|| format!("`{key}{comparison}{limit}` bounds nothing; write a limit above 0"))
}

/// The usual metrics of a result.
pub(super) fn known_metrics() -> Vec<String> {
    let latencies = LATENCIES
        .iter()
        .flat_map(|name| [format!("p99_{name}"), format!("mean_{name}")]);
    latencies.chain(totals().map(String::from)).collect()
}

/// Whether a result may hold a metric of this name.
pub(super) fn is_metric(name: &str) -> bool {
    let Some((statistic, _)) = name.split_once('_').filter(|(_, rest)| LATENCIES.contains(rest)) else {
        return totals().any(|total| total == name);
    };
    let percentile = statistic.strip_prefix('p').and_then(|text| text.parse::<f64>().ok());
    let of_run = ["mean", "median", "std"].contains(&statistic);
    of_run || percentile.is_some_and(|percent| (0.0..=100.0).contains(&percent))
}
