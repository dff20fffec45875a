//! `vsweep plan`: shows the expanded matrix as a table, as JSON, or as a shell script.

mod json;
mod sh;
mod table;

use super::output;
use super::plan_file::PlanFile;
use crate::error::{Exit, Result};
use crate::matrix::{Matrix, Only};
use crate::plan::Plan;
use clap::ValueEnum;
use std::io::{BufWriter, Write, stdout};

/// Show servers, points and exact command lines of a plan
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Show only what meets conditions, e.g. tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "EXPR")]
    only: Option<String>,
}

/// How a matrix is shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// A script to paste into a shell
    Sh,
}

pub fn run(args: Args) -> Result<Exit> {
    let (plan, mut matrix) = match args.file.open() {
        Ok(opened) => opened,
        Err(exit) => return Ok(exit),
    };
    if let Some(only) = &args.only {
        matrix = matrix.only(&Only::parse(only)?)?;
    }
    show(&plan, &matrix, args.format)
}

/// Shows a matrix on standard output.
pub fn show(plan: &Plan, matrix: &Matrix, format: Format) -> Result<Exit> {
    let mut out = BufWriter::new(stdout().lock());
    let written = match format {
        Format::Table => table::write(plan, matrix, &mut out),
        Format::Json => json::write(plan, matrix, &mut out),
        Format::Sh => sh::write(plan, matrix, &mut out),
    };
    output::finish(written.and_then(|()| out.flush()))
}
