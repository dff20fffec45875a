//! `vsweep plan`: shows the expanded matrix as a table, as JSON, or as a shell script.

mod json;
mod sh;
pub mod table;

use super::rehearse::{self, AssumedMachine};
use crate::agenda::Schedule;
use crate::cli::experiment::{folder, recorded};
use crate::cli::forecast::{MOST_TOKENS, estimate, limits};
use crate::cli::output;
use crate::cli::plan_file::PlanFile;
use crate::error::{Exit, Result};
use crate::journal::{Directory, Shard, State};
use crate::rehearse::twin::TwinSource;
use crate::rehearse::{Options, Rehearsal};
use clap::ValueEnum;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Show servers, points and exact command lines of a plan
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// Output format
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    /// Show only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "CONDITIONS")]
    only: Option<String>,
    #[command(flatten)]
    machine: AssumedMachine,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlanFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A script to paste into a shell
    Sh,
}

pub fn run(args: Args) -> Result<Exit> {
    let (plan, mut matrix, _) = args.file.open(|_| ())?;
    if let Some(only) = &args.only {
        matrix = matrix.only(only)?;
    }
    let mut out = BufWriter::new(match args.format {
        PlanFormat::Json => output::json(),
        PlanFormat::Text => output::text(),
        PlanFormat::Sh => output::file(),
    });
    let estimate = || {
        let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
        // The plan is shown even if its record cannot be read, which `run` reports.
        let directory = Directory::at(folder(None, &plan));
        let record = recorded(&directory).unwrap_or_default();
        let options = Options {
            known: Arc::new(TwinSource::at(directory)),
            ..args.machine.options(&plan, &matrix, limits(MOST_TOKENS))
        };
        estimate(schedule, &State::default(), &record, &options)
    };
    let written = match args.format {
        PlanFormat::Text => table::write_counts(&plan, &matrix.counts(), &mut out)
            .and_then(|()| write_estimate(&estimate(), &mut out))
            .and_then(|()| table::write(&plan, &matrix, &mut out)),
        PlanFormat::Json => json::write(&plan, &matrix, &estimate(), &mut out),
        PlanFormat::Sh => sh::write(&plan, &matrix, &mut out),
    };
    output::finish(written.and_then(|()| out.flush()))
}

/// Writes an estimate as one sentence, then its assumptions.
pub fn write_estimate(estimate: &std::result::Result<Rehearsal, String>, out: &mut impl Write) -> std::io::Result<()> {
    match estimate {
        Ok(rehearsal) => {
            writeln!(out, "{}", rehearse::summary(rehearsal))?;
            rehearsal
                .assumptions
                .iter()
                .try_for_each(|assumed| writeln!(out, "  assumed: {assumed}"))
        }
        Err(why) => writeln!(out, "not predicted: {why}"),
    }
}
