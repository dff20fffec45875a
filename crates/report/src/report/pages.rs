//! Writes `report.html`, `report.md` and the configuration files in `best/`.

use super::folder::write_folder;
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
pub(super) fn make_reports(inputs: &Inputs<'_>) -> [(PathBuf, String); 2] {
    let (directory, document) = (inputs.directory, document::parts(inputs));
    let basis = basis::line(directory, inputs.state, inputs.configs.len());
    [
        (directory.report_html(), html::render(inputs, document.clone())),
        (directory.report_markdown(), markdown::render(inputs, document) + &basis),
    ]
}

/// The page or the text as it is now, for a place of its own; nothing is written.
pub fn render_report(directory: &Directory, state: &State, options: &ReportOptions, form: ReportForm) -> String {
    let runs = read_asked(directory, state, options);
    let points = Points::of(&runs.table);
    let mut inputs = Inputs::gather(directory, state, &points, options).with_configs();
    if let ReportForm::Live(version) = form {
        inputs.live = Some(version);
    }
    let document = document::parts(&inputs);
    match form {
        ReportForm::Page | ReportForm::Live(_) => html::render(&inputs, document),
        ReportForm::Markdown => {
            markdown::render(&inputs, document) + &basis::line(directory, state, inputs.configs.len())
        }
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
    let configs = inputs.configs.iter();
    let configs = configs.map(|config| (config.file.clone(), config.text.clone().into_bytes()));
    let mut written = write_folder(&inputs.directory.best(), "yaml", configs)?;
    for (path, text) in make_reports(inputs) {
        write_atomic(&path, text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}
