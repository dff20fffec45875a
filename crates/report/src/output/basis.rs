//! The last line of a report. It identifies the record that the report was made from, and so shows if the report is current. File times
//! would not show it: the report that was written last may be made from journals that were read earlier.

use super::files::written;
use std::path::{Path, PathBuf};
use vsweep_base::files::{MOST_FACTS, MOST_RESULT, read_text};
use vsweep_base::ids::short_digest;
use vsweep_base::units::show_many;
use vsweep_record::journal::{Directory, State};

const BEGIN: &str = "<!-- made of the record";

/// The last line of `report.md`; a comment, which Markdown does not show.
pub(crate) fn line(directory: &Directory, state: &State, configs: usize) -> String {
    let charts = show_many(count(directory, &directory.charts(), "png") as u64, "chart");
    let configs = show_many(configs as u64, "configuration");
    format!("{} with {charts} and {configs} -->\n", begin(directory, state))
}

/// The part of that line that names the record.
fn begin(directory: &Directory, state: &State) -> String {
    let manifest = read_text(&directory.manifest(), MOST_FACTS).unwrap_or_default();
    // Another plan may count although no run was added.
    let plan = state.plan_that_counts().map_or("", |(_, sha256, _)| sha256);
    let texts = [state.basis(), plan.to_owned(), manifest];
    format!("{BEGIN} {},", short_digest(&texts.join("\0")))
}

/// Returns true if the last report was made from this state. Its tables and charts may be missing.
pub(crate) fn is_of_last_report(directory: &Directory, state: &State) -> bool {
    last_line(directory).starts_with(&begin(directory, state))
}

/// Returns true if the last report was made from another state.
pub(crate) fn is_of_earlier_record(directory: &Directory, state: &State) -> bool {
    let last = last_line(directory);
    last.starts_with(BEGIN) && !last.starts_with(&begin(directory, state))
}

fn last_line(directory: &Directory) -> String {
    let report = read_text(&directory.report_markdown(), MOST_RESULT).unwrap_or_default();
    report.lines().next_back().unwrap_or_default().to_owned()
}

/// Returns true if the tables of runs and of points, the answer, the reports, the charts and the files of `best/` exist and were made from
/// this state. Their content is not compared.
pub fn is_current(directory: &Directory, state: &State) -> bool {
    let files = [
        directory.summary_csv(),
        directory.summary_parquet(),
        directory.points_csv(),
        directory.answer_json(),
        directory.report_html(),
    ];
    let line = line(directory, state, count(directory, &directory.best(), "yaml"));
    let report = read_text(&directory.report_markdown(), MOST_RESULT);
    report.is_ok_and(|text| text.ends_with(&line)) && files.iter().all(|file| file.exists())
}

/// Number of files with this extension that reports wrote into a folder and that still exist.
fn count(directory: &Directory, folder: &Path, extension: &str) -> usize {
    let is_of = |path: &PathBuf| path.extension().is_some_and(|found| found == extension) && path.exists();
    written(directory, folder).iter().filter(|path| is_of(path)).count()
}
