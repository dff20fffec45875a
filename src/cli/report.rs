//! `vsweep report`: rebuilds every table and chart of an experiment from its journal.

use super::charts;
use super::experiment::{options, tell_damage};
use super::output::{self, finish, tell};
use crate::error::{Exit, Result};
use crate::journal::{self, Check, Directory};
use crate::report::{self, Written};
use std::io::{self, Write};
use std::path::PathBuf;

/// Rebuild the tables and charts of an experiment directory from its journal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// What one GPU costs an hour, for what tokens cost; the plan's, if not given
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true, value_parser = charts::price)]
    price_per_gpu_hour: Option<f64>,
    /// Write only the timeline of one run's requests: a point's id or its begin, and the run's number, as in 3f2a/0
    #[arg(long, value_name = "POINT/K")]
    timeline: Option<String>,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(args.directory)?;
    let state = journal::load(&directory, Check::Hashes)?;
    if let Some(wanted) = &args.timeline {
        let path = report::write_timeline(&directory, &state, wanted)?;
        finish(writeln!(output::text(), "wrote {}", path.display()))?;
        return Ok(tell_damage(&state));
    }
    let mut options = options(&directory);
    options.price_per_gpu_hour = args.price_per_gpu_hour.or(options.price_per_gpu_hour);
    let written = report::write_all(&directory, &state, &options)?;
    let damage = tell_damage(&state);
    for problem in &written.problems {
        tell(problem);
    }
    finish(show(&written))?;
    Ok(output::tell_requirements(&written.requirements, true).or(damage))
}

fn show(written: &Written) -> io::Result<()> {
    let mut out = output::text();
    writeln!(out, "{}", written.summary)?;
    for file in &written.files {
        writeln!(out, "wrote {}", file.display())?;
    }
    Ok(())
}
