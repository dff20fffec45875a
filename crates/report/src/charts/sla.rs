//! Charts of each criterion of a target against the load: the measurements of the probes, the limit, and the answers.

use super::x_axis::{WIDE_LOAD, scale_of};
use super::{ChartContext, mean_of};
use crate::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Series, Style};
use crate::ordered::Ordered;
use crate::output::sla::search_name;
use crate::texts::criteria::{phrase, requests};
use crate::texts::words::{axis_title, show_number};
use itertools::Itertools;
use vsweep_record::journal::{SearchRecord, State};
use vsweep_strategy::search::{Answer, Criterion, Found, Quantity, Reading, Target};

/// Ratio of the largest to the smallest figure from which an axis is logarithmic.
const WIDE_FIGURES: f64 = 20.0;
const NOTE: &str =
    "Each point is one tested load (grey: stopped early). Ring: highest load that surely passes. Dashed: limit.";

/// Draws a chart for each target, or several if it has more searches than distinguishable curves.
pub fn charts(subject: &ChartContext<'_>, state: &State) -> Vec<Chart> {
    let all = by_target(subject, state).into_iter();
    all.flat_map(|(_, charts)| charts).collect()
}

/// The name of each target with its first chart; `None` if nothing was measured for it.
pub fn of_each(subject: &ChartContext<'_>, state: &State) -> Vec<(String, Option<Chart>)> {
    let all = by_target(subject, state).into_iter();
    all.map(|(target, charts)| (target.name.clone(), charts.into_iter().next()))
        .collect()
}

fn by_target<'s>(subject: &ChartContext<'_>, state: &'s State) -> Vec<(&'s Target, Vec<Chart>)> {
    let searches: Vec<&SearchRecord> = state.searches().collect();
    let targets = searches.iter().flat_map(|record| &record.started.targets);
    let targets = targets.unique_by(|target| &target.name);
    let charts_of = |(position, target): (usize, &'s Target)| {
        let of_target = searches.iter().copied();
        let of_target: Vec<&SearchRecord> = of_target
            .filter(|record| record.started.targets.contains(target))
            .collect();
        let parts = of_target.chunks(MOST_CURVES).enumerate();
        let charts = parts.filter_map(|(part, searches)| {
            let panels = target.criteria.iter();
            let panels: Vec<Panel> = panels
                .filter_map(|criterion| panel(criterion, target, searches, state))
                .collect();
            let name = format!("sla_{}", position + 1);
            (!panels.is_empty()).then(|| subject.search_chart(&name, part, title_of(target), NOTE, panels))
        });
        (target, charts.collect())
    };
    targets.enumerate().map(charts_of).collect()
}

/// The title of a target's chart: its name, with its criteria if the name does not list them.
fn title_of(target: &Target) -> String {
    let criteria = target.criteria.iter().map(phrase).join(", ");
    match target.name == target.criteria.iter().join(", ") {
        true => format!("Highest load that meets {criteria}"),
        false => format!("Highest load that meets {} ({criteria})", target.name),
    }
}

fn panel(criterion: &Criterion, target: &Target, searches: &[&SearchRecord], state: &State) -> Option<Panel> {
    let limit = limit(criterion);
    // Series of one kind follow each other, so that the legend is in order. Rings come after the curves, so that they are on top of them.
    let (mut stopped, mut curves, mut rings) = (Vec::new(), Vec::new(), Vec::new());
    for (colour, record) in searches.iter().enumerate() {
        let name = search_name(record, state);
        let points = marks(criterion, record, state, false);
        let cut = marks(criterion, record, state, true);
        let answer = record.answer(&target.name);
        let value = answer.and_then(|answer| answer.found.value());
        let answered = points.iter().chain(&cut).find(|mark| Some(mark.x) == value);
        let ring = answered.map(|mark| Mark {
            label: ring_label(answer, name.clone()),
            ..mark.clone()
        });
        stopped.push(Series::new("stopped early", Style::Background, cut));
        curves.push(Series::new(name, Style::Curve(colour), points));
        rings.push(Series::new("answer", Style::Ring, ring.into_iter().collect()));
    }
    let mut series = [stopped, curves, rings].concat();
    let marks = || series.iter().flat_map(|series| &series.points);
    let (low, high) = marks().map(|mark| mark.x).minmax().into_option()?;
    let x = Axis::of(
        axis_title(searches.first()?.started.vary.name()),
        scale_of(marks().map(|mark| mark.x), WIDE_LOAD),
    );
    let figures = marks().map(|mark| mark.y).chain([limit]);
    let y = Axis::of(title(criterion), scale_of(figures, WIDE_FIGURES));
    let line = vec![Mark::at(low, limit), Mark::at(high, limit)];
    series.push(Series::new("limit", Style::Limit, line));
    Some(Panel::of(x, y, series))
}

/// Returns the label of an answer: the name of its search, and the load. The name is needed because a probe that was stopped early is grey
/// for every search.
fn ring_label(answer: Option<&Answer>, name: String) -> Vec<String> {
    let load = answer.and_then(|answer| match answer.found {
        Found::Beyond(value) => Some(format!("{} or more", show_number(value))),
        found => found.value().map(show_number),
    });
    load.map_or_else(Vec::new, |load| vec![name, load])
}

/// Returns the measurements of the probes of a search: with `cut` the last measurement of each probe that was stopped early, else those of
/// the complete probes. Repeats at one load are drawn as their mean, with a bar from lowest to highest.
fn marks(criterion: &Criterion, record: &SearchRecord, state: &State, cut: bool) -> Vec<Mark> {
    let text = criterion.to_string();
    let probes = state
        .probes(&record.started.search, record.started.slot)
        .filter(|probe| probe.stopped.is_some() == cut);
    let measured = probes.filter_map(|probe| {
        let figure = figure(criterion, probe.readings.get(&text)?);
        figure.is_finite().then_some((probe.question.value, figure))
    });
    let sorted: Vec<(f64, f64)> = measured.ordered_by(|a, b| a.0.total_cmp(&b.0)).collect();
    let of_load = |runs: &[(f64, f64)]| Mark {
        x: runs[0].0,
        ..mean_of(runs)
    };
    sorted.chunk_by(|a, b| a.0 == b.0).map(of_load).collect()
}

/// A reading in the unit of `limit`. For an attainment of several limits, it is the ratio of latency to limit that the criterion's share of
/// the requests keeps.
fn figure(criterion: &Criterion, reading: &Reading) -> f64 {
    match (&criterion.quantity, criterion.operator.is_upper_bound()) {
        (Quantity::Attainment(_), _) => reading.ratio * limit(criterion),
        (_, true) => reading.ratio * criterion.limit,
        (_, false) => criterion.limit / reading.ratio,
    }
}

fn limit(criterion: &Criterion) -> f64 {
    match &criterion.quantity {
        Quantity::Attainment(limits) if limits.len() == 1 => limits[0].limit_ms,
        Quantity::Attainment(_) => 1.0,
        Quantity::Metric(_) => criterion.limit,
    }
}

fn title(criterion: &Criterion) -> String {
    match &criterion.quantity {
        Quantity::Metric(_) => axis_title(&criterion.figure()),
        // A share of requests is within one limit exactly if the percentile of that share is.
        Quantity::Attainment(limits) if limits.len() == 1 => {
            let class = criterion
                .class
                .as_ref()
                .map_or(String::new(), |class| format!("{class}."));
            let percent = show_number(criterion.limit * 100.0);
            axis_title(&format!("{class}p{percent}_{}", limits[0].latency.name()))
        }
        Quantity::Attainment(limits) => {
            format!(
                "Latency / limit of {}, {}",
                limits.iter().join(" and "),
                requests(criterion)
            )
        }
    }
}
