//! The limits of a comparison: the result of each limit at each point. Lost requests and runs, and figures without a ratio, decide it too.

use super::matching::PointPair;
use crate::findings::losses::loss;
use itertools::Itertools;
use serde::Serialize;
use vsweep_answer::RequirementVerdict::{self, Broken, Met, Undecided};
use vsweep_plan::Limit;
use vsweep_record::table::{Point, Points};
use vsweep_strategy::stats::Bound;

/// A limit at one point.
#[derive(Debug, Clone, Serialize)]
pub struct LimitVerdict {
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// The point, by its settings.
    pub settings: String,
    /// The ratio of the figures; `None` if they have none.
    #[serde(flatten)]
    pub measured: Option<LimitRatio>,
    /// Result of the limit.
    pub requirement: RequirementVerdict,
    /// Reason for the result if it is not the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The figures behind the result of a limit.
#[derive(Debug, Clone, Serialize)]
pub struct LimitRatio {
    /// The base's estimate.
    pub base: f64,
    /// The new side's estimate.
    pub new: f64,
    /// New over base.
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: (f64, f64),
    /// P-value under the hypothesis that the limit holds, after Holm's correction.
    pub p_value: f64,
}

impl LimitVerdict {
    /// The part of the change that lies beyond the limit, as a fraction of the base; negative within it, infinite without a ratio.
    pub(super) fn excess(&self) -> f64 {
        let percent = self.limit.percent;
        let beyond = |measured: &LimitRatio| (measured.ratio - 1.0 - percent / 100.0) * percent.signum();
        self.measured.as_ref().map_or(f64::INFINITY, beyond)
    }
}

/// The limit in the form that `vsweep_answer` takes.
pub fn to_limit(limit: &Limit) -> vsweep_answer::Limit {
    vsweep_answer::Limit {
        metric: limit.metric.clone(),
        change: limit.percent / 100.0,
    }
}

/// Judges each limit at each point. A limit has no result at a point where neither side has its metric.
pub fn judge(
    pairs: &[PointPair<'_>],
    sides: &(Points<'_>, Points<'_>),
    limits: &[Limit],
    compared: &vsweep_answer::Comparison,
) -> Vec<LimitVerdict> {
    let judged = pairs.iter().cartesian_product(limits).filter_map(|(pair, limit)| {
        let is_zero = |points: &Points<'_>, point: &Point| {
            let figure = points.spread(point, &limit.metric)?;
            Some(figure.value == 0.0)
        };
        let zeros = (is_zero(&sides.0, pair.base), is_zero(&sides.1, pair.new));
        let ratio = measured(pair, limit, compared).filter(|_| zeros.0 != Some(true));
        // A figure that falls to 0 breaks the limit, however wide its interval is.
        let (measured, (requirement, reason)) = match (ratio, by_zeros(zeros, limit)?) {
            (Some((ratio, _)), (Broken, why)) => (Some(ratio), (Broken, Some(why))),
            (Some((ratio, requirement)), _) => (Some(ratio), (requirement, None)),
            (None, (requirement, why)) => (None, (requirement, Some(why))),
        };
        let lost = loss((&sides.0, pair.base), (&sides.1, pair.new));
        let (requirement, reason) = match lost {
            Some((least, why)) if least >= requirement => (least, Some(why)),
            _ => (requirement, reason),
        };
        Some(LimitVerdict {
            limit: limit.clone(),
            settings: pair.settings.clone(),
            measured,
            requirement,
            reason,
        })
    });
    judged.collect()
}

fn measured(
    pair: &PointPair<'_>,
    limit: &Limit,
    compared: &vsweep_answer::Comparison,
) -> Option<(LimitRatio, RequirementVerdict)> {
    let sought = to_limit(limit);
    let judged = compared.limits.iter().find(|judged| {
        judged.base == *pair.base.id && judged.metric == sought.metric && judged.change == sought.change
    })?;
    let is_it = |base: &str, metric: &str| *base == *pair.base.id && *metric == *limit.metric;
    let mut points = compared.points.iter();
    let point = points.find(|point| is_it(&point.base, &point.metric))?;
    let ratio = LimitRatio {
        base: point.was.value,
        new: point.is.value,
        ratio: point.ratio.value,
        interval: (point.ratio.low, point.ratio.high),
        p_value: judged.p_value,
    };
    Some((ratio, judged.requirement))
}

/// Judges a limit whose figures have no ratio, by which sides are 0. In `zeros`, `None` is a side without a figure. Returns `None` if both
/// sides lack one.
fn by_zeros(zeros: (Option<bool>, Option<bool>), limit: &Limit) -> Option<(RequirementVerdict, String)> {
    let is_upper = Bound::percent(limit.percent).is_upper;
    let (verdict, why) = match zeros {
        (None, None) => return None,
        (Some(_), None) => (Undecided, "no figure in new"),
        (None, Some(_)) => (Undecided, "no figure in base"),
        (Some(true), Some(true)) => (if is_upper { Met } else { Undecided }, "0 on both sides"),
        (Some(true), Some(false)) => (if is_upper { Broken } else { Undecided }, "0 in base"),
        (Some(false), Some(true)) => (if is_upper { Undecided } else { Broken }, "0 in new"),
        (Some(false), Some(false)) => (Undecided, "too few figures for a ratio"),
    };
    Some((verdict, why.to_owned()))
}
