//! Where the results of a plan are and what is recorded there. Only reads; `vsweep run` alone begins an experiment.

use super::output;
use crate::error::{Exit, Result};
use crate::journal::{self, Check, Directory, State};
use crate::plan::{self, Plan, ReportOptions};
use std::path::{Path, PathBuf};

/// The directory that the user named, else the plan's own.
pub fn folder(output: Option<&Path>, plan: &Plan) -> PathBuf {
    output.map_or_else(|| Path::new("results").join(&plan.name), Path::to_path_buf)
}

/// Says what is lost or damaged; the exit code that tells of it.
pub fn tell_damage(state: &State) -> Exit {
    tell_problems(&state.damage)
}

/// The same of any results.
pub fn tell_problems(damage: &[String]) -> Exit {
    damage.iter().for_each(output::tell);
    match damage.is_empty() {
        true => Exit::Done,
        false => Exit::SomeFailed,
    }
}

/// What is recorded so far and still there, read without taking the directory; nothing if no sweep was begun there.
pub fn recorded(directory: &Directory) -> Result<State> {
    match directory.is_new() {
        true => Ok(State::default()),
        false => journal::load(directory, Check::Hashes),
    }
}

/// What the plan of an experiment says a GPU costs; nothing where there is no plan that can be read.
pub fn planned_price(directory: &Path) -> Option<f64> {
    options(&Directory::at(directory)).price_per_gpu_hour
}

/// The `[report]` table of the plan that was run. Elsewhere than where it ran, the rest of the plan may refer to files and
/// variables that are not there; nothing of it matters here.
pub fn options(directory: &Directory) -> ReportOptions {
    let paths = [false, true].map(|json| directory.plan(json));
    let Some(path) = paths.into_iter().find(|path| path.exists()) else {
        return ReportOptions::default();
    };
    plan::draft(&path, &[])
        .map(|draft| draft.plan.report)
        .unwrap_or_else(|_| {
            let path = path.display();
            output::tell(format_args!(
                "{path} cannot be read here, so the plots it asks for are left out and its requirements not judged; see `vsweep check {path}`"
            ));
            ReportOptions::default()
        })
}
