//! Where the results of a plan are and what is recorded there. Only reads; `vsweep run` alone begins an experiment.

use super::output;
use crate::error::{Exit, Result};
use crate::journal::{self, Check, Directory, State};
use crate::plan::Plan;
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
