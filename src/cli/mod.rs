//! The command line: one short file a subcommand. Arguments are read here and nowhere else; each subcommand calls the
//! rooms below and ends in an [`Exit`].

mod bench;
mod charts;
mod check;
mod completions;
mod experiment;
mod flags;
mod guard;
mod iterations;
mod native_check;
mod output;
mod pareto;
mod phases;
mod plan;
mod plan_file;
mod plot;
mod preflight;
mod rehearse;
mod report;
mod report_check;
mod run;
mod schema;
mod server_check;
mod sim;
mod status;
mod sweeping;

use crate::error::{Exit, Result};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Finds which server settings under which load meet your targets best.
#[derive(Debug, Parser)]
#[command(name = "vsweep", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Plan(plan::Args),
    Rehearse(rehearse::Args),
    Status(status::Args),
    Report(report::Args),
    Plot(plot::Args),
    Pareto(pareto::Args),
    Bench(bench::Args),
    Iterations(iterations::Args),
    Phases(phases::Args),
    Sim(sim::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Reads the arguments, runs the subcommand and reports how it ended.
pub fn main() -> ExitCode {
    match perform(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::tell(&error);
            error.exit().into()
        }
    }
}

fn perform(command: Command) -> Result<Exit> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Rehearse(args) => rehearse::run(args),
        Command::Status(args) => status::run(args),
        Command::Report(args) => report::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Pareto(args) => pareto::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Iterations(args) => iterations::run(args),
        Command::Phases(args) => phases::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Guard(args) => guard::run(args),
    }
}
