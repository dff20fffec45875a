//! Plain estimates: the figure of a point by its own runs alone, with fixed noise levels, so runs of one point never change the estimate
//! of another, unless they show how nodes differ. They decide which configs meet a target and which one wins.

use super::experiment::{Metric, Point, Run, Scale};
use super::model::{LEAST_SIZE, PLAIN_RUN, PLAIN_START, in_unit, variance_of_sampling, with_zero};
use super::run_figures::Figure;
use std::collections::BTreeMap;

/// The generalised-least-squares mean of a point's runs, in the metric's unit. Shares are pooled; a disturbed run weighs less by its
/// additional noise. Counts are averaged, over undisturbed runs if there are any, and so are figures of which one is 0 although the scale
/// is logarithmic, over all runs. `None` without figures.
pub fn plain(point: &Point, metric: &Metric) -> Option<f64> {
    plain_without(&BTreeMap::new(), point, metric)
}

/// Returns the plain estimate without the effects of nodes, which are given by name, on the metric's scale. Counts, pooled shares and
/// figures of 0 keep them.
pub fn plain_without(nodes: &BTreeMap<&str, f64>, point: &Point, metric: &Metric) -> Option<f64> {
    let effect = |run: &Run| nodes.get(&*run.node).copied().unwrap_or(0.0);
    let figures = || {
        point
            .runs
            .iter()
            .filter_map(|run| Some((run, *run.figures.get(&metric.name)?)))
    };
    if metric.scale == Scale::Share
        && let Some(share) = pooled(figures())
    {
        return Some(share);
    }
    if metric.scale == Scale::Count {
        let is_disturbed = figures().all(|(run, _)| run.disturbed);
        let counted = figures().filter(|(run, _)| run.disturbed == is_disturbed);
        let counts: Vec<f64> = counted.map(|(_, figure)| in_unit(figure)).collect();
        return (!counts.is_empty()).then(|| counts.iter().sum::<f64>() / counts.len() as f64);
    }
    if let Some(figures) = with_zero(point, metric) {
        return Some(figures.iter().sum::<f64>() / figures.len() as f64);
    }
    let mut placed = figures().filter(|(_, figure)| metric.scale.place(*figure).is_some());
    // The figure of a single run is returned as it is, because the arithmetic below would round it.
    if let (Some((run, figure)), None) = (placed.next(), placed.next())
        && effect(run) == 0.0
    {
        return Some(in_unit(figure));
    }
    let sizes = figures().filter(|(_, figure)| metric.scale.place(*figure).is_some());
    let sizes = sizes.map(|(_, figure)| in_unit(figure).abs());
    let size = match metric.scale {
        Scale::Linear => sizes.fold(0.0, f64::max).max(LEAST_SIZE),
        Scale::Log | Scale::Share | Scale::Count => 1.0,
    };
    let mut starts: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
    for (run, figure) in figures() {
        let Some(place) = metric.scale.place(figure) else {
            continue;
        };
        let weight =
            1.0 / ((PLAIN_RUN * size).powi(2) + variance_of_sampling(metric.scale, run.disturbed, figure, size));
        let (weights, sum) = starts.entry((&run.start, &run.node)).or_default();
        *weights += weight;
        *sum += weight * (place - effect(run));
    }
    let (mut weights, mut sum) = (0.0, 0.0);
    for (start_weights, start_sum) in starts.values() {
        let weight = 1.0 / ((PLAIN_START * size).powi(2) + 1.0 / start_weights);
        weights += weight;
        sum += weight * start_sum / start_weights;
    }
    (weights > 0.0).then(|| metric.scale.value(sum / weights))
}

/// The share of all runs together; `None` if a figure is not a share, or nothing was counted.
fn pooled<'r>(figures: impl Iterator<Item = (&'r Run, Figure)>) -> Option<f64> {
    let (mut all_met, mut all) = (0.0, 0.0);
    for (run, figure) in figures {
        let Figure::Share { met, of } = figure else {
            return None;
        };
        let variance = |is_disturbed| PLAIN_RUN.powi(2) + variance_of_sampling(Scale::Share, is_disturbed, figure, 1.0);
        let weight = variance(false) / variance(run.disturbed);
        all_met += weight * met;
        all += weight * of;
    }
    (all > 0.0).then(|| all_met / all)
}
