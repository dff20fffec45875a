//! Ratios as bars: each bar is a relative difference with its interval, in a colour that depends on its verdict.

use crate::chart::{Axis, Mark, Panel, Scale, Series, Style, Tick};
use crate::texts::{changes, words::title};
use itertools::Itertools;
use vsweep_answer::Verdict;

/// Space to the right of the bars for their figures, as a share of the width of all bars.
const LABEL_ROOM: f64 = 0.3;
/// Maximum number of bars in a panel.
const MOST_BARS: usize = 12;

/// A ratio of two figures.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Text next to the bar.
    pub label: String,
    /// The ratio.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// Verdict of the interval against the margin.
    pub verdict: Verdict,
}

/// Returns the panel of one metric with the bars of the largest differences, the largest on top. The title says if there are more. `margin`
/// is the largest difference that does not matter, in percent. If it is known, dashed lines mark it.
pub fn panel(metric: &str, bars: Vec<Bar>, margin: Option<f64>) -> Panel {
    let size = |bar: &Bar| bar.ratio.ln().abs();
    let bars = bars.into_iter().sorted_by(|a, b| size(b).total_cmp(&size(a)));
    let all = bars.len();
    let bars = bars.take(MOST_BARS).collect_vec();
    let height = |rank: usize| (bars.len() - 1 - rank) as f64;
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let named = [
        (Verdict::Improved, "Better"),
        (Verdict::Regressed, "Worse"),
        (Verdict::Same, "No difference"),
        (Verdict::Undecided, "Not known to differ"),
    ];
    let series = named.into_iter().enumerate().map(|(number, (verdict, name))| {
        let judged = bars.iter().enumerate().filter(|(_, bar)| bar.verdict == verdict);
        let marks = judged.map(|(rank, bar)| Mark {
            bar: Some((change(bar.interval.0), change(bar.interval.1))),
            label: vec![changes::change(bar.ratio)],
            ..Mark::at(change(bar.ratio), height(rank))
        });
        Series::new(name, Style::Bar(number), marks.collect())
    });
    let mut series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let all_marks = || series.iter().flat_map(|series| &series.points);
    let least = all_marks().map(|mark| mark.bar.map_or(mark.x, |(low, _)| low.min(mark.x)));
    let most = all_marks().map(|mark| mark.bar.map_or(mark.x, |(_, high)| high.max(mark.x)));
    let (least, most) = (least.fold(0.0, f64::min), most.fold(0.0, f64::max));
    let most = most + LABEL_ROOM * (most - least);
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
        at: height(rank),
        label: bar.label.clone(),
    }));
    let shown = (all > bars.len()).then(|| format!(": the {MOST_BARS} largest of {all}"));
    Panel {
        title: format!("{}{}", title(metric), shown.unwrap_or_default()),
        ..Panel::of(x, y, series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_are_left_out_are_counted() {
        let titled = |count: usize| {
            let bar = |rank: usize| Bar {
                label: rank.to_string(),
                ratio: 1.0 + rank as f64,
                interval: (1.0, 30.0),
                verdict: Verdict::Improved,
            };
            let panel = panel("output_throughput", (1..=count).map(bar).collect(), None);
            (panel.bars(), panel.title)
        };
        assert!(!titled(MOST_BARS).1.contains(':'));
        let (shown, title) = titled(20);
        assert_eq!(shown, MOST_BARS);
        assert!(title.ends_with(": the 12 largest of 20"), "{title}");
    }
}
