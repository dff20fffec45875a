//! Where the results of a plan are and what is recorded there. Only reads; `vsweep run` alone begins an experiment.

use crate::error::Result;
use crate::journal::{self, Directory, State};
use crate::plan::Plan;
use std::path::{Path, PathBuf};

/// The directory that the user named, else the plan's own.
pub fn folder(output: Option<&Path>, plan: &Plan) -> PathBuf {
    output.map_or_else(|| Path::new("results").join(&plan.name), Path::to_path_buf)
}

/// What is recorded so far and still there, read without taking the directory; nothing if no sweep was begun there.
pub fn recorded(directory: &Directory) -> Result<State> {
    match directory.is_new() {
        true => Ok(State::default()),
        false => journal::inspect(directory),
    }
}
