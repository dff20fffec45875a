//! The words of a comparison: the columns of a row, limits, the tally.

use super::{Comparison, Figure, LimitVerdict};
use crate::ordered::Ordered;
use crate::texts::changes::change_and_interval;
use crate::texts::words::{name, show_figure};
use itertools::Itertools;
use serde::Serialize;
use serde_json::Value;
use vsweep_answer::{RequirementVerdict, Verdict};
use vsweep_base::units::show_count;
use vsweep_plan::Limit;
use vsweep_strategy::stats::normal_quantile;

/// The cells of a figure's row, in the order of `HEADS`.
pub fn cells(figure: &Figure) -> [String; 8] {
    let is_undecided = figure.verdict == Verdict::Undecided;
    let more = figure.more_starts.filter(|_| is_undecided);
    let (change, interval) = change_and_interval(figure.ratio, figure.interval);
    [
        figure.metric.clone(),
        show_figure(figure.base),
        show_figure(figure.new),
        change,
        interval,
        format!("{} + {}", figure.starts.0, figure.starts.1),
        more.map_or(String::new(), |more| more.to_string()),
        word(figure.verdict),
    ]
}

pub const STARTS: &str = "starts";
/// Starts of each side that are likely still needed for a verdict.
const MORE_STARTS: &str = "starts needed";
pub const HEADS: [&str; 8] = [
    "metric",
    "base",
    "new",
    "change",
    "95 % interval",
    STARTS,
    MORE_STARTS,
    "verdict",
];
/// Columns to leave out in a narrow terminal: sets to try in order until the table fits.
pub const DROPPED: [&[&str]; 3] = [&[], &[MORE_STARTS], &[MORE_STARTS, STARTS, "base", "new"]];

/// The word for a verdict or for the result of a limit, as in JSON.
pub fn word(of: impl Serialize) -> String {
    let word = serde_json::to_value(of).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Formats a limit: `p99_ttft_ms:+5%`.
pub fn show_limit(limit: &Limit) -> String {
    format!("{}:{:+}%", limit.metric, limit.percent)
}

/// A p-value with its sign: `= 0.412`, `< 0.001`.
pub fn show_p(p_value: f64) -> String {
    match p_value < 0.001 {
        true => "< 0.001".to_owned(),
        false => format!("= {p_value:.3}"),
    }
}

/// The change behind the result of a limit, as `change` formats it, and the reason if there is another.
pub fn grounds(judged: &LimitVerdict, change: Option<String>) -> String {
    change.iter().chain(&judged.reason).join("; ")
}

/// Most metrics with a common margin that are named. If there are more, only their number is given.
const MOST_METRICS: usize = 2;

/// Number of comparisons from which some are expected to differ by chance.
const MANY: usize = 20;
/// Share of comparisons that differ by chance, at 95 % intervals.
const BY_CHANCE: f64 = 0.05;

/// Returns `about 4 of 77 equal figures differ by chance`, if at most twice as many comparisons differ as expected, and each
/// difference is so small that it may be the largest of so many by chance. `None` if a limit is not met or the new side loses something.
fn by_chance(comparison: &Comparison) -> Option<String> {
    let is_unmet = |found: RequirementVerdict| found != RequirementVerdict::Met;
    if comparison.has_losses || comparison.requirements().any(is_unmet) || !may_be_chance(comparison) {
        return None;
    }
    let all = comparison.figures().count();
    Some(format!(
        "about {:.0} of {all} equal figures differ by chance",
        all as f64 * BY_CHANCE
    ))
}

/// Returns true if so few of many figures differ, and so little, that all of it may be chance.
pub(super) fn may_be_chance(comparison: &Comparison) -> bool {
    let all = comparison.figures().count();
    if all < MANY {
        return false;
    }
    let is_decided = |figure: &&Figure| matches!(figure.verdict, Verdict::Improved | Verdict::Regressed);
    let decided = comparison.figures().filter(is_decided).collect_vec();
    let expected = all as f64 * BY_CHANCE;
    // Bonferroni's correction: the largest of so many differences exceeds this limit by chance as rarely as a single one exceeds its own.
    let farthest = normal_quantile(BY_CHANCE / (2 * all) as f64);
    let could_be_chance = |figure: &&Figure| distance(figure) < farthest;
    !decided.is_empty() && decided.len() as f64 <= 2.0 * expected && decided.iter().all(could_be_chance)
}

/// Distance of a ratio from 1, in standard errors on the logarithmic scale.
fn distance(figure: &Figure) -> f64 {
    let (low, high) = figure.interval;
    let error = (high / low).ln() / (2.0 * normal_quantile(BY_CHANCE / 2.0));
    figure.ratio.ln().abs() / error
}

/// Counts the verdicts and states the margins: `2 improved, 1 regressed, 12 same, 5 undecided; changes within 3 % do not matter`.
pub fn tally(comparison: &Comparison) -> String {
    let verdicts = [Verdict::Improved, Verdict::Regressed, Verdict::Same, Verdict::Undecided];
    let counts = verdicts.map(|verdict| (comparison.count(verdict), word(verdict)));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = match counts
        .map(|(count, name)| format!("{} {name}", show_count(*count as u64)))
        .join(", ")
    {
        none if none.is_empty() => "nothing could be compared".to_owned(),
        counts => match by_chance(comparison) {
            None => counts,
            Some(why) => format!("no difference beyond chance: {counts} ({why})"),
        },
    };
    let is_compared = |metric: &str| comparison.figures().any(|figure| figure.metric == metric);
    let margins = comparison.own_margins.iter();
    let margins = margins
        .filter(|(metric, _)| is_compared(metric))
        .map(|(metric, percent)| (percent.to_string(), metric.as_str()))
        .into_group_map();
    let margins = margins.into_iter().ordered();
    let margins = margins.map(|(percent, metrics)| match metrics.len() {
        ..=MOST_METRICS => format!(
            "{percent} % for {}",
            metrics.iter().map(|metric| name(metric)).join(", ")
        ),
        count => format!("{percent} % for {count} metrics"),
    });
    let margins = margins.collect_vec();
    match margins.is_empty() {
        true => format!("{counts}; changes within {} % do not matter", comparison.margin_percent),
        false => format!(
            "{counts}; changes below this machine's noise count as equal ({}; change it with --margin)",
            margins.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Pair;
    use crate::compare::changes::lead;
    use std::collections::BTreeMap;

    /// A comparison of 24 figures of which two regressed, with this ratio and interval.
    fn two_regressed(ratio: f64, interval: (f64, f64)) -> Comparison {
        let figure = |at: usize| {
            let (ratio, interval, verdict) = match at {
                0 | 1 => (ratio, interval, Verdict::Regressed),
                _ => (1.0, (0.98, 1.02), Verdict::Same),
            };
            Figure {
                metric: format!("metric_{at}"),
                base: 100.0,
                new: 100.0 * ratio,
                new_interval: (100.0 * interval.0, 100.0 * interval.1),
                ratio,
                interval,
                verdict,
                starts: (3, 3),
                more_starts: None,
            }
        };
        Comparison {
            base: "base".to_owned(),
            new: "new".to_owned(),
            margin_percent: 3.0,
            own_margins: BTreeMap::new(),
            changes: Vec::new(),
            nodes: None,
            doubts: Vec::new(),
            frontiers: Vec::new(),
            points: vec![Pair {
                settings: String::new(),
                figures: (0..24).map(figure).collect(),
            }],
            only_base: Vec::new(),
            only_new: Vec::new(),
            failed_base: Vec::new(),
            failed_new: Vec::new(),
            is_limited: false,
            has_losses: false,
            unknown: Vec::new(),
            limits: Vec::new(),
            requirement: None,
            noise: (Vec::new(), Vec::new()),
        }
    }

    #[test]
    fn figures_that_point_one_way_are_said_first() {
        let mut comparison = two_regressed(0.59, (0.51, 0.68));
        assert_eq!(
            lead(&comparison).as_deref(),
            Some("new is worse: metric_0 -41.0 % at 1 of 1 point; nothing better")
        );
        comparison.points[0].figures[5].verdict = Verdict::Improved;
        assert_eq!(lead(&comparison), None, "they point both ways");
        comparison.points[0].figures[5].verdict = Verdict::Same;
        comparison.is_limited = true;
        comparison.unknown = vec![("target chat".to_owned(), "up to 9 in base, 8 in new".to_owned())];
        assert_eq!(
            lead(&comparison).as_deref(),
            Some("new is worse: metric_0 -41.0 % at 1 of 1 point; 1 limit not met")
        );
        let mut by_chance = two_regressed(0.95, (0.92, 0.99));
        assert_eq!(lead(&by_chance), None);
        (by_chance.is_limited, by_chance.unknown) = (comparison.is_limited, comparison.unknown);
        assert_eq!(lead(&by_chance), None, "a limit that is not met gives no reason");
    }

    #[test]
    fn no_p_value_is_zero() {
        assert_eq!(
            [0.0, 0.0004, 0.412, 1.0].map(show_p),
            ["< 0.001", "< 0.001", "= 0.412", "= 1.000"]
        );
    }

    #[test]
    fn large_differences_are_never_called_chance() {
        let large = tally(&two_regressed(0.59, (0.51, 0.68)));
        assert!(!large.contains("beyond chance"), "{large}");
        let mut small = two_regressed(0.95, (0.92, 0.99));
        assert!(
            tally(&small).starts_with("no difference beyond chance"),
            "{}",
            tally(&small)
        );
        small.is_limited = true;
        small.failed_new = vec!["concurrency 8".to_owned()];
        assert!(!tally(&small).contains("beyond chance"), "a limit is broken");
    }
}
