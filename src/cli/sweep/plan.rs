//! `vsweep plan`: shows what would run, as a table, as JSON or as a shell script, or predicts it.

mod json;
mod left;
pub mod rehearse;
mod sh;
pub mod table;

use super::run::{gpus_here, settle_gpus, settle_margins};
use crate::cli::experiment::{folder, must_be_whole, must_not_be_another, ours, print_damage, recorded};
use crate::cli::forecast::{MOST_TOKENS, estimate, limits};
use crate::cli::output::{self, OutputFormat};
use crate::cli::plan_file::PlanFile;
use crate::error::{Error, Exit, Result};
use crate::journal::{Directory, Shard, State};
use crate::plan::Plan;
use crate::run::{Changes, Sweep};
use clap::ValueEnum;
use rehearse::{AssumedMachine, calibrated};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Show what would run, or predict it with --rehearse
///
/// Starts nothing. Text and prediction leave out what the plan's results directory already holds, which also calibrates the prediction. JSON
/// and scripts list the whole plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PlanFile,
    /// Directory of the results [default: results/<plan name>]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Show all of the plan, also what is recorded already
    #[arg(long)]
    fresh: bool,
    /// Show only what meets all of these conditions, such as tensor_parallel_size=2,max_concurrency>=8
    #[arg(long, value_name = "CONDITIONS")]
    only: Option<String>,
    /// Predict the time, the disk use and which servers will not fit, by a simulation in virtual time
    #[arg(long)]
    rehearse: bool,
    /// Predict only the I-th of N shares of the servers, e.g. 2/8
    #[arg(
        long,
        value_name = "I/N",
        default_value = "1/1",
        hide_default_value = true,
        requires = "rehearse"
    )]
    shard: Shard,
    #[command(flatten)]
    machine: AssumedMachine,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    format: PlanFormat,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlanFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A script of all servers and loads, to paste into a shell
    Sh,
}

pub fn run(args: Args) -> Result<Exit> {
    let place = |plan: &Plan| Directory::at(folder(args.output.as_deref(), plan));
    let (mut plan, whole, is_doubtful) = args.file.open(|plan| {
        let directory = place(plan);
        settle_margins(plan, &directory, !args.fresh);
    })?;
    let part = args.only.as_deref().map(|only| whole.only(only)).transpose()?;
    let wanted = part.as_ref().unwrap_or(&whole);
    let format = match args.format {
        PlanFormat::Text => OutputFormat::Text,
        PlanFormat::Json => OutputFormat::Json,
        PlanFormat::Sh if args.rehearse => {
            return Err(Error::Usage("--rehearse makes no script; leave out --format sh".into()));
        }
        PlanFormat::Sh => {
            let mut out = BufWriter::new(output::file());
            return output::finish(sh::write(&plan, wanted, &mut out).and_then(|()| out.flush()));
        }
    };
    must_be_whole(&plan, part.is_some() || args.shard != Shard::WHOLE)?;
    let directory = ours(place(&plan).root())?;
    settle_gpus(&mut plan, &directory, |known, plan| known.or_else(|| gpus_here(plan)));
    let sweep = Sweep {
        wanted,
        shard: args.shard,
        ..Sweep::of(&plan, &whole)
    };
    if !args.rehearse {
        return show(&sweep, &directory, args.fresh, &args.machine, format);
    }
    let exit = rehearse::predict(&sweep, &directory, args.fresh, &args.machine, format)?;
    Ok(if is_doubtful { exit.or(Exit::SomeFailed) } else { exit })
}

/// Shows the work of a sweep that a directory lacks, or all of it if `fresh` is true, and its likely duration.
pub fn show(
    sweep: &Sweep<'_>,
    directory: &Directory,
    fresh: bool,
    machine: &AssumedMachine,
    format: OutputFormat,
) -> Result<Exit> {
    let mut record = recorded(directory)?;
    if !fresh && !directory.is_new() {
        let changes = Changes::between(&record, sweep.whole, sweep.plan);
        must_not_be_another(directory, &changes, &record, ", or show all of the plan with --fresh")?;
    }
    sweep.imagine_anew(&mut record);
    let nothing = State::default();
    let done = if fresh { &nothing } else { &record };
    let options = calibrated(
        directory,
        machine.options(sweep.plan, sweep.wanted, limits(MOST_TOKENS)),
    );
    let estimate = estimate(sweep.schedule(), done, &record, &options);
    let mut out = BufWriter::new(match format {
        OutputFormat::Text => output::text(),
        OutputFormat::Json => output::json(),
    });
    let written = match format {
        OutputFormat::Text => left::write(sweep, directory, (done, &record), &estimate, &mut out),
        OutputFormat::Json => json::write(sweep.plan, sweep.wanted, &estimate, &mut out),
    };
    output::finish(written.and_then(|()| out.flush()))?;
    Ok(print_damage(&record.damage))
}
