//! The changes of a comparison in words and as a picture: where each metric became better or worse, and by how much.

use super::words::may_be_chance;
use super::{Comparison, Figure};
use crate::chart::Chart;
use crate::charts::bars::{Bar, panel};
use crate::ordered::Ordered;
use crate::texts::changes::changes;
use crate::texts::words::{name, title};
use itertools::Itertools;
use vsweep_answer::{RequirementVerdict, Verdict};
use vsweep_base::units::show_many;

/// Most points that a sentence names.
const MOST_NAMED: usize = 3;
/// Most metrics in the picture.
const MOST_PANELS: usize = 2;

/// A figure with the settings of its point.
pub(super) type FigureAt<'a> = (&'a str, &'a Figure);

/// Every figure, ordered by its verdict: worse, better, undecided, the same. Within a verdict the largest change comes first.
pub(super) fn by_weight(comparison: &Comparison) -> Vec<FigureAt<'_>> {
    let weighed = figures_at(comparison).ordered_by(|(_, a), (_, b)| {
        let ranked = rank(a.verdict).cmp(&rank(b.verdict));
        ranked.then(size(b).total_cmp(&size(a)))
    });
    weighed.collect()
}

fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Regressed => 0,
        Verdict::Improved => 1,
        Verdict::Undecided => 2,
        Verdict::Same => 3,
    }
}

/// Sentences about points without a valid run on one side, then one for each metric that changed or may have changed, such as `p99 TTFT:
/// better at 3 of 8 points (-4.2 to -12.1 %)`, the worst first, and one for all metrics with one verdict at every point, if they are
/// undecided or the same.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    let failed = |settings: &[String], side: &str, other: &str| {
        let count = show_many(settings.len() as u64, "point");
        let named = settings.iter().take(MOST_NAMED).join("; ");
        let more = settings.len().saturating_sub(MOST_NAMED);
        let named = if more > 0 {
            format!("{named}; and {more} more")
        } else {
            named
        };
        (!settings.is_empty()).then(|| format!("{count} of {other} without a valid run in {side}: {named}"))
    };
    let new = failed(&comparison.failed_new, "new", "base");
    let base = failed(&comparison.failed_base, "base", "new");
    let mut sentences: Vec<String> = new.into_iter().chain(base).collect();
    let (mut undecided, mut same) = (Vec::new(), Vec::new());
    let worst = |figures: &[FigureAt<'_>]| figures.iter().map(|(_, figure)| rank(figure.verdict)).min();
    let metrics = by_metric(comparison).into_iter();
    for (metric, figures) in metrics.ordered_by_key(|(_, figures)| worst(figures)) {
        let has_only = |verdict| figures.iter().all(|(_, figure)| figure.verdict == verdict);
        if has_only(Verdict::Same) {
            same.push(name(metric));
            continue;
        }
        if has_only(Verdict::Undecided) {
            undecided.push(name(metric));
            continue;
        }
        let found = [
            (Verdict::Regressed, "worse"),
            (Verdict::Improved, "better"),
            (Verdict::Undecided, "undecided"),
        ];
        let found = found.map(|(verdict, word)| part(&figures, verdict, word));
        sentences.push(format!("{}: {}", title(metric), found.into_iter().flatten().join(", ")));
    }
    if !undecided.is_empty() {
        sentences.push(format!("Undecided at every point: {}", undecided.join(", ")));
    }
    if !same.is_empty() {
        sentences.push(format!("The same at every point: {}", same.join(", ")));
    }
    sentences
}

/// One sentence about all decided figures, if they point one way: `new is better: output throughput +9.6 to +11.9 % at 11 of 11 points;
/// nothing worse`. It names the metric that is decided at the most points, and of several the first. If limits are not met, their number
/// replaces the end.
pub(super) fn lead(comparison: &Comparison) -> Option<String> {
    let (verdict, word, other) = match [Verdict::Improved, Verdict::Regressed].map(|of| comparison.count(of) > 0) {
        [true, false] => (Verdict::Improved, "better", "worse"),
        [false, true] => (Verdict::Regressed, "worse", "better"),
        _ => return None,
    };
    let has_failed = !comparison.failed_base.is_empty() || !comparison.failed_new.is_empty();
    if has_failed || comparison.has_losses || may_be_chance(comparison) {
        return None;
    }
    let decided = by_metric(comparison).into_iter().rev().map(|(metric, all)| {
        let decided = all.iter().filter(|(_, figure)| figure.verdict == verdict);
        (metric, decided.map(|(_, figure)| figure.ratio).collect_vec(), all.len())
    });
    let (metric, ratios, all) = decided.max_by_key(|(_, ratios, _)| ratios.len())?;
    let all = show_many(all as u64, "point");
    let requirements = comparison.requirements();
    let unmet = requirements.filter(|found| *found != RequirementVerdict::Met).count();
    let end = match (unmet, comparison.count(Verdict::Undecided)) {
        (0, 0) => format!("nothing {other}"),
        (0, _) => format!("nothing known to be {other}"),
        (unmet, _) => format!("{} not met", show_many(unmet as u64, "limit")),
    };
    Some(format!(
        "{} is {word}: {} {} at {} of {all}; {end}",
        comparison.new,
        name(metric),
        range(&ratios)?,
        ratios.len()
    ))
}

/// The smallest and the largest of some changes, or the only one.
fn range(ratios: &[f64]) -> Option<String> {
    ratios.iter().copied().minmax().into_option().map(changes)
}

/// Describes a metric's points with this verdict, and the range of their changes; `None` if there are none.
fn part(all: &[FigureAt<'_>], verdict: Verdict, word: &str) -> Option<String> {
    let found = all.iter().filter(|(_, figure)| figure.verdict == verdict).collect_vec();
    let by = range(&found.iter().map(|(_, figure)| figure.ratio).collect_vec())?;
    let place = match found.as_slice() {
        _ if found.len() == all.len() && all.len() > 1 => "at every point".to_owned(),
        [(settings, _)] => format!("at {settings}"),
        _ => format!("at {} of {} points", found.len(), all.len()),
    };
    let measured = if verdict == Verdict::Undecided { "measured " } else { "" };
    Some(format!("{word} {place} ({measured}{by})"))
}

/// A picture of the metrics that changed at the most points, with their margins; `None` if nothing is known to have changed.
pub(super) fn chart(comparison: &Comparison, is_simulated: bool) -> Option<Chart> {
    let has_changed = |(_, figure): &FigureAt<'_>| matches!(figure.verdict, Verdict::Improved | Verdict::Regressed);
    // Among metrics that changed at equally many points, the one with the largest change comes first.
    let weight = |figures: &[FigureAt<'_>]| {
        let sizes = figures.iter().filter(|placed| has_changed(placed));
        let sizes = sizes.map(|(_, figure)| size(figure)).collect_vec();
        let largest = sizes.iter().copied().reduce(f64::max)?;
        Some((sizes.len(), largest))
    };
    let changed = by_metric(comparison).into_iter();
    let changed = changed.filter_map(|(metric, figures)| Some((weight(&figures)?, metric, figures)));
    let changed = changed.collect_vec().into_iter();
    let changed = changed.ordered_by(|(a, ..), (b, ..)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let panels = changed.into_iter().take(MOST_PANELS).map(|(_, metric, figures)| {
        let bars = figures.into_iter().map(|(settings, figure)| Bar {
            label: settings.to_owned(),
            ratio: figure.ratio,
            interval: figure.interval,
            verdict: figure.verdict,
        });
        let margin = comparison.own_margins.get(metric).copied();
        panel(
            metric,
            bars.collect(),
            Some(margin.unwrap_or(comparison.margin_percent)),
        )
    });
    let panels = panels.collect_vec();
    (!panels.is_empty()).then(|| Chart {
        name: "changes".into(),
        title: "Changes at each point".into(),
        note: "The metrics that changed at most points; new against base at the same settings and load. Lines: 95 % intervals.".into(),
        footer: format!("base: {} · new: {}", comparison.base, comparison.new),
        simulated: is_simulated,
        columns: panels.len(),
        panels,
    })
}

fn by_metric(comparison: &Comparison) -> Vec<(&str, Vec<FigureAt<'_>>)> {
    let metrics = comparison.figures().map(|figure| figure.metric.as_str()).unique();
    let of = |metric: &str| {
        figures_at(comparison)
            .filter(|(_, figure)| figure.metric == metric)
            .collect()
    };
    metrics.map(|metric| (metric, of(metric))).collect()
}

fn figures_at(comparison: &Comparison) -> impl Iterator<Item = FigureAt<'_>> {
    let points = comparison.points.iter();
    points.flat_map(|pair| pair.figures.iter().map(|figure| (pair.settings.as_str(), figure)))
}

fn size(figure: &Figure) -> f64 {
    figure.ratio.ln().abs()
}
