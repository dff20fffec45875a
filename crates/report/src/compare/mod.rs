//! Two sets of results side by side: each metric of each common point as a ratio with its interval and a verdict, and everything else that
//! differs between them. `vsweep_answer::compare` does the statistics; this module pairs the points and finds the differences.

mod brief;
mod changes;
mod dashboard;
mod differences;
mod document;
mod doubts;
mod frontiers;
mod junit;
mod limits;
mod matching;
mod side;
mod words;

pub use brief::{to_markdown, to_text};
pub use dashboard::{Speed, to_dashboard, valid_loads};
pub use differences::Change;
pub(super) use differences::between_servers;
pub use document::{to_bmf, to_html};
pub use junit::to_junit;
pub use limits::{LimitRatio, LimitVerdict};
pub use side::Side;
pub(super) use words::word;

use super::findings::losses::loss;
use super::names::PointNames;
use itertools::Itertools;
use matching::{PointPair, match_points};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use vsweep_answer::{Basis, ComparedPoint, ComparisonInput, MetricNoise, RequirementVerdict, Verdict};
use vsweep_plan::Limit;
use vsweep_record::evidence;
use vsweep_record::table::{Measure, Points};
use vsweep_strategy::stats::Margins;

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
    /// Largest changes that do not matter.
    pub margins: Margins,
    /// Changes that must not happen.
    pub limits: Vec<Limit>,
}

/// The result of a comparison, point by point.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The name of the earlier side.
    pub base: String,
    /// The name of the later side.
    pub new: String,
    /// The largest change in percent that does not matter, for metrics without a margin in `own_margins`.
    pub margin_percent: f64,
    /// Margins from the machine's own noise, by metric.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own_margins: BTreeMap<String, f64>,
    /// Differences other than the figures.
    pub changes: Vec<Change>,
    /// Describes the nodes of points that were measured on different ones; `None` if there are none, or if the nodes are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Doubts about the points, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Changes of the frontiers, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frontiers: Vec<String>,
    /// Points that both sides have.
    pub points: Vec<Pair>,
    /// Points that the base alone has, by their settings.
    pub only_base: Vec<String>,
    /// Points that the new side alone has, by their settings.
    pub only_new: Vec<String>,
    /// Points that the new side measured and that have no valid run in the base, by their settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_base: Vec<String>,
    /// Points that the base measured and that have no valid run in the new side, by their settings. They break every limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_new: Vec<String>,
    /// True if the question has limits.
    #[serde(skip)]
    pub is_limited: bool,
    /// True if the new side loses requests or runs at a point, so that its figures are of the rest alone.
    #[serde(skip)]
    pub has_losses: bool,
    /// Points and targets where every limit is undecided, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<(String, String)>,
    /// Result of each limit at each point that both sides measured.
    pub limits: Vec<LimitVerdict>,
    /// Combined result of the limits; `None` without limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<RequirementVerdict>,
    /// The noise of each metric, of the base and of the new side.
    pub noise: (Vec<MetricNoise>, Vec<MetricNoise>),
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
    /// The base's estimate.
    pub base: f64,
    /// The new side's estimate.
    pub new: f64,
    /// The 95 % interval of the new side's estimate.
    pub new_interval: (f64, f64),
    /// New over base.
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: (f64, f64),
    /// Verdict of the interval against the margin.
    pub verdict: Verdict,
    /// Starts of the base and of the new side.
    pub starts: (usize, usize),
    /// If undecided: the further starts per side that would decide in four of five cases.
    pub more_starts: Option<usize>,
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
    /// If there is nothing to compare: no run of its own on either side, no common point, or an asked metric that no common point has.
    pub fn of(base: &Side, new: &Side, question: &Question) -> Result<Comparison, String> {
        // Frontiers are drawn as measured, so they keep the runs that both sides hold.
        let frontiers = frontiers::sentences(base, new);
        let ([base, new], shared) = side::set_apart(base, new)?;
        let (base, new) = (&*base, &*new);
        let sides = (Points::of(&base.table), Points::of(&new.table));
        let matched = match_points(&sides.0, &sides.1);
        let (pairs, keys) = (&matched.pairs, &matched.keys);
        let has_failed = !(matched.failed_base.is_empty() && matched.failed_new.is_empty());
        if pairs.is_empty() && !has_failed {
            return Err(format!(
                "{} and {} have no measured point in common; compare results of the same workloads and settings{}",
                base.name,
                new.name,
                matching::reason(&sides, keys)
            ));
        }
        let limited = question
            .limits
            .iter()
            .filter_map(|limit| Measure::parse(&limit.metric).ok());
        let metrics = question.measures();
        let measures = metrics.iter().cloned().chain(limited).collect_vec();
        let experiment = |points: &Points<'_>, side: &Side| {
            let node = |row: usize| side.machines.get(row).and_then(Option::as_ref);
            let node = |row| node(row).map_or_else(String::new, |machine| machine.node.clone());
            evidence::side(points, &measures, &PointNames::of(points), &side.noise, &node)
        };
        let compared = vsweep_answer::compare(&ComparisonInput {
            base: &experiment(&sides.0, base),
            new: &experiment(&sides.1, new),
            pairs: pairs
                .iter()
                .map(|pair| (pair.base.id.to_string(), pair.new.id.to_string()))
                .collect(),
            margin: &|metric| question.margins.percent_of(metric) / 100.0,
            limits: question.limits.iter().map(limits::to_limit).collect(),
        });
        let by_place = compared
            .points
            .iter()
            .map(|point| ((&*point.base, &*point.metric), point));
        let by_place: HashMap<(&str, &str), &ComparedPoint> = by_place.collect();
        let of_pair = |pair: &PointPair<'_>, metric: &str| by_place.get(&(&*pair.base.id, metric)).copied();
        let figure = |pair: &PointPair<'_>, measure: &Measure| Some(Figure::of(of_pair(pair, &measure.metric)?));
        let point = |pair: &PointPair<'_>| Pair {
            settings: pair.settings.clone(),
            figures: metrics.iter().filter_map(|measure| figure(pair, measure)).collect(),
        };
        let mut points = pairs.iter().map(point).collect_vec();
        if question.metrics.is_empty() {
            drop_repeated(&mut points);
        }
        let loses = |pair: &PointPair<'_>| loss((&sides.0, pair.base), (&sides.1, pair.new)).is_some();
        let missing = [
            (&base.unfinished, &matched.only_new, "base"),
            (&new.unfinished, &matched.only_base, "new"),
        ];
        let missing = missing.into_iter().filter(|(unfinished, ..)| unfinished.is_some());
        let missing = missing.flat_map(|(_, lone, side)| {
            let why = format!("not measured in {side}, which is not finished");
            lone.iter().map(move |settings| (settings.clone(), why.clone()))
        });
        let unknown = missing.chain(doubts::lower_targets(base, new)).collect();
        let changes = side::between((base, new), (&sides.0, &sides.1), pairs, keys);
        let mut found = Comparison {
            base: base.name.clone(),
            new: new.name.clone(),
            margin_percent: question.margins.percent_of(""),
            own_margins: question.margins.own.clone(),
            changes,
            nodes: doubts::of_nodes(base, new, pairs),
            doubts: shared
                .into_iter()
                .chain(doubts::of_simulation(base, new))
                .chain(doubts::of_unfinished(base, new))
                .chain(doubts::of_targets(base, new))
                .chain(doubts::of_runs(pairs))
                .chain(doubts::of_failures(pairs, &sides))
                .chain(doubts::of_lost_requests(pairs, &sides))
                .chain(doubts::of_neighbours(&sides))
                .collect(),
            frontiers,
            points,
            only_base: matched.only_base,
            only_new: matched.only_new,
            failed_base: matched.failed_base,
            failed_new: matched.failed_new,
            is_limited: !question.limits.is_empty(),
            has_losses: pairs.iter().any(loses),
            unknown,
            limits: limits::judge(pairs, &sides, &question.limits, &compared),
            requirement: None,
            noise: (compared.base_noise, compared.new_noise),
        };
        found.requirement = found.requirement();
        match found.unanswered(question).filter(|_| !found.points.is_empty()) {
            None => Ok(found),
            Some((metric, instead)) => {
                let unknown = [base, new].map(|side| {
                    let column = side.table.numeric_column(metric);
                    column.err().map(|error| format!("{}: {error}", side.name))
                });
                // A name that neither side has is a mistake. A figure that one side lacks leaves its limits undecided.
                match unknown {
                    [Some(why), Some(_)] => return Err(why),
                    [None, None] => {}
                    _ if instead == "limit" => return Ok(found),
                    [why, other] => return Err(why.or(other).unwrap_or_default()),
                }
                Err(format!(
                    "no common point has {metric} above 0 on both sides; {instead} another metric"
                ))
            }
        }
    }

    /// A metric that the question names and no point has, with the verb for the error's advice: `choose`, or `limit` if a limit names it.
    fn unanswered<'q>(&self, question: &'q Question) -> Option<(&'q String, &'static str)> {
        let mut metrics = question.metrics.iter().map(|measure| &measure.metric);
        let is_absent = |metric: &&String| self.figures().all(|figure| figure.metric != **metric);
        let mut limits = question.limits.iter();
        let is_open =
            |judged: &LimitVerdict| judged.measured.is_none() && judged.requirement == RequirementVerdict::Undecided;
        let is_unjudged = |limit: &&Limit| {
            let mut own = self.limits.iter().filter(|judged| judged.limit == **limit);
            own.all(is_open)
        };
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
    pub fn requirement(&self) -> Option<RequirementVerdict> {
        self.requirements().max()
    }

    /// The result of each limit at each point.
    fn requirements(&self) -> impl Iterator<Item = RequirementVerdict> {
        let judged = self.limits.iter().map(|judged| judged.requirement);
        judged.chain(self.lone().map(|(.., requirement)| requirement))
    }

    /// The points at which every limit has one result, with the reason: broken without a valid run in the new side, else undecided.
    fn lone(&self) -> impl Iterator<Item = (&String, &str, RequirementVerdict)> {
        let new = self.failed_new.iter();
        let new = new.map(|settings| (settings, "no valid run in new", RequirementVerdict::Broken));
        let base = self.failed_base.iter();
        let base = base.map(|settings| (settings, "no valid run in base", RequirementVerdict::Undecided));
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|(settings, why)| (settings, why.as_str(), RequirementVerdict::Undecided));
        new.chain(base).chain(unknown).filter(|_| self.is_limited)
    }

    /// A sentence about noise between starts that was assumed, because too few starts repeat a config on a side.
    fn assumed(&self) -> Option<String> {
        let sides = [(&self.noise.0, "base"), (&self.noise.1, "new")];
        let leading = &self.figures().next()?.metric;
        let assumed = sides.map(|(noise, side)| {
            let start = noise.iter().find(|noise| noise.metric == *leading)?.start;
            (start.basis == Basis::Assumed).then(|| format!("about {:.1} % in {side}", 100.0 * start.deviation))
        });
        let assumed = assumed.into_iter().flatten().collect_vec();
        (!assumed.is_empty()).then(|| {
            format!(
                "noise between starts is assumed ({}), because configs have fewer than four starts beyond their first; raise `starts` in \
                 the plan",
                assumed.join(", ")
            )
        })
    }

    /// Notes for a reader of the verdicts.
    fn notes(&self) -> Vec<String> {
        let notes = self.assumed().into_iter().chain(self.nodes.clone());
        notes.chain(self.doubts.iter().cloned()).collect()
    }
}

impl Figure {
    fn of(point: &ComparedPoint) -> Figure {
        Figure {
            metric: point.metric.clone(),
            base: point.was.value,
            new: point.is.value,
            new_interval: (point.is.low, point.is.high),
            ratio: point.ratio.value,
            interval: (point.ratio.low, point.ratio.high),
            verdict: point.verdict,
            starts: point.starts,
            more_starts: point.more_starts,
        }
    }
}

/// Leaves out requests per second if its ratios and verdicts are those of tokens per second at every point. This is so if the lengths of
/// the answers are fixed.
fn drop_repeated(points: &mut [Pair]) {
    let [requests, tokens] = [METRICS[0], METRICS[1]];
    let ratio = |pair: &Pair, metric: &str| {
        let figure = pair.figures.iter().find(|figure| figure.metric == metric)?;
        Some((figure.ratio, figure.verdict))
    };
    let is_repeated = |pair: &Pair| match (ratio(pair, requests), ratio(pair, tokens)) {
        (Some((own, verdict)), Some((other, same))) => (own / other - 1.0).abs() < ALIKE && verdict == same,
        (own, _) => own.is_none(),
    };
    if points.iter().all(is_repeated) {
        for pair in points {
            pair.figures.retain(|figure| figure.metric != requests);
        }
    }
}

/// Relative difference below which two ratios are equal.
const ALIKE: f64 = 0.001;
