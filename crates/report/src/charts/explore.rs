//! The results of explorations: latency against throughput, from one request at a time to saturation.

use super::{ChartContext, mean_of};
use crate::chart::{Axis, Chart, MOST_CURVES, Mark, Panel, Scale, Series, Style};
use crate::ordered::Ordered;
use crate::output::sla::search_name;
use crate::texts::words::{axis_title, short_setting_of, show_number};
use itertools::Itertools;
use vsweep_record::journal::{SearchRecord, State};
use vsweep_record::table::{Better, frontier, knee};
use vsweep_strategy::search::{Load, Vary};

/// Draws all explorations in one chart, or in several if there are more of them than distinguishable curves.
pub fn charts(subject: &ChartContext<'_>, state: &State) -> Vec<Chart> {
    let curves = explored(state).filter(|(_, levels)| !levels.is_empty());
    let curves = curves.map(|(record, levels)| (search_name(record, state), label_points(marks(&levels))));
    let curves = curves.collect_vec();
    let chart = |(part, curves): (usize, &[(String, Vec<Mark>)])| {
        let title = "Latency against throughput, from one request at a time to saturation";
        let note = "Points are the levels explored (means of repeats, bars from the lowest to the highest run).";
        let [x, y] = ["request_throughput", "mean_e2el_ms"].map(|metric| Axis::of(axis_title(metric), Scale::Log));
        let series = curves.iter().enumerate();
        let series = series.map(|(colour, (name, marks))| Series::new(name, Style::Curve(colour), marks.clone()));
        let panel = Panel::of(x, y, series.collect());
        subject.search_chart("explored", part, title.into(), note, vec![panel])
    };
    curves.chunks(MOST_CURVES).enumerate().map(chart).collect()
}

/// A sentence for each exploration with several levels: the figures of its two ends and of the knee between them.
pub fn in_words(state: &State) -> Vec<String> {
    let sentence = |(record, levels): (&SearchRecord, Vec<Level>)| {
        let (serial, saturated) = (levels.first()?, levels.last().filter(|_| levels.len() > 1)?);
        let show = |(_, mark): &Level| format!("{} requests/s at {} ms", show_number(mark.x), show_number(mark.y));
        let vary = record.started.vary;
        let at = |(load, _): &Level| {
            let value = position(vary, load);
            match value.is_finite() {
                true => format!(" at {}", short_setting_of(vary.name(), &show_number(value))),
                false => String::new(),
            }
        };
        let knee = knee_of(&marks(&levels)).map_or_else(
            || "no knee".to_owned(),
            |place| format!("knee{}: {} (mean E2EL)", at(&levels[place]), show(&levels[place])),
        );
        Some(format!(
            "{}: {knee}; saturated{}: {}; one request at a time: {}",
            search_name(record, state),
            at(saturated),
            show(saturated),
            show(serial)
        ))
    };
    explored(state).filter_map(sentence).collect()
}

/// A load of an exploration, and its figures.
type Level = (Load, Mark);

/// The explorations with their levels.
fn explored(state: &State) -> impl Iterator<Item = (&SearchRecord, Vec<Level>)> {
    let explored = state.searches().filter(|record| record.started.targets.is_empty());
    explored.map(|record| (record, levels(record, state)))
}

fn marks(levels: &[Level]) -> Vec<Mark> {
    levels.iter().map(|(_, mark)| mark.clone()).collect()
}

/// Index of the point beyond which more throughput costs much latency.
fn knee_of(marks: &[Mark]) -> Option<usize> {
    let places: Vec<(f64, f64)> = marks.iter().map(|mark| (mark.x, mark.y)).collect();
    let directions = (Better::Higher, Better::Lower);
    knee(&places, &frontier(&places, directions), directions)
}

/// Labels the knee and the saturated point of a curve. The first point gets none, because labels do not fit where the curves begin.
fn label_points(mut marks: Vec<Mark>) -> Vec<Mark> {
    if let Some(knee) = knee_of(&marks) {
        marks[knee].label = vec!["knee".to_owned()];
    }
    if let [_, .., last] = marks.as_mut_slice() {
        last.label = vec!["saturated".to_owned()];
    }
    marks
}

/// Position of a load among the levels of an exploration. If the rate varies, the two ends of the exploration have no rate: one request at
/// a time comes first, and saturation comes last.
fn position(vary: Vary, load: &Load) -> f64 {
    let in_flight = load.max_concurrency.map_or(f64::INFINITY, |most| most as f64);
    match (vary, load.request_rate) {
        (Vary::MaxConcurrency, _) => in_flight,
        (Vary::RequestRate, Some(rate)) => rate,
        (Vary::RequestRate, None) if in_flight == 1.0 => 0.0,
        (Vary::RequestRate, None) => f64::INFINITY,
    }
}

/// The levels of an exploration, ordered by load.
fn levels(record: &SearchRecord, state: &State) -> Vec<Level> {
    let runs = state.levels(&record.started.search, record.started.slot);
    let measured = runs.filter_map(|run| Some((run.load, run.figures?)));
    let position = |load: &Load| position(record.started.vary, load);
    let measured = measured.ordered_by(|(one, _), (other, _)| position(one).total_cmp(&position(other)));
    let levels = measured.chunk_by(|(load, _)| *load);
    let levels = levels.into_iter().map(|(load, runs)| {
        let runs = runs.map(|(_, figures)| (figures.throughput, figures.latency_ms));
        (load, mean_of(&runs.collect::<Vec<_>>()))
    });
    levels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_an_exploration_lie_around_its_levels() {
        let load = |max_concurrency, request_rate| Load {
            max_concurrency,
            request_rate,
            requests: 10,
        };
        let rates = [
            load(Some(1), None),
            load(None, Some(0.4)),
            load(None, Some(3.0)),
            load(Some(64), None),
        ];
        assert!(rates.is_sorted_by(|one, other| position(Vary::RequestRate, one) < position(Vary::RequestRate, other)));
        let slots = [load(Some(1), None), load(Some(8), None), load(Some(64), None)];
        assert!(
            slots
                .is_sorted_by(|one, other| position(Vary::MaxConcurrency, one) < position(Vary::MaxConcurrency, other))
        );
    }
}
