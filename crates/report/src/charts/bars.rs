//! Ratios as bars: how far each lies from "no difference", with its interval, in the strength of its verdict.

use crate::chart::{Axis, Mark, Panel, Scale, Series, Style, Tick};
use crate::texts::{changes, words::axis_title};
use itertools::Itertools;
use vsweep_answer::Verdict;

/// Space on the right for the figures at the ends of bars, as a part of what the bars take.
const ROOM: f64 = 0.3;
/// Bars of a panel.
const MOST_BARS: usize = 12;

/// A ratio of two figures.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Text beside it.
    pub label: String,
    /// The ratio.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// Verdict of the interval against the margin.
    pub verdict: Verdict,
}

/// The bars of one metric that differ most, the longest on top; between two dashed lines a difference does not matter, if that is known.
pub fn panel(metric: &str, bars: Vec<Bar>, margin: Option<f64>) -> Panel {
    let size = |bar: &Bar| bar.ratio.ln().abs();
    let bars = bars.into_iter().sorted_by(|a, b| size(b).total_cmp(&size(a)));
    let bars = bars.take(MOST_BARS).collect_vec();
    let place = |rank: usize| (bars.len() - 1 - rank) as f64;
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let named = [
        (Verdict::Improved, "Better"),
        (Verdict::Regressed, "Worse"),
        (Verdict::Same, "No difference"),
        (Verdict::Undecided, "Not known to differ"),
    ];
    let series = named.into_iter().enumerate().map(|(number, (verdict, name))| {
        let own = bars.iter().enumerate().filter(|(_, bar)| bar.verdict == verdict);
        let marks = own.map(|(rank, bar)| Mark {
            bar: Some((change(bar.interval.0), change(bar.interval.1))),
            label: vec![changes::change(bar.ratio)],
            ..Mark::at(change(bar.ratio), place(rank))
        });
        Series::new(name, Style::Bar(number), marks.collect())
    });
    let mut series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let ends = || series.iter().flat_map(|series| &series.points);
    let least = ends().map(|mark| mark.bar.map_or(mark.x, |(low, _)| low.min(mark.x)));
    let most = ends().map(|mark| mark.bar.map_or(mark.x, |(_, high)| high.max(mark.x)));
    let (least, most) = (least.fold(0.0, f64::min), most.fold(0.0, f64::max));
    let most = most + ROOM * (most - least);
    let (bottom, top) = (-0.6, bars.len() as f64 - 0.4);
    for line in margin.into_iter().flat_map(|margin| [-margin, margin]) {
        let line = vec![Mark::at(line, bottom), Mark::at(line, top)];
        series.push(Series::new(
            "Too small to matter: between the lines",
            Style::Limit,
            line,
        ));
    }
    let x = Axis::of("Difference (%)", Scale::Linear).covering(least, most.max(least + 1.0));
    let y = Axis::of("", Scale::Linear).covering(bottom, top);
    let y = y.with_ticks(bars.iter().enumerate().map(|(rank, bar)| Tick {
        at: place(rank),
        label: bar.label.clone(),
    }));
    let title = axis_title(metric);
    let name = title.split_once(" (").map_or(title.as_str(), |(name, _)| name);
    Panel {
        title: name.to_owned(),
        ..Panel::of(x, y, series)
    }
}
