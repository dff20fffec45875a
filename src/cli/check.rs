//! `vsweep check`: validates a plan.

use super::plan_file::PlanFile;
use crate::error::{Exit, Result};
use crate::units::show_many;

/// Validate a plan and print every problem with a source excerpt
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
}

pub fn run(args: Args) -> Result<Exit> {
    let (plan, matrix) = match args.file.open() {
        Ok(opened) => opened,
        Err(exit) => return Ok(exit),
    };
    let counts = matrix.counts();
    let servers = show_many(counts.servers, "server");
    let work = match counts.searches {
        0 => [show_many(counts.points, "point"), show_many(counts.runs, "run")].join(", "),
        searches => show_many(searches, "search"),
    };
    println!("ok: {}: {servers}, {work}", plan.name);
    Ok(Exit::Done)
}
