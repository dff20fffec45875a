//! The changes that a plan's comparison found: each metric at each load with its interval, against its margin.

use super::ChartContext;
use super::bars::{Bar, panel};
use crate::chart::Chart;
use crate::texts::words::short_label;
use itertools::Itertools;
use vsweep_answer::{Answer, PairedFinding};
use vsweep_record::journal::{AskedMetric, State};

/// Returns the chart, or `None` unless two servers are compared and a ratio of them is known.
pub fn chart(subject: &ChartContext<'_>, answer: &Answer, state: &State) -> Option<Chart> {
    let found = &answer.comparison.as_ref()?.findings;
    let compared = state.compared()?;
    let [base, new] = compared.entrants.as_slice() else {
        return None;
    };
    let bar = |(asked, finding): (&AskedMetric, &PairedFinding)| {
        let ratio = finding.ratio?;
        let bar = Bar {
            label: short_label(&finding.load),
            ratio: ratio.value,
            interval: (ratio.low, ratio.high),
            verdict: finding.verdict,
        };
        Some((finding.metric.clone(), (asked.member.margin, bar)))
    };
    // The questions about one metric follow each other.
    let by_metric = compared
        .family
        .iter()
        .zip(found)
        .filter_map(bar)
        .chunk_by(|(metric, _)| metric.clone());
    let panels = by_metric.into_iter().map(|(metric, bars)| {
        let (margins, bars): (Vec<_>, Vec<_>) = bars.map(|(_, bar)| bar).unzip();
        panel(&metric, bars, margins.first().map(|margin| margin.log.exp_m1() * 100.0))
    });
    let panels = panels.collect_vec();
    let [base, new] = [base, new].map(|entrant| short_label(&entrant.name));
    let title = format!("Changes: {new} against {base}");
    let note = "Each bar is the change at one load, by pairs of server starts. Lines: intervals that hold however often one looks at the results.";
    (!panels.is_empty()).then(|| Chart {
        name: "changes".into(),
        ..subject.chart(title, note.to_owned(), panels)
    })
}
