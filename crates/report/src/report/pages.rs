//! What is made of an experiment's document: `report.html`, `report.md`, the configuration files in `best/`, and the answer in a few
//! lines for a terminal.

use super::configs::{self, Config};
use super::files::write_folder;
use super::inputs::Inputs;
use super::rows::read_asked;
use super::{basis, document, html, markdown, text};
use std::path::PathBuf;
use vsweep_plan::error::Result;
use vsweep_plan::files::write_atomic;
use vsweep_plan::plan::ReportOptions;
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::Points;

/// All of it, still unwritten.
pub(super) struct Pages {
    pub configs: Vec<Config>,
    pub page: String,
    pub markdown: String,
    pub summary: String,
}

impl Pages {
    /// Makes all of it, after the charts: the Markdown tells how many there are.
    pub fn make(inputs: &Inputs<'_>) -> Pages {
        let configs = configs::render(inputs);
        let document = document::of(inputs, &configs);
        Pages {
            page: html::render(inputs, document.clone()),
            markdown: markdown::render(document.clone()) + &basis::line(inputs.directory, inputs.state, configs.len()),
            summary: text::render(inputs, document),
            configs,
        }
    }

    /// Writes the files and returns where. The Markdown is written last: it tells that all the others are there.
    pub fn write(self, directory: &Directory) -> Result<Vec<PathBuf>> {
        let configs = self.configs.into_iter();
        let files = configs.map(|config| (config.file, config.text.into_bytes()));
        let mut written = write_folder(&directory.best(), "yaml", files)?;
        for (path, text) in [
            (directory.report_html(), self.page),
            (directory.report_markdown(), self.markdown),
        ] {
            write_atomic(&path, text.as_bytes())?;
            written.push(path);
        }
        Ok(written)
    }
}

/// The page or the text as it is now, for a place of its own; nothing is written.
pub fn render_report(directory: &Directory, state: &State, options: &ReportOptions, form: ReportForm) -> String {
    let runs = read_asked(directory, state, options, None);
    let points = Points::of(&runs.table);
    let mut inputs = Inputs::gather(directory, state, &points, options);
    if let ReportForm::Live(version) = form {
        inputs.live = Some(version);
    }
    let pages = Pages::make(&inputs);
    match form {
        ReportForm::Page | ReportForm::Live(_) => pages.page,
        ReportForm::Markdown => pages.markdown,
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

/// Writes the pages of an experiment and returns where.
pub fn write_pages(inputs: &Inputs<'_>) -> Result<Vec<PathBuf>> {
    Pages::make(inputs).write(inputs.directory)
}
