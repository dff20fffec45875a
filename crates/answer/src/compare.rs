//! Two experiments against each other: new over base, metric by metric at each point that both measured.
//!
//! Each side has a noise model of its own; nothing is pooled between them. The figures of a pair hold for the same node. The verdicts are
//! those of docs/verdicts.md, with the intervals of the model. A limit counts as broken only if it is still broken after Holm's correction.

use super::document::{Estimate, MetricNoise};
use super::experiment::{Experiment, Metric, Point, Scale};
use super::fit::{ExperimentFit, Figures, INTERVAL, estimate_by};
use super::model::{Component, Components, Draws, Observations, Posterior, difference, interval};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::f64::consts::SQRT_2;
use vsweep_base::threads;
use vsweep_strategy::stats::{ALPHA, Better, Interval, Margin, RequirementVerdict, Verdict, holm, more_starts};

/// The input of a comparison.
pub struct ComparisonInput<'e> {
    /// The experiment to compare with.
    pub base: &'e Experiment,
    /// The experiment to judge.
    pub new: &'e Experiment,
    /// Points to compare, by their ids in base and new.
    pub pairs: Vec<(String, String)>,
    /// Returns the largest relative difference of a metric that does not matter.
    pub margin: &'e dyn Fn(&str) -> f64,
    /// Changes that are not allowed.
    pub limits: Vec<Limit>,
}

/// A change that is not allowed: `+5 %` is more than 5 % above the base, `-5 %` more than 5 % below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// The change: 0.05 for `+5 %`.
    pub change: f64,
}

/// The result of a comparison of two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Every metric at every point that both measured.
    pub points: Vec<ComparedPoint>,
    /// Every limit at every point that has its metric.
    pub limits: Vec<ComparedLimit>,
    /// The noise of the base's metrics.
    pub base_noise: Vec<MetricNoise>,
    /// The noise of the new experiment's metrics.
    pub new_noise: Vec<MetricNoise>,
}

/// One metric at one point of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// The metric.
    pub metric: String,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new experiment's point.
    pub new: String,
    /// The base's figure.
    pub was: Estimate,
    /// The new experiment's figure.
    pub is: Estimate,
    /// The new figure divided by the base's.
    pub ratio: Estimate,
    /// The verdict of the interval.
    pub verdict: Verdict,
    /// Number of launches on which the point was measured, in the base and in the new experiment.
    pub starts: (usize, usize),
    /// If undecided, the further starts of each side that would decide in four of five cases; `None` if 1000 in all would not be enough, or
    /// if the sides were measured on different nodes.
    pub more_starts: Option<usize>,
}

/// A limit at a compared point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedLimit {
    /// The metric.
    pub metric: String,
    /// The change that is not allowed: 0.05 for `+5 %`.
    pub change: f64,
    /// The id of the base's point.
    pub base: String,
    /// The id of the new experiment's point.
    pub new: String,
    /// The state of the limit.
    pub requirement: RequirementVerdict,
    /// The probability of so large a change by chance if the limit is kept, after Holm's correction.
    pub p_value: f64,
}

/// Compares two experiments in the metrics that both have, in the order of their names. A point has no ratio unless its figure in the base
/// is above 0.
pub fn compare(comparing: &ComparisonInput<'_>) -> Comparison {
    let (base, new) = (comparing.base.clone().in_order(), comparing.new.clone().in_order());
    // Random numbers depend on the seed and the ids. Another seed makes the sides independent although their ids are equal.
    let new = Experiment {
        seed: new.seed ^ 0x6e65_7700,
        ..new
    };
    let (in_base, in_new) = (places_of(&base), places_of(&new));
    let places = |(one, other): &(String, String)| Some((*in_base.get(&**one)?, *in_new.get(&**other)?));
    let places: Vec<(usize, usize)> = comparing.pairs.iter().filter_map(places).collect();
    let nodes = |metric: &Metric| nodes_of_pairs((&base, &new), &places, &metric.name);
    let of_base = ExperimentFit::of(&base, &|observations: Observations, metric: &Metric| {
        Posterior::fit(observations.hold_for(&nodes(metric).0), &metric.prior)
    });
    let of_new = ExperimentFit::of(&new, &|observations: Observations, metric: &Metric| {
        Posterior::fit(observations.hold_for(&nodes(metric).1), &metric.prior)
    });
    let mut judged = Vec::new();
    for figures in of_base.metrics() {
        let Some(others) = of_new.figures(&figures.metric.name) else {
            continue;
        };
        let margin = (comparing.margin)(&figures.metric.name);
        let sides = Sides::of((figures, others), &places);
        let ratios = threads::map(threads::cores(), &places, |place| {
            Ratio::of((figures, others), &sides, *place)
        });
        let ratios = ratios.into_iter().flatten();
        judged.extend(ratios.map(|ratio| (ratio.judge(margin), ratio)));
    }
    let noise = |fitted: &ExperimentFit<'_>| fitted.metrics().iter().map(|figures| figures.noise()).collect();
    Comparison {
        limits: limits(&comparing.limits, &judged),
        points: judged.into_iter().map(|(point, _)| point).collect(),
        base_noise: noise(&of_base),
        new_noise: noise(&of_new),
    }
}

/// Draws of the compared points on both sides.
fn draw((base, new): (&Figures<'_>, &Figures<'_>), places: &[(usize, usize)]) -> [Draws; 2] {
    let draw = |figures: &Figures<'_>, place: fn(&(usize, usize)) -> usize| {
        let own: BTreeSet<usize> = places.iter().map(place).collect();
        figures.drawn(&own.into_iter().collect::<Vec<usize>>(), usize::MAX)
    };
    [draw(base, |(at, _)| *at), draw(new, |(_, to)| *to)]
}

/// Nodes for which the figures of points hold, by the index of the point.
type NodesOfPoints = BTreeMap<usize, String>;

/// Returns the node for which both figures of a pair hold, for the points of each side. It is a node of both points. If there is none, it
/// is a node of one of them that the other side knows, or else any of their nodes. A pair with a point of unknown nodes has none.
fn nodes_of_pairs(
    (base, new): (&Experiment, &Experiment),
    places: &[(usize, usize)],
    metric: &str,
) -> (NodesOfPoints, NodesOfPoints) {
    let (in_base, in_new) = (runs_on_nodes(&base.points, metric), runs_on_nodes(&new.points, metric));
    let mut found = (NodesOfPoints::new(), NodesOfPoints::new());
    for (at, to) in places {
        let own = [&base.points[*at], &new.points[*to]];
        let [was, is] = own.map(|point| runs_on_nodes(std::slice::from_ref(point), metric));
        if was.is_empty() || is.is_empty() {
            continue;
        }
        let rank = |node: &&str| {
            let runs = |on: &BTreeMap<&str, usize>| on.get(*node).copied().unwrap_or(0);
            let (was, is) = (runs(&was), runs(&is));
            let known = runs(&in_base).min(runs(&in_new));
            (was.min(is), known, was + is, Reverse((*node).to_owned()))
        };
        if let Some(node) = was.keys().chain(is.keys()).copied().max_by_key(rank) {
            found.0.insert(*at, node.to_owned());
            found.1.insert(*to, node.to_owned());
        }
    }
    found
}

/// Returns the number of runs with a metric on each known node.
fn runs_on_nodes<'p>(points: &'p [Point], metric: &str) -> BTreeMap<&'p str, usize> {
    let mut found = BTreeMap::new();
    let runs = points.iter().flat_map(|point| &point.runs);
    for run in runs.filter(|run| !run.node.is_empty() && run.figures.get(metric).is_some()) {
        *found.entry(&*run.node).or_default() += 1;
    }
    found
}

/// Index of each point by its id.
fn places_of(experiment: &Experiment) -> HashMap<&str, usize> {
    let points = experiment.points.iter().enumerate();
    points.map(|(at, point)| (&*point.id, at)).collect()
}

/// The distributions of a metric on both sides.
struct Sides<'k> {
    /// Mixtures of normal distributions, if both sides are on the logarithmic scale.
    normal: Option<[Components<'k>; 2]>,
    /// Draws of the points that have no such distribution on both sides.
    drawn: [Draws; 2],
}

impl<'k> Sides<'k> {
    /// Returns the distributions of a metric at these points.
    fn of((base, new): (&'k Figures<'k>, &'k Figures<'k>), places: &[(usize, usize)]) -> Sides<'k> {
        let is_log = [base, new].iter().all(|figures| figures.metric.scale == Scale::Log);
        let normal = is_log.then(|| [base, new].map(|figures| figures.posterior.components()));
        let is_normal = |(at, to): &(usize, usize)| {
            let sides = normal.as_ref();
            sides.is_some_and(|[base, new]| base.of(*at).is_some() && new.of(*to).is_some())
        };
        let left: Vec<(usize, usize)> = places.iter().filter(|place| !is_normal(place)).copied().collect();
        Sides {
            drawn: draw((base, new), &left),
            normal,
        }
    }

    /// Returns the distribution of the logarithm of a point's ratio; `None` if there are only draws of it. Unlike a ratio of draws, it does
    /// not depend on ids, and with the sides exchanged it has the opposite sign.
    fn difference(&self, (at, to): (usize, usize)) -> Option<Vec<Component>> {
        let [base, new] = self.normal.as_ref()?;
        Some(difference(&base.of(at)?, &new.of(to)?))
    }

    /// Draws of the ratio of a point.
    fn ratios(&self, (base, new): (&Figures<'_>, &Figures<'_>), (at, to): (usize, usize)) -> Vec<f64> {
        let (was, is) = (base.values_of(&self.drawn[0], at), new.values_of(&self.drawn[1], to));
        was.iter().zip(&is).map(|(was, is)| is / was).collect()
    }
}

/// The figures of a metric on both sides at one point.
struct Ratio<'k> {
    base: (&'k Figures<'k>, usize),
    new: (&'k Figures<'k>, usize),
    was: Estimate,
    is: Estimate,
    ratio: Estimate,
}

impl<'k> Ratio<'k> {
    fn of(
        (base, new): (&'k Figures<'k>, &'k Figures<'k>),
        sides: &Sides<'_>,
        (at, to): (usize, usize),
    ) -> Option<Ratio<'k>> {
        let (was, is) = (base.estimates[at]?, new.estimates[to]?);
        if was.value <= 0.0 {
            return None;
        }
        let value = is.value / was.value;
        let ratio = match sides.difference((at, to)) {
            Some(difference) => {
                let (low, high) = interval(&difference, INTERVAL);
                let (low, high) = (low.exp().min(value), high.exp().max(value));
                let is_finite = low.is_finite() && high.is_finite();
                Some(Estimate { value, low, high }).filter(|_| is_finite)
            }
            None => {
                // On a linear scale, draws may be negative although both figures are not. Their ratios are then raised to 0.
                let least = if was.value >= 0.0 && is.value >= 0.0 {
                    0.0
                } else {
                    f64::NEG_INFINITY
                };
                let draws = sides.ratios((base, new), (at, to)).into_iter();
                estimate_by(value, draws.map(|ratio| ratio.max(least)))
            }
        }?;
        Some(Ratio {
            ratio,
            base: (base, at),
            new: (new, to),
            was,
            is,
        })
    }

    fn judge(&self, margin: f64) -> ComparedPoint {
        let metric = self.base.0.metric;
        let point = |(figures, at): (&'k Figures<'k>, usize)| &figures.experiment.points[at];
        let (base, new) = (point(self.base), point(self.new));
        let starts = (base.starts(), new.starts());
        let verdict = verdict(self.ratio, margin, metric.better);
        ComparedPoint {
            metric: metric.name.clone(),
            base: base.id.clone(),
            new: new.id.clone(),
            was: self.was,
            is: self.is,
            ratio: self.ratio,
            more_starts: (verdict == Verdict::Undecided && self.is_of_one_node())
                .then(|| self.more_starts(margin, starts.0.min(starts.1)))
                .flatten(),
            starts,
            verdict,
        }
    }

    /// Returns true if both points have runs on the node for which their figures hold. Otherwise more starts do not show how nodes differ.
    fn is_of_one_node(&self) -> bool {
        let has_runs = |(figures, at): (&Figures<'_>, usize)| {
            let node = figures.posterior.observations.node_of(at);
            let mut runs = figures.experiment.points[at].runs.iter();
            runs.any(|run| node == Some(&*run.node))
        };
        has_runs(self.base) && has_runs(self.new)
    }

    /// Returns the number of further starts on each side that decide the verdict in four of five cases, if the estimate is true. `have` is
    /// the number of starts so far on the side with fewer.
    fn more_starts(&self, margin: f64, have: usize) -> Option<usize> {
        let interval = logs(self.ratio);
        let deviation = (interval.high - interval.low) / 4.0;
        more_starts(Margin::relative(margin), self.ratio.value.ln(), deviation, have)
    }

    /// The probability that the ratio is at most a bound.
    fn probability_below(&self, bound: f64, sides: &Sides<'_>) -> f64 {
        let place = (self.base.1, self.new.1);
        let Some(difference) = sides.difference(place) else {
            let ratios = sides.ratios((self.base.0, self.new.0), place);
            let below = ratios.iter().filter(|ratio| **ratio <= bound).count() as f64;
            let all = ratios.len().max(1) as f64;
            return (below / all).clamp(0.5 / all, 1.0 - 0.5 / all);
        };
        // The distribution is used instead of draws, because Holm's correction needs tails that draws would not reach.
        let below = difference.iter().map(|own| {
            let off = (own.mean - bound.ln()) / own.variance.sqrt().max(f64::MIN_POSITIVE);
            own.weight * erfc(off / SQRT_2) / 2.0
        });
        below.sum::<f64>().clamp(0.0, 1.0)
    }
}

/// The interval of a ratio, as logarithms. An end at 0 or below, possible on a linear scale, becomes the lowest logarithm there is.
fn logs(ratio: Estimate) -> Interval {
    let log = |end: f64| end.max(f64::MIN_POSITIVE).ln();
    Interval {
        low: log(ratio.low),
        high: log(ratio.high),
    }
}

/// The verdict of a ratio's interval: same if it lies within the margin, else improved or regressed if it lies on one side of 1.
pub fn verdict(ratio: Estimate, margin: f64, better: Better) -> Verdict {
    Verdict::of(logs(ratio), Margin::relative(margin), better)
}

fn limits(limits: &[Limit], points: &[(ComparedPoint, Ratio<'_>)]) -> Vec<ComparedLimit> {
    let (mut asked, mut p_values) = (Vec::new(), Vec::new());
    for limit in limits {
        let own: Vec<&(ComparedPoint, Ratio<'_>)> = points
            .iter()
            .filter(|(point, _)| point.metric == limit.metric)
            .collect();
        let Some((_, Ratio { base, new, .. })) = own.first() else {
            continue;
        };
        let places: Vec<(usize, usize)> = own.iter().map(|(_, ratio)| (ratio.base.1, ratio.new.1)).collect();
        let sides = Sides::of((base.0, new.0), &places);
        for (point, ratio) in own {
            let below = ratio.probability_below(1.0 + limit.change, &sides);
            let kept = if limit.change >= 0.0 { below } else { 1.0 - below };
            p_values.push((2.0 * kept).min(1.0));
            asked.push((limit, point));
        }
    }
    let judged = asked.into_iter().zip(holm(&p_values)).map(|((limit, point), p_value)| {
        let bound = 1.0 + limit.change;
        let is_met = match limit.change >= 0.0 {
            true => point.ratio.high <= bound,
            false => point.ratio.low >= bound,
        };
        ComparedLimit {
            metric: limit.metric.clone(),
            change: limit.change,
            base: point.base.clone(),
            new: point.new.clone(),
            requirement: match (p_value <= ALPHA, is_met) {
                (true, _) => RequirementVerdict::Broken,
                (false, true) => RequirementVerdict::Met,
                (false, false) => RequirementVerdict::Undecided,
            },
            p_value,
        }
    });
    judged.collect()
}
