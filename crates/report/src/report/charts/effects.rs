//! The effect of each setting at the recommended point, as bars: the winner's value against another, everything else equal.

use super::{ChartContext, of_workload};
use crate::report::answer::Answers;
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style, Tick};
use crate::report::sentences::choice;
use crate::report::words::axis_title;
use itertools::Itertools;
use vsweep_answer::answer::{Effect, Verdict};

/// Space after the longest bar, for the figures at the ends of bars.
const ROOM: f64 = 1.3;
/// Bars of a panel.
const MOST_BARS: usize = 12;

/// The chart of each workload, in their order; none for those whose winner differs in no single setting from another config.
pub fn of_each(subject: &ChartContext<'_>, answers: &Answers) -> Vec<Option<Chart>> {
    let workloads = answers.workloads.iter();
    let chart = |workload: &crate::report::answer::WorkloadAnswer| {
        let (number, _) = workload.winners.first()?;
        draw(subject, &workload.name, &answers.document.questions[*number].effects)
    };
    workloads.map(chart).collect()
}

fn draw(subject: &ChartContext<'_>, workload: &str, effects: &[Effect]) -> Option<Chart> {
    let metrics = effects.iter().map(|effect| &effect.metric).unique();
    let of_metric = |metric: &String| {
        let own = effects.iter().filter(|effect| effect.metric == *metric);
        panel(metric, &own.collect_vec())
    };
    let panels: Vec<Panel> = metrics.map(of_metric).collect();
    let title = of_workload("Effect of each setting", workload);
    let note = "The recommended server against those that differ from it in this setting alone, at the recommended load. Lines: 95 % \
                intervals.";
    (!panels.is_empty()).then(|| subject.chart(title, note.to_owned(), panels))
}

fn panel(metric: &str, effects: &[&Effect]) -> Panel {
    let size = |effect: &&&Effect| effect.ratio.value.ln().abs();
    let shown = effects.iter().sorted_by(|a, b| size(b).total_cmp(&size(a)));
    let shown = shown.take(MOST_BARS).collect_vec();
    let place = |rank: usize| (shown.len() - 1 - rank) as f64;
    let change = |ratio: f64| (ratio - 1.0) * 100.0;
    let tick = |(rank, effect): (usize, &&&Effect)| Tick {
        at: place(rank),
        label: choice(effect),
    };
    let named = [
        (&[Verdict::Improved][..], "Better"),
        (&[Verdict::Regressed], "Worse"),
        (&[Verdict::Same], "No difference"),
        (&[Verdict::Undecided], "Not known to differ"),
    ];
    let series = named.into_iter().enumerate().map(|(number, (verdicts, name))| {
        let own = shown.iter().enumerate();
        let own = own.filter(|(_, effect)| verdicts.contains(&effect.verdict));
        let marks = own.map(|(rank, effect)| Mark {
            bar: Some((change(effect.ratio.low), change(effect.ratio.high))),
            label: vec![format!("{:+.1} %", change(effect.ratio.value))],
            ..Mark::at(change(effect.ratio.value), place(rank))
        });
        Series::new(name, Style::Bar(number), marks.collect())
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let title = axis_title(metric);
    let name = title.split_once(" (").map_or(title.as_str(), |(name, _)| name);
    let ends = || series.iter().flat_map(|series| &series.points);
    let least = ends().map(|mark| mark.bar.map_or(mark.x, |(low, _)| low.min(mark.x)));
    let most = ends().map(|mark| mark.bar.map_or(mark.x, |(_, high)| high.max(mark.x)));
    let (least, most) = (least.fold(0.0, f64::min) * ROOM, most.fold(0.0, f64::max) * ROOM);
    let x = Axis::of("Difference (%)", Scale::Linear).covering(least, most.max(least + 1.0));
    let y = Axis::of("", Scale::Linear).covering(-0.6, shown.len() as f64 - 0.4);
    let y = y.with_ticks(shown.iter().enumerate().map(tick));
    Panel {
        title: name.to_owned(),
        ..Panel::of(x, y, series)
    }
}
