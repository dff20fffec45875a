//! `vsweep report`: rebuilds every table and chart of an experiment from its journal.

use super::output::finish;
use crate::error::{Exit, Result};
use crate::journal::{self, Directory};
use crate::plan::{self, ReportOptions};
use crate::report::{self, Written};
use std::io::{self, Write};
use std::path::PathBuf;

/// Rebuild the tables and charts of an experiment directory from its journal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(args.directory)?;
    let state = journal::load(&directory)?;
    let written = report::write_all(&directory, &state, &options(&directory))?;
    for problem in &written.problems {
        eprintln!("vsweep: {problem}");
    }
    finish(show(&written))
}

/// The `[report]` table of the plan that was run. Elsewhere than where it ran, a plan may refer to files and variables
/// that are not there; the standard charts need none of it.
fn options(directory: &Directory) -> ReportOptions {
    let path = [false, true]
        .map(|json| directory.plan(json))
        .into_iter()
        .find(|path| path.exists());
    let Some(path) = path else {
        return ReportOptions::default();
    };
    plan::load(&path, &[]).map(|plan| plan.report).unwrap_or_else(|_| {
        let path = path.display();
        eprintln!(
            "vsweep: {path} cannot be read here, so the plots it asks for are left out; see `vsweep check {path}`"
        );
        ReportOptions::default()
    })
}

fn show(written: &Written) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", written.summary)?;
    for file in &written.files {
        writeln!(out, "wrote {}", file.display())?;
    }
    Ok(())
}
