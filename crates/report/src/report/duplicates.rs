//! `duplicates.csv`: results that do not count though they were measured or tried, because another one of the same run does, with
//! how far the two differ. Two sessions that did not know of each other leave some, and so does a run that was tried again.

use super::attainment::Shares;
use super::rows::read_figures;
use vsweep_plan::units::show_many;
use vsweep_record::journal::{Directory, RunRecord, State};
use vsweep_record::table::Cell;

/// Figures that are shown of each.
const FIGURES: [&str; 4] = ["request_throughput", "output_throughput", "p99_ttft_ms", "p99_tpot_ms"];

/// The table; `None` where every result counts.
pub fn to_csv(directory: &Directory, state: &State) -> Option<Vec<u8>> {
    let spares = state.spares();
    if spares.is_empty() {
        return None;
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: &[String]| writer.write_record(record).expect("memory takes every row");
    let columns = [
        "point", "slot", "run", "started", "launch", "outcome", "validity", "cause", "why", "counts",
    ];
    let header = columns.iter().chain(&FIGURES).map(|name| (*name).to_owned());
    write(&header.chain(["differs_percent".to_owned()]).collect::<Vec<_>>());
    for spare in spares {
        let run = spare.run;
        let figures = figures(directory, run);
        let counted = spare.counts.map(|counts| self::figures(directory, counts));
        let mut line = vec![
            run.point.to_string(),
            run.slot.to_string(),
            run.run.to_string(),
            run.started.to_string(),
            run.launch.map_or_else(String::new, |launch| launch.to_string()),
            run.outcome.to_string(),
            run.validity.to_string(),
            run.cause.map_or_else(String::new, |cause| cause.to_string()),
            spare.why,
            spare
                .counts
                .map_or_else(String::new, |counts| counts.started.to_string()),
        ];
        line.extend(
            figures
                .iter()
                .map(|figure| figure.map_or_else(String::new, |figure| figure.to_string())),
        );
        let both = figures[0].zip(counted.and_then(|counted| counted[0]));
        line.push(both.map_or_else(String::new, |(own, counted)| {
            format!("{:.1}", 100.0 * (own / counted - 1.0))
        }));
        write(&line);
    }
    Some(writer.into_inner().expect("memory takes every row"))
}

/// What is in no table because its server is another one now or is measured anew, a sentence a reason.
pub(super) fn retired(state: &State) -> Vec<String> {
    let retired = state.retired().into_iter();
    let told = retired.map(|(reason, runs)| {
        let are = if runs == 1 { "is" } else { "are" };
        let runs = show_many(runs as u64, "earlier result");
        format!("{runs} {are} in duplicates.csv and in no table: {reason}")
    });
    told.collect()
}

/// The figures of one result, as far as it has them and its file is what was recorded.
fn figures(directory: &Directory, run: &RunRecord) -> [Option<f64>; FIGURES.len()] {
    let figures = read_figures(directory.root(), run, &Shares::default()).unwrap_or_default();
    let number = |name: &str| {
        figures
            .iter()
            .find(|(key, _)| &**key == name)
            .and_then(|(_, cell)| Cell::number(cell))
    };
    FIGURES.map(number)
}
