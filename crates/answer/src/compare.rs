//! Two experiments against each other: new over base, metric by metric at each point that both measured.
//!
//! Each side has a noise model of its own; nothing is pooled between them. The verdicts are those of docs/verdicts.md, with the intervals
//! of the model. A limit counts as broken only if it is still broken after Holm's correction.

use super::comparison::{ComparedLimit, ComparedPoint, Comparison};
use super::document::Estimate;
use super::experiment::{Experiment, Metric, Scale};
use super::fit::{ExperimentFit, Figures, estimate_by};
use super::model::{Components, Draws, Posterior};
use statrs::function::erf::erfc;
use std::collections::{BTreeSet, HashMap};
use std::f64::consts::SQRT_2;
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

/// Compares two experiments in the metrics that both have, in the order of their names. A point has no ratio if its figure in the base is
/// 0.
pub fn compare(comparing: &ComparisonInput<'_>) -> Comparison {
    let (base, new) = (comparing.base.clone().in_order(), comparing.new.clone().in_order());
    // Random numbers depend on the seed and the ids. Another seed makes the sides independent although their ids are equal.
    let new = Experiment {
        seed: new.seed ^ 0x6e65_7700,
        ..new
    };
    let fit = |observations, metric: &Metric| Posterior::fit(observations, &metric.prior);
    let (of_base, of_new) = (ExperimentFit::of(&base, &fit), ExperimentFit::of(&new, &fit));
    let (in_base, in_new) = (places_of(&base), places_of(&new));
    let places = |(one, other): &(String, String)| Some((*in_base.get(&**one)?, *in_new.get(&**other)?));
    let places: Vec<(usize, usize)> = comparing.pairs.iter().filter_map(places).collect();
    let mut judged = Vec::new();
    for figures in of_base.metrics() {
        let Some(others) = of_new.figures(&figures.metric.name) else {
            continue;
        };
        let margin = (comparing.margin)(&figures.metric.name);
        let drawn = draw((figures, others), &places);
        let ratios = places
            .iter()
            .filter_map(|place| Ratio::of((figures, others), &drawn, *place));
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

/// Index of each point by its id.
fn places_of(experiment: &Experiment) -> HashMap<&str, usize> {
    let points = experiment.points.iter().enumerate();
    points.map(|(at, point)| (&*point.id, at)).collect()
}

/// The distributions of a metric on both sides: mixtures of normal distributions if both are on the logarithmic scale, else draws.
enum Sides<'k> {
    Normal([Components<'k>; 2]),
    Drawn([Draws; 2]),
}

impl<'k> Sides<'k> {
    /// Returns the distributions of the metric that all of these points have; `None` without points.
    fn of(points: &[&(ComparedPoint, Ratio<'k>)]) -> Option<Sides<'k>> {
        let (_, Ratio { base, new, .. }) = points.first()?;
        let sides = [base.0, new.0];
        if sides.iter().all(|figures| figures.metric.scale == Scale::Log) {
            return Some(Sides::Normal(sides.map(|figures| figures.posterior.components())));
        }
        let places: Vec<(usize, usize)> = points.iter().map(|(_, own)| (own.base.1, own.new.1)).collect();
        Some(Sides::Drawn(draw((base.0, new.0), &places)))
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
        drawn: &[Draws; 2],
        (at, to): (usize, usize),
    ) -> Option<Ratio<'k>> {
        let (was, is) = (base.estimates[at]?, new.estimates[to]?);
        let (before, now) = (base.values_of(&drawn[0], at), new.values_of(&drawn[1], to));
        let draws = before.iter().zip(&now);
        // On a linear scale, draws may be negative although both figures are not. Their ratios are then raised to 0.
        let least = if was.value >= 0.0 && is.value >= 0.0 {
            0.0
        } else {
            f64::NEG_INFINITY
        };
        let ratio = estimate_by(is.value / was.value, draws.map(|(was, is)| (is / was).max(least)))?;
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
            more_starts: (verdict == Verdict::Undecided)
                .then(|| self.more_starts(margin, starts.0.min(starts.1)))
                .flatten(),
            starts,
            verdict,
        }
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
        let [of_base, of_new] = match sides {
            Sides::Normal(sides) => sides,
            Sides::Drawn([of_base, of_new]) => {
                let was = self.base.0.values_of(of_base, self.base.1);
                let is = self.new.0.values_of(of_new, self.new.1);
                let below = was.iter().zip(&is).filter(|(was, is)| *is / *was <= bound).count();
                let all = was.len().min(is.len()).max(1) as f64;
                return (below as f64 / all).clamp(0.5 / all, 1.0 - 0.5 / all);
            }
        };
        // The distributions are used instead of draws, because Holm's correction needs tails that draws would not reach.
        let base = of_base.of(self.base.1).unwrap_or_default();
        let new = of_new.of(self.new.1).unwrap_or_default();
        let pairs = base.iter().flat_map(|was| new.iter().map(move |is| (was, is)));
        let below = pairs.map(|(was, is)| {
            let off = (is.mean - was.mean - bound.ln()) / (was.variance + is.variance).sqrt().max(f64::MIN_POSITIVE);
            was.weight * is.weight * erfc(off / SQRT_2) / 2.0
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
        let Some(sides) = Sides::of(&own) else { continue };
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
