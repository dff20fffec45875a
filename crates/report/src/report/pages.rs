//! Writes `report.html`, `report.md` and the configuration files in `best/`: gathers what they are made from in the
//! experiment directory.

use super::distributions::Distributions;
use super::effects::Findings;
use super::failures::{group, read_excerpts};
use super::folder::write_folder;
use super::goals::Goals;
use super::html;
use super::inputs::Inputs;
use super::rows::read_asked;
use super::{answer, basis, configs, markdown, requirements, telemetry};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use vsweep_plan::error::Result;
use vsweep_plan::files::write_atomic;
use vsweep_plan::plan::{self, BenchRunner, Format, ReportOptions, World};
use vsweep_record::journal::{Directory, State};
use vsweep_record::table::Points;

/// What is in a directory beside tables and charts.
#[derive(Debug)]
pub(super) struct Pages {
    /// The files of `best/`, by name.
    pub configs: Vec<(String, Vec<u8>)>,
    /// The reports, the one that is written last at the end.
    pub reports: Vec<(PathBuf, String)>,
}

/// Makes them, with this name of the experiment. `points.runs` are the runs of `state`, as [`super::read_runs`] makes them.
pub(super) fn make_pages(
    (directory, name): (&Directory, &str),
    state: &State,
    points: &Points<'_>,
    options: &ReportOptions,
) -> Pages {
    make((directory, name), state, points, options, None)
}

/// The page or the text as it is now, for a place of its own; nothing is written.
pub fn render_report(directory: &Directory, state: &State, options: &ReportOptions, form: ReportForm) -> String {
    let runs = read_asked(directory, state, options);
    let live = match form {
        ReportForm::Live(version) => Some(version),
        ReportForm::Page | ReportForm::Markdown => None,
    };
    let pages = make(
        (directory, &directory.name()),
        state,
        &Points::of(&runs.table),
        options,
        live,
    );
    let mut reports = pages.reports.into_iter().map(|(_, text)| text);
    let (page, markdown) = (reports.next(), reports.next());
    let wanted = if form == ReportForm::Markdown { markdown } else { page };
    wanted.expect("there are two reports")
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

fn make(
    (directory, name): (&Directory, &str),
    state: &State,
    points: &Points<'_>,
    options: &ReportOptions,
    live: Option<u64>,
) -> Pages {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let plans = [(false, Format::Toml), (true, Format::Json)].into_iter();
    let plan = plans
        .filter_map(|(json, format)| Some((read(&directory.plan(json))?, format)))
        .next();
    let manifest = read(&directory.manifest()).and_then(|text| serde_json::from_str(&text).ok());
    let failures = group(points, state);
    let goals = Goals::judge(&options.requirements, state, points);
    let answers = answer::find(points, &goals);
    let inputs = Inputs {
        experiment: name,
        plan: plan.as_ref().map_or("", |(text, _)| text),
        manifest: &manifest.unwrap_or(Value::Null),
        state,
        points,
        failures: &failures,
        excerpts: &read_excerpts(directory, &failures),
        bench: &runner(plan.as_ref()),
        answers: &answers,
        telemetry: &telemetry::gather(directory, state, points, &answers),
        mattered: &Findings::of(points),
        distributions: &Distributions::gather(directory, state, points, telemetry::order(points, &answers)),
        live,
        price: options.price_per_gpu_hour,
        plots: &options.plots,
        requirements: &requirements::judge(&options.requirements, state, points),
        goals: &goals,
    };
    let configs = configs::render(&inputs);
    let markdown = markdown::render(&inputs, &configs) + &basis::line(directory, state, configs.len());
    Pages {
        reports: vec![
            (directory.report_html(), html::render(&inputs, &configs)),
            (directory.report_markdown(), markdown),
        ],
        configs: configs
            .into_iter()
            .map(|config| (config.file, config.text.into_bytes()))
            .collect(),
    }
}

/// Writes them and returns where. The Markdown is written last: it tells that all the others are there.
pub fn write_pages(
    directory: &Directory,
    state: &State,
    points: &Points<'_>,
    options: &ReportOptions,
) -> Result<Vec<PathBuf>> {
    let pages = make_pages((directory, &directory.name()), state, points, options);
    let mut written = write_folder(&directory.best(), "yaml", pages.configs.into_iter())?;
    for (path, text) in pages.reports {
        write_atomic(&path, text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}

/// Who measured the loads, as the plan has it; the native generator is assumed where the plan cannot be read without the files and
/// variables of the place where it ran.
fn runner(plan: Option<&(String, Format)>) -> BenchRunner {
    let Some((text, format)) = plan else {
        return BenchRunner::Native;
    };
    let name = match format {
        Format::Toml => "plan.toml",
        Format::Json => "plan.json",
    };
    let plan = plan::parse(text, *format, Path::new(name), &[], &World::empty());
    plan.map_or(BenchRunner::Native, |plan| plan.bench.runner)
}
