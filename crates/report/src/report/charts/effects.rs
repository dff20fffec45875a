//! Which setting of the server mattered, as bars: for each, how much more its best value gives than its worst at equal load.

use super::{Subject, of_workload};
use crate::report::chart::{Axis, Chart, Mark, Panel, Scale, Series, Style, Tick};
use crate::report::effects::{Findings, Mattered, percent};
use crate::report::variation::name_workload;
use crate::report::words::axis_title;
use vsweep_record::table::Workload;
use vsweep_strategy::stats::{Basis, Verdict};

/// How much longer than its longest bar an axis is, for the figures at the ends of bars.
const ROOM: f64 = 1.3;
/// Bars of a panel.
const MOST_BARS: usize = 12;

/// The chart of each workload, in their order; `None` for those that varied no setting, or measured too little.
pub fn of_each(subject: &Subject<'_>, found: &Findings<'_>) -> Vec<Option<Chart>> {
    let workloads = subject.points.workloads();
    workloads
        .iter()
        .enumerate()
        .map(|(place, workload)| draw(subject, workload, found.of_workload(place)))
        .collect()
}

fn draw(subject: &Subject<'_>, workload: &Workload<'_>, found: &[Mattered<'_>]) -> Option<Chart> {
    let mut effects = found.iter().flat_map(|mattered| &mattered.found.effects);
    let how = match effects.any(|effect| matches!(effect.basis, Basis::Model(_))) {
        false => "servers that differ in this setting alone",
        true => {
            "servers that differ in this setting alone, or, where there are none, by a model of additive logarithms"
        }
    };
    let title = of_workload("Which setting mattered", &name_workload(subject.points, workload));
    let panels: Vec<Panel> = found.iter().map(panel).collect();
    let lines = match panels.iter().flat_map(Panel::marks).any(|mark| mark.bar.is_some()) {
        true => " Lines: 95 % intervals.",
        false => "",
    };
    let note = format!(
        "How much more the value with the most has than the one with the least, at equal load, between {how}.{lines}"
    );
    (!panels.is_empty()).then(|| subject.chart(title, note, panels))
}

fn panel(mattered: &Mattered<'_>) -> Panel {
    let shown: Vec<_> = mattered.found.effects.iter().take(MOST_BARS).collect();
    let place = |rank: usize| (shown.len() - 1 - rank) as f64;
    let change = |log: f64| log.exp_m1() * 100.0;
    let tick = |(rank, effect): (usize, &&_)| Tick {
        at: place(rank),
        label: mattered.name(effect),
    };
    let named = [
        (Verdict::Improved, "More than the noise"),
        (Verdict::Same, "Less than the noise"),
        (Verdict::Undecided, "Too little measured to tell"),
    ];
    let series = named.into_iter().enumerate().map(|(number, (verdict, name))| {
        let own = shown
            .iter()
            .enumerate()
            .filter(|(_, effect)| mattered.verdict(effect) == verdict);
        let marks = own.map(|(rank, effect)| Mark {
            bar: mattered
                .interval(effect)
                .map(|interval| (change(interval.low), change(interval.high))),
            label: vec![percent(effect.ratio.log)],
            ..Mark::at(change(effect.ratio.log), place(rank))
        });
        Series::new(name, Style::Bar(number), marks.collect())
    });
    let series: Vec<Series> = series.collect();
    let title = axis_title(&mattered.metric);
    let name = title.split_once(" (").map_or(title.as_str(), |(name, _)| name);
    let ends = series.iter().flat_map(|series| &series.points);
    let most = ends.map(|mark| mark.bar.map_or(mark.x, |(_, high)| high.max(mark.x)));
    let x = Axis::of("Difference (%)", Scale::Linear).covering(0.0, most.fold(0.0, f64::max) * ROOM);
    let y = Axis::of("", Scale::Linear).covering(-0.6, shown.len() as f64 - 0.4);
    let y = y.with_ticks(shown.iter().enumerate().map(tick));
    Panel {
        title: name.to_owned(),
        ..Panel::of(x, y, series)
    }
}
