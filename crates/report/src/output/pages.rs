//! The files that are made of an experiment's document: `answer.json`, `report.html`, `report.md`, the configuration files in `best/`; and
//! the answer in a few lines for a terminal.

use super::configs::{self, Config};
use super::files::write_folder;
use crate::findings::failures::group_recorded;
use crate::inputs::Inputs;
use crate::rows::read_asked;
use crate::{document, findings::answer, html, output::basis, texts::ending, texts::markdown, texts::text};
use std::path::PathBuf;
use vsweep_answer::Answer;
use vsweep_base::error::Result;
use vsweep_base::files::{write_atomic, write_atomic_with};
use vsweep_plan::ReportOptions;
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::Points;

/// The content of these files and texts, not written yet.
#[derive(Debug)]
pub struct Pages {
    pub(crate) configs: Vec<Config>,
    /// The page.
    pub page: String,
    /// The text for a pull request.
    pub markdown: String,
    /// The text for a terminal, with a table.
    pub summary: String,
    /// The last lines of a run.
    pub ending: String,
}

impl Pages {
    /// Makes the pages. When a report is written, its charts come first, because the Markdown has their number.
    pub fn make(inputs: &Inputs<'_>) -> Pages {
        let configs = configs::render(inputs);
        let document = document::of(inputs, &configs);
        let reasons = group_recorded(inputs.state);
        Pages {
            page: html::render(inputs, document.clone()),
            markdown: markdown::render(document.clone()) + &basis::line(inputs.directory, inputs.state, configs.len()),
            ending: ending::render(inputs, document.clone(), &reasons),
            summary: text::render(inputs, document, &reasons),
            configs,
        }
    }

    /// Writes the files and returns their paths. The Markdown is written last, because its last line certifies the others.
    pub fn write(self, directory: &Directory, answer: &Answer) -> Result<Vec<PathBuf>> {
        let configs = self.configs.into_iter();
        let files = configs.map(|config| (config.file, config.text.into_bytes())).collect();
        let mut written = write_folder(directory, &directory.best(), files)?;
        let path = directory.answer_json();
        write_atomic_with(&path, |file| answer::write_json(answer, file))?;
        written.push(path);
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

/// Makes the pages of the current state for a place outside the directory, without writing them. `live` is the version of a page that is served during the sweep.
pub fn make_pages(directory: &Directory, state: &State, options: &ReportOptions, live: Option<u64>) -> Pages {
    let runs = read_asked(directory, state, options, None);
    let mut points = Points::of(&runs.table);
    let answer = answer::settle(directory, state, &mut points, options);
    let inputs = Inputs::gather(directory, state, &points, options, answer);
    Pages::make(&Inputs {
        live,
        is_in_directory: false,
        ..inputs
    })
}
