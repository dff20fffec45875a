//! The effect of each setting at the recommended point, as bars: the winner's value against another, everything else equal.

use super::bars::{Bar, panel};
use super::{ChartContext, of_workload};
use crate::chart::{Chart, Panel};
use crate::findings::answer::Answers;
use crate::sentences::choice;
use itertools::Itertools;
use vsweep_answer::{Effect, Verdict};

/// Returns the chart of each workload, in the order of the workloads; `None` for a workload without a winner, or without an effect whose
/// verdict is decided.
pub fn of_each(subject: &ChartContext<'_>, answers: &Answers) -> Vec<Option<Chart>> {
    let workloads = answers.workloads.iter();
    let chart = |workload: &crate::findings::answer::WorkloadAnswer| {
        let (number, _) = workload.winners.first()?;
        draw(subject, &workload.name, &answers.document.questions[*number].effects)
    };
    workloads.map(chart).collect()
}

fn draw(subject: &ChartContext<'_>, workload: &str, effects: &[Effect]) -> Option<Chart> {
    let metrics = effects.iter().map(|effect| &effect.metric).unique();
    let of_metric = |metric: &String| {
        let found = effects.iter().filter(|effect| effect.metric == *metric);
        let bars = found.map(|effect| Bar {
            label: choice(effect),
            ratio: effect.ratio.value,
            interval: (effect.ratio.low, effect.ratio.high),
            verdict: effect.verdict,
        });
        panel(metric, bars.collect(), None)
    };
    let panels: Vec<Panel> = metrics.map(of_metric).collect();
    let title = of_workload("Effect of each setting", workload);
    let note = "The recommended server against those that differ from it in this setting alone, at the recommended load. Lines: 95 % \
                intervals.";
    // Bars would look like results, so nothing is drawn if nothing is known.
    let is_known = effects.iter().any(|effect| effect.verdict != Verdict::Undecided);
    is_known.then(|| subject.chart(title, note.to_owned(), panels))
}
