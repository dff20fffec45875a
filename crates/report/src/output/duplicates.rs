//! `duplicates.csv`: results that do not count, with the reason and the difference from the result that counts, if there is one. For
//! example, two sessions that did not know of each other measured the same run, a run was tried again, or a result was retired.

use super::files::{self, cell};
use super::starts::show_slot;
use crate::findings::attainment::Shares;
use crate::rows::read_figures;
use itertools::Itertools;
use vsweep_base::cause::Cause;
use vsweep_base::units::show_many;
use vsweep_record::journal::{Directory, Duplicate, RunRecord, State};
use vsweep_record::table::RunFigures;

/// Figures of each result that the table shows.
const FIGURES: [&str; 4] = ["request_throughput", "output_throughput", "p99_ttft_ms", "p99_tpot_ms"];

/// The table; `None` if every result counts.
pub fn to_csv(directory: &Directory, state: &State) -> Option<Vec<u8>> {
    let row = |spare: Duplicate<'_>| {
        let run = spare.run;
        let own = figures(directory, run);
        let counted = spare.counts.map(|counts| figures(directory, counts));
        let both = own[0].zip(counted.and_then(|counted| counted[0]));
        let differs = both.map(|(own, counted)| format!("{:.1}", 100.0 * (own / counted - 1.0)));
        let mut row = vec![
            ("point", run.point.to_string()),
            ("start", show_slot(run.slot)),
            ("run", run.run.to_string()),
            ("started", run.rank.line.to_string()),
            ("launch", cell(run.launch)),
            ("outcome", run.outcome.to_string()),
            ("validity", run.validity.to_string()),
            ("cause", cell(run.cause.map(Cause::name))),
            ("why", spare.why.to_string()),
            ("counts", cell(spare.counts.map(|counts| counts.started))),
        ];
        row.extend(FIGURES.into_iter().zip(own.map(cell)));
        row.push(("differs_percent", differs.unwrap_or_default()));
        row
    };
    files::to_csv(&state.duplicates().into_iter().map(row).collect_vec())
}

/// Results that are in no table because their server was replaced or is measured anew, one sentence per reason.
pub(crate) fn retired(state: &State) -> Vec<String> {
    let retired = state.retired().into_iter();
    let lines = retired.map(|(reason, runs)| {
        let are = if runs == 1 { "is" } else { "are" };
        let runs = show_many(runs as u64, "earlier result");
        format!("{runs} {are} in duplicates.csv and in no table: {reason}")
    });
    lines.collect()
}

/// The figures of one result. `None` for those that it lacks, and for all if its file is not the recorded one.
fn figures(directory: &Directory, run: &RunRecord) -> [Option<f64>; FIGURES.len()] {
    let figures = read_figures(directory.root(), run, &Shares::default(), &RunFigures::default());
    let figures = figures.unwrap_or_default();
    FIGURES.map(|name| figures.get(name)?.number())
}
