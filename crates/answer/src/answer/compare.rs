//! Two experiments against each other: new over base, metric by metric at each point that both measured.
//!
//! Each side keeps its own noise between runs and between starts; nothing is pooled between them. Verdicts are those of docs/verdicts.md
//! with the intervals of the model, and requirements are broken only after Holm's correction.

use super::comparison::{ComparedPoint, ComparedRequirement, Comparison, Held};
use super::document::Estimate;
use super::experiment::{Experiment, Metric};
use super::known::{Known, estimate_by};
use super::model::Posterior;
use vsweep_strategy::stats::{ALPHA, Better, Interval, Margin, Verdict, holm};

/// The input of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparing<'e> {
    /// The one that is compared with.
    pub base: &'e Experiment,
    /// The one that is compared.
    pub new: &'e Experiment,
    /// Points to compare, by their ids in base and new.
    pub pairs: Vec<(String, String)>,
    /// The relative difference that does not matter.
    pub margin: f64,
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

/// Compares two experiments in the metrics that both have, in the order of the names.
pub fn compare(comparing: &Comparing<'_>) -> Comparison {
    let (base, new) = (comparing.base.in_order(), comparing.new.in_order());
    // Draws of two sides are independent although their configs have the same ids.
    let new = Experiment {
        seed: new.seed ^ 0x6e65_7700,
        ..new
    };
    let fit = |observations, metric: &Metric| Posterior::fit(observations, &metric.prior);
    let (of_base, of_new) = (Known::of(&base, &fit), Known::of(&new, &fit));
    let mut points = Vec::new();
    for figures in of_base.metrics() {
        let Some(others) = of_new.figures(&figures.metric.name) else {
            continue;
        };
        for (one, other) in &comparing.pairs {
            let place = |experiment: &Experiment, id: &str| experiment.points.iter().position(|point| point.id == id);
            let (Some(at), Some(to)) = (place(&base, one), place(&new, other)) else {
                continue;
            };
            let (Some(was), Some(is)) = (figures.estimates[at], others.estimates[to]) else {
                continue;
            };
            let ratios = figures.draws()[at].iter().zip(&others.draws()[to]);
            let mut ratios: Vec<f64> = ratios.map(|(was, is)| is / was).collect();
            let Some(ratio) = estimate_by(is.value / was.value, ratios.iter().copied()) else {
                continue;
            };
            ratios.sort_by(f64::total_cmp);
            points.push(Drawn {
                point: ComparedPoint {
                    metric: figures.metric.name.clone(),
                    base: one.clone(),
                    new: other.clone(),
                    was,
                    is,
                    ratio,
                    verdict: verdict(ratio, comparing.margin, figures.better()),
                },
                ratios,
            });
        }
    }
    let noise = |known: &Known<'_>| known.metrics().iter().map(|figures| figures.noise()).collect();
    Comparison {
        margin: comparing.margin,
        requirements: requirements(&comparing.limits, &points),
        points: points.into_iter().map(|drawn| drawn.point).collect(),
        base_noise: noise(&of_base),
        new_noise: noise(&of_new),
    }
}

/// A compared point with the draws of its ratio, ascending.
struct Drawn {
    point: ComparedPoint,
    ratios: Vec<f64>,
}

/// The verdict of an interval: the same if all of it lies within the margin, better or worse if it lies on one side of 1.
pub fn verdict(ratio: Estimate, margin: f64, better: Better) -> Verdict {
    // A ratio of linear figures may be 0 or less, which is as far below 1 as can be.
    let log = |end: f64| end.max(f64::MIN_POSITIVE).ln();
    let interval = Interval {
        low: log(ratio.low),
        high: log(ratio.high),
    };
    Verdict::of(interval, Margin::percent(100.0 * margin), better)
}

fn requirements(limits: &[Limit], points: &[Drawn]) -> Vec<ComparedRequirement> {
    let asked = limits.iter().flat_map(|limit| {
        let of_metric = points.iter().filter(|drawn| drawn.point.metric == limit.metric);
        of_metric.map(move |drawn| (limit, drawn))
    });
    let judged = asked.map(|(limit, drawn)| {
        let bound = 1.0 + limit.change;
        let below = drawn.ratios.partition_point(|ratio| *ratio <= bound) as f64;
        let count = drawn.ratios.len() as f64;
        // The chance that the limit is kept, at least half a draw.
        let kept = if limit.change >= 0.0 { below } else { count - below };
        let is_met = match limit.change >= 0.0 {
            true => drawn.point.ratio.high <= bound,
            false => drawn.point.ratio.low >= bound,
        };
        (limit, drawn, (2.0 * kept.max(0.5) / count).min(1.0), is_met)
    });
    let judged: Vec<(&Limit, &Drawn, f64, bool)> = judged.collect();
    let chances = holm(&judged.iter().map(|(.., chance, _)| *chance).collect::<Vec<f64>>());
    let said = judged
        .into_iter()
        .zip(chances)
        .map(|((limit, drawn, _, is_met), chance)| ComparedRequirement {
            metric: limit.metric.clone(),
            change: limit.change,
            base: drawn.point.base.clone(),
            new: drawn.point.new.clone(),
            held: match (chance <= ALPHA, is_met) {
                (true, _) => Held::Broken,
                (false, true) => Held::Met,
                (false, false) => Held::Undecided,
            },
        });
    said.collect()
}
