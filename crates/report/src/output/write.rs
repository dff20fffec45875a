//! Writes the tables, charts and pages of an experiment directory. Everything is replaced atomically, what no longer applies is removed,
//! and a chart that cannot be drawn does not keep the others from being drawn.

use super::files::write_folder;
use super::pages::Pages;
use super::sla;
use crate::chart::Chart;
use crate::charts::{self, ChartContext, cdf, make_answer_charts, make_charts};
use crate::environment::{origin, sign};
use crate::findings::answer;
use crate::findings::goals::Goals;
use crate::findings::requirements::{self, RequirementResult};
use crate::inputs::Inputs;
use crate::picture::{Form, render};
use crate::rows::{FigureCache, Runs, load, read_asked};
use crate::sentences::{Best, best};
use crate::{output::duplicates, output::optimized, output::starts};
use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::iter::once_with;
use std::path::PathBuf;
use std::time::Instant;
use vsweep_answer::Answer;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::write_atomic_with;
use vsweep_base::threads;
use vsweep_plan::ReportOptions;
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::{Points, Table, write_csv, write_parquet};

/// Result of writing a report.
#[derive(Debug, Default)]
pub struct ReportOutput {
    /// Files written, tables first.
    pub files: Vec<PathBuf>,
    /// Sentences for people: damaged run files, charts that could not be drawn.
    pub problems: Vec<String>,
    /// Sentences for people: charts for which the results have no data.
    pub notes: Vec<String>,
    /// The answer in a few lines, for a terminal.
    pub summary: String,
    /// The last lines of `vsweep run`.
    pub ending: String,
    /// Results of the plan's requirements.
    pub requirements: Vec<RequirementResult>,
}

/// The tables of a sweep in progress. They are written again and again, and only the files of new runs are read.
#[derive(Debug)]
pub struct LiveTables {
    directory: Directory,
    cache: FigureCache,
    options: ReportOptions,
    last_answer: Option<Answer>,
    /// Earliest time of the next answer.
    next_answer: Instant,
}

/// Minimum time between two answers, as a multiple of the time that the last answer took. So answers take at most a twentieth of a sweep's
/// time.
const ANSWER_INTERVAL: u32 = 20;

impl LiveTables {
    /// Tables of this directory, with the prices and the goals of the options. Nothing is written yet.
    pub fn of(directory: &Directory, options: &ReportOptions) -> Self {
        LiveTables {
            directory: directory.clone(),
            cache: FigureCache::default(),
            options: options.clone(),
            last_answer: None,
            next_answer: Instant::now(),
        }
    }

    /// Rewrites the text tables from the current state of the journals.
    pub fn write(&mut self, state: &State) -> Result<ReportOutput> {
        let runs = read_asked(&self.directory, state, &self.options, Some(&mut self.cache));
        let mut points = Points::of(&runs.table);
        let answer = self.answer(state, &mut points)?;
        let goals = Goals::judge(&self.options.requirements, state, &points);
        write_tables(&self.directory, state, &runs, &points, &goals, &answer)
    }

    /// The best server so far, with its figure and its certainty. `None` before the first answer, or if no leading question has a winner
    /// among several entrants.
    pub fn best(&self) -> Option<Best> {
        best(self.last_answer.as_ref()?)
    }

    /// Gives the points their estimates. Makes and writes a new answer, unless the last one is too recent for the time that it took.
    fn answer(&mut self, state: &State, points: &mut Points<'_>) -> Result<Answer> {
        if let Some(last) = self.last_answer.as_ref().filter(|_| Instant::now() < self.next_answer) {
            points.adopt(last);
            return Ok(last.clone());
        }
        let began = Instant::now();
        let answer = answer::settle(&self.directory, state, points, &self.options);
        write_atomic_with(&self.directory.answer_json(), |file| answer::write_json(&answer, file))?;
        self.last_answer = Some(answer.clone());
        self.next_answer = Instant::now() + began.elapsed() * ANSWER_INTERVAL;
        Ok(answer)
    }
}

/// Writes the tables and every chart anew, all from the journal and the run files, and returns the record.
pub fn rewrite_all(
    directory: &Directory,
    options: impl FnOnce(&State) -> ReportOptions,
) -> Result<(State, ReportOutput)> {
    let (state, runs, options) = load(directory, options)?;
    let written = write_runs(directory, &state, &runs, &options)?;
    Ok((state, written))
}

/// Writes the tables and every chart of a record.
pub fn write_all(directory: &Directory, state: &State, options: &ReportOptions) -> Result<ReportOutput> {
    write_runs(directory, state, &read_asked(directory, state, options, None), options)
}

fn write_runs(directory: &Directory, state: &State, runs: &Runs, options: &ReportOptions) -> Result<ReportOutput> {
    let mut points = Points::of(&runs.table);
    let answer = answer::settle(directory, state, &mut points, options);
    let inputs = Inputs::gather(directory, state, &points, options, answer);
    let (written, drawn) = threads::both(
        || write_all_tables(runs, &inputs),
        || -> Result<_> {
            let charts = write_charts(&inputs, options)?;
            // The Markdown states the number of charts, so it is made after them.
            Ok((charts, Pages::make(&inputs)))
        },
    );
    let (mut written, (charts, mut pages)) = (written?, drawn?);
    written.notes = charts.notes;
    written.problems.extend(charts.problems);
    written.files.extend(charts.files);
    written.summary = std::mem::take(&mut pages.summary);
    written.ending = std::mem::take(&mut pages.ending);
    written.files.extend(pages.write(directory, &inputs.answers.document)?);
    written.requirements = inputs.requirements;
    Ok(written)
}

/// Draws the charts and writes their pictures.
fn write_charts(inputs: &Inputs<'_>, options: &ReportOptions) -> Result<ReportOutput> {
    let state = inputs.state;
    let context = ChartContext {
        experiment: &inputs.experiment,
        points: inputs.points,
    };
    let made = make_charts(&context, options, &inputs.answers.recommended());
    let origin = origin(&inputs.manifest, state);
    let all: Vec<Chart> = charts::sla::charts(&context, state)
        .into_iter()
        .chain(charts::explore::charts(&context, state))
        .chain(made.charts)
        .chain(make_answer_charts(&context, &inputs.answers, state))
        .chain(cdf::charts(&context, &inputs.answers.workloads, &inputs.distributions))
        .map(|chart| sign(chart, &origin))
        .collect();
    let drawn = threads::map(DRAWN_AT_ONCE, &all, |chart| render(chart, Form::Png));
    let (mut images, mut problems) = (Vec::new(), Vec::new());
    for (chart, drawn) in all.iter().zip(drawn) {
        match drawn {
            Ok(image) => images.push((format!("{}.{}", chart.name, Form::Png.extension()), image)),
            Err(error) => problems.push(format!("the chart {} could not be drawn: {error}", chart.name)),
        }
    }
    Ok(ReportOutput {
        files: write_folder(inputs.directory, &inputs.directory.charts(), images)?,
        problems,
        notes: made.missing,
        ..ReportOutput::default()
    })
}

/// Writes the text tables, and the table of runs as Parquet.
fn write_all_tables(runs: &Runs, inputs: &Inputs<'_>) -> Result<ReportOutput> {
    let (directory, answer) = (inputs.directory, &inputs.answers.document);
    let mut written = write_tables(directory, inputs.state, runs, inputs.points, &inputs.goals, answer)?;
    let parquet = directory.summary_parquet();
    write_atomic_with(&parquet, |file| Content::Parquet(&runs.table).write_to(file))?;
    written.files.push(parquet);
    Ok(written)
}

/// Judges the plan's requirements by the record, without writing anything.
pub fn judge(directory: &Directory, state: &State, options: &ReportOptions) -> Vec<RequirementResult> {
    if options.requirements.is_empty() && state.compared().is_none() {
        return Vec::new();
    }
    let runs = read_asked(directory, state, options, None);
    let mut points = Points::of(&runs.table);
    // The points need the answer's estimates, because the report judges by them, too.
    let answer = answer::settle(directory, state, &mut points, options);
    requirements::judge(&options.requirements, state, &points, &answer)
}

/// Charts drawn at the same time; each takes 25 MB while it is drawn.
const DRAWN_AT_ONCE: usize = 2;

/// The content of a file, which may be too large to be held as text.
pub(crate) enum Content<'a> {
    /// A table as CSV.
    Table(Cow<'a, Table>),
    /// A table as Parquet.
    Parquet(&'a Table),
    /// The answer, as JSON.
    Answer(&'a Answer),
    /// The bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Content<'_> {
    /// Writes it.
    pub fn write_to(&self, mut to: impl Write + Send) -> io::Result<()> {
        match self {
            Content::Table(table) => write_csv(table, to),
            Content::Parquet(table) => write_parquet(table, to),
            Content::Answer(answer) => answer::write_json(answer, to),
            Content::Bytes(bytes) => to.write_all(bytes),
        }
    }
}

/// Returns the path of each text table, and its content, or `None` if the table must not exist. A content is made when its turn comes.
pub(crate) fn make_tables<'a>(
    directory: &'a Directory,
    state: &'a State,
    runs: &'a Runs,
    points: &'a Points<'_>,
    goals: &'a Goals,
    answer: &'a Answer,
) -> impl Iterator<Item = (PathBuf, Option<Content<'a>>)> {
    let text = |text: Option<Vec<u8>>| text.map(|text| Content::Bytes(text.into()));
    let of_runs = || Some(Content::Table(Cow::Borrowed(&runs.table)));
    let of_points = || Some(Content::Table(Cow::Owned(points.to_table(goals.columns()))));
    once_with(move || (directory.summary_csv(), of_runs()))
        .chain(once_with(move || (directory.points_csv(), of_points())))
        .chain(once_with(move || {
            (directory.sla_csv(), text(sla::to_csv(state, answer)))
        }))
        .chain(once_with(move || {
            (directory.duplicates_csv(), text(duplicates::to_csv(directory, state)))
        }))
        .chain(once_with(move || (directory.starts_csv(), text(starts::to_csv(state)))))
        .chain(once_with(move || {
            (directory.optimize_csv(), text(optimized::to_csv(answer)))
        }))
}

fn write_tables(
    directory: &Directory,
    state: &State,
    runs: &Runs,
    points: &Points<'_>,
    goals: &Goals,
    answer: &Answer,
) -> Result<ReportOutput> {
    let mut files = Vec::new();
    for (path, content) in make_tables(directory, state, runs, points, goals, answer) {
        match content {
            Some(content) => {
                write_atomic_with(&path, |file| content.write_to(file))?;
                files.push(path);
            }
            None if path.exists() => fs::remove_file(&path).map_err(Error::io("remove", &path))?,
            None => {}
        }
    }
    Ok(ReportOutput {
        files,
        problems: runs.damaged.clone(),
        ..ReportOutput::default()
    })
}
