//! Two sets of results side by side: each metric of each common point as a ratio with its interval and a verdict, and
//! everything else that differs between them. The statistics are `vsweep_strategy::stats`; nothing is measured here.

mod dashboard;
mod document;
mod doubts;
mod frontiers;
mod junit;
mod matching;
mod side;

pub use dashboard::{Speed, to_dashboard, valid_loads};
pub use document::{to_bmf, to_html, to_markdown, to_text};
pub use junit::to_junit;
pub(super) use side::between_servers;
pub use side::{Change, Side};

use super::words::show_number;
use crate::report::ordered::Ordered;
use itertools::Itertools;
use matching::{Matched, PointPair, match_points};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use vsweep_plan::plan::Limit;
use vsweep_plan::units::show_many;
use vsweep_record::table::{Measure, Points};
use vsweep_strategy::stats::{self, Bound, Estimate, Margin, Margins, Requirement, RunPrior, Start, Verdict};

/// Metrics compared by default, if both sides have them.
const METRICS: [&str; 8] = [
    "request_throughput",
    "output_throughput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "p99_itl_ms",
    "p99_e2el_ms",
];

/// The metrics to compare, and the criteria.
#[derive(Debug, Clone)]
pub struct Question {
    /// The metrics; empty for the usual ones.
    pub metrics: Vec<Measure>,
    /// Changes that do not matter.
    pub margins: Margins,
    /// Changes that must not happen.
    pub limits: Vec<Limit>,
}

/// The sides, point by point.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The name of the earlier side.
    pub base: String,
    /// The name of the later side.
    pub new: String,
    /// The change in percent that does not matter, where nothing is known of the machine's noise.
    pub margin_percent: f64,
    /// Margins from the machine's own noise, by metric.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own_margins: BTreeMap<String, f64>,
    /// Differences other than the figures.
    pub changes: Vec<Change>,
    /// Describes the nodes if the sides were not measured on one; `None` if they were, or if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Doubts about the points, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Points that both sides have.
    pub points: Vec<Pair>,
    /// Points that the base alone has, by their settings.
    pub only_base: Vec<String>,
    /// Points that the new side alone has, by their settings.
    pub only_new: Vec<String>,
    /// Result of each limit at each point.
    pub limits: Vec<Judged>,
}

/// One point on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// Settings that distinguish it from the other points.
    pub settings: String,
    /// Its metrics.
    pub figures: Vec<Figure>,
}

/// One metric of one point.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// The metric's name.
    pub metric: String,
    /// The base's value: the geometric mean over its starts.
    pub base: f64,
    /// The new side's value.
    pub new: f64,
    /// The 95 % interval of the new side's value; none where it has one start.
    pub new_interval: Option<(f64, f64)>,
    /// New over base.
    pub ratio: f64,
    /// The 95 % interval of the ratio; none where a side has one start.
    pub interval: Option<(f64, f64)>,
    /// Verdict of the interval against the margin.
    pub verdict: Verdict,
    /// Starts of the base and of the new side.
    pub starts: (usize, usize),
    /// If undecided: the further starts per side that would decide in four of five cases.
    pub more_starts: Option<usize>,
}

/// A limit at one point.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// The point, by its settings.
    pub settings: String,
    /// The base's value: the geometric mean over its starts.
    pub base: f64,
    /// The new side's value.
    pub new: f64,
    /// New over base.
    pub ratio: f64,
    /// The 95 % interval of the ratio; none where a side has one start.
    pub interval: Option<(f64, f64)>,
    /// Result of the limit.
    pub requirement: Requirement,
    /// Probability of so large a ratio by chance if the limit is kept, after Holm's correction.
    pub p_value: f64,
}

impl Question {
    /// The metrics that are compared, as far as both sides have them.
    pub fn measures(&self) -> Vec<Measure> {
        let usual = || METRICS.iter().filter_map(|name| Measure::parse(name).ok()).collect();
        match self.metrics.is_empty() {
            true => usual(),
            false => self.metrics.clone(),
        }
    }
}

impl Comparison {
    /// Compares every point that both sides have.
    ///
    /// # Errors
    /// If there is nothing to compare: no common point, or an asked metric that no common point has.
    pub fn of(base: &Side, new: &Side, question: &Question) -> Result<Comparison, String> {
        let sides = (Points::of(&base.table), Points::of(&new.table));
        let Matched {
            pairs,
            only_base,
            only_new,
            keys,
        } = match_points(&sides.0, &sides.1);
        if pairs.is_empty() {
            return Err(format!(
                "{} and {} have no measured point in common; compare results of the same workloads and settings{}",
                base.name,
                new.name,
                matching::reason(&keys)
            ));
        }
        let starts = |pair: &PointPair<'_>, metric: &str| {
            (
                sides.0.starts_of(pair.base, metric),
                sides.1.starts_of(pair.new, metric),
            )
        };
        let figure = |pair: &PointPair<'_>, measure: &Measure| {
            let margin = Margin::percent(question.margins.percent_of(&measure.metric));
            compare(measure, margin, starts(pair, &measure.metric))
        };
        let metrics = question.measures();
        let point = |pair: &PointPair<'_>| Pair {
            settings: pair.settings.clone(),
            figures: metrics.iter().filter_map(|measure| figure(pair, measure)).collect(),
        };
        let points = pairs.iter().map(point).collect_vec();
        let limited = pairs.iter().cartesian_product(&question.limits);
        let limited = limited.filter_map(|(pair, limit)| {
            let (base, new) = starts(pair, &limit.metric);
            Some((limit, pair, (estimate(&base)?, estimate(&new)?)))
        });
        let limited = limited.collect_vec();
        let family = limited
            .iter()
            .map(|(limit, _, (base, new))| (new.minus(*base), Bound::percent(limit.percent)));
        let rulings = stats::rule(&family.collect_vec(), stats::ALPHA);
        let judged = limited.iter().zip(rulings);
        let limits = judged.map(|((limit, pair, (base, new)), ruling)| {
            let ratio = new.minus(*base);
            Judged {
                limit: (*limit).clone(),
                settings: pair.settings.clone(),
                base: base.log.exp(),
                new: new.log.exp(),
                ratio: ratio.log.exp(),
                interval: ratio.interval(stats::ALPHA).map(stats::Interval::exp),
                requirement: ruling.requirement,
                p_value: ruling.p_value,
            }
        });
        let found = Comparison {
            base: base.name.clone(),
            new: new.name.clone(),
            margin_percent: question.margins.percent_of(""),
            own_margins: question.margins.own.clone(),
            changes: side::between(base, new, &keys),
            nodes: doubts::of_nodes(base, new, &pairs),
            doubts: doubts::of_runs(&pairs),
            points,
            only_base,
            only_new,
            limits: limits.collect(),
        };
        match found.unanswered(question) {
            None => Ok(found),
            Some((metric, instead)) => {
                base.table.numeric_column(metric)?;
                new.table.numeric_column(metric)?;
                Err(format!(
                    "no common point has {metric} above 0 on both sides; {instead} another metric"
                ))
            }
        }
    }

    /// A metric that was asked for and that no point has, and what to do instead.
    fn unanswered<'q>(&self, question: &'q Question) -> Option<(&'q String, &'static str)> {
        let mut metrics = question.metrics.iter().map(|measure| &measure.metric);
        let is_absent = |metric: &&String| self.figures().all(|figure| figure.metric != **metric);
        let mut limits = question.limits.iter();
        let is_unjudged = |limit: &&Limit| self.limits.iter().all(|judged| judged.limit != **limit);
        let absent = metrics.find(is_absent).map(|metric| (metric, "choose"));
        absent.or_else(|| Some((&limits.find(is_unjudged)?.metric, "limit")))
    }

    /// Every metric of every point.
    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.points.iter().flat_map(|pair| &pair.figures)
    }

    /// Number of figures with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.figures().filter(|figure| figure.verdict == verdict).count()
    }

    /// Combined result of the limits: broken if one is, else undecided if one is, else met. `None` without limits.
    pub fn requirement(&self) -> Option<Requirement> {
        self.limits.iter().map(|judged| judged.requirement).max()
    }

    /// Notes for a reader of the verdicts.
    fn notes(&self) -> Vec<String> {
        // For a figure on one start the noise between starts is unknown.
        let one_start = self.figures().any(|figure| figure.interval.is_none());
        let one_start = one_start.then(|| ONE_START.to_owned());
        let notes = one_start.into_iter().chain(self.nodes.clone());
        notes.chain(self.doubts.iter().cloned()).collect()
    }
}

fn estimate(starts: &[Start]) -> Option<Estimate> {
    stats::estimate(starts, RunPrior::TYPICAL)
}

fn compare(measure: &Measure, margin: Margin, (base, new): (Vec<Start>, Vec<Start>)) -> Option<Figure> {
    let (of_base, of_new) = (estimate(&base)?, estimate(&new)?);
    let found = stats::compare(&base, &new, measure.better, margin, RunPrior::TYPICAL)?;
    Some(Figure {
        metric: measure.metric.clone(),
        base: of_base.log.exp(),
        new: of_new.log.exp(),
        new_interval: of_new.interval(stats::ALPHA).map(stats::Interval::exp),
        ratio: found.ratio.log.exp(),
        interval: found.interval.map(stats::Interval::exp),
        verdict: found.verdict,
        starts: (base.len(), new.len()),
        more_starts: found.more_starts,
    })
}

/// `-2.8 %`, or `x 3.5` for what is more than twice as much.
fn percent(ratio: f64) -> String {
    match ratio > 2.0 {
        true => format!("x {}", show_number(ratio)),
        // Adding zero takes the sign from a zero.
        false => format!("{:+.1} %", ((ratio - 1.0) * 1000.0).round() / 10.0 + 0.0),
    }
}

/// The columns of a figure's row, in the terminal and in Markdown.
fn cells(figure: &Figure) -> [String; 7] {
    let verdict = match (figure.verdict, figure.more_starts) {
        (Verdict::Undecided, Some(more)) => {
            format!("undecided; {} a side would tell", show_many(more as u64, "more start"))
        }
        (verdict, _) => word(verdict),
    };
    let interval = figure
        .interval
        .map(|(low, high)| format!("{} to {}", percent(low), percent(high)));
    [
        figure.metric.clone(),
        show_number(figure.base),
        show_number(figure.new),
        percent(figure.ratio),
        interval.unwrap_or_else(|| "-".to_owned()),
        format!("{} + {}", figure.starts.0, figure.starts.1),
        verdict,
    ]
}

const INTERVAL: &str = "95 % interval";
const STARTS: &str = "starts";
const HEADS: [&str; 7] = ["metric", "base", "new", "change", INTERVAL, STARTS, "verdict"];

/// The word for a verdict, or for what became of a limit; JSON has the same.
pub(super) fn word(of: impl Serialize) -> String {
    let word = serde_json::to_value(of).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// `p99_ttft_ms:+5%`
fn show_limit(limit: &Limit) -> String {
    format!("{}:{:+}%", limit.metric, limit.percent)
}

/// `2 improved, 1 regressed, 12 same, 5 undecided; changes within 3 % do not matter`
fn tally(comparison: &Comparison) -> String {
    let verdicts = [Verdict::Improved, Verdict::Regressed, Verdict::Same, Verdict::Undecided];
    let counts = verdicts.map(|verdict| (comparison.count(verdict), word(verdict)));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = match counts.map(|(count, name)| format!("{count} {name}")).join(", ") {
        none if none.is_empty() => "nothing could be compared".to_owned(),
        counts => counts,
    };
    let own = comparison.own_margins.iter();
    let own = own
        .map(|(metric, percent)| (percent.to_string(), metric.as_str()))
        .into_group_map();
    let own = own.into_iter().ordered();
    let own = own.map(|(percent, metrics)| format!("{percent} % of {}", metrics.join(", ")));
    let own = own.collect_vec();
    match own.is_empty() {
        true => format!("{counts}; changes within {} % do not matter", comparison.margin_percent),
        false => format!(
            "{counts}; changes within the machine's own noise do not matter ({}; --margin states another)",
            own.join("; ")
        ),
    }
}

/// Said where a side has a single start.
const ONE_START: &str =
    "one start: start-to-start noise unknown, so nothing is decided; measure each config on several starts";
