//! Writes `report.html`, `report.md` and the configuration files in `best/`.

use super::configs::{self, Config};
use super::files::write_folder;
use super::inputs::Inputs;
use super::rows::read_asked;
use super::{basis, document, html, markdown};
use std::path::PathBuf;
use vsweep_plan::error::Result;
use vsweep_plan::files::write_atomic;
use vsweep_plan::plan::ReportOptions;
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::Points;

/// The reports with their files, the one that is written last at the end.
pub(super) fn make_reports(inputs: &Inputs<'_>, configs: &[Config]) -> [(PathBuf, String); 2] {
    let (directory, document) = (inputs.directory, document::parts(inputs));
    let basis = basis::line(directory, inputs.state, configs.len());
    [
        (directory.report_html(), html::render(inputs, configs, document.clone())),
        (
            directory.report_markdown(),
            markdown::render(inputs, configs, document) + &basis,
        ),
    ]
}

/// The page or the text as it is now, for a place of its own; nothing is written.
pub fn render_report(directory: &Directory, state: &State, options: &ReportOptions, form: ReportForm) -> String {
    let runs = read_asked(directory, state, options, None);
    let points = Points::of(&runs.table);
    let mut inputs = Inputs::gather(directory, state, &points, options);
    if let ReportForm::Live(version) = form {
        inputs.live = Some(version);
    }
    let [(_, page), (_, text)] = make_reports(&inputs, &configs::render(&inputs));
    match form {
        ReportForm::Page | ReportForm::Live(_) => page,
        ReportForm::Markdown => text,
    }
}

/// A report that is not written beside its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportForm {
    /// The page.
    Page,
    /// The page as it is served while the sweep goes on, with its version.
    Live(u64),
    /// The text for a pull request.
    Markdown,
}

/// Writes them and returns where. The Markdown is written last: it tells that all the others are there.
pub fn write_pages(inputs: &Inputs<'_>) -> Result<Vec<PathBuf>> {
    let configs = configs::render(inputs);
    let reports = make_reports(inputs, &configs);
    let files = configs
        .into_iter()
        .map(|config| (config.file, config.text.into_bytes()));
    let mut written = write_folder(&inputs.directory.best(), "yaml", files)?;
    for (path, text) in reports {
        write_atomic(&path, text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}
