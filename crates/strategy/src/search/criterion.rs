//! One condition on a run's result: a quantity, a comparison and a limit.
//!
//! A criterion reads a run as a [`Reading`], a ratio to its own limit, so criteria in different units are comparable.

mod operator;

pub use operator::Operator;

use super::Vary;
use super::reading::{Reading, RequestLatencies};
use crate::stats::{ClassTag, figure_of, split_class};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Throughputs of a run. Unlike a goodput, they count every completed request.
pub const THROUGHPUTS: [&str; 3] = ["request_throughput", "output_throughput", "total_token_throughput"];

/// A latency that every single request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time from sending to the last token.
    E2el,
}

impl Latency {
    const ALL: [Latency; 3] = [Latency::Ttft, Latency::Tpot, Latency::E2el];

    /// The latency named `ttft_ms`, `tpot_ms` or `e2el_ms`.
    pub fn named(name: &str) -> Option<Latency> {
        Latency::ALL.into_iter().find(|latency| latency.name() == name)
    }

    /// The name in plans and results: `ttft_ms`.
    pub fn name(self) -> &'static str {
        match self {
            Latency::Ttft => "ttft_ms",
            Latency::Tpot => "tpot_ms",
            Latency::E2el => "e2el_ms",
        }
    }

    pub(super) fn of(self, request: &RequestLatencies) -> f64 {
        match self {
            Latency::Ttft => request.ttft_ms,
            Latency::Tpot => request.tpot_ms,
            Latency::E2el => request.e2el_ms,
        }
    }
}

/// Condition for a single request to count as attained: `ttft_ms < 500`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestLimit {
    /// The latency.
    pub latency: Latency,
    /// `<` or `<=`.
    pub operator: Operator,
    /// The limit in ms.
    pub limit_ms: f64,
}

impl RequestLimit {
    /// Parses a name such as `ttft_ms` and a condition such as `<500`, as a plan writes them.
    pub fn parse(name: &str, condition: &str) -> Result<Self, String> {
        let latency = Latency::named(name).ok_or_else(|| {
            format!("`{name}` is not a latency of a single request; use `ttft_ms`, `tpot_ms` or `e2el_ms`")
        })?;
        let (operator, limit_ms) = Operator::parse(condition)?;
        if !operator.is_upper_bound() || limit_ms <= 0.0 {
            return Err(format!(
                "`{name} {condition}` is not an upper limit; write `<` and a positive number"
            ));
        }
        Ok(RequestLimit {
            latency,
            operator,
            limit_ms,
        })
    }

    /// The limit in words, for sentences: `TTFT < 500 ms`.
    pub fn in_words(&self) -> String {
        let latency = self.latency.name().trim_end_matches("_ms").to_uppercase();
        format!("{latency} {} {} ms", self.operator, self.limit_ms)
    }
}

impl fmt::Display for RequestLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.latency.name(), self.operator, self.limit_ms)
    }
}

/// Left side of a criterion.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A metric of the run's result, by its key.
    Metric(String),
    /// The share of requests that satisfy every one of these limits; a failed request satisfies none.
    Attainment(Vec<RequestLimit>),
}

/// One condition on a run's result. Its text ([`fmt::Display`]) is its identity in journals and tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Criterion {
    /// The class of a mixed load whose requests it concerns; `None` for all requests.
    pub class: Option<String>,
    /// The quantity that is compared.
    pub quantity: Quantity,
    /// The comparison.
    pub operator: Operator,
    /// The limit; a share between 0 and 1 for an attainment.
    pub limit: f64,
}

impl Criterion {
    /// Returns a criterion on a metric, from its key and a text such as `<=500`.
    pub fn metric(key: &str, condition: &str) -> Result<Self, String> {
        let (operator, limit) = Operator::parse(condition)?;
        Ok(Criterion {
            class: None,
            quantity: Quantity::Metric(key.to_string()),
            operator,
            limit,
        })
    }

    /// Returns a criterion on the share of requests within `limits`, from a text such as `>=99%`.
    pub fn attainment(limits: Vec<RequestLimit>, condition: &str) -> Result<Self, String> {
        let (operator, limit) = Operator::parse(condition)?;
        if limits.is_empty() {
            return Err("an attainment needs at least one limit, such as `ttft_ms = \"<500\"`".into());
        }
        if operator.is_upper_bound() || !(limit > 0.0 && limit < 1.0) {
            return Err(format!(
                "`{condition}` is not a share to attain; write one between 0 and 100 %, as in `>=99%`"
            ));
        }
        Ok(Criterion {
            class: None,
            quantity: Quantity::Attainment(limits),
            operator,
            limit,
        })
    }

    /// Returns the criterion for the requests of a class alone; without a class, for all requests.
    pub fn of_class(self, class: Option<&str>) -> Criterion {
        Criterion {
            class: class.map(str::to_owned),
            ..self
        }
    }

    /// Returns the name of the figure that the criterion bounds: a metric or, for an attainment, `share(ttft_ms<500 & tpot_ms<=50)`, which
    /// results do not contain.
    pub fn figure(&self) -> String {
        let figure = match &self.quantity {
            Quantity::Metric(key) => key.clone(),
            Quantity::Attainment(limits) => {
                let limits = limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" & ");
                format!("share({limits})")
            }
        };
        self.in_class(&figure)
    }

    /// Returns the name of a figure, restricted to the requests that the criterion concerns.
    fn in_class(&self, figure: &str) -> String {
        figure_of(self.class.as_deref(), figure)
    }

    /// Reads this criterion from one run's metrics, by key, and its requests. `None` if neither contains the figure.
    ///
    /// If the criterion is about single requests (an attainment, or a percentile of a latency), the requests give the interval. `requests`
    /// are in the order in which they were sent, and may be empty if they were not recorded. With a varied rate they wait for one another,
    /// so they count as fewer independent requests.
    pub fn read(
        &self,
        vary: Vary,
        metric: impl Fn(&str) -> Option<f64>,
        requests: &[RequestLatencies],
    ) -> Option<Reading> {
        let concerned = || requests_of(self.class.as_deref(), requests);
        let from_requests = self.per_request().and_then(|(share, limits)| {
            let ratios = concerned().map(|request| worst_ratio(&limits, request)).collect();
            Reading::from_requests(ratios, share, vary)
        });
        let Quantity::Metric(key) = &self.quantity else {
            return from_requests;
        };
        let metric = |key: &str| metric(&self.in_class(key));
        let value = metric(key);
        let from_metric = value.filter(|value| !value.is_nan()).map(|value| {
            let exact = Reading {
                starved: self.is_starved(value, metric("request_throughput")),
                ..self.read_value(value)
            };
            match self.mean_of() {
                Some(latency) => {
                    let ratios: Vec<f64> = concerned().map(|request| latency.of(request) / self.limit).collect();
                    Reading::of_mean(exact, &ratios, vary)
                }
                None => exact,
            }
        });
        match (from_requests, from_metric) {
            // The metric is what a user sees in the table, so its verdict counts; the requests add the interval.
            (Some(inner), Some(metric)) => Some(Reading {
                ratio: metric.ratio.max(inner.ratio),
                met: metric.met && !inner.ratio.is_infinite(),
                low: inner.low.min(metric.ratio),
                high: inner.high.max(metric.ratio),
                ..inner
            }),
            (inner, metric) => metric.or(inner),
        }
    }

    /// Returns the latency whose mean the criterion bounds, if it bounds a mean.
    pub(super) fn mean_of(&self) -> Option<Latency> {
        match &self.quantity {
            Quantity::Metric(key) => key.strip_prefix("mean_").and_then(Latency::named),
            Quantity::Attainment(_) => None,
        }
    }

    /// Returns the share of requests that must keep limits of a single request, and these limits; `None` if the criterion is about the run
    /// as a whole. `p99_ttft_ms <= 500` means that 99 % of requests have a TTFT of at most 500 ms.
    pub(super) fn per_request(&self) -> Option<(f64, Vec<RequestLimit>)> {
        match &self.quantity {
            Quantity::Attainment(limits) => Some((self.limit, limits.clone())),
            Quantity::Metric(key) => {
                let (kind, name) = key.split_once('_')?;
                let percent: f64 = match kind {
                    "median" => 50.0,
                    _ => kind.strip_prefix('p')?.parse().ok()?,
                };
                let latency = Latency::named(name)?;
                let bounded = self.operator.is_upper_bound() && self.limit > 0.0 && percent > 0.0 && percent < 100.0;
                let limit = RequestLimit {
                    latency,
                    operator: self.operator,
                    limit_ms: self.limit,
                };
                bounded.then(|| (percent / 100.0, vec![limit]))
            }
        }
    }

    /// Of `requests` requests, returns (a, b): with fewer than a within the limits the criterion surely fails; with b or more it surely
    /// holds. In between, a percentile may fall on either side, because numpy interpolates.
    pub(super) fn needed(&self, requests: u64) -> Option<(u64, u64)> {
        let (share, _) = self.per_request()?;
        let n = requests as f64;
        Some(match self.quantity {
            Quantity::Attainment(_) => {
                let needed = (share * n - 1e-9).ceil().max(0.0) as u64;
                (needed, needed)
            }
            Quantity::Metric(_) => {
                let position = share * (n - 1.0).max(0.0);
                (
                    (position + 1e-9).floor() as u64 + 1,
                    (position - 1e-9).ceil().max(0.0) as u64 + 1,
                )
            }
        })
    }

    /// Returns true if the criterion is a lower bound of a throughput. Only a higher load can bring more throughput.
    pub(super) fn wants_load(&self) -> bool {
        let is_throughput = matches!(&self.quantity, Quantity::Metric(key) if THROUGHPUTS.contains(&key.as_str()));
        is_throughput && !self.operator.is_upper_bound()
    }

    /// Returns true if the criterion is a lower bound of the goodput. A load can be too low or too high for a goodput.
    pub(super) fn is_goodput(&self) -> bool {
        let is_goodput = matches!(&self.quantity, Quantity::Metric(key) if key == "request_goodput");
        is_goodput && !self.operator.is_upper_bound()
    }

    /// Returns true if the load itself was too small for the criterion. A goodput may also be too small because requests were late, so
    /// the load was too small for a goodput only if the requests served, in time or late, were too few.
    fn is_starved(&self, value: f64, served: Option<f64>) -> bool {
        let brought = match self.is_goodput() {
            true => served,
            false => Some(value).filter(|_| self.wants_load()),
        };
        brought.is_some_and(|brought| !self.operator.holds(brought, self.limit))
    }

    pub(super) fn read_value(&self, value: f64) -> Reading {
        let ratio = match (value > 0.0 && self.limit > 0.0, self.operator.is_upper_bound()) {
            (true, true) => value / self.limit,
            (true, false) => self.limit / value,
            // A ratio to zero does not exist: only the side is known.
            (false, _) if self.operator.holds(value, self.limit) => 0.0,
            (false, _) => f64::INFINITY,
        };
        Reading::exact(ratio, self.operator.holds(value, self.limit))
    }
}

/// Returns the requests of a class; all of them without one.
pub(super) fn requests_of<'r>(
    class: Option<&str>,
    requests: &'r [RequestLatencies],
) -> impl Iterator<Item = &'r RequestLatencies> + use<'r> {
    let class = class.map(ClassTag::of);
    let is_of_class = move |request: &&RequestLatencies| class.is_none_or(|class| request.class == class);
    requests.iter().filter(is_of_class)
}

/// Returns the share of requests, of one class or of all, that keep all of these limits; `None` if there are no requests.
pub fn attained(limits: &[RequestLimit], class: Option<&str>, requests: &[RequestLatencies]) -> Option<f64> {
    let (met, all) = requests_of(class, requests).fold((0, 0), |(met, all), request| {
        (met + u64::from(worst_ratio(limits, request) <= 1.0), all + 1)
    });
    (all > 0).then(|| met as f64 / all as f64)
}

/// Returns the share of requests with this name, as [`Criterion::figure`] writes it; `None` if it names a metric, or if there are no
/// requests.
pub fn share_of(name: &str, requests: &[RequestLatencies]) -> Option<f64> {
    let (class, name) = split_class(name);
    let (limits, _) = limits_of(name)?;
    attained(&limits.ok()?, class, requests)
}

/// Splits a text that begins with the name of a share into the limits in that name and the rest.
fn limits_of(text: &str) -> Option<(Result<Vec<RequestLimit>, String>, &str)> {
    let (limits, rest) = text.strip_prefix("share(")?.split_once(')')?;
    let limit = |limit: &str| {
        let (name, condition) = split(limit)?;
        RequestLimit::parse(name, condition)
    };
    Some((limits.split(" & ").map(limit).collect(), rest))
}

/// Splits a condition before its comparison.
fn split(text: &str) -> Result<(&str, &str), String> {
    let at = text.find(['<', '>']);
    at.map(|at| text.split_at(at))
        .ok_or_else(|| format!("`{text}` has no comparison"))
}

/// Returns the greatest ratio of a request's latencies to their limits. It is above 1 if the request breaks a limit.
pub(super) fn worst_ratio(limits: &[RequestLimit], request: &RequestLatencies) -> f64 {
    limits.iter().fold(0.0, |worst: f64, limit| {
        match limit.latency.of(request) / limit.limit_ms {
            ratio if ratio.is_nan() => f64::INFINITY,
            1.0 if limit.operator == Operator::Below => worst.max(1.0 + f64::EPSILON),
            ratio => worst.max(ratio),
        }
    })
}

impl From<Criterion> for String {
    fn from(criterion: Criterion) -> String {
        criterion.to_string()
    }
}

impl TryFrom<String> for Criterion {
    type Error = String;

    /// Reads what [`fmt::Display`] writes.
    fn try_from(text: String) -> Result<Criterion, String> {
        let (class, text) = split_class(&text);
        if let Some((limits, condition)) = limits_of(text) {
            let criterion = Criterion::attainment(limits?, condition)?;
            return Ok(criterion.of_class(class));
        }
        let (key, condition) = split(text)?;
        Ok(Criterion::metric(key, condition)?.of_class(class))
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.figure(), self.operator, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(ttft_ms: f64, tpot_ms: f64) -> RequestLatencies {
        RequestLatencies {
            ttft_ms,
            tpot_ms,
            e2el_ms: ttft_ms + 100.0 * tpot_ms,
            ..RequestLatencies::default()
        }
    }

    #[test]
    fn a_criterion_is_read_from_text_and_shown_as_text() {
        assert_eq!(
            Criterion::metric("p99_ttft_ms", "<= 500")
                .expect("valid in this test")
                .to_string(),
            "p99_ttft_ms<=500"
        );
        assert_eq!(
            Criterion::metric("request_goodput", ">5.5")
                .expect("valid in this test")
                .to_string(),
            "request_goodput>5.5"
        );
        let limits = vec![
            RequestLimit::parse("ttft_ms", "<500").expect("valid in this test"),
            RequestLimit::parse("tpot_ms", "<=50").expect("valid in this test"),
        ];
        let chat = Criterion::attainment(limits, ">= 99 %").expect("valid in this test");
        assert_eq!(chat.to_string(), "share(ttft_ms<500 & tpot_ms<=50)>=0.99");
        for bad in ["500", "=500", "<=", "<= fast", ">nan"] {
            assert!(Criterion::metric("p99_ttft_ms", bad).is_err(), "{bad}");
        }
        assert!(RequestLimit::parse("itl_ms", "<5").is_err());
        assert!(Criterion::attainment(vec![], ">=99%").is_err());
    }

    #[test]
    fn a_share_is_known_by_its_name() {
        let requests = [request(100.0, 5.0), request(900.0, 5.0)];
        let share = |name: &str| share_of(name, &requests);
        assert_eq!(share("share(ttft_ms<500)"), Some(0.5));
        assert_eq!(share("share(ttft_ms<500 & tpot_ms<=4)"), Some(0.0));
        assert_eq!(share("docs.share(ttft_ms<500)"), None, "no request is of that class");
        assert_eq!(share("p99_ttft_ms"), None);
    }

    #[test]
    fn a_criterion_of_a_class_is_about_its_requests_alone() {
        let criterion = Criterion::metric("p50_ttft_ms", "<=500").expect("valid in this test");
        let criterion = criterion.of_class(Some("chat"));
        assert_eq!(criterion.to_string(), "chat.p50_ttft_ms<=500");
        assert_eq!(Criterion::try_from(criterion.to_string()).as_ref(), Ok(&criterion));
        let share = "docs.share(ttft_ms<500 & tpot_ms<=50)>=0.9";
        let parsed = Criterion::try_from(share.to_owned()).expect("valid in this test");
        assert_eq!(
            (parsed.class.as_deref(), parsed.to_string().as_str()),
            (Some("docs"), share)
        );
        let of = |name: &str, ttft_ms: f64| RequestLatencies {
            class: ClassTag::of(name),
            ..request(ttft_ms, 1.0)
        };
        let requests = [vec![of("chat", 100.0); 50], vec![of("docs", 900.0); 50]].concat();
        let figure = |key: &str| (key == "chat.p50_ttft_ms").then_some(100.0);
        let reading = criterion.read(Vary::MaxConcurrency, figure, &requests).expect("read");
        assert!(
            reading.met && reading.requests == 50 && reading.missed == 0,
            "{reading:?}"
        );
        let limits = [RequestLimit::parse("ttft_ms", "<500").expect("valid in this test")];
        let share = |class| attained(&limits, class, &requests);
        assert_eq!(
            [share(None), share(Some("docs")), share(Some("x"))],
            [Some(0.5), Some(0.0), None]
        );
    }

    #[test]
    fn ratios_above_one_fail_whichever_way_the_metric_points() {
        let read = |criterion: &Criterion, value| {
            criterion
                .read(Vary::MaxConcurrency, |_| Some(value), &[])
                .expect("valid in this test")
        };
        let latency = Criterion::metric("mean_ttft_ms", "<=500").expect("valid in this test");
        assert_eq!((read(&latency, 250.0).ratio, read(&latency, 1000.0).ratio), (0.5, 2.0));
        let goodput = Criterion::metric("request_goodput", ">=5").expect("valid in this test");
        assert_eq!((read(&goodput, 10.0).ratio, read(&goodput, 2.5).ratio), (0.5, 2.0));
        assert!(!read(&goodput, 0.0).met);
        let failures = Criterion::metric("failed", "<=0").expect("valid in this test");
        assert!(read(&failures, 0.0).met && !read(&failures, 1.0).met);
        assert!(
            !read(
                &Criterion::metric("mean_ttft_ms", "<500").expect("valid in this test"),
                500.0
            )
            .met
        );
    }

    #[test]
    fn too_small_a_load_is_distinguished_from_late_requests() {
        let goodput = Criterion::metric("request_goodput", ">=5").expect("valid in this test");
        let served = |goodput: f64, throughput: f64| {
            move |key: &str| Some(if key == "request_goodput" { goodput } else { throughput })
        };
        let starved = |criterion: &Criterion, good: f64, all: f64| {
            let reading = criterion
                .read(Vary::MaxConcurrency, served(good, all), &[])
                .expect("valid in this test");
            (reading.met, reading.starved)
        };
        assert_eq!(starved(&goodput, 4.0, 4.5), (false, true));
        assert_eq!(starved(&goodput, 4.0, 9.0), (false, false));
        assert_eq!(starved(&goodput, 6.0, 9.0), (true, false));
        let throughput = Criterion::metric("request_throughput", ">=5").expect("valid in this test");
        assert_eq!(starved(&throughput, 0.0, 4.5), (false, true));
        let ceiling = Criterion::metric("request_throughput", "<=5").expect("valid in this test");
        assert_eq!(starved(&ceiling, 0.0, 9.0), (false, false));
    }

    #[test]
    fn attainment_counts_requests_that_satisfy_every_limit() {
        let limits = vec![
            RequestLimit::parse("ttft_ms", "<500").expect("valid in this test"),
            RequestLimit::parse("tpot_ms", "<50").expect("valid in this test"),
        ];
        let chat = Criterion::attainment(limits, ">=90%").expect("valid in this test");
        let mut requests = vec![request(100.0, 20.0); 95];
        requests.extend(vec![request(100.0, 60.0); 5]);
        assert!(
            chat.read(Vary::MaxConcurrency, |_| None, &requests)
                .expect("valid in this test")
                .met
        );
        requests.extend(vec![request(f64::INFINITY, 1.0); 10]);
        let reading = chat
            .read(Vary::MaxConcurrency, |_| None, &requests)
            .expect("valid in this test");
        assert!(!reading.met && reading.ratio > 1.0);
        let (_, limits) = chat.per_request().expect("about single requests");
        assert!(
            worst_ratio(&limits, &request(500.0, 10.0)) > 1.0,
            "a strict limit is missed at the limit"
        );
    }

    #[test]
    fn a_share_with_decimals_is_exact() {
        let limits = || vec![RequestLimit::parse("ttft_ms", "<500").expect("valid in this test")];
        let requests = [vec![request(100.0, 1.0); 999], vec![request(900.0, 1.0)]].concat();
        for (condition, limit) in [(">=99.9%", 0.999), (">= 99.9 %", 0.999), (">=0.999", 0.999)] {
            let criterion = Criterion::attainment(limits(), condition).expect("valid in this test");
            assert_eq!(criterion.limit, limit, "{condition}");
            let read = criterion.read(Vary::MaxConcurrency, |_| None, &requests);
            assert!(read.expect("read").met, "{condition}");
        }
        let percentile = Criterion::metric("p99.9_ttft_ms", "<500").expect("valid in this test");
        let read = percentile.read(Vary::MaxConcurrency, |_| None, &requests);
        assert!(read.expect("read").met);
    }

    #[test]
    fn a_percentile_gets_its_interval_from_the_requests() {
        let criterion = Criterion::metric("p99_ttft_ms", "<=500").expect("valid in this test");
        let requests: Vec<_> = (0..1000).map(|i| request(300.0 + f64::from(i) * 0.2, 1.0)).collect();
        let reading = criterion
            .read(Vary::MaxConcurrency, |_| Some(498.0), &requests)
            .expect("valid in this test");
        assert!(reading.low < 498.0 / 500.0 && reading.high > reading.low, "{reading:?}");
        assert_eq!(criterion.read(Vary::MaxConcurrency, |_| None, &[]), None);
    }
}
