//! `vsweep verify`: recomputes every number of an experiment from its journals and run files.

use super::charts;
use crate::cli::experiment::{named_or_newest, options};
use crate::cli::output;
use crate::error::{Error, Exit, Result};
use crate::journal::Directory;
use crate::report::output::verify::verify;
use crate::units::show_many;
use std::path::PathBuf;

/// Check every number of tables and reports against raw records
///
/// Names what differs. Also checks every line and every run file against its checksum. Changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote [default: the newest below results/]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Price per GPU-hour, if the report was made with a price of its own
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true, value_parser = charts::price)]
    price_per_gpu_hour: Option<f64>,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(named_or_newest(args.directory)?)?;
    let (state, verified) = verify(&directory, |state| options(&directory, state, args.price_per_gpu_hour))?;
    for finding in state.damage.iter().chain(&verified.lost).chain(&verified.differences) {
        output::say(finding);
    }
    let found = state.damage.len() + verified.lost.len() + verified.differences.len();
    let runs = show_many(verified.runs as u64, "run");
    let compared = match verified.files.len() as u64 {
        0 => runs,
        files => format!("{runs} in {}", show_many(files, "file")),
    };
    if found == 0 {
        output::say(match verified.running {
            Some(pid) => format!(
                "the record is sound; a sweep is running (pid {pid}), and its tables and report can be checked once it has ended"
            ),
            None => format!("every number agrees: {compared}"),
        });
        return Ok(Exit::Done);
    }
    let remedy = match verified.differences.is_empty() {
        _ if verified.running.is_some() => {
            "restore what is lost; tables and report can be checked once the sweep has ended".to_owned()
        }
        true if state.damage.is_empty() => "tables and report are sound; restore what is lost".to_owned(),
        true if !verified.lost.is_empty() => {
            "restore what is lost; the tables and the report say what is left of the runs".to_owned()
        }
        true => "the tables and the report say what is left".to_owned(),
        false => {
            let is_lost = !(verified.lost.is_empty() && state.damage.is_empty());
            let first = if is_lost { "restore what is lost; then " } else { "" };
            let root = directory.root().display();
            format!("{first}`vsweep report {root}` makes tables and report anew")
        }
    };
    let found = show_many(found as u64, "difference");
    Err(Error::Fatal(format!("{found} found in {compared}; {remedy}")))
}
