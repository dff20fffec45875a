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
    let points = show_many(counts.points, "point");
    println!(
        "ok: {}: {servers}, {points}, {}",
        plan.name,
        show_many(counts.runs, "run")
    );
    Ok(Exit::Done)
}
